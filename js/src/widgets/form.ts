/**
 * The part of a form that runs in the page.
 *
 * It reports that the form is visible, sends keys and clicks together with the state of the
 * controls, and manages the focus. `FormBridge` in `jp_nb/notebook/prompt/form_bridge.py` describes
 * the messages.
 */

import { identify, shareInPage, type IAnyModel, type IView } from './anymodel';
import { findStep, KeyGuard } from './keys';
import { computeScroll } from './scrolling';
import { stepAround } from './selection';

interface IFormState {
  controls: string[];
  screen: string;
  step: number;
  timed: boolean;
  notify: boolean;
  only_buttons: boolean;
  cells: object[];
  layout: object | undefined;
}

/** The model of a control, of any widget. */
interface IControlModel {
  get(name: string): unknown;
}

interface IFormModel extends IAnyModel<IFormState> {
  widget_manager: { get_model(id: string): Promise<IControlModel> };
}

/** The user's visit to a form of this page. */
interface IVisit {
  /** True if the last focus or click was in a form. */
  isInside: boolean;
  notebook: Element | null;
  cell: Element | null;
  /** The cell that was selected before, or the focused element without cells. */
  origin: HTMLElement | null;
  lastKey: number;
}

interface IMessage {
  type?: string;
  header?: string;
  tag?: string;
  field?: number;
}

const SETTLE_MS = 300; // ignore keys that were meant for the previous focus
const KEEP_IN_VIEW_MS = 2000; // the outputs above the form are drawn later
const DETACHED_MS = 1000; // then report the form anyway: its cell may be out of view and detached
const LOOK_MS = 10; // between looks at a form that the page draws
const PATIENT_MS = 200; // between looks at a form that the page has not drawn for long
const TYPING_MS = 1000; // a user who pressed a key within this time may still be typing
const CLOSING_MS = 1000; // a closed form loses its view first, and its comm shortly after
const FOCUS_MS = 200; // between looks at a focus that the page has lost
const SENT_MS = 700; // an idle kernel has answered by then

const WRITING = 'textarea, input:not([type=radio], [type=checkbox])';
const TEXT_BOX = 'textarea, input:not([type=radio], [type=checkbox], [type=search])';
const FIELD = `${TEXT_BOX}, select`;
const BUTTON = '.jp-nb-actions button, .jp-nb-summary button, .jp-nb-item .widget-button';
const OPENING = '.jp-nb-open'; // the link that opens the address of a question
const STATE = ['index', 'value', 'picks', 'custom'];
const KEYBOARDS = { integer: 'numeric', number: 'decimal' }; // keyboard of a phone, by answer type

const MARK = '● ';
const SENT = 'Sent. The kernel is busy and will read it when it is free.';
const WAITS = 'A notebook is waiting for your answer';

const waiting = shareInPage('jp_nb.waiting', () => new Set<Element>());
// The step that the user touched, by layout model. A page may draw a form again.
const touchedSteps = shareInPage('jp_nb.touched', () => new WeakMap<object, number>());
const visit = shareInPage('jp_nb.visit', followFocus);
let ids = 0;

function followFocus(): IVisit {
  const visit: IVisit = {
    isInside: false,
    notebook: null,
    cell: null,
    origin: null,
    lastKey: -Infinity
  };

  const note = (event: Event) => {
    const target = event.target instanceof Element ? event.target : null;
    const form = target?.closest('.jp-nb-form') ?? null;
    const notebook = form?.closest('.jp-Notebook') ?? null;

    if (form && !(visit.isInside && visit.notebook === notebook)) {
      const related = event instanceof FocusEvent ? event.relatedTarget : null;
      const selected = notebook?.querySelector('.jp-Cell.jp-mod-active') ?? related;
      const cell = form.closest('.jp-Cell');
      // The focus selects the cell of the form, so a second visit does not start there.
      if (selected !== cell || visit.cell !== cell) {
        visit.origin = selected instanceof HTMLElement ? selected : null;
      }
      visit.cell = cell;
      visit.notebook = notebook;
    }

    visit.isInside = Boolean(form);
  };

  // In this phase, the notebook has not yet selected the cell of the form.
  for (const event of ['focusin', 'pointerdown']) {
    document.addEventListener(event, note, true);
  }
  const noteKey = () => {
    visit.lastKey = performance.now();
  };
  document.addEventListener('keydown', noteKey, true);
  return visit;
}

/**
 * Select the cell from before the visit, in command mode, if the user is nowhere else.
 *
 * Otherwise, the focus would stay on the body, where the notebook receives no key.
 */
function leaveClosedForm(root: Element): void {
  const active = document.activeElement;
  const isElsewhere = active && active !== document.body && !root.contains(active);
  if (!visit.isInside || isElsewhere) {
    return;
  }

  visit.isInside = false;
  visit.cell = null;
  visit.origin?.focus({ preventScroll: true });
}

function markTitle(): void {
  const unmarked = getUnmarkedTitle();
  const isAlive = [...waiting].some(el => !el.closest('.jupyter-widgets-disconnected'));
  const title = isAlive ? MARK + unmarked : unmarked;
  if (title !== document.title) {
    document.title = title;
  }
}

function getUnmarkedTitle(): string {
  return document.title.startsWith(MARK) ? document.title.slice(MARK.length) : document.title;
}

/** Return the state of a control, by the names of its traits. */
function readState(control: IControlModel | null, box?: Element): Record<string, unknown> {
  const secret = box?.querySelector<HTMLInputElement>('.jp-nb-secret');
  if (secret) {
    return { value: secret.value };
  }

  const state: Record<string, unknown> = {};
  for (const name of STATE) {
    const value = control?.get(name);
    if (value !== undefined) {
      state[name] = value;
    }
  }

  // An incomplete date has no value in its widget, but the user started to enter one.
  const date = box?.querySelector<HTMLInputElement>('input[type=date]');
  if (date?.validity.badInput) {
    state.value = 'unfinished';
  }
  return state;
}

/**
 * Return true if the user seems to type elsewhere.
 *
 * An empty editor does not count, because Shift+Enter moves the focus to a new cell. Another form of
 * the notebook does not count either: a notebook shows one at a time, so it is closed, and the page
 * will remove it.
 */
function isFocusTaken(root: Element): boolean {
  const active = document.activeElement;
  if (!active || active === document.body || root.contains(active)) {
    return false;
  }

  const panel = '.jp-MainAreaWidget, .jp-Dialog';
  if (active.closest(panel) !== root.closest(panel)) {
    return true;
  }

  if (active.closest('.jp-nb-form')) {
    return false;
  }

  const editor = active.closest<HTMLInputElement>(
    "input, textarea, select, [contenteditable='true']"
  );
  return Boolean(editor && (editor.value ?? editor.textContent ?? '').trim());
}

function findScroller(element: Element): Element | null {
  for (let each = element.parentElement; each; each = each.parentElement) {
    const isScrolling = /auto|scroll/.test(getComputedStyle(each).overflowY);
    if (isScrolling && each.scrollHeight > each.clientHeight) {
      return each;
    }
  }
  return null;
}

/** Scroll to the form, with as much of its cell above it as fits. */
function showWithCell(root: Element): void {
  root.scrollIntoView({ block: 'nearest' }); // also in a scrolling output
  const cell = root.closest('.jp-Cell');
  const scroller = cell && findScroller(cell);
  if (!cell || !scroller) {
    return;
  }

  const view = scroller.getBoundingClientRect();
  const form = root.getBoundingClientRect();
  scroller.scrollTop += computeScroll(view, form, cell.getBoundingClientRect().top);
}

/** Keep the form in view while the page draws, until the user scrolls. */
function keepInView(root: HTMLElement, focused: Element): ResizeObserver {
  const until = performance.now() + KEEP_IN_VIEW_MS;
  const watcher = new ResizeObserver(() => {
    if (performance.now() > until || !root.contains(document.activeElement)) {
      watcher.disconnect();
      return;
    }
    showWithCell(root);
    if (focused !== root) {
      focused.scrollIntoView({ block: 'nearest' });
    }
  });

  // This also calls it once at the start.
  for (const each of [root.parentElement, root.closest('.jp-Cell')]) {
    if (each) {
      watcher.observe(each);
    }
  }
  const ownScroll = { once: true, passive: true };
  root.ownerDocument.addEventListener('wheel', () => watcher.disconnect(), ownScroll);
  return watcher;
}

/** Call back if `root` is not visible: the page is hidden, or the form is out of view. */
function callIfUnseen(root: Element | null, call: () => void): void {
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

/** Return the action of a button, from its class `jp-nb-do-…`. */
function getAction(button: Element | null): string | undefined {
  const name = [...(button?.classList ?? [])].find(each => each.startsWith('jp-nb-do-'));
  return name?.slice('jp-nb-do-'.length);
}

function ensureId(element: Element | null): string {
  if (!element) {
    return '';
  }
  element.id ||= `jp-nb-${(ids += 1)}-${Math.random().toString(36).slice(2)}`;
  return element.id;
}

/**
 * Set the accessible name and description of a control from its field or the question.
 *
 * The list of `choices.ts` already has a name.
 */
function labelControl(box: Element, root: Element): void {
  const field = box.closest('.jp-nb-field') ?? root;
  const name =
    field.querySelector('.jp-nb-field-name bdi') ?? root.querySelector('.jp-nb-question bdi');
  const about = [...field.querySelectorAll('.jp-nb-about, .jp-nb-hint, .jp-nb-problem')];
  const group = box.querySelector(':is(.widget-radio-box, [role=group], [role=radiogroup])');

  if (group?.matches('.widget-radio-box')) {
    group.setAttribute('role', 'radiogroup');
    group.setAttribute('aria-labelledby', ensureId(name));
    const shared = `${ensureId(group)}-option`; // each stock radio button is its own group
    for (const radio of group.querySelectorAll('input')) {
      radio.name = shared;
    }
  }

  for (const [kind, mode] of Object.entries(KEYBOARDS)) {
    const input = box.querySelector('input');
    if (input && box.matches(`.jp-nb-${kind}`)) {
      input.inputMode = mode;
    }
  }

  for (const each of group ? [group] : box.querySelectorAll(FIELD)) {
    if (!each.matches('[aria-label], [aria-labelledby]')) {
      each.setAttribute('aria-labelledby', ensureId(name));
    }
    if (about.length) {
      each.setAttribute('aria-describedby', about.map(ensureId).join(' '));
    }
    if (each.getAttribute('role') !== 'group') {
      each.setAttribute('aria-required', String(field.matches('.jp-nb-needed')));
    }
  }
}

function firstIn(box: Element | null | undefined): HTMLElement | null {
  return (
    box?.querySelector<HTMLElement>('input:checked') ??
    box?.querySelector<HTMLElement>(`input, ${FIELD}`) ??
    null
  );
}

/** A form that the page shows, with the models of the controls of its current step. */
interface IShown {
  root: HTMLElement;
  step: number;
  controls: (IControlModel | null)[];
}

/** The view of one form. */
class FormView {
  constructor(
    private readonly model: IFormModel,
    private readonly el: HTMLElement
  ) {
    this.identity = identify(model);
    el.classList.add('jp-nb-beacon');
    model.on('change:step', this.turn);
    model.on('msg:custom', this.onMessage);
    this.look();

    if (model.get('notify')) {
      this.announceInTitle();
    }
  }

  dispose(): void {
    this.isDisposed = true;
    clearTimeout(this.timer);
    clearTimeout(this.sentTimer);
    this.sent?.remove();
    this.tellCells([]);
    const root = this.root;
    if (root) {
      this.leaveOnceClosed(root);
    }

    this.model.off('change:step', this.turn);
    this.model.off('msg:custom', this.onMessage);
    this.model.off('comm_live_update', this.markTitleSoon);
    this.titleWatcher?.disconnect();
    this.problemWatcher?.disconnect();
    this.toggleWatcher?.disconnect();
    this.notice?.close();
    waiting.delete(this.el);
    markTitle();
    this.inView?.disconnect();
    clearInterval(this.focusTimer);
    for (const [type, listener] of this.heard) {
      root?.removeEventListener(type, listener, { capture: true });
    }
  }

  // --- messages ------------------------------------------------------------------------------

  /** Send an action with the state of each control: a click can arrive before a widget's update. */
  private send(type: string | undefined): void {
    if (!this.shown) {
      return;
    }

    const { root, controls, step } = this.shown;
    const boxes = root.querySelectorAll('.jp-nb-control');
    this.actsAt = performance.now();
    const fields = controls.map((control, place) => readState(control, boxes[place]));
    const state = fields.length === 1 ? fields[0] : { fields };
    this.model.send({ ...state, type, step });
  }

  /** Show a notice if the kernel is busy, because the click would look lost. */
  private noteSent(): void {
    this.forgetSent();
    this.sentTimer = setTimeout(() => {
      if (this.sent) {
        this.sent.textContent = SENT;
      }
    }, SENT_MS);
  }

  /** Tell the lab extension which cells the form is about; none if it closes. */
  private tellCells(cells: object[]): void {
    if (this.shown && (cells.length || this.hasCells)) {
      this.hasCells = cells.length > 0;
      const detail = { view: this.el, root: this.shown.root, cells };
      document.dispatchEvent(new CustomEvent('jp-nb-cells', { detail }));
    }
  }

  private forgetSent(): void {
    clearTimeout(this.sentTimer);
    if (this.sent?.textContent) {
      this.sent.textContent = '';
    }
  }

  private touch(): void {
    if (this.shown) {
      touchedSteps.set(this.identity, this.shown.step);
    }
  }

  private get isTouched(): boolean {
    return this.shown !== null && touchedSteps.get(this.identity) === this.shown.step;
  }

  private get primary(): string {
    return getAction(this.root?.querySelector('.jp-nb-primary') ?? null) ?? 'submit';
  }

  private report(step: number): void {
    this.model.send({ type: 'rendered', step });
  }

  /** Tell that the user writes, because a deadline waits meanwhile. */
  private noteWriting(isWriting: boolean): void {
    if (isWriting !== this.isWriting && this.model.get('timed')) {
      this.isWriting = isWriting;
      this.model.send({ type: 'writing', value: isWriting });
    }
  }

  // --- input of the user -----------------------------------------------------------------------

  private readonly onClick = (event: Event): void => {
    const target = event.target as Element;
    if (target.closest('.jp-nb-control')) {
      this.touch();
    }

    const button = target.closest(BUTTON);
    if (!button) {
      return;
    }

    const action = getAction(button);
    // Ignore the second click of a double click, whose target is gone.
    const isStray = (event as MouseEvent).detail > 1;
    if (!isStray) {
      this.noteSent();
    }
    if (!isStray && !action) {
      return;
    }

    event.preventDefault();
    event.stopPropagation(); // no message from the stock button, because `send` replaces it
    if (!isStray) {
      this.send(action);
    }
  };

  private readonly onFocus = (event: Event): void => {
    const target = event.target as HTMLElement;
    this.focused = target;
    // Front ends look for shortcuts from the focused element up to the first element with this
    // attribute. So the focused element needs it, not the form.
    target.setAttribute('data-lm-suppress-shortcuts', 'true');
    if (!this.isFocusing && target.matches(TEXT_BOX)) {
      this.noteWriting(true);
    }
  };

  private readonly onBlur = (): void => {
    const secrets = this.root?.querySelectorAll<HTMLInputElement>('.jp-nb-secret') ?? [];
    this.noteWriting([...secrets].some(({ value }) => value));
  };

  private readonly onInput = (event: Event): void => {
    this.touch();
    if ((event.target as Element).matches(TEXT_BOX)) {
      this.noteWriting(true);
    }
  };

  private moveAmongButtons(root: Element, target: Element, key: string): boolean {
    const step = findStep(key);
    if (!step || (target !== root && !target.matches('button'))) {
      return false;
    }

    const all = root.querySelectorAll<HTMLButtonElement>(
      '.jp-nb-summary button, .jp-nb-actions button'
    );
    const buttons = [...all].filter(button => !button.disabled);
    const next = stepAround(buttons.indexOf(target as HTMLButtonElement), step, buttons.length);
    buttons[next]?.focus();
    return true;
  }

  private readonly onKey = (happened: Event): void => {
    const event = happened as KeyboardEvent;
    event.stopPropagation(); // the page's own shortcuts are for cells
    const root = this.root;
    if (event.isComposing || !root) {
      return;
    }

    const { key, repeat } = event;
    const target = event.target as HTMLElement;
    const press = { repeat, isText: target.matches(WRITING), now: performance.now() };
    if (!this.keys.isOnPurpose(key, press)) {
      event.preventDefault();
      return;
    }

    if (key === ' ' && target.closest('.jp-nb-control')) {
      this.touch(); // it selects the current option
    }
    if (target.matches(OPENING) && (key === ' ' || key === 'Enter')) {
      if (key === ' ') {
        event.preventDefault();
        target.click(); // it looks like a button
      }
      return;
    }

    // A control may handle a key itself, such as a filter that Escape clears.
    const offer = { bubbles: true, cancelable: true, detail: key };
    if (!target.dispatchEvent(new CustomEvent('jp-nb-key', offer))) {
      event.preventDefault();
    } else if (key === 'Escape') {
      event.preventDefault();
      this.onEscape();
    } else if (this.moveAmongButtons(root, target, key)) {
      event.preventDefault();
    } else if (key === 'Enter' || (key === ' ' && target === root)) {
      this.onEnter(event, target);
    }
  };

  private onEscape(): void {
    if (this.model.get('only_buttons')) {
      this.leave();
    } else {
      this.send('cancel');
    }
  }

  private onEnter(event: KeyboardEvent, target: Element): void {
    const isEverywhere = event.ctrlKey || event.metaKey;
    const isNative = target.matches('textarea, summary') || target.closest('button');
    if (isNative && !isEverywhere) {
      return;
    }

    event.preventDefault();
    this.send(this.isTouched ? this.primary : 'unchosen');
    if (this.isTouched) {
      this.noteSent();
    }
  }

  private readonly onKeyUp = (happened: Event): void => {
    const event = happened as KeyboardEvent;
    event.stopPropagation();
    // Browsers press the focused button when the space bar is released, wherever it went down.
    if (!this.keys.release(event.key) && event.key === ' ') {
      event.preventDefault();
    }
  };

  /**
   * Leave the form once its comm is closed: a page may remove a form only to draw it again.
   *
   * Keys of a user who still types, while the form ends without a click, must not become shortcuts
   * of the notebook.
   */
  private leaveOnceClosed(root: Element): void {
    const removed = performance.now();
    const isSent = this.actsAt >= visit.lastKey;
    const look = () => {
      const now = performance.now();
      const isOpen = (this.identity as { comm?: unknown }).comm && now < removed + CLOSING_MS;
      const isTyping = !isSent && now < visit.lastKey + TYPING_MS;
      if (isOpen || isTyping) {
        setTimeout(look, 10);
      } else {
        leaveClosedForm(root);
      }
    };
    setTimeout(look);
  }

  /** Return the focus to the cell, or to the page without cells. The form stays open. */
  private leave(): void {
    const root = this.root;
    this.inView?.disconnect();
    root?.closest<HTMLElement>('.jp-Cell')?.focus({ preventScroll: true });
    const active = document.activeElement;
    if (active instanceof HTMLElement && root?.contains(active)) {
      active.blur();
    }
    visit.isInside = false;
  }

  // --- current step ----------------------------------------------------------------------------

  private focusOn(root: HTMLElement, element: HTMLElement): void {
    this.isFocusing = true;
    element.focus({ preventScroll: true }); // the user must see the text above it
    this.isFocusing = false;
    this.inView?.disconnect();
    this.inView = keepInView(root, element);
  }

  private focusFirst(root: HTMLElement): void {
    if (isFocusTaken(root)) {
      return;
    }

    this.keys.settle(performance.now() + SETTLE_MS);
    // A form with only buttons gets the focus itself, so that no key presses a button.
    this.focusOn(root, this.findFirst(root));
  }

  private findFirst(root: HTMLElement): HTMLElement {
    if (this.model.get('only_buttons')) {
      return root;
    }
    return firstIn(root.querySelector('.jp-nb-control')) ?? root;
  }

  /** Move the focus to the next page if it was on the previous one. */
  private focusNext(root: HTMLElement): void {
    const active = document.activeElement;
    if (!active || active === document.body || root.contains(active)) {
      this.focusOn(root, this.findFirst(root));
    }
  }

  /**
   * Focus the form again after the page detached and attached its cell.
   *
   * JupyterLab does so when it scrolls or resizes a long notebook. Nothing has the focus then, and
   * the keys of the user would be lost. Browsers report neither this nor a change of the size.
   */
  private readonly regainFocus = (): void => {
    const root = this.root;
    const isFocusLost = !document.activeElement || document.activeElement === document.body;
    if (!root || !isFocusLost) {
      return;
    }

    const wasInNotebook = visit.isInside && visit.notebook === root.closest('.jp-Notebook');
    const isAttached = root.offsetHeight > 0;
    if (wasInNotebook && isAttached && root.contains(this.focused)) {
      this.focused?.focus({ preventScroll: true });
    }
  };

  private label(root: HTMLElement): void {
    root.setAttribute('role', 'group');
    root.setAttribute('aria-label', root.querySelector('.jp-nb-question')?.textContent ?? '');
    root.querySelector('.jp-nb-progress')?.setAttribute('role', 'status');

    this.problemWatcher?.disconnect();
    this.problemWatcher = new MutationObserver(() => {
      this.forgetSent(); // the kernel has answered
      this.markProblems(root);
    });
    for (const said of root.querySelectorAll('.jp-nb-note, .jp-nb-problem')) {
      said.setAttribute('role', 'status');
      this.problemWatcher.observe(said, { childList: true, subtree: true });
    }

    for (const box of root.querySelectorAll('.jp-nb-control')) {
      labelControl(box, root);
    }
    this.markProblems(root);
    this.watchToggles(root);
  }

  /** Tell screen readers which buttons show and hide a part of the form, and if it is open. */
  private watchToggles(root: HTMLElement): void {
    const toggles = [...root.querySelectorAll('.jp-nb-toggle')];
    const mark = () => {
      for (const toggle of toggles) {
        toggle.setAttribute('aria-expanded', String(toggle.matches('.jp-nb-expanded')));
      }
    };

    this.toggleWatcher?.disconnect();
    this.toggleWatcher = new MutationObserver(mark);
    for (const toggle of toggles) {
      this.toggleWatcher.observe(toggle, { attributeFilter: ['class'] });
    }
    mark();
  }

  private markProblems(root: Element): void {
    for (const field of root.querySelectorAll('.jp-nb-field')) {
      const isWrong = Boolean(field.querySelector('.jp-nb-problem')?.textContent?.trim());
      const boxes = field.querySelectorAll(':is(input, textarea, select, [role=radiogroup])');
      for (const box of boxes) {
        if (box.matches('[aria-required]')) {
          box.setAttribute('aria-invalid', String(isWrong));
        }
      }
    }
  }

  /** Return the form if the page has drawn all of its current step. */
  private findDrawn(): HTMLElement | null {
    const root = this.el.closest<HTMLElement>('.jp-nb-form');
    if (!root?.isConnected || !root.querySelector('.jp-nb-actions button')) {
      return null;
    }

    this.root = root;
    const screen = this.model.get('screen');
    if (screen && !root.getElementsByClassName(screen).length) {
      return null;
    }

    const boxes = [...root.querySelectorAll('.jp-nb-control')];
    const isWhole = boxes.length === this.model.get('controls').length && boxes.every(firstIn);
    return isWhole ? root : null;
  }

  /**
   * Return the models of the controls; null if one of them cannot be loaded yet.
   *
   * A control whose model cannot be loaded at all gets none, so that the user can answer with keys
   * and buttons: the kernel then uses the state that the widget has sent.
   */
  private async loadControls(): Promise<(IControlModel | null)[] | null> {
    const { model } = this;
    const loaded = await Promise.allSettled(
      model.get('controls').map(async id => (id ? model.widget_manager.get_model(id) : null))
    );

    const failed = loaded.filter(each => each.status === 'rejected');
    if (failed.length && !this.hasWaited) {
      return null;
    }
    for (const { reason } of failed) {
      console.warn('jp_nb: The model of a control was not loaded.', reason);
    }
    return loaded.map(each => (each.status === 'fulfilled' ? each.value : null));
  }

  private async arrange(): Promise<void> {
    const { model } = this;
    const step = model.get('step');
    const controls = await this.loadControls();
    if (this.isDisposed) {
      return;
    }

    const root = this.findDrawn();
    if (!controls || !root || step !== model.get('step')) {
      this.timer = setTimeout(this.look, LOOK_MS); // the step or the page changed in the meantime
      return;
    }

    const isFirst = this.shown === null;
    this.shown = { root, step, controls };
    this.keys.reset();
    this.isWriting = false;
    this.forgetSent();
    this.label(root);
    if (isFirst) {
      this.wire(root);
    } else {
      this.focusNext(root);
    }
    this.tellCells(model.get('cells') ?? []);
    this.report(step);
  }

  private wire(root: HTMLElement): void {
    root.tabIndex = -1;
    this.sent = document.createElement('div');
    this.sent.className = 'jp-nb-sent';
    this.sent.setAttribute('role', 'status');
    root.append(this.sent);
    for (const [type, listener] of this.heard) {
      root.addEventListener(type, listener, { capture: true }); // stock text fields stop events
    }
    this.focusFirst(root);
    this.focusTimer = setInterval(this.regainFocus, FOCUS_MS);
  }

  private readonly look = (): void => {
    clearTimeout(this.timer);
    if (this.findDrawn()) {
      void this.arrange();
      return;
    }

    if (!this.isPatient && this.hasWaited) {
      this.isPatient = true;
      this.report(this.model.get('step'));
    }
    this.timer = setTimeout(this.look, this.isPatient ? PATIENT_MS : LOOK_MS);
  };

  /** True if the page had time to draw the step. */
  private get hasWaited(): boolean {
    return performance.now() - this.started > DETACHED_MS;
  }

  private readonly turn = (): void => {
    this.started = performance.now();
    this.isPatient = false;
    this.look();
  };

  // --- notifications ---------------------------------------------------------------------------

  private announceInTitle(): void {
    waiting.add(this.el);
    this.model.on('comm_live_update', this.markTitleSoon); // the kernel is gone
    markTitle();
    const title = document.querySelector('title');
    if (title) {
      this.titleWatcher = new MutationObserver(markTitle); // the title follows the active tab
      this.titleWatcher.observe(title, { childList: true });
    }
  }

  private readonly markTitleSoon = (): void => {
    setTimeout(markTitle);
  };

  private announce({ header, tag }: IMessage): void {
    if (globalThis.Notification?.permission !== 'granted') {
      return;
    }

    callIfUnseen(this.root, () => {
      if (this.isDisposed) {
        return;
      }

      const body = [header, getUnmarkedTitle()].filter(Boolean).join(' · ');
      let notice: Notification;
      try {
        // The tag gives one notification for all pages that show the form.
        notice = new Notification(WAITS, { body, tag });
      } catch {
        return; // some browsers allow notifications only from service workers
      }

      this.notice = notice;
      notice.onclick = () => {
        window.focus();
        this.root?.scrollIntoView({ block: 'nearest' });
        notice.close();
      };
    });
  }

  private readonly onMessage = (message: IMessage): void => {
    switch (message.type) {
      case 'announce':
        this.announce(message);
        break;
      case 'heard':
        this.forgetSent();
        break;
      case 'focus':
        this.focusField(message.field ?? 0);
        break;
    }
  };

  private focusField(field: number): void {
    const root = this.root;
    if (!root?.contains(document.activeElement)) {
      return;
    }

    const found = firstIn(root.querySelectorAll('.jp-nb-control')[field]);
    if (found) {
      this.focusOn(root, found);
    }
  }

  private hasCells = false;
  private readonly identity: object;
  private readonly keys = new KeyGuard();
  private readonly heard: [string, (event: Event) => void][] = [
    ['keydown', this.onKey],
    ['keyup', this.onKeyUp],
    ['focusin', this.onFocus],
    ['focusout', this.onBlur],
    ['input', this.onInput],
    ['click', this.onClick]
  ];
  private root: HTMLElement | null = null;
  private shown: IShown | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private sentTimer: ReturnType<typeof setTimeout> | undefined;
  private sent: HTMLElement | null = null;
  private inView: ResizeObserver | null = null;
  private focusTimer: ReturnType<typeof setInterval> | undefined;
  private focused: HTMLElement | null = null;
  private problemWatcher: MutationObserver | null = null;
  private toggleWatcher: MutationObserver | null = null;
  private titleWatcher: MutationObserver | null = null;
  private notice: Notification | null = null;
  private isDisposed = false;
  private isWriting = false;
  private isFocusing = false;
  private isPatient = false;
  private actsAt = -Infinity;
  private started = performance.now();
}

function render({ model, el }: IView<IFormState>): () => void {
  const view = new FormView(model as IFormModel, el);
  return () => view.dispose();
}

export default { render };
