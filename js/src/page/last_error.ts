/** The rules of "Ask about this error": where it is offered, and what it inserts. */

import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { INotebookModel } from '@jupyterlab/notebook';

import { isCodeCell } from '../outputs';
import { KEY } from '../record';
import { showsAnswers } from './blocks';
import { insertBelow } from './insertion';
import type { RunOrder } from './run_order';

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

/** Why `%jp why` would be about another error, or may be. */
type NotLast =
  /** Another cell failed later. */
  | 'earlier'
  /** The kernel started again after the error. */
  | 'restarted'
  /** The errors are older than the page, and their numbers do not tell which one is the last. */
  | 'uncertain';

export type ErrorRequest =
  /** A cell below is inserted, and may run. */
  | { kind: 'inserted'; index: number }
  /** The cell below asks already. */
  | { kind: 'present'; index: number }
  | { kind: NotLast }
  | { kind: 'readonly' };

/** Prepare the request about the error of the cell `id`. */
export function requestWhy(model: INotebookModel, id: string, order: RunOrder): ErrorRequest {
  const cells = Array.from(model.cells);
  const index = cells.findIndex(cell => cell.id === id);
  const below = cells[index + 1];
  if (below?.type === 'code' && below.sharedModel.getSource().trim() === WHY) {
    return { kind: 'present', index: index + 1 };
  }
  const kind = whyNotLast(cells, id, order);
  if (kind) {
    return { kind };
  }
  const inserted = insertBelow(model, id, WHY);
  return inserted < 0 ? { kind: 'readonly' } : { kind: 'inserted', index: inserted };
}

/** Why the error of the cell `id` may not be the last one of the kernel; undefined if it is. */
function whyNotLast(
  cells: readonly ICellModel[],
  id: string,
  order: RunOrder
): NotLast | undefined {
  const others = cells.filter(isCodeCell).filter(cell => cell.id !== id && hasFailed(cell));
  const place = order.placeOf(id);
  if (place !== undefined) {
    const isLater = others.some(other => (order.placeOf(other.id) ?? 0) > place);
    return isLater ? 'earlier' : undefined;
  }
  if (order.isRestarted) {
    return 'restarted';
  }
  if (others.some(other => order.placeOf(other.id) !== undefined)) {
    return 'earlier';
  }

  // All of them ran before the page was opened.
  const own = cells.filter(isCodeCell).find(cell => cell.id === id);
  const isGreatest = others.every(other => countOf(other) < countOf(own));
  return isGreatest ? undefined : 'uncertain';
}

function countOf(cell: ICodeCellModel | undefined): number {
  return cell?.executionCount ?? 0;
}

function hasFailed(cell: ICodeCellModel): boolean {
  return hasError(cell.outputs) && isExplained(cell.sharedModel.getSource());
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
