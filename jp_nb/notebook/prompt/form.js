// The part of a form that runs in the page. It reports that the form is visible, sends keys and
// clicks together with the state of the controls, and manages the focus.

const SETTLE_MS = 300; // ignore keys that were meant for the previous focus
const KEEP_IN_VIEW_MS = 2000; // the outputs above the form are drawn later
const GAP_PX = 8; // between the form and the edge of the view
const CHOOSING = ["Enter", " ", "Escape", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];
const WRITING = "textarea, input:not([type=radio], [type=checkbox])";
const DETACHED_MS = 1000; // then report the form anyway: its cell may be out of view and detached
const MARK = "● ";
const TEXT_BOX = "textarea, input:not([type=radio], [type=checkbox], [type=search])";
const OPENING = ".jp-nb-open"; // the link that opens the address of a question
const FIELD = `${TEXT_BOX}, select`;
const STATE = ["index", "value", "picks", "custom"];
const KEYBOARDS = { integer: "numeric", number: "decimal" }; // keyboard of a phone, by answer type
const TYPING_MS = 1000; // a user who pressed a key within this time may still be typing
const CLOSING_MS = 1000; // a closed form loses its view first, and its comm shortly after
const SENT_MS = 700; // an idle kernel has answered by then
const SENT = "Sent. The kernel is busy and will read it when it is free.";
const WAITS = "A notebook is waiting for your answer";

const waiting = (globalThis[Symbol.for("jp_nb.waiting")] ??= new Set());
let ids = 0;
// The step that the user touched, by layout model. A page may draw a form again.
const touchedSteps = (globalThis[Symbol.for("jp_nb.touched")] ??= new WeakMap());

// The user's visit to a form of this page. `isInside` is true if the last focus or click was in a
// form. `origin` is the cell that was selected before, or the focused element without cells.
const visit = (globalThis[Symbol.for("jp_nb.visit")] ??= followFocus({
  isInside: false,
  notebook: null,
  cell: null,
  origin: null,
  lastKey: -Infinity,
}));

function followFocus(visit) {
  const note = ({ target, relatedTarget }) => {
    const form = target.closest?.(".jp-nb-form");
    const notebook = form?.closest(".jp-Notebook");

    if (form && !(visit.isInside && visit.notebook === notebook)) {
      const selected = notebook?.querySelector(".jp-Cell.jp-mod-active") ?? relatedTarget;
      const cell = form.closest(".jp-Cell");
      // The focus selects the cell of the form, so a second visit does not start there.
      if (selected !== cell || visit.cell !== cell) visit.origin = selected;
      visit.cell = cell;
      visit.notebook = notebook;
    }

    visit.isInside = Boolean(form);
  };

  // In this phase, the notebook has not yet selected the cell of the form.
  for (const event of ["focusin", "pointerdown"]) document.addEventListener(event, note, true);
  const noteKey = () => (visit.lastKey = performance.now());
  document.addEventListener("keydown", noteKey, true);
  return visit;
}

// Select the cell from before the visit, in command mode, if the user is nowhere else. Otherwise,
// the focus would stay on the body, where the notebook receives no key.
function leaveClosedForm(root) {
  const active = document.activeElement;
  const isElsewhere = active && active !== document.body && !root.contains(active);
  if (!visit.isInside || isElsewhere) return;
  visit.isInside = false;
  visit.cell = null;
  visit.origin?.focus({ preventScroll: true });
}

function markTitle() {
  const unmarked = getUnmarkedTitle();
  const alive = [...waiting].some((el) => !el.closest(".jupyter-widgets-disconnected"));
  const title = alive ? MARK + unmarked : unmarked;
  if (title !== document.title) document.title = title;
}

function getUnmarkedTitle() {
  return document.title.startsWith(MARK) ? document.title.slice(MARK.length) : document.title;
}

// Return the state of a control, by the names of its traits.
function readState(control, box) {
  const secret = box?.querySelector(".jp-nb-secret");
  if (secret) return { value: secret.value };
  const known = STATE.map((name) => [name, control?.get(name)]);
  const shown = Object.fromEntries(known.filter(([, value]) => value !== undefined));
  // An incomplete date has no value in its widget, but the user started to enter one.
  if (box?.querySelector("input[type=date]")?.validity.badInput) shown.value = "unfinished";
  return shown;
}

// Whether the user seems to type elsewhere. An empty editor does not count, because Shift+Enter
// moves the focus to a new cell.
function isFocusTaken(root) {
  const active = document.activeElement;
  if (!active || active === document.body || root.contains(active)) return false;
  const panel = ".jp-MainAreaWidget, .jp-Dialog";
  if (active.closest(panel) !== root.closest(panel)) return true;
  const editor = active.closest("input, textarea, select, [contenteditable='true']");
  return Boolean(editor && (editor.value ?? editor.textContent).trim());
}

function findScroller(element) {
  for (let each = element.parentElement; each; each = each.parentElement) {
    const scrolls = /auto|scroll/.test(getComputedStyle(each).overflowY);
    if (scrolls && each.scrollHeight > each.clientHeight) return each;
  }
  return null;
}

// Scroll to the form, with as much of its cell above it as fits. The user needs the request, the
// model's text and the call for the decision.
function showWithCell(root) {
  root.scrollIntoView({ block: "nearest" }); // also in a scrolling output
  const cell = root.closest(".jp-Cell");
  const scroller = cell && findScroller(cell);
  if (!scroller) return;
  const view = scroller.getBoundingClientRect();
  const form = root.getBoundingClientRect();
  const { top } = cell.getBoundingClientRect();
  const toTop = (edge) => edge - view.top - GAP_PX;
  const toBottom = form.bottom - view.bottom + GAP_PX;
  const room = view.height - 2 * GAP_PX;
  if (form.bottom - top <= room) {
    scroller.scrollTop += toTop(top) < 0 ? toTop(top) : Math.max(toBottom, 0);
  } else {
    scroller.scrollTop += form.height <= room ? toBottom : toTop(form.top);
  }
}

// Keep the form in view while the page draws, until the user scrolls.
function keepInView(root, focused) {
  const until = performance.now() + KEEP_IN_VIEW_MS;
  const look = () => {
    if (performance.now() > until || !root.contains(document.activeElement)) {
      watcher.disconnect();
      return;
    }
    showWithCell(root);
    if (focused !== root) focused.scrollIntoView({ block: "nearest" });
  };
  const watcher = new ResizeObserver(look);
  watcher.observe(root.parentElement); // also calls it once at the start
  const cell = root.closest(".jp-Cell");
  if (cell) watcher.observe(cell);
  const ownScroll = { once: true, passive: true };
  root.ownerDocument.addEventListener("wheel", () => watcher.disconnect(), ownScroll);
  return watcher;
}

// Call back if `root` is not visible: the page is hidden, or the form is out of view.
function callIfUnseen(root, call) {
  if (document.hidden || !root?.isConnected) {
    call();
    return;
  }
  const watcher = new IntersectionObserver(([{ isIntersecting }]) => {
    watcher.disconnect();
    if (!isIntersecting) call();
  });
  watcher.observe(root);
}

// Return the action of a button, from its class `jp-nb-do-…`.
function getAction(button) {
  const name = [...(button?.classList ?? [])].find((each) => each.startsWith("jp-nb-do-"));
  return name?.slice("jp-nb-do-".length);
}

function ensureId(element) {
  element.id ||= `jp-nb-${(ids += 1)}-${Math.random().toString(36).slice(2)}`;
  return element.id;
}

// Set the accessible name and description of a control from its field or the question, and return
// its elements. The list of `choices.js` already has a name.
function labelControl(box, root) {
  const field = box.closest(".jp-nb-field") ?? root;
  const name =
    field.querySelector(".jp-nb-field-name bdi") ?? root.querySelector(".jp-nb-question bdi");
  const about = [...field.querySelectorAll(".jp-nb-about, .jp-nb-hint, .jp-nb-problem")];
  const group = box.querySelector(":is(.widget-radio-box, [role=group], [role=radiogroup])");
  if (group?.matches(".widget-radio-box")) {
    group.setAttribute("role", "radiogroup");
    group.setAttribute("aria-labelledby", ensureId(name));
    const shared = `${ensureId(group)}-option`; // each stock radio button is its own group
    for (const radio of group.querySelectorAll("input")) radio.name = shared;
  }
  for (const [kind, mode] of Object.entries(KEYBOARDS)) {
    if (box.matches(`.jp-nb-${kind}`)) box.querySelector("input").inputMode = mode;
  }
  const fields = group ? [group] : [...box.querySelectorAll(FIELD)];
  for (const each of fields) {
    if (!each.matches("[aria-label], [aria-labelledby]")) {
      each.setAttribute("aria-labelledby", ensureId(name));
    }
    if (about.length) each.setAttribute("aria-describedby", about.map(ensureId).join(" "));
    if (each.getAttribute("role") !== "group") {
      each.setAttribute("aria-required", String(field.matches(".jp-nb-needed")));
    }
  }
  return fields;
}

async function render({ model, el }) {
  el.classList.add("jp-nb-beacon");

  let root = null;
  let up = null; // the current step and the models of its controls
  let settled = 0;
  let timer = 0;
  let inView = null;
  let problems = null;
  let notice = null;
  let sent = null; // notice that a click waits for the kernel
  let sentTimer = 0;
  let writing = false;
  let focusing = false;
  let actsAt = -Infinity; // time of the last click or key that sent an action
  let started = performance.now();
  const identity = model.get("layout") ?? model; // anywidget gives each view another `model`
  const pressed = new Set(); // keys that went down while the form was visible

  // --- messages ----------------------------------------------------------------------------------

  // Add the state of each control, because a click can arrive before the widget update.
  function send(type) {
    const boxes = root.querySelectorAll(".jp-nb-control");
    actsAt = performance.now();
    const fields = up.controls.map((control, place) => readState(control, boxes[place]));
    model.send({ ...(fields.length === 1 ? fields[0] : { fields }), type, step: up.step });
  }

  // Show a notice if the kernel is busy, because the click would look lost.
  function noteSent() {
    forgetSent();
    sentTimer = setTimeout(() => { sent.textContent = SENT; }, SENT_MS);
  }

  function forgetSent() {
    clearTimeout(sentTimer);
    if (sent?.textContent) sent.textContent = "";
  }

  function touch() {
    touchedSteps.set(identity, up.step);
  }

  function isTouched() {
    return touchedSteps.get(identity) === up.step;
  }

  function primary() {
    return getAction(root.querySelector(".jp-nb-primary")) ?? "submit";
  }

  function report(step) {
    model.send({ type: "rendered", step });
  }

  // A deadline waits while the user writes.
  function noteWriting(now) {
    if (now === writing || !model.get("timed")) return;
    writing = now;
    model.send({ type: "writing", value: now });
  }

  // --- input of the user -------------------------------------------------------------------------

  function onClick(event) {
    if (event.target.closest(".jp-nb-control")) touch();
    const button = event.target.closest(".jp-nb-actions button, .jp-nb-summary button");
    if (!button) return;
    const action = getAction(button);
    // Ignore the second click of a double click, whose target is gone.
    const stray = event.detail > 1;
    if (!stray) noteSent();
    if (!stray && !action) return;
    event.preventDefault();
    event.stopPropagation(); // no message from the stock button, because `send` replaces it
    if (!stray) send(action);
  }

  // Front ends look for shortcuts from the focused element up to the first element with this
  // attribute. So the focused element needs it, not the form.
  function onFocus({ target }) {
    target.setAttribute("data-lm-suppress-shortcuts", "true");
    if (!focusing && target.matches(TEXT_BOX)) noteWriting(true);
  }

  function onBlur() {
    noteWriting([...root.querySelectorAll(".jp-nb-secret")].some(({ value }) => value));
  }

  function onInput({ target }) {
    touch();
    if (target.matches(TEXT_BOX)) noteWriting(true);
  }

  // Whether the user pressed this key while the form was visible.
  function isOnPurpose({ key, repeat, target }) {
    if (!CHOOSING.includes(key)) return true;
    if (key === " " && target.matches(WRITING)) return true; // a space in a text
    if (repeat ? !pressed.has(key) : performance.now() < settled) return false;
    pressed.add(key);
    return true;
  }

  function moveAmongButtons(target, key) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
    if (!step || (target !== root && !target.matches("button"))) return false;
    const all = root.querySelectorAll(".jp-nb-summary button, .jp-nb-actions button");
    const buttons = [...all].filter((button) => !button.disabled);
    const from = target === root ? (step < 0 ? 0 : -1) : buttons.indexOf(target);
    buttons[(from + step + buttons.length) % buttons.length].focus();
    return true;
  }

  function onKey(event) {
    event.stopPropagation(); // the page's own shortcuts are for cells
    if (event.isComposing) return;
    const { key, target } = event;
    if (!isOnPurpose(event)) {
      event.preventDefault();
      return;
    }
    if (key === " " && target.closest(".jp-nb-control")) touch(); // it selects the current option
    if (target.matches(OPENING)) {
      if (key === " ") {
        event.preventDefault();
        target.click(); // it looks like a button
      }
      if (key === " " || key === "Enter") return;
    }
    // A control may handle a key itself, such as a filter that Escape clears.
    const offer = { bubbles: true, cancelable: true, detail: key };
    if (!target.dispatchEvent(new CustomEvent("jp-nb-key", offer))) {
      event.preventDefault();
    } else if (key === "Escape") {
      event.preventDefault();
      if (model.get("only_buttons")) leave();
      else send("cancel");
    } else if (moveAmongButtons(target, key)) {
      event.preventDefault();
    } else if (key === "Enter" || (key === " " && target === root)) {
      const everywhere = event.ctrlKey || event.metaKey;
      const native = target.matches("textarea, summary") || target.closest("button");
      if (native && !everywhere) return;
      event.preventDefault();
      send(isTouched() ? primary() : "unchosen");
      if (isTouched()) noteSent();
    }
  }

  // A page may remove a form only to draw it again, so wait until its comm is closed. Keys of a user
  // who still types, while the form ends without a click, must not become shortcuts of the notebook.
  function leaveOnceClosed() {
    const removed = performance.now();
    const isSent = actsAt >= visit.lastKey;
    const look = () => {
      const now = performance.now();
      const isOpen = identity.comm && now < removed + CLOSING_MS;
      const isTyping = !isSent && now < visit.lastKey + TYPING_MS;
      if (isOpen || isTyping) setTimeout(look, 10);
      else leaveClosedForm(root);
    };
    setTimeout(look);
  }

  // The form stays open. The focus returns to the cell, or to the page without cells.
  function leave() {
    inView?.disconnect();
    const cell = root.closest(".jp-Cell");
    cell?.focus({ preventScroll: true });
    if (root.contains(document.activeElement)) document.activeElement.blur();
  }

  function onKeyUp(event) {
    event.stopPropagation();
    // Browsers press the focused button when the space bar is released, wherever it went down.
    if (!pressed.delete(event.key) && event.key === " ") event.preventDefault();
  }

  const heard = Object.entries({
    keydown: onKey,
    keyup: onKeyUp,
    focusin: onFocus,
    focusout: onBlur,
    input: onInput,
    click: onClick,
  });

  // --- current step ------------------------------------------------------------------------------

  function focusOn(element) {
    focusing = true;
    element.focus({ preventScroll: true }); // the user must see the text above it
    focusing = false;
    inView?.disconnect();
    inView = keepInView(root, element);
  }

  function firstIn(box) {
    return box?.querySelector("input:checked") ?? box?.querySelector(`input, ${FIELD}`);
  }

  function focusFirst() {
    if (isFocusTaken(root)) return;
    settled = performance.now() + SETTLE_MS;
    // A form with only buttons gets the focus itself, so that no key presses a button.
    focusOn(firstIn(root.querySelector(".jp-nb-control")) ?? root);
  }

  // The next page gets the focus if this page had it.
  function focusNext() {
    const active = document.activeElement;
    if (!active || active === document.body || root.contains(active)) {
      focusOn(firstIn(root.querySelector(".jp-nb-control")) ?? root);
    }
  }

  function label() {
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", root.querySelector(".jp-nb-question")?.textContent ?? "");
    const note = root.querySelector(".jp-nb-note");
    note?.setAttribute("role", "status");
    root.querySelector(".jp-nb-progress")?.setAttribute("role", "status");
    problems?.disconnect();
    problems = new MutationObserver(() => {
      forgetSent(); // the kernel has answered
      markProblems();
    });
    if (note) problems.observe(note, { childList: true, subtree: true });
    for (const said of root.querySelectorAll(".jp-nb-problem")) {
      said.setAttribute("role", "status");
      problems.observe(said, { childList: true, subtree: true });
    }
    for (const box of root.querySelectorAll(".jp-nb-control")) labelControl(box, root);
    markProblems();
  }

  function markProblems() {
    for (const field of root.querySelectorAll(".jp-nb-field")) {
      const wrong = Boolean(field.querySelector(".jp-nb-problem")?.textContent.trim());
      const boxes = field.querySelectorAll(":is(input, textarea, select, [role=radiogroup])");
      for (const box of boxes) {
        if (box.matches("[aria-required]")) box.setAttribute("aria-invalid", String(wrong));
      }
    }
  }

  function isDrawn() {
    root = el.closest(".jp-nb-form");
    if (!root?.isConnected || !root.querySelector(".jp-nb-actions button")) return false;
    const screen = model.get("screen");
    if (screen && !root.getElementsByClassName(screen).length) return false;
    const boxes = [...root.querySelectorAll(".jp-nb-control")];
    return boxes.length === model.get("controls").length && boxes.every(firstIn);
  }

  async function arrange() {
    const step = model.get("step");
    const controls = await Promise.all(
      model.get("controls").map((id) => (id ? model.widget_manager.get_model(id) : null)),
    );
    if (step !== model.get("step") || !isDrawn()) {
      timer = setTimeout(look, 10); // the step or the page changed in the meantime
      return;
    }
    const first = up === null;
    up = { step, controls };
    pressed.clear();
    writing = false;
    forgetSent();
    label();
    if (first) wire();
    else focusNext();
    report(step);
  }

  function wire() {
    root.tabIndex = -1;
    sent = document.createElement("div");
    sent.className = "jp-nb-sent";
    sent.setAttribute("role", "status");
    root.append(sent);
    for (const [type, listener] of heard) {
      root.addEventListener(type, listener, { capture: true }); // stock text fields stop events
    }
    focusFirst();
  }

  let patient = false;
  function look() {
    clearTimeout(timer);
    if (isDrawn()) {
      arrange();
      return;
    }
    if (!patient && performance.now() - started > DETACHED_MS) {
      patient = true;
      report(model.get("step"));
    }
    timer = setTimeout(look, patient ? 200 : 10);
  }

  function turn() {
    started = performance.now();
    patient = false;
    look();
  }

  // --- notifications -----------------------------------------------------------------------------

  function announce({ header, tag }) {
    if (globalThis.Notification?.permission !== "granted") return;
    callIfUnseen(root, () => {
      const body = [header, getUnmarkedTitle()].filter(Boolean).join(" · ");
      try {
        // The tag gives one notification for all pages that show the form.
        notice = new Notification(WAITS, { body, tag });
      } catch {
        return; // some browsers allow notifications only from service workers
      }
      notice.onclick = () => {
        window.focus();
        root?.scrollIntoView({ block: "nearest" });
        notice.close();
      };
    });
  }

  function onMessage(message) {
    if (message.type === "announce") announce(message);
    if (message.type === "heard") forgetSent();
    if (message.type === "focus" && root?.contains(document.activeElement)) {
      const found = firstIn(root.querySelectorAll(".jp-nb-control")[message.field]);
      if (found) focusOn(found);
    }
  }

  model.on("change:step", turn);
  model.on("msg:custom", onMessage);
  look();

  let observer = null;
  if (model.get("notify")) {
    waiting.add(el);
    model.on("comm_live_update", () => setTimeout(markTitle)); // the kernel is gone
    markTitle();
    const title = document.querySelector("title");
    if (title) {
      observer = new MutationObserver(markTitle); // the page's title follows the active tab
      observer.observe(title, { childList: true });
    }
  }

  return () => {
    clearTimeout(timer);
    clearTimeout(sentTimer);
    sent?.remove();
    if (root) leaveOnceClosed();
    model.off("change:step", turn);
    model.off("msg:custom", onMessage);
    observer?.disconnect();
    problems?.disconnect();
    notice?.close();
    waiting.delete(el);
    markTitle();
    inView?.disconnect();
    for (const [type, listener] of heard) root?.removeEventListener(type, listener, { capture: true });
  };
}

export default { render };
