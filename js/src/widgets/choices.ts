/**
 * A list of radio buttons or checkboxes with descriptions, and a row for the user's own text.
 *
 * Labels and descriptions are untrusted, so they reach the page only as text nodes.
 */

import type { IAnyModel, IView } from './anymodel';
import {
  describeCounts,
  isPicked,
  normalizeForSearch,
  select,
  sift,
  splitSearch,
  stepAround,
  type ISelection
} from './selection';

interface IOption {
  label: string;
  description: string;
}

interface IChoicesState extends ISelection {
  question: string;
  options: IOption[];
  multi: boolean;
  wanted: string;
  recommended: number | null;
  other: string;
  optional: boolean;
  draft: string;
  search: string;
  writing: boolean;
}

const FILTER_FROM = 9; // options; a shorter list needs no filter
const MAX_OWN_ROWS = 8;
const RECOMMENDED = '(recommended)';
const STATE = 'change:picks change:custom change:draft change:search';

function createElement<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  properties: Partial<HTMLElementTagNameMap[Name]> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const created = Object.assign(document.createElement(name), properties);
  created.append(...children);
  return created;
}

function createLabel(option: IOption, isRecommended: boolean): HTMLElement {
  const text = createElement('bdi', { dir: 'auto' }, option.label);
  const label = createElement('span', { className: 'jp-nb-option-label' }, text);
  if (!isRecommended) {
    return label;
  }

  if (!option.label.toLowerCase().endsWith(RECOMMENDED)) {
    label.append(` ${RECOMMENDED}`);
  }
  const star = createElement('span', { className: 'jp-nb-star' }, ' ★');
  star.setAttribute('aria-hidden', 'true');
  label.append(star);
  return label;
}

/** One option: its row, its radio button or checkbox, and the text that the filter searches. */
interface IRow {
  row: HTMLElement;
  input: HTMLInputElement;
  key: string;
}

function createRow(
  option: IOption,
  {
    type,
    name,
    id,
    isRecommended
  }: Record<'type' | 'name' | 'id', string> & { isRecommended: boolean }
): IRow {
  const input = createElement('input', { type, name });
  const label = createLabel(option, isRecommended);
  label.id = `${id}-label`;
  input.setAttribute('aria-labelledby', label.id);
  const texts = createElement('span', { className: 'jp-nb-option-texts' }, label);

  if (option.description) {
    const about = { className: 'jp-nb-description', id: `${id}-about`, dir: 'auto' };
    texts.append(createElement('span', about, option.description));
    input.setAttribute('aria-describedby', about.id);
  }

  const row = createElement('label', { className: 'jp-nb-option' }, input, texts);
  return { row, input, key: normalizeForSearch(`${option.label}\n${option.description}`) };
}

interface IOwnRow {
  row: HTMLElement;
  input: HTMLInputElement;
  box: HTMLTextAreaElement;
}

function createOwnRow(label: string, type: string, name: string, isAlone: boolean): IOwnRow {
  const box = createElement('textarea', { rows: 1, className: 'jp-nb-own-text' });
  box.setAttribute('aria-label', isAlone ? label : 'Your own answer');
  const row = createElement('div', { className: 'jp-nb-own' });
  const input = createElement('input', { type, name });

  if (isAlone) {
    box.placeholder = label; // there is nothing else to choose
  } else {
    row.append(createElement('label', { className: 'jp-nb-option' }, input, label));
  }
  row.append(box);
  return { row, input, box };
}

function createFilterField(): HTMLInputElement {
  const field = createElement('input', { type: 'search', className: 'jp-nb-filter' });
  field.placeholder = 'Filter the options';
  field.setAttribute('aria-label', field.placeholder);
  field.autocomplete = 'off';
  field.spellcheck = false;
  return field;
}

function createClearButton(): HTMLButtonElement {
  const textContent = 'Clear the choice';
  return createElement('button', { type: 'button', className: 'jp-nb-clear', textContent });
}

/** Set the text of a live region; screen readers would repeat an equal one. */
function say(place: HTMLElement, text: string): void {
  if (place.textContent !== text) {
    place.textContent = text;
  }
}

/** The view of one list. */
class ChoiceList {
  constructor(
    private readonly model: IAnyModel<IChoicesState>,
    private readonly el: HTMLElement
  ) {
    const id = `jp-nb-choices-${Math.random().toString(36).slice(2)}`;
    const options = model.get('options');
    this.multi = model.get('multi');
    const type = this.multi ? 'checkbox' : 'radio';
    const recommended = model.get('recommended');

    this.rows = options.map((option, index) =>
      createRow(option, {
        type,
        name: id,
        id: `${id}-${index}`,
        isRecommended: index === recommended
      })
    );
    this.keys = this.rows.map(({ key }) => key);

    const other = model.get('other');
    const isOptional = model.get('optional') && !this.multi;
    this.own = other ? createOwnRow(other, type, id, !options.length) : null;
    this.filter = options.length >= FILTER_FROM ? createFilterField() : null;
    this.clear = isOptional && options.length ? createClearButton() : null;
    this.list = createElement(
      'div',
      { className: 'jp-nb-options' },
      ...this.rows.map(({ row }) => row)
    );
    this.arrange();
    this.listen();

    if (model.get('writing')) {
      this.change({ writing: false }); // left over from an earlier view
    }
    this.draw();
  }

  dispose(): void {
    this.watcher.disconnect();
    this.model.off(STATE, this.draw);
    for (const event of ['pointerup', 'pointercancel']) {
      document.removeEventListener(event, this.release, true);
    }
  }

  private arrange(): void {
    const { el, model } = this;
    const hasOptions = this.rows.length > 0;
    const group = createElement('div', { className: 'jp-nb-choices-group' });
    group.setAttribute('role', this.multi || !hasOptions ? 'group' : 'radiogroup');
    group.setAttribute('aria-label', model.get('question'));
    const parts = [model.get('wanted'), ' ', this.shownCount, ' ', this.pickedCount];
    const counts = createElement('div', { className: 'jp-nb-counts' }, ...parts);
    counts.setAttribute('role', 'status');

    el.classList.add('jp-nb-choices');
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

  private listen(): void {
    const { el, own, filter } = this;
    this.rows.forEach(({ input }, index) => {
      input.addEventListener('change', () => this.onPick(index));
    });

    if (own) {
      this.listenToOwnText(own);
    }
    this.clear?.addEventListener('click', this.leaveOpen);
    filter?.addEventListener('input', () => this.change({ search: filter.value }));
    el.addEventListener('pointerdown', () => {
      this.isHeld = true;
    });
    el.addEventListener('focusin', this.unfold);
    el.addEventListener('focusout', () => setTimeout(this.unfold));
    for (const event of ['pointerup', 'pointercancel']) {
      document.addEventListener(event, this.release, true);
    }

    // The form offers each key to the focused control first.
    el.addEventListener('jp-nb-key', event => this.onKey(event as CustomEvent<string>));
    this.watcher.observe(this.list);
    this.model.on(STATE, this.draw);
  }

  private listenToOwnText({ input, box }: IOwnRow): void {
    input.addEventListener('change', () => {
      this.chooseOwn(input.checked);
      if (this.isHeld && this.isOwn) {
        box.focus(); // only after a click: arrow keys must keep moving
      }
    });
    // An own text replaces a single choice, or is added to a multiple choice. Without it, the
    // earlier choice is restored.
    box.addEventListener('input', () => {
      this.change({ draft: box.value, custom: box.value === '' ? null : box.value });
    });
    box.addEventListener('click', () => {
      if (box.value && !this.isOwn) {
        this.chooseOwn(true);
      }
    });
    box.addEventListener('focus', () => this.change({ writing: true }));
    box.addEventListener('blur', () => this.change({ writing: false }));
  }

  private get selection(): ISelection {
    return { picks: this.model.get('picks'), custom: this.model.get('custom') };
  }

  private get isOwn(): boolean {
    return this.model.get('custom') !== null;
  }

  private change(state: Partial<IChoicesState>): void {
    this.model.set(state);
    this.model.save_changes();
    this.draw();
  }

  private onPick(index: number): void {
    const checked = this.rows[index].input.checked;
    this.change(select(this.selection, index, { multi: this.multi, checked }));
  }

  private chooseOwn(isChosen: boolean): void {
    this.change({ custom: isChosen && this.own ? this.own.box.value : null });
  }

  private readonly leaveOpen = (): void => {
    this.change({ picks: [], custom: null });
    this.inSight()[0]?.focus(); // the focused button is hidden now
  };

  private readonly draw = (): void => {
    const { model, own, filter, clear, selection } = this;
    this.rows.forEach(({ input }, index) => {
      input.checked = isPicked(selection, index, this.multi);
    });

    if (own) {
      const text = model.get('draft');
      own.input.checked = this.isOwn;
      if (own.box.value !== text) {
        own.box.value = text;
      }
      own.box.rows = Math.min(MAX_OWN_ROWS, text.split('\n').length);
    }
    if (filter && filter.value !== model.get('search')) {
      filter.value = model.get('search');
    }
    if (clear) {
      clear.hidden = !this.isOwn && !selection.picks.length;
    }
    this.sift();
    this.unfold();
  };

  /** Hide options that do not match the filter. Selected options stay visible. */
  private sift(): void {
    const words = splitSearch(this.model.get('search'));
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
  private readonly unfold = (): void => {
    if (this.isHeld) {
      return;
    }

    const { selection } = this;
    this.rows.forEach(({ row, input }, index) => {
      const isSingle = !this.multi && isPicked(selection, index, false);
      row.classList.toggle('jp-nb-open', input === document.activeElement || isSingle);
    });
  };

  private readonly release = (): void => {
    if (!this.isHeld) {
      return;
    }

    setTimeout(() => {
      this.isHeld = false; // after the click
      this.unfold();
    });
  };

  private onKey(event: CustomEvent<string>): void {
    const { target, detail: key } = event;
    let isTaken = false;

    if (target === this.filter) {
      isTaken = this.onFilterKey(key);
    } else if (target !== this.clear) {
      isTaken = this.onListKey(target, key);
    } else if (key === 'Enter') {
      isTaken = true; // elsewhere Enter submits
      this.leaveOpen();
    }

    if (isTaken) {
      event.preventDefault();
    }
  }

  private onFilterKey(key: string): boolean {
    if (key === 'Escape' && this.filter?.value) {
      this.change({ search: '' });
    } else if (key === 'Enter' || key === 'ArrowDown') {
      this.inSight()[0]?.focus();
    } else {
      return false;
    }
    return true;
  }

  /** Arrow keys move between checkboxes, as browsers do for radio buttons. */
  private onListKey(target: EventTarget | null, key: string): boolean {
    const step = { ArrowUp: -1, ArrowDown: 1 }[key];
    if (!this.multi || !step || target === this.own?.box) {
      return false;
    }

    const inputs = this.inSight();
    const at = inputs.indexOf(target as HTMLInputElement);
    inputs[stepAround(at, step, inputs.length)]?.focus();
    return true;
  }

  private inSight(): HTMLInputElement[] {
    const found = this.rows.filter(({ row }) => !row.hidden).map(({ input }) => input);
    return this.own && this.rows.length ? [...found, this.own.input] : found;
  }

  /** Scroll to the last selected option when the list becomes visible. */
  private readonly showPicked = (): void => {
    const { list } = this;
    const before = this.height;
    this.height = list.clientHeight;
    if (before || !this.height) {
      return;
    }

    const last = this.model.get('picks').at(-1);
    const row = last === undefined ? undefined : this.rows[last]?.row;
    if (row && !row.hidden) {
      list.scrollTop = row.offsetTop - Math.max(0, (this.height - row.offsetHeight) / 2);
    }
  };

  private readonly multi: boolean;
  private readonly rows: IRow[];
  private readonly keys: string[];
  private readonly own: IOwnRow | null;
  private readonly filter: HTMLInputElement | null;
  private readonly clear: HTMLButtonElement | null;
  private readonly list: HTMLElement;
  private readonly shownCount = createElement('span');
  private readonly pickedCount = createElement('span');
  private readonly watcher = new ResizeObserver(() => this.showPicked());
  private isHeld = false;
  private height = 0;
}

function render({ model, el }: IView<IChoicesState>): () => void {
  const list = new ChoiceList(model, el);
  return () => list.dispose();
}

export default { render };
