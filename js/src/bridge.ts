/**
 * One open document: stores the record in its metadata, and answers the kernel.
 *
 * `jp_nb/notebook/page/live_store.py` is the kernel's side. Messages of the kernel carry data only.
 * Any code in the kernel can send such messages. So a message only affects the notebook whose path
 * it names: it can change the record (`store.ts`), save the file, show output in a running cell, and
 * read and edit the cells.
 */

import type { User } from '@jupyterlab/services';

import { CellRequests } from './cellrequests';
import { KernelConnection } from './connection';
import type { JsonObject } from './json';
import type { OpenDocument } from './opendocument';
import { seqOf } from './protocol';
import { RecordWriter } from './recordwriter';
import type { ILanguage } from './translation';
import { TurnOutputs } from './turnoutputs';
import { Views } from './views';

/** Passes each message of the kernel to the part that handles it. */
export class Bridge {
  constructor(
    private readonly context: OpenDocument,
    user: User.IManager | null,
    language: ILanguage
  ) {
    this.connection = new KernelConnection(context, {
      onNewProcess: () => this.forgetProcess(),
      onComm: () => this.record.hello(),
      onMessage: data => this.onMessage(data),
      onPublished: message => this.outputs.onPublished(message)
    });
    this.record = new RecordWriter(context, user, this.connection);
    this.outputs = new TurnOutputs(context, this.views, this.connection, language);
    this.cells = new CellRequests(context, this.views, this.connection);
    void context.ready.then(() => this.start());
  }

  /** All views of the document. */
  readonly views = new Views();

  private start(): void {
    const { context } = this;
    if (context.isDisposed || this.isDisposed) {
      return;
    }

    context.disposed.connect(this.dispose, this);
    this.outputs.start();
    this.record.start();
    this.connection.start();
  }

  /** Leave the document and its kernel, as when the document closes. */
  dispose(): void {
    if (this.isDisposed) {
      return;
    }

    this.isDisposed = true;
    this.context.disposed.disconnect(this.dispose, this);
    this.record.dispose();
    this.outputs.dispose();
    this.connection.dispose();
  }

  private forgetProcess(): void {
    this.record.forgetProcess();
    this.outputs.forgetProcess();
  }

  private onMessage(data: JsonObject): void {
    const { page } = this.connection;
    const isForAll = !data.to || data.to === page;

    switch (data.type) {
      case 'write':
      case 'chunk':
        this.record.onWrite(data);
        break;
      case 'pull':
        if (isForAll) {
          this.record.hello();
        }
        break;
      case 'show':
        this.outputs.onShow(data);
        break;
      case 'ended':
        this.outputs.onEnded(data);
        break;
      case 'input': {
        const can = this.views.runs(data.request);
        this.connection.send({ type: 'input', seq: seqOf(data), can });
        break;
      }
      case 'cells':
        this.cells.onCells(data);
        break;
      case 'document':
        this.cells.onDocument(data);
        break;
      case 'edit':
        this.cells.onEdit(data);
        break;
      case 'run':
        this.cells.onRun(data);
        break;
      case 'ran':
        void this.cells.onRan(data);
        break;
      case 'save':
        // Two pages that write one file at once can corrupt it.
        if (isForAll) {
          void this.record.onSave(data);
        }
        break;
    }
  }

  private readonly connection: KernelConnection;
  private readonly record: RecordWriter;
  private readonly outputs: TurnOutputs;
  private readonly cells: CellRequests;
  private isDisposed = false;
}
