/** "Ask about this error", below the traceback of a failed cell. */

import type { INotebookTracker } from '@jupyterlab/notebook';
import { Notebook, NotebookActions } from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';

import type { Texts } from '../translation';
import { findCellAround, makeButton, selectCell } from './answers';
import { isExplained, requestWhy, usesJp } from './last_error';
import { followRenderer } from './renderers';
import type { RunOrders } from './run_order';
import type { IPageSettings } from './settings';

const BAR = 'jp-nb-error-bar';

/** The button below one traceback. */
export class ErrorButton {
  constructor(
    private readonly view: IRenderMime.IRenderer,
    private readonly settings: IPageSettings,
    private readonly trans: Texts,
    private readonly tracker: INotebookTracker,
    private readonly orders: RunOrders
  ) {
    followRenderer(view, { onRendered: () => this.decorate() });
    settings.changed.connect(this.decorate, this);
    view.disposed.connect(() => settings.changed.disconnect(this.decorate, this));
  }

  private decorate(): void {
    const { node } = this.view;
    node.querySelector(`:scope > .${BAR}`)?.remove();
    const cell = findCellAround(this.view);
    const notebook = cell?.parent;
    if (!cell || !(notebook instanceof Notebook) || !notebook.model) {
      return;
    }
    const source = cell.model.sharedModel.getSource();
    if (this.settings.isOn('errorButton') && isExplained(source) && usesJp(notebook.model)) {
      node.append(this.makeBar(notebook, cell.model.id));
    }
  }

  private makeBar(notebook: Notebook, id: string): HTMLElement {
    const bar = document.createElement('div');
    bar.className = BAR;
    const status = document.createElement('span');
    status.setAttribute('role', 'status');
    const button = makeButton(this.trans.__('Ask about this error'), () => {
      status.textContent = this.ask(notebook, id);
    });
    button.title = this.trans.__('Insert a cell with %jp why below, and run it.');
    bar.append(button, status);
    return bar;
  }

  /** Ask in a cell below; return the reason if that is not possible, else "". */
  private ask(notebook: Notebook, id: string): string {
    const { model } = notebook;
    const request = model && requestWhy(model, id, this.orders.of(model));
    switch (request?.kind) {
      case 'present':
        selectCell(notebook, request.index);
        return '';
      case 'inserted': {
        selectCell(notebook, request.index);
        const panel = this.tracker.find(({ content }) => content === notebook);
        void NotebookActions.run(notebook, panel?.sessionContext);
        return '';
      }
      case 'earlier':
        return this.trans.__('Another cell failed later. Run this cell again, then ask.');
      case 'restarted':
        return this.trans.__(
          'The kernel started again after this error. Run this cell again, then ask.'
        );
      case 'uncertain':
        return this.trans.__(
          'This may not be the last error of the kernel. Run this cell again, then ask.'
        );
      default:
        return this.trans.__('The notebook is read-only.');
    }
  }
}
