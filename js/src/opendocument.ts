/** Facts about an open document that several modules need. */

import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';

export type OpenDocument = DocumentRegistry.IContext<INotebookModel>;

/** The property of `YNotebook` that the interface of the shared model lacks. */
export interface IWithUndo {
  undoManager?: { stopCapturing(): void };
}

/** The reason with which the page refuses a change of a read-only document. */
export const READ_ONLY = 'this notebook is read-only';

/** Whether other pages may have the same document, and write it. */
export function isShared({ model }: OpenDocument): boolean {
  return Boolean(model.collaborative);
}

/** Whether the page may change neither the document nor its file. */
export function isReadOnly({ model, contentsModel }: OpenDocument): boolean {
  return model.readOnly || contentsModel?.writable === false;
}
