// A list of radio buttons or checkboxes with descriptions, and a row for the user's own text.
// Labels and descriptions are untrusted, so they reach the page only as text nodes.

const FILTER_FROM = 9; // options; a shorter list needs no filter
const MAX_OWN_ROWS = 8;
const RECOMMENDED = "(recommended)";

function createElement(name, properties = {}, ...children) {
  const created = Object.assign(document.createElement(name), properties);
  created.append(...children);
  return created;
}

// Return a text that is isolated from the direction of its surroundings.
function isolateDirection(text) {
  return createElement("bdi", { dir: "auto" }, text);
}

// Normalize a text for the filter.
function normalizeForSearch(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}

function createLabel(option, isRecommended) {
  const text = isolateDirection(option.label);
  const label = createElement("span", { className: "jp-nb-option-label" }, text);
  if (!isRecommended) return label;
  if (!option.label.toLowerCase().endsWith(RECOMMENDED)) label.append(` ${RECOMMENDED}`);
  const star = createElement("span", { className: "jp-nb-star" }, " ★");
  star.setAttribute("aria-hidden", "true");
  label.append(star);
  return label;
}

// One option: its row, its radio button or checkbox, and the text that the filter searches.
function createRow(option, { type, name, id, isRecommended }) {
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
  return { row, input, key: normalizeForSearch(`${option.label}\n${option.description}`) };
}

function createOwnRow({ label, type, name, alone }) {
  const box = createElement("textarea", { rows: 1, className: "jp-nb-own-text" });
  box.setAttribute("aria-label", alone ? label : "Your own answer");
  const row = createElement("div", { className: "jp-nb-own" });
  const input = createElement("input", { type, name });
  if (alone) box.placeholder = label; // there is nothing else to choose
  else row.append(createElement("label", { className: "jp-nb-option" }, input, label));
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
  const text = "Clear the choice";
  return createElement("button", { type: "button", className: "jp-nb-clear", textContent: text });
}

function render({ model, el }) {
  const id = `jp-nb-choices-${Math.random().toString(36).slice(2)}`;
  const multi = model.get("multi");
  const options = model.get("options");
  const type = multi ? "checkbox" : "radio";
  const rows = options.map((option, index) =>
    createRow(option, {
      type,
      name: id,
      id: `${id}-${index}`,
      isRecommended: index === model.get("recommended"),
    }),
  );
  const own = model.get("other")
    ? createOwnRow({ label: model.get("other"), type, name: id, alone: !options.length })
    : null;
  const filter = options.length >= FILTER_FROM ? createFilterField() : null;
  const list = createElement("div", { className: "jp-nb-options" }, ...rows.map(({ row }) => row));
  const group = createElement("div", { className: "jp-nb-choices-group" });
  group.setAttribute("role", multi || !options.length ? "group" : "radiogroup");
  group.setAttribute("aria-label", model.get("question"));
  const shownCount = createElement("span");
  const pickedCount = createElement("span");
  const parts = [model.get("wanted"), " ", shownCount, " ", pickedCount];
  const counts = createElement("div", { className: "jp-nb-counts" }, ...parts);
  counts.setAttribute("role", "status");

  el.classList.add("jp-nb-choices");
  if (filter) el.append(filter);
  if (options.length) group.append(list);
  if (own) group.append(own.row);
  const clear = model.get("optional") && !multi && options.length ? createClearButton() : null;
  el.append(group);
  if (multi || filter) el.append(counts);
  if (clear) el.append(clear);

  const isOwn = () => model.get("custom") !== null;
  const isPicked = (index) => (multi || !isOwn()) && model.get("picks").includes(index);

  function change(state) {
    model.set(state);
    model.save_changes();
    draw();
  }

  function pick(index) {
    const others = model.get("picks").filter((each) => each !== index);
    if (!multi) change({ picks: [index], custom: null });
    else if (rows[index].input.checked) change({ picks: [...others, index] });
    else change({ picks: others });
  }

  function chooseOwn(chosen) {
    change({ custom: chosen ? own.box.value : null });
  }

  // An own text replaces a single choice, or is added to a multiple choice. Without it, the earlier
  // choice is restored.
  function write() {
    const text = own.box.value;
    change({ draft: text, custom: text === "" ? null : text });
  }

  function draw() {
    rows.forEach(({ input }, index) => {
      input.checked = isPicked(index);
    });
    if (own) {
      own.input.checked = isOwn();
      const text = model.get("draft");
      if (own.box.value !== text) own.box.value = text;
      own.box.rows = Math.min(MAX_OWN_ROWS, text.split("\n").length);
    }
    if (filter && filter.value !== model.get("search")) filter.value = model.get("search");
    if (clear) clear.hidden = !isOwn() && !model.get("picks").length;
    sift();
    unfold();
  }

  function leaveOpen() {
    change({ picks: [], custom: null });
    inSight()[0]?.focus(); // the focused button is hidden now
  }

  // Hide options that do not match the filter. Selected options stay visible.
  function sift() {
    const words = normalizeForSearch(model.get("search")).split(/\s+/).filter(Boolean);
    const picks = model.get("picks");
    let shown = 0;
    rows.forEach(({ row, key }, index) => {
      row.hidden = !picks.includes(index) && !words.every((word) => key.includes(word));
      shown += row.hidden ? 0 : 1;
    });
    say(shownCount, words.length ? `${shown} of ${rows.length} shown` : "");
    const picked = (isOwn() ? 1 : 0) + picks.length;
    say(pickedCount, multi && picked ? `(${picked} selected)` : "");
  }

  function say(place, text) {
    if (place.textContent !== text) place.textContent = text; // else screen readers repeat it
  }

  // Show the full description of the focused option and of a single choice, but not while a mouse
  // button is down, because the click target must not move.
  let held = false;
  function unfold() {
    if (held) return;
    rows.forEach(({ row, input }, index) => {
      const open = input === document.activeElement || (!multi && isPicked(index));
      row.classList.toggle("jp-nb-open", open);
    });
  }

  function release() {
    if (!held) return;
    setTimeout(() => {
      held = false; // after the click
      unfold();
    });
  }

  rows.forEach(({ input }, index) => input.addEventListener("change", () => pick(index)));
  own?.input.addEventListener("change", () => {
    chooseOwn(own.input.checked);
    if (held && isOwn()) own.box.focus(); // only after a click: arrow keys must keep moving
  });
  own?.box.addEventListener("input", write);
  own?.box.addEventListener("click", () => {
    if (own.box.value && !isOwn()) chooseOwn(true);
  });
  for (const [event, writing] of [["focus", true], ["blur", false]]) {
    own?.box.addEventListener(event, () => change({ writing }));
  }
  clear?.addEventListener("click", leaveOpen);
  filter?.addEventListener("input", () => change({ search: filter.value }));
  el.addEventListener("pointerdown", () => (held = true));
  el.addEventListener("focusin", unfold);
  el.addEventListener("focusout", () => setTimeout(unfold));
  for (const event of ["pointerup", "pointercancel"]) document.addEventListener(event, release, true);

  // The form offers each key to the focused control first.
  el.addEventListener("jp-nb-key", (event) => {
    const { target, detail: key } = event;
    let taken = false;
    if (target === filter) taken = inFilter(key);
    else if (target !== clear) taken = inList(target, key);
    else if ((taken = key === "Enter")) leaveOpen(); // elsewhere Enter submits
    if (taken) event.preventDefault();
  });

  function inFilter(key) {
    if (key === "Escape" && filter.value) change({ search: "" });
    else if (key === "Enter" || key === "ArrowDown") inSight()[0]?.focus();
    else return false;
    return true;
  }

  // Arrow keys move between checkboxes, as browsers do for radio buttons.
  function inList(target, key) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[key];
    if (!multi || !step || target === own?.box) return false;
    const inputs = inSight();
    const at = inputs.indexOf(target) + step;
    inputs[(at + inputs.length) % inputs.length].focus();
    return true;
  }

  function inSight() {
    const found = rows.filter(({ row }) => !row.hidden).map(({ input }) => input);
    return own && options.length ? [...found, own.input] : found;
  }

  // Scroll to the last selected option when the list becomes visible.
  const watcher = new ResizeObserver(showPicked);
  let height = 0;
  function showPicked() {
    const before = height;
    height = list.clientHeight;
    if (before || !height) return;
    const last = model.get("picks").at(-1);
    const row = rows[last]?.row;
    if (row && !row.hidden) {
      list.scrollTop = row.offsetTop - Math.max(0, (height - row.offsetHeight) / 2);
    }
  }
  watcher.observe(list);

  const STATE = "change:picks change:custom change:draft change:search";
  model.on(STATE, draw);
  if (model.get("writing")) change({ writing: false }); // left over from an earlier view
  draw();

  return () => {
    watcher.disconnect();
    model.off(STATE, draw);
    for (const event of ["pointerup", "pointercancel"]) document.removeEventListener(event, release, true);
  };
}

export default { render };
