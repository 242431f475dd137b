/** Outputs of turns that run in other pages of a shared document. */

import type { IOutputAreaModel } from '@jupyterlab/outputarea';
import { Signal } from '@lumino/signaling';

import { AwaitedOutputs } from './awaited';
import type { KernelConnection } from './connection';
import type { JsonObject } from './json';
import type { OpenDocument } from './opendocument';
import { isCodeCell } from './outputs';

/** The time between two requests for outputs that no cell shows. */
const ASK_AGAIN_MS = 1000;

/**
 * Trusts the outputs of cells that other pages run, and asks the kernel for those that are missing.
 *
 * The page that ran a cell writes its outputs. If that page is gone, this page may have to.
 */
export class SharedOutputs {
  constructor(
    private readonly context: OpenDocument,
    private readonly connection: KernelConnection
  ) {
    this.awaited = new AwaitedOutputs(context.model);
  }

  start(): void {
    this.context.model.contentChanged.connect(this.lookForAwaited, this);
  }

  dispose(): void {
    Signal.clearData(this);
    this.stopTimer();
  }

  /** Forget the outputs of the previous kernel process. */
  forgetProcess(): void {
    this.awaited = new AwaitedOutputs(this.context.model);
    this.stopTimer();
  }

  /** Whether another page should write the output `id`. */
  has(id: string): boolean {
    return this.awaited.has(id);
  }

  /** Forget the outputs of `request`: its cell has ended, or this page writes them. */
  drop(request: string | undefined): void {
    this.awaited.drop(request);
  }

  /**
   * Trust the outputs of a cell that another page runs, such as a form.
   *
   * This is done while the cell has no outputs: later, all pages would redraw each of them.
   */
  trustOutputsOf(code: unknown): void {
    for (const cell of this.context.model.cells) {
      if (!isCodeCell(cell) || cell.sharedModel.getSource() !== code) {
        continue;
      }
      // A second connection of the same method does nothing.
      cell.outputs.changed.connect(this.trustEmpty, this);
      this.trustEmpty(cell.outputs);
    }
  }

  private trustEmpty(outputs: IOutputAreaModel): void {
    if (outputs.length) {
      return;
    }
    outputs.changed.disconnect(this.trustEmpty, this);
    outputs.trusted = true; // as those of every cell that runs
  }

  /**
   * Trust an output in a cell that another page runs, once the document shows its newest content.
   *
   * The shared document may arrive later than the kernel's message.
   */
  trustWhatShows(id: string, request: string | undefined, data: JsonObject): void {
    this.awaited.add(id, request, data);
    this.awaited.look();
    this.askForAwaited();
  }

  /** The document has changed: the page that ran a cell may have written outputs. */
  private lookForAwaited(): void {
    if (this.awaited.look()) {
      this.stopTimer();
      this.askForAwaited();
    }
  }

  /**
   * Ask the kernel for outputs, or contents of them, that the shared document does not get.
   *
   * The page that ran their cell is gone: it does not write them, and this page may have to.
   */
  private askForAwaited(): void {
    if (this.awaited.request === undefined || this.askTimer !== undefined) {
      return;
    }
    this.askTimer = setTimeout(() => {
      this.askTimer = undefined;
      this.ask(this.awaited.request);
      this.askForAwaited();
    }, ASK_AGAIN_MS);
  }

  private stopTimer(): void {
    clearTimeout(this.askTimer);
    this.askTimer = undefined;
  }

  /**
   * Ask the kernel for the outputs of a request that nothing in this page shows.
   *
   * JupyterLab drops them if the user runs the cell again, and if the page that ran the cell was
   * reloaded while the cell was queued.
   */
  ask(request: string | undefined): void {
    const now = performance.now();
    if (!request || !this.connection.isOpen) {
      return;
    }
    if (this.asked?.request === request && now - this.asked.at < ASK_AGAIN_MS) {
      return;
    }
    this.asked = { request, at: now };
    this.connection.send({ type: 'want', request });
  }

  private awaited: AwaitedOutputs;
  /** The timer until this page asks for one of them. */
  private askTimer: ReturnType<typeof setTimeout> | undefined;
  /** The last request whose outputs this page asked for, and when. */
  private asked: { request: string; at: number } | null = null;
}
