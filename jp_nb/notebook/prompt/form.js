// The part of a form that runs in the page: says that a page shows it, turns keys into answers,
// and takes secrets, whose text must not enter any widget's state.

const SETTLE_MS = 300; // keys that were meant for what had the focus before
const DETACHED_MS = 1000; // a cell scrolled out of a virtual list is not attached for long
const MARK = "● ";

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

// Whether somebody seems to be typing elsewhere. An empty cell below is where Shift+Enter leads.
function focusIsTaken(root) {
  const active = document.activeElement;
  if (!active || active === document.body) return false;
  const panel = ".jp-MainAreaWidget, .jp-Dialog";
  if (active.closest(panel) !== root.closest(panel)) return true;
  const editor = active.closest("input, textarea, select, [contenteditable='true']");
  return Boolean(editor && (editor.value ?? editor.textContent).trim());
}

async function render({ model, el }) {
  const secret = model.get("secret") ? passwordField() : null;
  if (secret) el.append(secret);
  el.classList.add("jp-nb-beacon");

  let root = null;
  let answer = null; // the control's model in this page: what it shows is what is submitted
  let reported = false;
  let settled = 0;
  let timer = 0;
  const started = performance.now();

  function submit() {
    const message = { type: "submit" };
    if (secret) message.value = secret.value;
    else if (answer?.get("index") !== undefined) message.index = answer.get("index");
    else if (answer?.get("value") !== undefined) message.value = answer.get("value");
    model.send(message);
  }

  function onClick(event) {
    if (!event.target.closest(".jp-nb-submit")) return;
    event.stopPropagation(); // one message is enough: the stock button's carries no answer
    submit();
  }

  function onKey(event) {
    event.stopPropagation(); // the page's own shortcuts are for cells
    if (event.isComposing) return;
    const { key, target } = event;
    if (performance.now() < settled && ["Enter", " ", "Escape"].includes(key)) {
      event.preventDefault();
    } else if (key === "Escape") {
      event.preventDefault();
      model.send({ type: "cancel" });
    } else if (key === "Enter" && (answer || secret)) {
      const everywhere = event.ctrlKey || event.metaKey;
      const native = target.matches("textarea") || target.closest(".jp-nb-actions");
      if (native && !everywhere) return;
      event.preventDefault();
      if (target.matches(".widget-toggle-button")) target.click();
      submit();
    }
  }

  function focusFirst() {
    if (focusIsTaken(root)) return;
    const first =
      secret ??
      root.querySelector(
        ".jp-nb-control .mod-active, .jp-nb-control input:checked, .jp-nb-default",
      ) ??
      root.querySelector(".jp-nb-control :is(input, select, textarea, button)") ??
      root; // buttons that act at once and no default: nothing that Enter would press
    settled = performance.now() + SETTLE_MS;
    first.focus();
  }

  function wire() {
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", root.querySelector(".jp-nb-question")?.textContent ?? "");
    root.setAttribute("data-lm-suppress-shortcuts", "true");
    root.tabIndex = -1;
    root.addEventListener("keydown", onKey, { capture: true }); // stock text fields keep theirs
    root.addEventListener("click", onClick, { capture: true });
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
    root?.removeEventListener("keydown", onKey, { capture: true });
    root?.removeEventListener("click", onClick, { capture: true });
  };
}

export default { render };
