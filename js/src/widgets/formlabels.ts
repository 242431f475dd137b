/** Names, descriptions, and states of a form's elements, for screen readers. */

import { FIELD } from './formmodel';

const KEYBOARDS = { integer: 'numeric', number: 'decimal' }; // keyboard of a phone, by answer type

let ids = 0;

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
      // Also while the name is scrolled out of view, when some tools take it for hidden.
      each.setAttribute('aria-label', name?.textContent ?? '');
    }
    if (about.length) {
      each.setAttribute('aria-describedby', about.map(ensureId).join(' '));
    }
    if (each.getAttribute('role') !== 'group') {
      each.setAttribute('aria-required', String(field.matches('.jp-nb-needed')));
    }
  }
}

export class FormLabels {
  /** `onAnswer` is called when the kernel shows a note or a problem. */
  constructor(private readonly onAnswer: () => void) {}

  dispose(): void {
    this.problemWatcher?.disconnect();
    this.toggleWatcher?.disconnect();
  }

  /** Label the present step. */
  label(root: HTMLElement): void {
    root.setAttribute('role', 'group');
    root.setAttribute('aria-label', root.querySelector('.jp-nb-question')?.textContent ?? '');
    root.querySelector('.jp-nb-progress')?.setAttribute('role', 'status');

    this.problemWatcher?.disconnect();
    this.problemWatcher = new MutationObserver(() => {
      this.onAnswer(); // the kernel has answered
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

  private problemWatcher: MutationObserver | null = null;
  private toggleWatcher: MutationObserver | null = null;
}
