/** The messages of a form to the kernel, and to the lab extension. */

import { identify, shareInPage } from './anymodel';
import type { IControlModel, IFormElements, IFormModel } from './formmodel';

const SENT_MS = 700; // an idle kernel has answered by then
const STATE = ['index', 'value', 'picks', 'custom'];
const SENT = 'Sent. The kernel is busy and will read it when it is free.';

// The step that the user touched, by layout model. A page may draw a form again.
const touchedSteps = shareInPage('jp_nb.touched', () => new WeakMap<object, number>());

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

export class FormMessages {
  constructor(
    private readonly model: IFormModel,
    private readonly el: HTMLElement,
    private readonly elements: IFormElements
  ) {
    this.identity = identify(model);
  }

  dispose(): void {
    clearTimeout(this.sentTimer);
    this.sent?.remove();
    this.tellCells([]);
  }

  /** Add the place of the notice that a click was sent. */
  addNotice(root: HTMLElement): void {
    this.sent = document.createElement('div');
    this.sent.className = 'jp-nb-sent';
    this.sent.setAttribute('role', 'status');
    root.append(this.sent);
  }

  /** Begin another step. */
  reset(): void {
    this.isWriting = false;
    this.forgetSent();
  }

  /** Send an action with the state of each control: a click can arrive before a widget's update. */
  send(type: string | undefined): void {
    if (!this.elements.shown) {
      return;
    }

    const { root, controls, step } = this.elements.shown;
    const boxes = root.querySelectorAll('.jp-nb-control');
    this.actsAt = performance.now();
    const fields = controls.map((control, place) => readState(control, boxes[place]));
    const state = fields.length === 1 ? fields[0] : { fields };
    this.model.send({ ...state, type, step });
  }

  /** Show a notice if the kernel is busy, because the click would look lost. */
  noteSent(): void {
    this.forgetSent();
    this.sentTimer = setTimeout(() => {
      if (this.sent) {
        this.sent.textContent = SENT;
      }
    }, SENT_MS);
  }

  /** Tell the lab extension which cells the form is about; none if it closes. */
  tellCells(cells: object[]): void {
    if (this.elements.shown && (cells.length || this.hasCells)) {
      this.hasCells = cells.length > 0;
      const detail = { view: this.el, root: this.elements.shown.root, cells };
      document.dispatchEvent(new CustomEvent('jp-nb-cells', { detail }));
    }
  }

  forgetSent(): void {
    clearTimeout(this.sentTimer);
    if (this.sent?.textContent) {
      this.sent.textContent = '';
    }
  }

  touch(): void {
    if (this.elements.shown) {
      touchedSteps.set(this.identity, this.elements.shown.step);
    }
  }

  get isTouched(): boolean {
    return (
      this.elements.shown !== null && touchedSteps.get(this.identity) === this.elements.shown.step
    );
  }

  report(step: number): void {
    this.model.send({ type: 'rendered', step });
  }

  /** Tell that the user writes, because a deadline waits meanwhile. */
  noteWriting(isWriting: boolean): void {
    if (isWriting !== this.isWriting && this.model.get('timed')) {
      this.isWriting = isWriting;
      this.model.send({ type: 'writing', value: isWriting });
    }
  }

  /** The time of the last click or key that was sent. */
  actsAt = -Infinity;
  private readonly identity: object;
  private hasCells = false;
  private isWriting = false;
  private sent: HTMLElement | null = null;
  private sentTimer: ReturnType<typeof setTimeout> | undefined;
}
