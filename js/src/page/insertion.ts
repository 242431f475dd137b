/** Insert cells that the user asks for with a click. Nothing here runs a cell. */

import type { INotebookModel } from '@jupyterlab/notebook';

import type { IWithUndo } from '../opendocument';

/**
 * Insert a code cell below the cell `id`, as one step of undo; return its index.
 *
 * Returns -1, and changes nothing, if the notebook is read-only or the cell is gone.
 */
export function insertBelow(model: INotebookModel, id: string, source: string): number {
  if (model.readOnly) {
    return -1;
  }
  const above = Array.from(model.cells).findIndex(cell => cell.id === id);
  if (above < 0) {
    return -1;
  }

  const { undoManager } = model.sharedModel as IWithUndo;
  undoManager?.stopCapturing();
  // JupyterLab marks new cells the same way, and never saves the mark.
  const cell = { cell_type: 'code' as const, source, metadata: { trusted: true } };
  model.sharedModel.insertCell(above + 1, cell);
  undoManager?.stopCapturing();

  return above + 1;
}
