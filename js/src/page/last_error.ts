/** The rules of "Ask about this error": where it is offered, and what it inserts. */

import type { ICellModel } from '@jupyterlab/cells';
import type { INotebookModel } from '@jupyterlab/notebook';

import { isCodeCell } from '../outputs';
import { KEY } from '../record';
import { showsAnswers } from './blocks';
import { insertBelow } from './insertion';

/** The request about the last error of the kernel. */
export const WHY = '%jp why';

const LOADS = /^[ \t]*%(?:load_ext|reload_ext)[ \t]+jp_nb\b/m;

/** Whether a notebook uses jp_nb: it has a record, or a cell that loads jp_nb. */
export function usesJp(model: INotebookModel): boolean {
  return (
    model.getMetadata(KEY) !== undefined ||
    Array.from(model.cells).some(cell => LOADS.test(cell.sharedModel.getSource()))
  );
}

/** Whether the error of a cell with this source is one that `%jp why` explains. */
export function isExplained(source: string): boolean {
  return !showsAnswers(source);
}

export type Request =
  /** A cell below is inserted, and may run. */
  | { kind: 'inserted'; index: number }
  /** The cell below asks already. */
  | { kind: 'present'; index: number }
  /** Another cell failed later, so `%jp why` would be about that error. */
  | { kind: 'earlier' }
  | { kind: 'readonly' };

/** Prepare the request about the error of the cell `id`. */
export function requestWhy(model: INotebookModel, id: string): Request {
  const cells = Array.from(model.cells);
  const index = cells.findIndex(cell => cell.id === id);
  const below = cells[index + 1];
  if (below?.type === 'code' && below.sharedModel.getSource().trim() === WHY) {
    return { kind: 'present', index: index + 1 };
  }
  if (!isLastError(cells, id)) {
    return { kind: 'earlier' };
  }
  const inserted = insertBelow(model, id, WHY);
  return inserted < 0 ? { kind: 'readonly' } : { kind: 'inserted', index: inserted };
}

/** Whether no cell with an error ran after the cell `id`. */
function isLastError(cells: readonly ICellModel[], id: string): boolean {
  let last = -1;
  let own = -1;
  for (const cell of cells) {
    if (
      !isCodeCell(cell) ||
      !hasError(cell.outputs) ||
      !isExplained(cell.sharedModel.getSource())
    ) {
      continue;
    }
    const count = cell.executionCount ?? 0;
    last = Math.max(last, count);
    own = cell.id === id ? count : own;
  }
  return own === last;
}

interface IOutputs {
  readonly length: number;
  get(index: number): { toJSON(): { output_type: string } };
}

function hasError(outputs: IOutputs): boolean {
  for (let index = 0; index < outputs.length; index++) {
    if (outputs.get(index).toJSON().output_type === 'error') {
      return true;
    }
  }
  return false;
}
