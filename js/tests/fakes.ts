/** Parts of a notebook in memory, with the signals of Lumino and without a page. */

import type { ICodeCellModel } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import type { IOutputAreaModel } from '@jupyterlab/outputarea';
import { Signal } from '@lumino/signaling';

type Change = { type: 'add' | 'remove' | 'set' | 'clear' | 'move' };

export class FakeOutputs {
  readonly changed = new Signal<this, Change>(this);
  trusted = false;
  items: IOutput[] = [];

  get length(): number {
    return this.items.length;
  }

  get(index: number): { metadata: unknown; toJSON: () => IOutput } {
    const output = this.items[index];
    return { metadata: output.metadata, toJSON: () => structuredClone(output) };
  }

  set(index: number, output: IOutput): void {
    this.items[index] = output;
    this.changed.emit({ type: 'set' });
  }

  add(output: IOutput): void {
    this.items.push(output);
    this.changed.emit({ type: 'add' });
  }

  clear(): void {
    this.items = [];
    this.changed.emit({ type: 'remove' });
  }

  fromJSON(outputs: IOutput[]): void {
    this.clear();
    outputs.forEach(output => this.add(output));
  }

  toJSON(): IOutput[] {
    return structuredClone(this.items);
  }
}

export class FakeCell {
  readonly outputs = new FakeOutputs();
  executionState: 'idle' | 'running' = 'idle';
  executionCount: number | null = null;
  isDirty = false;
  trusted = false;

  constructor(
    readonly id: string,
    public source = '',
    readonly type = 'code'
  ) {}

  readonly sharedModel = {
    getSource: () => this.source,
    getOutputs: () => this.outputs.toJSON(),
    updateOutputs: (start: number, end: number, outputs: IOutput[]) => {
      this.outputs.items.splice(start, end - start, ...outputs);
    }
  };

  get model(): ICodeCellModel {
    return this as unknown as ICodeCellModel;
  }
}

export class FakeNotebook {
  readonly metadataChanged = new Signal<this, { key: string }>(this);
  readonly contentChanged = new Signal<this, void>(this);
  readonly stored = new Map<string, unknown>();
  readonly list: FakeCell[];
  collaborative = false;
  readOnly = false;
  dirty = false;

  constructor(...cells: FakeCell[]) {
    this.list = cells;
  }

  readonly cells = {
    changed: new Signal<object, void>({}),
    get: (index: number) => this.list[index],
    [Symbol.iterator]: () => this.list[Symbol.iterator]()
  };

  readonly sharedModel = {
    insertCell: (place: number, { id, source }: { id: string; source: string }) => {
      this.list.splice(place, 0, new FakeCell(id, source));
      this.cells.changed.emit();
    },
    transact: (change: () => void) => change()
  };

  get metadata(): Record<string, unknown> {
    return structuredClone(Object.fromEntries(this.stored));
  }

  getMetadata(key: string): unknown {
    return structuredClone(this.stored.get(key));
  }

  setMetadata(key: string, value: unknown): void {
    this.stored.set(key, structuredClone(value));
    this.metadataChanged.emit({ key });
  }

  deleteMetadata(key: string): void {
    this.stored.delete(key);
    this.metadataChanged.emit({ key });
  }

  get model(): INotebookModel {
    Object.defineProperty(this.cells, 'length', {
      get: () => this.list.length,
      configurable: true
    });
    return this as unknown as INotebookModel;
  }
}

export function asOutputs(outputs: FakeOutputs): IOutputAreaModel {
  return outputs as unknown as IOutputAreaModel;
}

/** A view in which JupyterLab fills the outputs of cells: `running` has requests by cell. */
export function fakePanel(notebook: FakeNotebook, running: Record<string, string>): NotebookPanel {
  const panel = {
    disposed: new Signal<object, void>({}),
    content: {
      get widgets() {
        return notebook.list.map(model => {
          const request = running[model.id];
          const future = request && { isDisposed: false, msg: { header: { msg_id: request } } };
          return { model, outputArea: { future: future || null } };
        });
      }
    }
  };
  return panel as unknown as NotebookPanel;
}
