/** Wait until the page has drawn a step of a form, with the models of its controls. */

import type { IControlModel, IFormElements, IFormModel, IShown } from './formmodel';
import { firstIn } from './formmodel';

const DETACHED_MS = 1000; // then report the form anyway: its cell may be out of view and detached
const LOOK_MS = 10; // between looks at a form that the page draws
const PATIENT_MS = 200; // between looks at a form that the page has not drawn for long

export interface IDrawingHandler {
  /** Begin a step that the page has drawn. */
  onShown(shown: IShown, isFirst: boolean): void;
  /** Report a step that the page has not drawn for long. */
  onLate(step: number): void;
}

export class FormDrawing implements IFormElements {
  constructor(
    private readonly model: IFormModel,
    private readonly el: HTMLElement,
    private readonly handler: IDrawingHandler
  ) {}

  /** Look for the present step, and for each later one. */
  start(): void {
    this.model.on('change:step', this.turn);
    this.look();
  }

  dispose(): void {
    this.isDisposed = true;
    clearTimeout(this.timer);
    this.model.off('change:step', this.turn);
  }

  private readonly look = (): void => {
    clearTimeout(this.timer);
    if (this.findDrawn()) {
      void this.arrange();
      return;
    }

    if (!this.isPatient && this.hasWaited) {
      this.isPatient = true;
      this.handler.onLate(this.model.get('step'));
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
    this.handler.onShown(this.shown, isFirst);
  }

  root: HTMLElement | null = null;
  shown: IShown | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isDisposed = false;
  private isPatient = false;
  private started = performance.now();
}
