/** The cell that runs and shows a form. */

import type { INotebookModel } from '@jupyterlab/notebook';

import { isCodeCell, isWidget, markOf } from '../outputs';

/** The index of the cell with the open question, or -1. */
export function findOpenQuestion(model: INotebookModel): number {
  return Array.from(model.cells).findIndex(cell => {
    // A notebook that was saved while a form was open has its mark, but runs nothing.
    if (!isCodeCell(cell) || cell.executionState !== 'running') {
      return false;
    }
    for (let index = 0; index < cell.outputs.length; index++) {
      const output = cell.outputs.get(index).toJSON();
      if (markOf(output.metadata) !== undefined && isWidget(output)) {
        return true;
      }
    }
    return false;
  });
}
