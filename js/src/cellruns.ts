/**
 * Cells that the kernel runs inside of a turn: `[*]` while they run, and their outputs afterwards.
 *
 * `jp_nb/notebook/page_document.py` is the kernel's side, and `docs/cells.md` has the rules. Outputs
 * change by the model of the cell: the shared model of a displayed cell would lose some of them.
 */

import type { ICodeCellModel } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { INotebookModel } from '@jupyterlab/notebook';

import type { JsonObject } from './json';
import { isCount, isObject, list } from './json';
import { findCodeCell, setRunning } from './outputs';
import type { Views } from './views';

const OUTPUT_TYPES = ['stream', 'display_data', 'execute_result', 'error'];

/** Show that a cell with this source runs: without outputs, trusted, and with `[*]`. */
export function beginRun(model: INotebookModel, views: Views, message: JsonObject): void {
  const cell = findCell(model, views, message);
  if (typeof cell === 'string') {
    return;
  }
  cell.clearExecution();
  setRunning(cell, true);
}

/** Store the outputs of a cell that has run, and its execution count; return the answer. */
export async function endRun(
  model: INotebookModel,
  views: Views,
  message: JsonObject
): Promise<JsonObject> {
  const { count } = message;
  const outputs = list(message.outputs);
  if (!isCount(count) || !outputs.every(isOutput)) {
    return { outcome: 'refused', why: 'the outputs are malformed' };
  }
  let cell = findCell(model, views, message);
  if (typeof cell !== 'string' && cell.outputs.length) {
    // The page was reloaded while the cell ran. In one step, other pages would mix up the outputs.
    cell.clearExecution();
    await new Promise(resolve => setTimeout(resolve));
    cell = findCell(model, views, message);
  }
  if (typeof cell === 'string') {
    stopRunning(model, views, message);
    return { outcome: 'refused', why: cell };
  }
  cell.trusted = true;
  cell.outputs.fromJSON(outputs);
  cell.executionCount = count;
  setRunning(cell, false);
  return { outcome: 'stored' };
}

/** The cell that ran, or the reason why its outputs cannot be there. */
function findCell(
  model: INotebookModel,
  views: Views,
  { cell: id, source }: JsonObject
): ICodeCellModel | string {
  const cell = findCodeCell(model, id);
  if (!cell) {
    return 'the cell was deleted';
  }
  if (model.readOnly) {
    return 'this notebook is read-only';
  }
  if (cell.sharedModel.getSource() !== source) {
    return 'the source has changed';
  }
  if (views.isQueued(cell.id, '')) {
    return 'the user has run the cell';
  }
  return cell;
}

/** Remove the `[*]` of a cell whose outputs are not stored. */
function stopRunning(model: INotebookModel, views: Views, { cell: id }: JsonObject): void {
  const cell = findCodeCell(model, id);
  if (cell && !views.isQueued(cell.id, '')) {
    setRunning(cell, false);
  }
}

function isOutput(output: unknown): output is IOutput {
  if (!isObject(output) || !OUTPUT_TYPES.includes(String(output.output_type))) {
    return false;
  }
  switch (output.output_type) {
    case 'stream':
      return typeof output.name === 'string' && typeof output.text === 'string';
    case 'error':
      return Array.isArray(output.traceback);
    default:
      return isObject(output.data) && isObject(output.metadata);
  }
}
