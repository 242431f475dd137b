/** The focus in a form: when it opens, at each step, and when it closes. */

import { identify } from './anymodel';
import type { IFormElements, IFormModel } from './formmodel';
import { firstIn } from './formmodel';
import type { KeyGuard } from './keys';
import { keepInView } from './visibility';
import { isFocusTaken, leaveClosedForm, visit } from './visits';

const SETTLE_MS = 300; // ignore keys that were meant for the previous focus
const TYPING_MS = 1000; // a user who pressed a key within this time may still be typing
const CLOSING_MS = 1000; // a closed form loses its view first, and its comm shortly after
const FOCUS_MS = 200; // between looks at a focus that the page has lost

export class FormFocus {
  constructor(
    private readonly model: IFormModel,
    private readonly elements: IFormElements,
    private readonly keys: KeyGuard
  ) {
    this.identity = identify(model);
  }

  /** Focus the form that opens, and keep the focus while the page draws. */
  start(root: HTMLElement): void {
    this.focusFirst(root);
    this.focusTimer = setInterval(this.regainFocus, FOCUS_MS);
  }

  dispose(): void {
    this.inView?.disconnect();
    clearInterval(this.focusTimer);
  }

  /** Whether the form itself moves the focus, not the user. */
  isFocusing = false;

  /** Note the focused element of the form. */
  note(target: HTMLElement): void {
    this.focused = target;
  }

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
  focusNext(root: HTMLElement): void {
    const active = document.activeElement;
    if (!active || active === document.body || root.contains(active)) {
      this.focusOn(root, this.findFirst(root));
    }
  }

  /** Focus a control, as the kernel asks. */
  focusField(field: number): void {
    const root = this.elements.root;
    if (!root?.contains(document.activeElement)) {
      return;
    }

    const found = firstIn(root.querySelectorAll('.jp-nb-control')[field]);
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
  private readonly regainFocus = (): void => {
    const root = this.elements.root;
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

  /** Return the focus to the cell, or to the page without cells. The form stays open. */
  leave(): void {
    const root = this.elements.root;
    this.inView?.disconnect();
    root?.closest<HTMLElement>('.jp-Cell')?.focus({ preventScroll: true });
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
  leaveOnceClosed(root: Element, actsAt: number): void {
    const removed = performance.now();
    const isSent = actsAt >= visit.lastKey;
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

  private readonly identity: object;
  private inView: ResizeObserver | null = null;
  private focusTimer: ReturnType<typeof setInterval> | undefined;
  private focused: HTMLElement | null = null;
}
