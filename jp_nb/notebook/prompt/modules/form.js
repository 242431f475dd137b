// src/widgets/formmodel.ts
var TEXT_BOX = "textarea, input:not([type=radio], [type=checkbox], [type=search])";
var FIELD = `${TEXT_BOX}, select`;
function firstIn(box) {
  return box?.querySelector("input:checked") ?? box?.querySelector(`input, ${FIELD}`) ?? null;
}
function getAction(button) {
  const name = [...button?.classList ?? []].find((each) => each.startsWith("jp-nb-do-"));
  return name?.slice("jp-nb-do-".length);
}

// src/widgets/formdrawing.ts
var DETACHED_MS = 1e3;
var LOOK_MS = 10;
var PATIENT_MS = 200;
var FormDrawing = class {
  constructor(model, el, handler) {
    this.model = model;
    this.el = el;
    this.handler = handler;
  }
  model;
  el;
  handler;
  /** Look for the present step, and for each later one. */
  start() {
    this.model.on("change:step", this.turn);
    this.look();
  }
  dispose() {
    this.isDisposed = true;
    clearTimeout(this.timer);
    this.model.off("change:step", this.turn);
  }
  look = () => {
    clearTimeout(this.timer);
    if (this.findDrawn()) {
      void this.arrange();
      return;
    }
    if (!this.isPatient && this.hasWaited) {
      this.isPatient = true;
      this.handler.onLate(this.model.get("step"));
    }
    this.timer = setTimeout(this.look, this.isPatient ? PATIENT_MS : LOOK_MS);
  };
  /** True if the page had time to draw the step. */
  get hasWaited() {
    return performance.now() - this.started > DETACHED_MS;
  }
  turn = () => {
    this.started = performance.now();
    this.isPatient = false;
    this.look();
  };
  /** Return the form if the page has drawn all of its current step. */
  findDrawn() {
    const root = this.el.closest(".jp-nb-form");
    if (!root?.isConnected || !root.querySelector(".jp-nb-actions button")) {
      return null;
    }
    this.root = root;
    const screen = this.model.get("screen");
    if (screen && !root.getElementsByClassName(screen).length) {
      return null;
    }
    const boxes = [...root.querySelectorAll(".jp-nb-control")];
    const isWhole = boxes.length === this.model.get("controls").length && boxes.every(firstIn);
    return isWhole ? root : null;
  }
  /**
   * Return the models of the controls; null if one of them cannot be loaded yet.
   *
   * A control whose model cannot be loaded at all gets none, so that the user can answer with keys
   * and buttons: the kernel then uses the state that the widget has sent.
   */
  async loadControls() {
    const { model } = this;
    const loaded = await Promise.allSettled(
      model.get("controls").map(async (id) => id ? model.widget_manager.get_model(id) : null)
    );
    const failed = loaded.filter((each) => each.status === "rejected");
    if (failed.length && !this.hasWaited) {
      return null;
    }
    for (const { reason } of failed) {
      console.warn("jp_nb: The model of a control was not loaded.", reason);
    }
    return loaded.map((each) => each.status === "fulfilled" ? each.value : null);
  }
  async arrange() {
    const { model } = this;
    const step = model.get("step");
    const controls = await this.loadControls();
    if (this.isDisposed) {
      return;
    }
    const root = this.findDrawn();
    if (!controls || !root || step !== model.get("step")) {
      this.timer = setTimeout(this.look, LOOK_MS);
      return;
    }
    const isFirst = this.shown === null;
    this.shown = { root, step, controls };
    this.handler.onShown(this.shown, isFirst);
  }
  root = null;
  shown = null;
  timer;
  isDisposed = false;
  isPatient = false;
  started = performance.now();
};

// src/widgets/anymodel.ts
function identify(model) {
  return model.get("layout") ?? model;
}
function shareInPage(name, make) {
  const page = globalThis;
  return page[Symbol.for(name)] ??= make();
}

// src/widgets/scrolling.ts
var GAP_PX = 8;
function computeScroll(view, form, cellTop) {
  const toTop = (edge) => edge - view.top - GAP_PX;
  const toBottom = form.bottom - view.bottom + GAP_PX;
  const room = view.bottom - view.top - 2 * GAP_PX;
  if (form.bottom - cellTop <= room) {
    return toTop(cellTop) < 0 ? toTop(cellTop) : Math.max(toBottom, 0);
  }
  const isWhole = form.bottom - form.top <= room;
  return isWhole ? toBottom : toTop(form.top);
}

// src/widgets/visibility.ts
var KEEP_IN_VIEW_MS = 2e3;
function findScroller(element) {
  for (let each = element.parentElement; each; each = each.parentElement) {
    const isScrolling2 = /auto|scroll/.test(getComputedStyle(each).overflowY);
    if (isScrolling2 && each.scrollHeight > each.clientHeight) {
      return each;
    }
  }
  return null;
}
function showWithCell(root) {
  root.scrollIntoView({ block: "nearest" });
  const cell = root.closest(".jp-Cell");
  const scroller = cell && findScroller(cell);
  if (!cell || !scroller) {
    return;
  }
  const view = scroller.getBoundingClientRect();
  const form = root.getBoundingClientRect();
  scroller.scrollTop += computeScroll(view, form, cell.getBoundingClientRect().top);
}
function keepInView(root, focused) {
  const until = performance.now() + KEEP_IN_VIEW_MS;
  const watcher = new ResizeObserver(() => {
    if (performance.now() > until || !root.contains(document.activeElement)) {
      watcher.disconnect();
      return;
    }
    showWithCell(root);
    if (focused !== root) {
      focused.scrollIntoView({ block: "nearest" });
    }
  });
  for (const each of [root.parentElement, root.closest(".jp-Cell")]) {
    if (each) {
      watcher.observe(each);
    }
  }
  const ownScroll = { once: true, passive: true };
  root.ownerDocument.addEventListener("wheel", () => watcher.disconnect(), ownScroll);
  return watcher;
}
function callIfUnseen(root, call) {
  if (document.hidden || !root?.isConnected) {
    call();
    return;
  }
  const watcher = new IntersectionObserver(([{ isIntersecting }]) => {
    watcher.disconnect();
    if (!isIntersecting) {
      call();
    }
  });
  watcher.observe(root);
}

// src/widgets/visits.ts
var visit = shareInPage("jp_nb.visit", followFocus);
function followFocus() {
  const visit2 = {
    isInside: false,
    notebook: null,
    cell: null,
    origin: null,
    lastKey: -Infinity
  };
  const note = (event) => {
    const target = event.target instanceof Element ? event.target : null;
    const form = target?.closest(".jp-nb-form") ?? null;
    const notebook = form?.closest(".jp-Notebook") ?? null;
    if (form && !(visit2.isInside && visit2.notebook === notebook)) {
      const related = event instanceof FocusEvent ? event.relatedTarget : null;
      const selected = notebook?.querySelector(".jp-Cell.jp-mod-active") ?? related;
      const cell = form.closest(".jp-Cell");
      if (selected !== cell || visit2.cell !== cell) {
        visit2.origin = selected instanceof HTMLElement ? selected : null;
      }
      visit2.cell = cell;
      visit2.notebook = notebook;
    }
    visit2.isInside = Boolean(form);
  };
  for (const event of ["focusin", "pointerdown"]) {
    document.addEventListener(event, note, true);
  }
  const noteKey = () => {
    visit2.lastKey = performance.now();
  };
  document.addEventListener("keydown", noteKey, true);
  return visit2;
}
function leaveClosedForm(root) {
  const active = document.activeElement;
  const isElsewhere = active && active !== document.body && !root.contains(active);
  if (!visit.isInside || isElsewhere) {
    return;
  }
  visit.isInside = false;
  visit.cell = null;
  visit.origin?.focus({ preventScroll: true });
}
function isFocusTaken(root) {
  const active = document.activeElement;
  if (!active || active === document.body || root.contains(active)) {
    return false;
  }
  const panel = ".jp-MainAreaWidget, .jp-Dialog";
  if (active.closest(panel) !== root.closest(panel)) {
    return true;
  }
  if (active.closest(".jp-nb-form")) {
    return false;
  }
  const editor = active.closest(
    "input, textarea, select, [contenteditable='true']"
  );
  return Boolean(editor && (editor.value ?? editor.textContent ?? "").trim());
}

// src/widgets/formfocus.ts
var SETTLE_MS = 300;
var TYPING_MS = 1e3;
var CLOSING_MS = 1e3;
var FOCUS_MS = 200;
var FormFocus = class {
  constructor(model, elements, keys) {
    this.model = model;
    this.elements = elements;
    this.keys = keys;
    this.identity = identify(model);
  }
  model;
  elements;
  keys;
  /** Focus the form that opens, and keep the focus while the page draws. */
  start(root) {
    this.focusFirst(root);
    this.focusTimer = setInterval(this.regainFocus, FOCUS_MS);
  }
  dispose() {
    this.inView?.disconnect();
    clearInterval(this.focusTimer);
  }
  /** Whether the form itself moves the focus, not the user. */
  isFocusing = false;
  /** Note the focused element of the form. */
  note(target) {
    this.focused = target;
  }
  focusOn(root, element) {
    this.isFocusing = true;
    element.focus({ preventScroll: true });
    this.isFocusing = false;
    this.inView?.disconnect();
    this.inView = keepInView(root, element);
  }
  focusFirst(root) {
    if (isFocusTaken(root)) {
      return;
    }
    this.keys.settle(performance.now() + SETTLE_MS);
    this.focusOn(root, this.findFirst(root));
  }
  findFirst(root) {
    if (this.model.get("only_buttons")) {
      return root;
    }
    return firstIn(root.querySelector(".jp-nb-control")) ?? root;
  }
  /** Move the focus to the next page if it was on the previous one. */
  focusNext(root) {
    const active = document.activeElement;
    if (!active || active === document.body || root.contains(active)) {
      this.focusOn(root, this.findFirst(root));
    }
  }
  /** Focus a control, as the kernel asks. */
  focusField(field) {
    const root = this.elements.root;
    if (!root?.contains(document.activeElement)) {
      return;
    }
    const found = firstIn(root.querySelectorAll(".jp-nb-control")[field]);
    if (found) {
      this.focusOn(root, found);
    }
  }
  /**
   * Focus the form again after the page detached and attached its cell.
   *
   * JupyterLab does so when it scrolls or resizes a long notebook. Nothing has the focus then, and
   * the keys of the user would be lost. Browsers report neither this nor a change of the size.
   */
  regainFocus = () => {
    const root = this.elements.root;
    const isFocusLost = !document.activeElement || document.activeElement === document.body;
    if (!root || !isFocusLost) {
      return;
    }
    const wasInNotebook = visit.isInside && visit.notebook === root.closest(".jp-Notebook");
    const isAttached = root.offsetHeight > 0;
    if (wasInNotebook && isAttached && root.contains(this.focused)) {
      this.focused?.focus({ preventScroll: true });
    }
  };
  /** Return the focus to the cell, or to the page without cells. The form stays open. */
  leave() {
    const root = this.elements.root;
    this.inView?.disconnect();
    root?.closest(".jp-Cell")?.focus({ preventScroll: true });
    const active = document.activeElement;
    if (active instanceof HTMLElement && root?.contains(active)) {
      active.blur();
    }
    visit.isInside = false;
  }
  /**
   * Leave the form once its comm is closed: a page may remove a form only to draw it again.
   *
   * Keys of a user who still types, while the form ends without a click, must not become shortcuts
   * of the notebook.
   */
  leaveOnceClosed(root, actsAt) {
    const removed = performance.now();
    const isSent = actsAt >= visit.lastKey;
    const look = () => {
      const now = performance.now();
      const isOpen = this.identity.comm && now < removed + CLOSING_MS;
      const isTyping = !isSent && now < visit.lastKey + TYPING_MS;
      if (isOpen || isTyping) {
        setTimeout(look, 10);
      } else {
        leaveClosedForm(root);
      }
    };
    setTimeout(look);
  }
  identity;
  inView = null;
  focusTimer;
  focused = null;
};

// src/widgets/keys.ts
var CHOOSING = ["Enter", " ", "Escape", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];
var STEPS = {
  ArrowRight: 1,
  ArrowDown: 1,
  ArrowLeft: -1,
  ArrowUp: -1
};
var KeyGuard = class {
  pressed = /* @__PURE__ */ new Set();
  settled = -Infinity;
  /** Refuse keys until `time`, because they were meant for the previous focus. */
  settle(time) {
    this.settled = time;
  }
  /** Forget the keys that are down, because another step is shown. */
  reset() {
    this.pressed.clear();
  }
  /** Return true if the user pressed the key for this form. `isText` is true for a space in a text. */
  isOnPurpose(key, { repeat, isText, now }) {
    if (!CHOOSING.includes(key) || key === " " && isText) {
      return true;
    }
    if (repeat ? !this.pressed.has(key) : now < this.settled) {
      return false;
    }
    this.pressed.add(key);
    return true;
  }
  /** Return false for the release of a key that went down elsewhere. */
  release(key) {
    return this.pressed.delete(key);
  }
};
function findStep(key) {
  return STEPS[key] ?? 0;
}

// src/widgets/selection.ts
function stepAround(at, step, count) {
  if (count === 0) {
    return -1;
  }
  if (at < 0) {
    return step > 0 ? 0 : count - 1;
  }
  return (at + step + count) % count;
}

// src/widgets/forminput.ts
var WRITING = "textarea, input:not([type=radio], [type=checkbox])";
var BUTTON = ".jp-nb-actions button, .jp-nb-summary button, .jp-nb-item .widget-button";
var OPENING = ".jp-nb-open";
var FormInput = class {
  constructor(model, elements, messages, focus, keys) {
    this.model = model;
    this.elements = elements;
    this.messages = messages;
    this.focus = focus;
    this.keys = keys;
  }
  model;
  elements;
  messages;
  focus;
  keys;
  start(root) {
    for (const [type, listener] of this.heard) {
      root.addEventListener(type, listener, { capture: true });
    }
  }
  dispose() {
    for (const [type, listener] of this.heard) {
      this.elements.root?.removeEventListener(type, listener, { capture: true });
    }
  }
  get primary() {
    return getAction(this.elements.root?.querySelector(".jp-nb-primary") ?? null) ?? "submit";
  }
  onClick = (event) => {
    const target = event.target;
    if (target.closest(".jp-nb-control")) {
      this.messages.touch();
    }
    const button = target.closest(BUTTON);
    if (!button) {
      return;
    }
    const action = getAction(button);
    const isStray = event.detail > 1;
    if (!isStray) {
      this.messages.noteSent();
    }
    if (!isStray && !action) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    if (!isStray) {
      this.messages.send(action);
    }
  };
  onFocus = (event) => {
    const target = event.target;
    this.focus.note(target);
    target.setAttribute("data-lm-suppress-shortcuts", "true");
    if (!this.focus.isFocusing && target.matches(TEXT_BOX)) {
      this.messages.noteWriting(true);
    }
  };
  onBlur = () => {
    const secrets = this.elements.root?.querySelectorAll(".jp-nb-secret") ?? [];
    this.messages.noteWriting([...secrets].some(({ value }) => value));
  };
  onInput = (event) => {
    this.messages.touch();
    if (event.target.matches(TEXT_BOX)) {
      this.messages.noteWriting(true);
    }
  };
  moveAmongButtons(root, target, key) {
    const step = findStep(key);
    if (!step || target !== root && !target.matches("button")) {
      return false;
    }
    const all = root.querySelectorAll(
      ".jp-nb-summary button, .jp-nb-actions button"
    );
    const buttons = [...all].filter((button) => !button.disabled);
    const next = stepAround(buttons.indexOf(target), step, buttons.length);
    buttons[next]?.focus();
    return true;
  }
  onKey = (happened) => {
    const event = happened;
    event.stopPropagation();
    const root = this.elements.root;
    if (event.isComposing || !root) {
      return;
    }
    const { key, repeat } = event;
    const target = event.target;
    const press = { repeat, isText: target.matches(WRITING), now: performance.now() };
    if (!this.keys.isOnPurpose(key, press)) {
      event.preventDefault();
      return;
    }
    if (key === " " && target.closest(".jp-nb-control")) {
      this.messages.touch();
    }
    if (target.matches(OPENING) && (key === " " || key === "Enter")) {
      if (key === " ") {
        event.preventDefault();
        target.click();
      }
      return;
    }
    const offer = { bubbles: true, cancelable: true, detail: key };
    if (!target.dispatchEvent(new CustomEvent("jp-nb-key", offer))) {
      event.preventDefault();
    } else if (key === "Escape") {
      event.preventDefault();
      this.onEscape();
    } else if (this.moveAmongButtons(root, target, key)) {
      event.preventDefault();
    } else if (key === "Enter" || key === " " && target === root) {
      this.onEnter(event, target);
    }
  };
  onEscape() {
    if (this.model.get("only_buttons")) {
      this.focus.leave();
    } else {
      this.messages.send("cancel");
    }
  }
  onEnter(event, target) {
    const isEverywhere = event.ctrlKey || event.metaKey;
    const isNative = target.matches("textarea, summary") || target.closest("button");
    if (isNative && !isEverywhere) {
      return;
    }
    event.preventDefault();
    this.messages.send(this.messages.isTouched ? this.primary : "unchosen");
    if (this.messages.isTouched) {
      this.messages.noteSent();
    }
  }
  onKeyUp = (happened) => {
    const event = happened;
    event.stopPropagation();
    if (!this.keys.release(event.key) && event.key === " ") {
      event.preventDefault();
    }
  };
  heard = [
    ["keydown", this.onKey],
    ["keyup", this.onKeyUp],
    ["focusin", this.onFocus],
    ["focusout", this.onBlur],
    ["input", this.onInput],
    ["click", this.onClick]
  ];
};

// src/widgets/formlabels.ts
var KEYBOARDS = { integer: "numeric", number: "decimal" };
var ids = 0;
function ensureId(element) {
  if (!element) {
    return "";
  }
  element.id ||= `jp-nb-${ids += 1}-${Math.random().toString(36).slice(2)}`;
  return element.id;
}
function labelControl(box, root) {
  const field = box.closest(".jp-nb-field") ?? root;
  const name = field.querySelector(".jp-nb-field-name bdi") ?? root.querySelector(".jp-nb-question bdi");
  const about = [...field.querySelectorAll(".jp-nb-about, .jp-nb-hint, .jp-nb-problem")];
  const group = box.querySelector(":is(.widget-radio-box, [role=group], [role=radiogroup])");
  if (group?.matches(".widget-radio-box")) {
    group.setAttribute("role", "radiogroup");
    group.setAttribute("aria-labelledby", ensureId(name));
    const shared = `${ensureId(group)}-option`;
    for (const radio of group.querySelectorAll("input")) {
      radio.name = shared;
    }
  }
  for (const [kind, mode] of Object.entries(KEYBOARDS)) {
    const input = box.querySelector("input");
    if (input && box.matches(`.jp-nb-${kind}`)) {
      input.inputMode = mode;
    }
  }
  for (const each of group ? [group] : box.querySelectorAll(FIELD)) {
    if (!each.matches("[aria-label], [aria-labelledby]")) {
      each.setAttribute("aria-labelledby", ensureId(name));
      each.setAttribute("aria-label", name?.textContent ?? "");
    }
    if (about.length) {
      each.setAttribute("aria-describedby", about.map(ensureId).join(" "));
    }
    if (each.getAttribute("role") !== "group") {
      each.setAttribute("aria-required", String(field.matches(".jp-nb-needed")));
    }
  }
}
var FormLabels = class {
  /** `onAnswer` is called when the kernel shows a note or a problem. */
  constructor(onAnswer) {
    this.onAnswer = onAnswer;
  }
  onAnswer;
  dispose() {
    this.problemWatcher?.disconnect();
    this.toggleWatcher?.disconnect();
  }
  /** Label the present step. */
  label(root) {
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", root.querySelector(".jp-nb-question")?.textContent ?? "");
    root.querySelector(".jp-nb-progress")?.setAttribute("role", "status");
    this.problemWatcher?.disconnect();
    this.problemWatcher = new MutationObserver(() => {
      this.onAnswer();
      this.markProblems(root);
    });
    for (const said of root.querySelectorAll(".jp-nb-note, .jp-nb-problem")) {
      said.setAttribute("role", "status");
      this.problemWatcher.observe(said, { childList: true, subtree: true });
    }
    for (const box of root.querySelectorAll(".jp-nb-control")) {
      labelControl(box, root);
    }
    this.markProblems(root);
    this.watchToggles(root);
  }
  /** Tell screen readers which buttons show and hide a part of the form, and if it is open. */
  watchToggles(root) {
    const toggles = [...root.querySelectorAll(".jp-nb-toggle")];
    const mark = () => {
      for (const toggle of toggles) {
        toggle.setAttribute("aria-expanded", String(toggle.matches(".jp-nb-expanded")));
      }
    };
    this.toggleWatcher?.disconnect();
    this.toggleWatcher = new MutationObserver(mark);
    for (const toggle of toggles) {
      this.toggleWatcher.observe(toggle, { attributeFilter: ["class"] });
    }
    mark();
  }
  markProblems(root) {
    for (const field of root.querySelectorAll(".jp-nb-field")) {
      const isWrong = Boolean(field.querySelector(".jp-nb-problem")?.textContent?.trim());
      const boxes = field.querySelectorAll(":is(input, textarea, select, [role=radiogroup])");
      for (const box of boxes) {
        if (box.matches("[aria-required]")) {
          box.setAttribute("aria-invalid", String(isWrong));
        }
      }
    }
  }
  problemWatcher = null;
  toggleWatcher = null;
};

// src/widgets/formmessages.ts
var SENT_MS = 700;
var STATE = ["index", "value", "picks", "custom"];
var SENT = "Sent. The kernel is busy and will read it when it is free.";
var touchedSteps = shareInPage("jp_nb.touched", () => /* @__PURE__ */ new WeakMap());
function readState(control, box) {
  const secret = box?.querySelector(".jp-nb-secret");
  if (secret) {
    return { value: secret.value };
  }
  const state = {};
  for (const name of STATE) {
    const value = control?.get(name);
    if (value !== void 0) {
      state[name] = value;
    }
  }
  const date = box?.querySelector("input[type=date]");
  if (date?.validity.badInput) {
    state.value = "unfinished";
  }
  return state;
}
var FormMessages = class {
  constructor(model, el, elements) {
    this.model = model;
    this.el = el;
    this.elements = elements;
    this.identity = identify(model);
  }
  model;
  el;
  elements;
  dispose() {
    clearTimeout(this.sentTimer);
    this.sent?.remove();
    this.tellCells([]);
  }
  /** Add the place of the notice that a click was sent. */
  addNotice(root) {
    this.sent = document.createElement("div");
    this.sent.className = "jp-nb-sent";
    this.sent.setAttribute("role", "status");
    root.append(this.sent);
  }
  /** Begin another step. */
  reset() {
    this.isWriting = false;
    this.forgetSent();
  }
  /** Send an action with the state of each control: a click can arrive before a widget's update. */
  send(type) {
    if (!this.elements.shown) {
      return;
    }
    const { root, controls, step } = this.elements.shown;
    const boxes = root.querySelectorAll(".jp-nb-control");
    this.actsAt = performance.now();
    const fields = controls.map((control, place) => readState(control, boxes[place]));
    const state = fields.length === 1 ? fields[0] : { fields };
    this.model.send({ ...state, type, step });
  }
  /** Show a notice if the kernel is busy, because the click would look lost. */
  noteSent() {
    this.forgetSent();
    this.sentTimer = setTimeout(() => {
      if (this.sent) {
        this.sent.textContent = SENT;
      }
    }, SENT_MS);
  }
  /** Tell the lab extension which cells the form is about; none if it closes. */
  tellCells(cells) {
    if (this.elements.shown && (cells.length || this.hasCells)) {
      this.hasCells = cells.length > 0;
      const detail = { view: this.el, root: this.elements.shown.root, cells };
      document.dispatchEvent(new CustomEvent("jp-nb-cells", { detail }));
    }
  }
  forgetSent() {
    clearTimeout(this.sentTimer);
    if (this.sent?.textContent) {
      this.sent.textContent = "";
    }
  }
  touch() {
    if (this.elements.shown) {
      touchedSteps.set(this.identity, this.elements.shown.step);
    }
  }
  get isTouched() {
    return this.elements.shown !== null && touchedSteps.get(this.identity) === this.elements.shown.step;
  }
  report(step) {
    this.model.send({ type: "rendered", step });
  }
  /** Tell that the user writes, because a deadline waits meanwhile. */
  noteWriting(isWriting) {
    if (isWriting !== this.isWriting && this.model.get("timed")) {
      this.isWriting = isWriting;
      this.model.send({ type: "writing", value: isWriting });
    }
  }
  /** The time of the last click or key that was sent. */
  actsAt = -Infinity;
  identity;
  hasCells = false;
  isWriting = false;
  sent = null;
  sentTimer;
};

// src/widgets/notifications.ts
var MARK = "● ";
var WAITS = "A notebook is waiting for your answer";
var waiting = shareInPage("jp_nb.waiting", () => /* @__PURE__ */ new Set());
function markTitle() {
  const unmarked = getUnmarkedTitle();
  const isAlive = [...waiting].some((el) => !el.closest(".jupyter-widgets-disconnected"));
  const title = isAlive ? MARK + unmarked : unmarked;
  if (title !== document.title) {
    document.title = title;
  }
}
function getUnmarkedTitle() {
  return document.title.startsWith(MARK) ? document.title.slice(MARK.length) : document.title;
}
var FormNotifications = class {
  constructor(model, el, elements) {
    this.model = model;
    this.el = el;
    this.elements = elements;
  }
  model;
  el;
  elements;
  dispose() {
    this.isDisposed = true;
    this.model.off("comm_live_update", this.markTitleSoon);
    this.titleWatcher?.disconnect();
    this.notice?.close();
    waiting.delete(this.el);
    markTitle();
  }
  announceInTitle() {
    waiting.add(this.el);
    this.model.on("comm_live_update", this.markTitleSoon);
    markTitle();
    const title = document.querySelector("title");
    if (title) {
      this.titleWatcher = new MutationObserver(markTitle);
      this.titleWatcher.observe(title, { childList: true });
    }
  }
  markTitleSoon = () => {
    setTimeout(markTitle);
  };
  announce({ header, tag }) {
    if (globalThis.Notification?.permission !== "granted") {
      return;
    }
    callIfUnseen(this.elements.root, () => {
      if (this.isDisposed) {
        return;
      }
      const body = [header, getUnmarkedTitle()].filter(Boolean).join(" · ");
      let notice;
      try {
        notice = new Notification(WAITS, { body, tag });
      } catch {
        return;
      }
      this.notice = notice;
      notice.onclick = () => {
        window.focus();
        this.elements.root?.scrollIntoView({ block: "nearest" });
        notice.close();
      };
    });
  }
  titleWatcher = null;
  notice = null;
  isDisposed = false;
};

// src/widgets/scrollboxes.ts
var BOXES = [
  ".widget-html-content",
  ".jp-nb-context",
  ".jp-nb-about",
  ".jp-nb-url",
  ".jp-nb-lines",
  ".jp-nb-summary li > div:first-child > *"
].join();
var FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";
var ADDED = "jp-nb-scrolls";
function isScrolling(box) {
  const isHigher = box.scrollHeight > box.clientHeight + 1;
  const isWider = box.scrollWidth > box.clientWidth + 1;
  if (!isHigher && !isWider) {
    return false;
  }
  const { overflowX, overflowY } = getComputedStyle(box);
  return isHigher && overflowY === "auto" || isWider && overflowX === "auto";
}
function update(box) {
  const isAdded = box.classList.contains(ADDED);
  const isWanted = isScrolling(box) && !box.querySelector(FOCUSABLE);
  if (isWanted && !isAdded && !box.hasAttribute("tabindex")) {
    box.classList.add(ADDED);
    box.tabIndex = 0;
  }
  if (!isWanted && isAdded && box !== document.activeElement) {
    box.classList.remove(ADDED);
    box.removeAttribute("tabindex");
  }
}
var ScrollBoxes = class {
  dispose() {
    this.watcher.disconnect();
  }
  /** Look at the texts of the present step, and again when the form changes its size. */
  follow(root) {
    this.watcher.disconnect();
    this.watcher.observe(root);
  }
  watcher = new ResizeObserver(([{ target }]) => {
    target.querySelectorAll(BOXES).forEach(update);
  });
};

// src/widgets/form.ts
var FormView = class {
  constructor(model, el) {
    this.model = model;
    const keys = new KeyGuard();
    this.keys = keys;
    this.drawing = new FormDrawing(model, el, {
      onShown: (shown, isFirst) => this.onShown(shown, isFirst),
      onLate: (step) => this.messages.report(step)
    });
    this.messages = new FormMessages(model, el, this.drawing);
    this.labels = new FormLabels(() => this.messages.forgetSent());
    this.focus = new FormFocus(model, this.drawing, keys);
    this.input = new FormInput(model, this.drawing, this.messages, this.focus, keys);
    this.notifications = new FormNotifications(model, el, this.drawing);
    el.classList.add("jp-nb-beacon");
    model.on("msg:custom", this.onMessage);
    this.drawing.start();
    if (model.get("notify")) {
      this.notifications.announceInTitle();
    }
  }
  model;
  dispose() {
    const { root } = this.drawing;
    this.drawing.dispose();
    this.messages.dispose();
    if (root) {
      this.focus.leaveOnceClosed(root, this.messages.actsAt);
    }
    this.model.off("msg:custom", this.onMessage);
    this.labels.dispose();
    this.scrollBoxes.dispose();
    this.notifications.dispose();
    this.focus.dispose();
    this.input.dispose();
  }
  /** Begin a step that the page has drawn. */
  onShown({ root, step }, isFirst) {
    this.keys.reset();
    this.messages.reset();
    this.labels.label(root);
    this.scrollBoxes.follow(root);
    if (isFirst) {
      root.tabIndex = -1;
      this.messages.addNotice(root);
      this.input.start(root);
      this.focus.start(root);
    } else {
      this.focus.focusNext(root);
    }
    this.messages.tellCells(this.model.get("cells") ?? []);
    this.messages.report(step);
  }
  onMessage = (message) => {
    switch (message.type) {
      case "announce":
        this.notifications.announce(message);
        break;
      case "heard":
        this.messages.forgetSent();
        break;
      case "focus":
        this.focus.focusField(message.field ?? 0);
        break;
    }
  };
  keys;
  drawing;
  messages;
  labels;
  scrollBoxes = new ScrollBoxes();
  focus;
  input;
  notifications;
};
function render({ model, el }) {
  const view = new FormView(model, el);
  return () => view.dispose();
}
var form_default = { render };
export {
  form_default as default
};
