/** The keys and clicks of the user in a form. */

import { findStep, type KeyGuard } from './keys';
import type { FormFocus } from './formfocus';
import type { FormMessages } from './formmessages';
import type { IFormElements, IFormModel } from './formmodel';
import { getAction, TEXT_BOX } from './formmodel';
import { stepAround } from './selection';

const WRITING = 'textarea, input:not([type=radio], [type=checkbox])';
const BUTTON = '.jp-nb-actions button, .jp-nb-summary button, .jp-nb-item .widget-button';
const OPENING = '.jp-nb-open'; // the link that opens the address of a question

export class FormInput {
  constructor(
    private readonly model: IFormModel,
    private readonly elements: IFormElements,
    private readonly messages: FormMessages,
    private readonly focus: FormFocus,
    private readonly keys: KeyGuard
  ) {}

  start(root: HTMLElement): void {
    for (const [type, listener] of this.heard) {
      root.addEventListener(type, listener, { capture: true }); // stock text fields stop events
    }
  }

  dispose(): void {
    for (const [type, listener] of this.heard) {
      this.elements.root?.removeEventListener(type, listener, { capture: true });
    }
  }

  private get primary(): string {
    return getAction(this.elements.root?.querySelector('.jp-nb-primary') ?? null) ?? 'submit';
  }

  private readonly onClick = (event: Event): void => {
    const target = event.target as Element;
    if (target.closest('.jp-nb-control')) {
      this.messages.touch();
    }

    const button = target.closest(BUTTON);
    if (!button) {
      return;
    }

    const action = getAction(button);
    // Ignore the second click of a double click, whose target is gone.
    const isStray = (event as MouseEvent).detail > 1;
    if (!isStray) {
      this.messages.noteSent();
    }
    if (!isStray && !action) {
      return;
    }

    event.preventDefault();
    event.stopPropagation(); // no message from the stock button, because `send` replaces it
    if (!isStray) {
      this.messages.send(action);
    }
  };

  private readonly onFocus = (event: Event): void => {
    const target = event.target as HTMLElement;
    this.focus.note(target);
    // Front ends look for shortcuts from the focused element up to the first element with this
    // attribute. So the focused element needs it, not the form.
    target.setAttribute('data-lm-suppress-shortcuts', 'true');
    if (!this.focus.isFocusing && target.matches(TEXT_BOX)) {
      this.messages.noteWriting(true);
    }
  };

  private readonly onBlur = (): void => {
    const secrets = this.elements.root?.querySelectorAll<HTMLInputElement>('.jp-nb-secret') ?? [];
    this.messages.noteWriting([...secrets].some(({ value }) => value));
  };

  private readonly onInput = (event: Event): void => {
    this.messages.touch();
    if ((event.target as Element).matches(TEXT_BOX)) {
      this.messages.noteWriting(true);
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
    const root = this.elements.root;
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
      this.messages.touch(); // it selects the current option
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
      this.focus.leave();
    } else {
      this.messages.send('cancel');
    }
  }

  private onEnter(event: KeyboardEvent, target: Element): void {
    const isEverywhere = event.ctrlKey || event.metaKey;
    const isNative = target.matches('textarea, summary') || target.closest('button');
    if (isNative && !isEverywhere) {
      return;
    }

    event.preventDefault();
    this.messages.send(this.messages.isTouched ? this.primary : 'unchosen');
    if (this.messages.isTouched) {
      this.messages.noteSent();
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

  private readonly heard: [string, (event: Event) => void][] = [
    ['keydown', this.onKey],
    ['keyup', this.onKeyUp],
    ['focusin', this.onFocus],
    ['focusout', this.onBlur],
    ['input', this.onInput],
    ['click', this.onClick]
  ];
}
