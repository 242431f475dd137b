// src/widgets/selection.ts
function select(before, index, { multi, checked }) {
  if (!multi) {
    return { picks: [index], custom: null };
  }
  const others = before.picks.filter((each) => each !== index);
  return { picks: checked ? [...others, index] : others };
}
function isPicked({ picks, custom }, index, multi) {
  return (multi || custom === null) && picks.includes(index);
}
function normalizeForSearch(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}
function splitSearch(search) {
  return normalizeForSearch(search).split(/\s+/).filter(Boolean);
}
function sift(keys, words, picks) {
  const picked = new Set(picks);
  return keys.map((key, index) => picked.has(index) || words.every((word) => key.includes(word)));
}
function describeCounts({ picks, custom }, { multi, words, shown, total }) {
  const picked = picks.length + (custom === null ? 0 : 1);
  return {
    shown: words ? `${shown} of ${total} shown` : "",
    picked: multi && picked ? `(${picked} selected)` : ""
  };
}
function stepAround(at, step, count) {
  if (count === 0) {
    return -1;
  }
  if (at < 0) {
    return step > 0 ? 0 : count - 1;
  }
  return (at + step + count) % count;
}

// src/widgets/choices.ts
var FILTER_FROM = 9;
var MAX_OWN_ROWS = 8;
var RECOMMENDED = "(recommended)";
var STATE = "change:picks change:custom change:draft change:search";
function createElement(name, properties = {}, ...children) {
  const created = Object.assign(document.createElement(name), properties);
  created.append(...children);
  return created;
}
function createLabel(option, isRecommended) {
  const text = createElement("bdi", { dir: "auto" }, option.label);
  const label = createElement("span", { className: "jp-nb-option-label" }, text);
  if (!isRecommended) {
    return label;
  }
  if (!option.label.toLowerCase().endsWith(RECOMMENDED)) {
    label.append(` ${RECOMMENDED}`);
  }
  const star = createElement("span", { className: "jp-nb-star" }, " ★");
  star.setAttribute("aria-hidden", "true");
  label.append(star);
  return label;
}
function createRow(option, {
  type,
  name,
  id,
  isRecommended
}) {
  const input = createElement("input", { type, name });
  const label = createLabel(option, isRecommended);
  label.id = `${id}-label`;
  input.setAttribute("aria-labelledby", label.id);
  const texts = createElement("span", { className: "jp-nb-option-texts" }, label);
  if (option.description) {
    const about = { className: "jp-nb-description", id: `${id}-about`, dir: "auto" };
    texts.append(createElement("span", about, option.description));
    input.setAttribute("aria-describedby", about.id);
  }
  const row = createElement("label", { className: "jp-nb-option" }, input, texts);
  return { row, input, key: normalizeForSearch(`${option.label}
${option.description}`) };
}
function createOwnRow(label, type, name, isAlone) {
  const box = createElement("textarea", { rows: 1, className: "jp-nb-own-text" });
  box.setAttribute("aria-label", isAlone ? label : "Your own answer");
  const row = createElement("div", { className: "jp-nb-own" });
  const input = createElement("input", { type, name });
  if (isAlone) {
    box.placeholder = label;
  } else {
    row.append(createElement("label", { className: "jp-nb-option" }, input, label));
  }
  row.append(box);
  return { row, input, box };
}
function createFilterField() {
  const field = createElement("input", { type: "search", className: "jp-nb-filter" });
  field.placeholder = "Filter the options";
  field.setAttribute("aria-label", field.placeholder);
  field.autocomplete = "off";
  field.spellcheck = false;
  return field;
}
function createClearButton() {
  const textContent = "Clear the choice";
  return createElement("button", { type: "button", className: "jp-nb-clear", textContent });
}
function say(place, text) {
  if (place.textContent !== text) {
    place.textContent = text;
  }
}
var ChoiceList = class {
  constructor(model, el) {
    this.model = model;
    this.el = el;
    const id = `jp-nb-choices-${Math.random().toString(36).slice(2)}`;
    const options = model.get("options");
    this.multi = model.get("multi");
    const type = this.multi ? "checkbox" : "radio";
    const recommended = model.get("recommended");
    this.rows = options.map(
      (option, index) => createRow(option, {
        type,
        name: id,
        id: `${id}-${index}`,
        isRecommended: index === recommended
      })
    );
    this.keys = this.rows.map(({ key }) => key);
    const other = model.get("other");
    const isOptional = model.get("optional") && !this.multi;
    this.own = other ? createOwnRow(other, type, id, !options.length) : null;
    this.filter = options.length >= FILTER_FROM ? createFilterField() : null;
    this.clear = isOptional && options.length ? createClearButton() : null;
    this.list = createElement(
      "div",
      { className: "jp-nb-options" },
      ...this.rows.map(({ row }) => row)
    );
    this.arrange();
    this.listen();
    if (model.get("writing")) {
      this.change({ writing: false });
    }
    this.draw();
  }
  model;
  el;
  dispose() {
    this.watcher.disconnect();
    this.model.off(STATE, this.draw);
    for (const event of ["pointerup", "pointercancel"]) {
      document.removeEventListener(event, this.release, true);
    }
  }
  arrange() {
    const { el, model } = this;
    const hasOptions = this.rows.length > 0;
    const group = createElement("div", { className: "jp-nb-choices-group" });
    group.setAttribute("role", this.multi || !hasOptions ? "group" : "radiogroup");
    group.setAttribute("aria-label", model.get("question"));
    const parts = [model.get("wanted"), " ", this.shownCount, " ", this.pickedCount];
    const counts = createElement("div", { className: "jp-nb-counts" }, ...parts);
    counts.setAttribute("role", "status");
    el.classList.add("jp-nb-choices");
    if (this.filter) {
      el.append(this.filter);
    }
    if (hasOptions) {
      group.append(this.list);
    }
    if (this.own) {
      group.append(this.own.row);
    }
    el.append(group);
    if (this.multi || this.filter) {
      el.append(counts);
    }
    if (this.clear) {
      el.append(this.clear);
    }
  }
  listen() {
    const { el, own, filter } = this;
    this.rows.forEach(({ input }, index) => {
      input.addEventListener("change", () => this.onPick(index));
    });
    if (own) {
      this.listenToOwnText(own);
    }
    this.clear?.addEventListener("click", this.leaveOpen);
    filter?.addEventListener("input", () => this.change({ search: filter.value }));
    el.addEventListener("pointerdown", () => {
      this.isHeld = true;
    });
    el.addEventListener("focusin", this.unfold);
    el.addEventListener("focusout", () => setTimeout(this.unfold));
    for (const event of ["pointerup", "pointercancel"]) {
      document.addEventListener(event, this.release, true);
    }
    el.addEventListener("jp-nb-key", (event) => this.onKey(event));
    this.watcher.observe(this.list);
    this.model.on(STATE, this.draw);
  }
  listenToOwnText({ input, box }) {
    input.addEventListener("change", () => {
      this.chooseOwn(input.checked);
      if (this.isHeld && this.isOwn) {
        box.focus();
      }
    });
    box.addEventListener("input", () => {
      this.change({ draft: box.value, custom: box.value === "" ? null : box.value });
    });
    box.addEventListener("click", () => {
      if (box.value && !this.isOwn) {
        this.chooseOwn(true);
      }
    });
    box.addEventListener("focus", () => this.change({ writing: true }));
    box.addEventListener("blur", () => this.change({ writing: false }));
  }
  get selection() {
    return { picks: this.model.get("picks"), custom: this.model.get("custom") };
  }
  get isOwn() {
    return this.model.get("custom") !== null;
  }
  change(state) {
    this.model.set(state);
    this.model.save_changes();
    this.draw();
  }
  onPick(index) {
    const checked = this.rows[index].input.checked;
    this.change(select(this.selection, index, { multi: this.multi, checked }));
  }
  chooseOwn(isChosen) {
    this.change({ custom: isChosen && this.own ? this.own.box.value : null });
  }
  leaveOpen = () => {
    this.change({ picks: [], custom: null });
    this.inSight()[0]?.focus();
  };
  draw = () => {
    const { model, own, filter, clear, selection } = this;
    this.rows.forEach(({ input }, index) => {
      input.checked = isPicked(selection, index, this.multi);
    });
    if (own) {
      const text = model.get("draft");
      own.input.checked = this.isOwn;
      if (own.box.value !== text) {
        own.box.value = text;
      }
      own.box.rows = Math.min(MAX_OWN_ROWS, text.split("\n").length);
    }
    if (filter && filter.value !== model.get("search")) {
      filter.value = model.get("search");
    }
    if (clear) {
      clear.hidden = !this.isOwn && !selection.picks.length;
    }
    this.sift();
    this.unfold();
  };
  /** Hide options that do not match the filter. Selected options stay visible. */
  sift() {
    const words = splitSearch(this.model.get("search"));
    const { selection, multi } = this;
    const visible = sift(this.keys, words, selection.picks);
    this.rows.forEach(({ row }, index) => {
      row.hidden = !visible[index];
    });
    const shown = visible.filter(Boolean).length;
    const total = this.rows.length;
    const texts = describeCounts(selection, { multi, words: words.length, shown, total });
    say(this.shownCount, texts.shown);
    say(this.pickedCount, texts.picked);
  }
  /**
   * Show the full description of the focused option and of a single choice, but not while a mouse
   * button is down, because the click target must not move.
   */
  unfold = () => {
    if (this.isHeld) {
      return;
    }
    const { selection } = this;
    this.rows.forEach(({ row, input }, index) => {
      const isSingle = !this.multi && isPicked(selection, index, false);
      row.classList.toggle("jp-nb-open", input === document.activeElement || isSingle);
    });
  };
  release = () => {
    if (!this.isHeld) {
      return;
    }
    setTimeout(() => {
      this.isHeld = false;
      this.unfold();
    });
  };
  onKey(event) {
    const { target, detail: key } = event;
    let isTaken = false;
    if (target === this.filter) {
      isTaken = this.onFilterKey(key);
    } else if (target !== this.clear) {
      isTaken = this.onListKey(target, key);
    } else if (key === "Enter") {
      isTaken = true;
      this.leaveOpen();
    }
    if (isTaken) {
      event.preventDefault();
    }
  }
  onFilterKey(key) {
    if (key === "Escape" && this.filter?.value) {
      this.change({ search: "" });
    } else if (key === "Enter" || key === "ArrowDown") {
      this.inSight()[0]?.focus();
    } else {
      return false;
    }
    return true;
  }
  /** Arrow keys move between checkboxes, as browsers do for radio buttons. */
  onListKey(target, key) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[key];
    if (!this.multi || !step || target === this.own?.box) {
      return false;
    }
    const inputs = this.inSight();
    const at = inputs.indexOf(target);
    inputs[stepAround(at, step, inputs.length)]?.focus();
    return true;
  }
  inSight() {
    const found = this.rows.filter(({ row }) => !row.hidden).map(({ input }) => input);
    return this.own && this.rows.length ? [...found, this.own.input] : found;
  }
  /** Scroll to the last selected option when the list becomes visible. */
  showPicked = () => {
    const { list } = this;
    const before = this.height;
    this.height = list.clientHeight;
    if (before || !this.height) {
      return;
    }
    const last = this.model.get("picks").at(-1);
    const row = last === void 0 ? void 0 : this.rows[last]?.row;
    if (row && !row.hidden) {
      list.scrollTop = row.offsetTop - Math.max(0, (this.height - row.offsetHeight) / 2);
    }
  };
  multi;
  rows;
  keys;
  own;
  filter;
  clear;
  list;
  shownCount = createElement("span");
  pickedCount = createElement("span");
  watcher = new ResizeObserver(() => this.showPicked());
  isHeld = false;
  height = 0;
};
function render({ model, el }) {
  const list = new ChoiceList(model, el);
  return () => list.dispose();
}
var choices_default = { render };
export {
  choices_default as default
};
