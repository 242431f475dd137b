/** Parts of a notebook in memory, with the signals of Lumino and without a page. */

import type { ICodeCellModel } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import type { IOutputAreaModel } from '@jupyterlab/outputarea';
import { Signal } from '@lumino/signaling';

import type { JsonObject } from '../src/json';
import type { ILanguage, Texts } from '../src/translation';

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
    this.changed.emit({ type: 'clear' });
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
  readonly stateChanged = new Signal<this, { name: string; newValue: unknown }>(this);
  executionState: 'idle' | 'running' = 'idle';
  executionCount: number | null = null;
  isDirty = false;
  trusted = false;

  constructor(
    readonly id: string,
    public source = '',
    readonly type = 'code'
  ) {
    this.outputs.changed.connect((_, { type }) => {
      if (type === 'clear') {
        this.sharedModel.clearOutputs();
      }
    });
  }

  clearExecution(): void {
    this.outputs.clear();
    this.executionCount = null;
    this.executionState = 'idle';
    this.trusted = true;
  }

  /** What the shared document holds, if that is not what this page draws. */
  held: IOutput[] | null = null;

  readonly sharedModel = {
    getSource: () => this.source,
    getOutputs: () => structuredClone(this.held ?? this.outputs.items),
    updateOutputs: (start: number, end: number, outputs: IOutput[]) => {
      (this.held ?? this.outputs.items).splice(start, end - start, ...outputs);
    },
    clearOutputs: () => {
      this.held = this.held && [];
    }
  };

  get model(): ICodeCellModel {
    return this as unknown as ICodeCellModel;
  }
}

class FakeCells {
  readonly changed = new Signal<this, void>(this);

  constructor(private readonly notebook: FakeNotebook) {}

  get length(): number {
    return this.notebook.list.length;
  }

  get(index: number): FakeCell {
    return this.notebook.list[index];
  }

  [Symbol.iterator](): Iterator<FakeCell> {
    return this.notebook.list[Symbol.iterator]();
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

  readonly cells = new FakeCells(this);

  readonly sharedModel = {
    insertCell: (place: number, { id, source }: { id: string; source: string }) => {
      this.list.splice(place, 0, new FakeCell(id, source));
      this.cells.changed.emit();
    },
    setMetadata: (key: string, value: unknown) => this.setMetadata(key, value),
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

/** A kernel: `sent` has what the page has sent on the control channel. */
export class FakeKernel {
  readonly clientId = 'client';
  readonly username = 'user';
  readonly iopubMessage = new Signal<this, unknown>(this);
  readonly statusChanged = new Signal<this, string>(this);
  readonly info = Promise.resolve({});
  readonly spec = Promise.resolve({ language: 'python' });
  readonly registerCommTarget = () => undefined;
  isDisposed = false;
  comms: Record<string, unknown> = {};
  requests: JsonObject[] = [];
  sent: JsonObject[] = [];

  requestCommInfo(): Promise<unknown> {
    return Promise.resolve({ content: { comms: this.comms } });
  }

  sendControlMessage({ header, content }: { header: JsonObject; content: JsonObject }): object {
    if (header.msg_type === 'comm_msg') {
      this.sent.push(content.data as JsonObject);
    }
    return { done: this.requestCommInfo() };
  }

  /** Send a message of the kernel to the page, as the answer to a request of `session`. */
  publish(msg_type: string, content: JsonObject, msg_id = 'r', session = 'client'): void {
    const message = { header: { msg_type }, parent_header: { msg_id, session }, content };
    this.iopubMessage.emit(message);
  }

  /** Return what the page has sent since the last call. */
  take(): JsonObject[] {
    return this.sent.splice(0);
  }
}

/** The document of a page, and what opens and saves it. */
export class FakeContext {
  readonly ready = Promise.resolve();
  readonly fileChanged = new Signal<this, void>(this);
  readonly pathChanged = new Signal<this, void>(this);
  readonly saveState = new Signal<this, string>(this);
  readonly disposed = new Signal<this, void>(this);
  readonly sessionContext = {
    kernelChanged: new Signal<object, unknown>({}),
    statusChanged: new Signal<object, string>({}),
    session: {} as { kernel?: unknown }
  };
  localPath = 'talk.ipynb';
  isDisposed = false;
  contentsModel = { writable: true };
  saving: () => Promise<void> = () => Promise.resolve();

  constructor(
    readonly model: FakeNotebook,
    kernel: FakeKernel
  ) {
    this.sessionContext.session.kernel = kernel;
  }

  async save(): Promise<void> {
    this.saveState.emit('started');
    await this.saving();
    this.saveState.emit('completed');
  }
}

function fillIn(text: string, values: unknown[]): string {
  return text.replace(/%(\d)/g, (_, place: string) => String(values[Number(place) - 1]));
}

/** English texts, filled in as JupyterLab does. */
export const TEXTS: Texts = {
  __: (text, ...values: unknown[]) => fillIn(text, values),
  _n: (one, many, count, ...values: unknown[]) =>
    fillIn(count === 1 ? one : many, [count, ...values])
};

export const LANGUAGE: ILanguage = {
  trans: TEXTS,
  formatCount: count => count.toLocaleString('en-US')
};
