/** Outputs that another page of a shared document should write. */

import type { INotebookModel } from '@jupyterlab/notebook';

import { sortedText } from './json';
import { isCodeCell, placeOf, trustHere } from './outputs';

/** The newest content of an output that the kernel has sent, and what the document shows of it. */
interface IAwaited {
  request: string | undefined;
  data: unknown;
  text: string;
  /** Whether the document shows it. */
  isShown: boolean;
  /** The cell that shows the output, and the content that it shows; null until it appears. */
  shown: { cell: string; text: string } | null;
}

/**
 * Outputs of the cells that another page runs: whether the document shows their newest content.
 *
 * The content may change many times, and the document gets each change later than this page gets
 * the message of the kernel. If the other page is gone, the document shows no output, or keeps an
 * old content.
 */
export class AwaitedOutputs {
  constructor(private readonly model: INotebookModel) {}

  /** Whether another page should write the output `id`. */
  has(id: string): boolean {
    return this.awaited.has(id);
  }

  /** The first request with an output that the document does not show yet; undefined without one. */
  get request(): string | undefined {
    for (const { request, isShown } of this.awaited.values()) {
      if (request !== undefined && !isShown) {
        return request;
      }
    }
    return undefined;
  }

  /** Await that the document shows `data` as the output `id` of `request`. */
  add(id: string, request: string | undefined, data: unknown): void {
    const shown = this.awaited.get(id)?.shown ?? null;
    this.awaited.set(id, { request, data, text: sortedText(data), isShown: false, shown });
  }

  /** Forget the outputs of `request`: its cell has ended, or this page writes them. */
  drop(request: string | undefined): void {
    for (const [id, awaited] of this.awaited) {
      if (awaited.request === request) {
        this.awaited.delete(id);
      }
    }
  }

  /**
   * Compare the outputs with the document, and trust the cells that show them.
   *
   * Return true if the document shows another content of one than before: its page writes.
   */
  look(): boolean {
    const missing = Array.from(this.awaited).filter(([, { isShown }]) => !isShown);
    if (!missing.length) {
      return false;
    }
    let isWritten = false;
    for (const cell of this.model.cells) {
      if (!isCodeCell(cell)) {
        continue;
      }
      for (const [id, awaited] of missing) {
        const { data, text, shown } = awaited;
        // After its last update, an output has no mark.
        const place = placeOf(cell.outputs, id, shown?.cell === cell.id ? data : undefined);
        if (place < 0) {
          continue;
        }
        trustHere(cell);
        const present = sortedText(cell.outputs.get(place).toJSON().data);
        isWritten ||= present !== shown?.text;
        awaited.shown = { cell: cell.id, text: present };
        awaited.isShown = present === text;
      }
    }
    return isWritten;
  }

  /** By display id. */
  private readonly awaited = new Map<string, IAwaited>();
}
