// The part of a form that runs in the page: says that a page shows it, turns keys into answers,
// and takes secrets, whose text must not enter any widget's state.

const SETTLE_MS = 300; // keys that were meant for what had the focus before
const KEEP_IN_VIEW_MS = 2000; // what stands above the form is drawn after it
const CHOOSING = ["Enter", " ", "Escape", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];
const DETACHED_MS = 1000; // a cell scrolled out of a virtual list is not attached for long
const MARK = "● ";
const NAMELESS = ["select", "textarea", "input[type=text]", "input[type=date]"]
  .map((field) => `${field}:not([aria-label])`)
  .join();

const waiting = (globalThis[Symbol.for("jp_nb.waiting")] ??= new Set());

function markTitle() {
  const unmarked = document.title.startsWith(MARK)
    ? document.title.slice(MARK.length)
    : document.title;
  const alive = [...waiting].some((el) => !el.closest(".jupyter-widgets-disconnected"));
  const title = alive ? MARK + unmarked : unmarked;
  if (title !== document.title) document.title = title;
}

function passwordField() {
  const field = document.createElement("input");
  field.type = "password";
  field.autocomplete = "off";
  field.className = "jp-nb-secret";
  field.setAttribute("aria-label", "Secret");
  return field;
}

// What a control shows, by the names that its answer is read by.
function shownBy(control, el) {
  const shown = {};
  for (const name of ["index", "value", "picks", "custom"]) {
    const state = control.get(name);
    if (state !== undefined) shown[name] = state;
  }
  // Half a date is none for its widget, and yet somebody began to enter one.
  if (el.querySelector("input[type=date]")?.validity.badInput) shown.value = "unfinished";
  return shown;
}

// Whether somebody seems to be typing elsewhere. An empty cell below is where Shift+Enter leads.
function focusIsTaken(root) {
  const active = document.activeElement;
  if (!active || active === document.body) return false;
  const panel = ".jp-MainAreaWidget, .jp-Dialog";
  if (active.closest(panel) !== root.closest(panel)) return true;
  const editor = active.closest("input, textarea, select, [contenteditable='true']");
  return Boolean(editor && (editor.value ?? editor.textContent).trim());
}

function keepInView(root) {
  const until = performance.now() + KEEP_IN_VIEW_MS;
  const look = () => {
    if (performance.now() > until || !root.contains(document.activeElement)) watcher.disconnect();
    else root.scrollIntoView({ block: "nearest" });
  };
  const watcher = new ResizeObserver(look);
  watcher.observe(root.parentElement); // this calls it a first time, too
  return watcher;
}

async function render({ model, el }) {
  const secret = model.get("secret") ? passwordField() : null;
  if (secret) el.append(secret);
  el.classList.add("jp-nb-beacon");

  let root = null;
  let answer = null; // the control's model in this page: what it shows is what is submitted
  let reported = false;
  let touched = false; // whether somebody chose or typed something here
  let settled = 0;
  let timer = 0;
  let inView = null;
  const pressed = new Set(); // the keys that went down here, once the form was there to be read
  const started = performance.now();

  function submit(type = "submit") {
    const shown = answer ? shownBy(answer, root.querySelector(".jp-nb-control")) : {};
    if (secret) shown.value = secret.value;
    model.send({ ...shown, type });
  }

  function onClick(event) {
    if (event.target.closest(".jp-nb-control, .jp-nb-secret")) touched = true;
    const button = event.target.closest(".jp-nb-actions button");
    // The second click of two was meant for what the first one has taken away.
    const stray = button && event.detail > 1;
    if (!stray && !event.target.closest(".jp-nb-submit")) return;
    event.preventDefault();
    event.stopPropagation(); // one message is enough: the stock button's carries no answer
    if (!stray) submit();
  }

  // Pages look for shortcuts from what has the focus up to where they are to stop: with the mark on
  // the form alone, those for whatever has the focus would still be found.
  function onFocus({ target }) {
    target.setAttribute("data-lm-suppress-shortcuts", "true");
  }

  function onInput() {
    touched = true;
  }

  // Whether a key that chooses is one that somebody pressed with the form before their eyes.
  function isOnPurpose({ key, repeat }) {
    if (!CHOOSING.includes(key)) return true;
    if (repeat ? !pressed.has(key) : performance.now() < settled) return false;
    pressed.add(key);
    return true;
  }

  function moveAmongButtons(target, key) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
    if (!step || (target !== root && !target.closest(".jp-nb-actions"))) return false;
    const buttons = [...root.querySelectorAll(".jp-nb-actions button")];
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
    if (key === " " && target.closest(".jp-nb-control")) touched = true; // of what is chosen already
    // A control may take a key for itself, such as a filter that Escape empties.
    const offer = { bubbles: true, cancelable: true, detail: key };
    if (!target.dispatchEvent(new CustomEvent("jp-nb-key", offer))) {
      event.preventDefault();
    } else if (key === "Escape") {
      event.preventDefault();
      model.send({ type: "cancel" });
    } else if (moveAmongButtons(target, key)) {
      event.preventDefault();
    } else if (key === "Enter" || (key === " " && target === root)) {
      const everywhere = event.ctrlKey || event.metaKey;
      const native = target.matches("textarea, summary") || target.closest(".jp-nb-actions");
      if (native && !everywhere) return;
      event.preventDefault();
      submit(touched ? "submit" : "unchosen");
    }
  }

  function onKeyUp(event) {
    event.stopPropagation();
    // A space bar presses a button when it comes up, wherever it went down.
    if (!pressed.delete(event.key) && event.key === " ") event.preventDefault();
  }

  const heard = Object.entries({
    keydown: onKey,
    keyup: onKeyUp,
    focusin: onFocus,
    input: onInput,
    click: onClick,
  });

  function focusFirst() {
    if (focusIsTaken(root)) return;
    const first =
      secret ??
      root.querySelector(".jp-nb-control input:checked") ??
      root.querySelector(".jp-nb-control :is(input, select, textarea)") ??
      root; // buttons that act at once: beside them there is nothing that a key would choose
    settled = performance.now() + SETTLE_MS;
    first.focus({ preventScroll: true }); // what stands above is to be read, too
    inView = keepInView(root);
  }

  function label() {
    const question = root.querySelector(".jp-nb-question")?.textContent ?? "";
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", question);
    root.querySelector(".jp-nb-note")?.setAttribute("role", "status");
    for (const field of root.querySelectorAll(`.jp-nb-control :is(${NAMELESS})`)) {
      field.setAttribute("aria-label", question);
    }
    for (const [name, mode] of [["integer", "numeric"], ["number", "decimal"]]) {
      const box = root.querySelector(`.jp-nb-${name} input`);
      if (box) box.inputMode = mode;
    }
    const radios = root.querySelector(".widget-radio-box");
    radios?.setAttribute("role", "radiogroup");
    radios?.setAttribute("aria-label", question);
    const group = `jp-nb-${Math.random()}`; // the stock ones are a group of their own each
    for (const radio of radios?.querySelectorAll("input") ?? []) radio.name = group;
  }

  function wire() {
    label();
    root.tabIndex = -1;
    for (const [type, listener] of heard) {
      root.addEventListener(type, listener, { capture: true }); // stock text fields keep theirs
    }
    focusFirst();
  }

  function report() {
    if (!reported) model.send({ type: "rendered" });
    reported = true;
  }

  function look() {
    root = el.closest(".jp-nb-form");
    const shown = root?.isConnected && root.querySelector(".jp-nb-actions button");
    if (shown) {
      wire();
      report();
      return;
    }
    const patient = performance.now() - started > DETACHED_MS;
    if (patient) report();
    timer = setTimeout(look, patient ? 200 : 10);
  }

  const control = model.get("control");
  if (control) {
    const found = model.widget_manager.get_model(control);
    if (found) answer = await found;
  }
  look();

  let observer = null;
  if (model.get("notify")) {
    waiting.add(el);
    model.on("comm_live_update", () => setTimeout(markTitle)); // the kernel went away
    markTitle();
    const title = document.querySelector("title");
    if (title) {
      observer = new MutationObserver(markTitle); // the page names itself after its active tab
      observer.observe(title, { childList: true });
    }
  }

  return () => {
    clearTimeout(timer);
    observer?.disconnect();
    waiting.delete(el);
    markTitle();
    inView?.disconnect();
    for (const [type, listener] of heard) root?.removeEventListener(type, listener, { capture: true });
  };
}

export default { render };
