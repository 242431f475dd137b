/** The views of one document in this page. */

import type { Cell, CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';

/** Whether a cell's view is that of a code cell. A view that is disposed has no model. */
export function isCodeCellView(cell: Cell): cell is CodeCell {
  return cell.model?.type === 'code';
}

export class Views {
  readonly panels = new Set<NotebookPanel>();

  add(panel: NotebookPanel): void {
    this.panels.add(panel);
    panel.disposed.connect(() => this.panels.delete(panel));
  }

  /** The requests for which JupyterLab fills the outputs of a cell, with the id of the cell. */
  private *running(): Generator<[request: string, cell: string]> {
    for (const { content } of this.panels) {
      for (const cell of content.widgets) {
        if (!isCodeCellView(cell)) {
          continue;
        }
        // A cell that has not run has no future, whatever its type says.
        const future = cell.outputArea?.future as Kernel.IShellFuture | null | undefined;
        if (future && !future.isDisposed) {
          yield [future.msg.header.msg_id, cell.model.id];
        }
      }
    }
  }

  /** The id of the cell in which JupyterLab shows the outputs of `request`, or undefined. */
  findRunningCell(request: unknown): string | undefined {
    for (const [running, cell] of this.running()) {
      if (running === request) {
        return cell;
      }
    }
    return undefined;
  }

  /** JupyterLab gives the outputs of a cell to the last request that runs or will run it. */
  runs(request: unknown): boolean {
    return this.findRunningCell(request) !== undefined;
  }

  /** Whether another request than `request` runs or will run `cell`. */
  isQueued(cell: string, request: unknown): boolean {
    for (const [other, id] of this.running()) {
      if (id === cell && other !== request) {
        return true;
      }
    }
    return false;
  }
}
