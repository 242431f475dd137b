/** "Ask about this error", below the traceback of a failed cell. */

import type { INotebookTracker } from '@jupyterlab/notebook';
import { Notebook, NotebookActions } from '@jupyterlab/notebook';
import { RenderedError } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';

import { findCellAround, makeButton, selectCell } from './answers';
import { isExplained, requestWhy, usesJp } from './last_error';
import { RunOrders } from './run_order';
import type { IPageSettings } from './settings';

const BAR = 'jp-nb-error-bar';

/** The type of the text of errors, which gives them their color. */
const STDERR = 'application/vnd.jupyter.stderr';

/** The renderer of errors for all notebooks of the page. */
export function makeErrorFactory(
  settings: IPageSettings,
  trans: TranslationBundle,
  tracker: INotebookTracker
): IRenderMime.IRendererFactory {
  const orders = new RunOrders(tracker);
  return {
    safe: true,
    mimeTypes: ['application/vnd.jupyter.error'],
    defaultRank: 100,
    createRenderer: options =>
      new ErrorView({ ...options, mimeType: STDERR }, settings, trans, tracker, orders)
  };
}

class ErrorView extends RenderedError {
  constructor(
    options: IRenderMime.IRendererOptions,
    private readonly settings: IPageSettings,
    private readonly trans: TranslationBundle,
    private readonly tracker: INotebookTracker,
    private readonly orders: RunOrders
  ) {
    super(options);
    settings.changed.connect(this.decorate, this);
  }

  override async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    await super.renderModel(model);
    this.isRendered = true;
    this.decorate();
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this.decorate();
  }

  private decorate(): void {
    if (this.isDisposed || !this.isRendered) {
      return;
    }
    this.node.querySelector(`:scope > .${BAR}`)?.remove();
    const cell = findCellAround(this);
    const notebook = cell?.parent;
    if (!cell || !(notebook instanceof Notebook) || !notebook.model) {
      return;
    }
    const source = cell.model.sharedModel.getSource();
    if (this.settings.isOn('errorButton') && isExplained(source) && usesJp(notebook.model)) {
      this.node.append(this.makeBar(notebook, cell.model.id));
    }
  }

  private makeBar(notebook: Notebook, id: string): HTMLElement {
    const bar = document.createElement('div');
    bar.className = BAR;
    // Otherwise Enter on the button would be the shortcut that edits the cell.
    bar.dataset.lmSuppressShortcuts = 'true';
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

  private isRendered = false;
}
