/** The order in which the cells of the open notebooks ran, as far as this page has seen it. */

import type { ICellModel } from '@jupyterlab/cells';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel, INotebookTracker } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';

type Context = DocumentRegistry.IContext<INotebookModel>;

/** The states of a kernel that loses, or has lost, what it knew. */
const STARTS: Kernel.Status[] = ['starting', 'restarting', 'autorestarting', 'dead'];

/**
 * The order in which the cells of one notebook ran.
 *
 * Numbers of cells do not give it: a new kernel counts from 1, and the file has outputs and numbers
 * of earlier ones.
 */
export class RunOrder {
  constructor(private readonly model: INotebookModel) {
    this.watch();
    model.cells.changed.connect(this.watch, this);
  }

  /** Whether the kernel started again while the page showed the notebook. */
  isRestarted = false;

  /** Forget the runs of a kernel that is gone. */
  restart(): void {
    this.isRestarted = true;
    this.places.clear();
  }

  /** The place of the last run of a cell in the present kernel; undefined if no run was seen. */
  placeOf(id: string): number | undefined {
    return this.places.get(id);
  }

  private watch(): void {
    for (const cell of this.model.cells) {
      cell.stateChanged.connect(this.onState, this);
    }
  }

  /** A cell loses its number when it starts, and gets one when it ends, in whichever page it runs. */
  private onState({ id }: ICellModel, change: { name: string; newValue: unknown }): void {
    if (change.name === 'executionCount' && typeof change.newValue === 'number') {
      this.last += 1;
      this.places.set(id, this.last);
    }
  }

  private last = 0;
  private readonly places = new Map<string, number>();
}

/** The orders of all notebooks of the page. */
export class RunOrders {
  constructor(tracker: INotebookTracker) {
    tracker.forEach(({ context }) => this.follow(context));
    tracker.widgetAdded.connect((_, { context }) => this.follow(context));
  }

  of(model: INotebookModel): RunOrder {
    const order = this.orders.get(model) ?? new RunOrder(model);
    this.orders.set(model, order);
    return order;
  }

  private follow(context: Context): void {
    const { model, sessionContext } = context;
    if (this.orders.has(model)) {
      return; // another view of the document
    }
    const order = this.of(model);
    sessionContext.statusChanged.connect((_, status) => {
      if (STARTS.includes(status)) {
        order.restart();
      }
    });
    sessionContext.kernelChanged.connect((_, { oldValue }) => {
      if (oldValue) {
        order.restart();
      }
    });
  }

  private readonly orders = new WeakMap<INotebookModel, RunOrder>();
}
