/** The user's visits to the forms of this page: the focus before a form, and after it. */

import { shareInPage } from './anymodel';

/** The user's visit to a form of this page. */
export interface IVisit {
  /** True if the last focus or click was in a form. */
  isInside: boolean;
  notebook: Element | null;
  cell: Element | null;
  /** The cell that was selected before, or the focused element without cells. */
  origin: HTMLElement | null;
  lastKey: number;
}

export const visit = shareInPage('jp_nb.visit', followFocus);

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
export function leaveClosedForm(root: Element): void {
  const active = document.activeElement;
  const isElsewhere = active && active !== document.body && !root.contains(active);
  if (!visit.isInside || isElsewhere) {
    return;
  }

  visit.isInside = false;
  visit.cell = null;
  visit.origin?.focus({ preventScroll: true });
}

/**
 * Return true if the user seems to type elsewhere.
 *
 * An empty editor does not count, because Shift+Enter moves the focus to a new cell. Another form of
 * the notebook does not count either: a notebook shows one at a time, so it is closed, and the page
 * will remove it.
 */
export function isFocusTaken(root: Element): boolean {
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
