/**
 * The record of a document, between its kernel and its metadata.
 *
 * The page introduces itself with `hello` and the stored record, applies the writes of the kernel
 * (`store.ts`), and saves the file. In a shared document, one page writes for all.
 */

import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { User } from '@jupyterlab/services';

import type { KernelConnection } from './connection';
import { isCount, isObject } from './json';
import type { OpenDocument } from './opendocument';
import { isReadOnly, isShared, READ_ONLY } from './opendocument';
import type { OutgoingMessage, Received } from './protocol';
import { FEATURES, isInline, MAX_PIECES, seqOf, split } from './protocol';
import { NotebookStore } from './store';

/** After `bye`; a closing page is gone by then. */
const STAYS_MS = 2000;

export class RecordWriter {
  constructor(
    private readonly context: OpenDocument,
    private readonly user: User.IManager | null,
    private readonly connection: KernelConnection
  ) {
    this.store = new NotebookStore(context.model, connection.page, () => this.onContentChange());
  }

  /** Tell the kernel about changes of the path, the user's name, saves, and that the page closes. */
  start(): void {
    const { context } = this;
    context.pathChanged.connect(this.hello, this);
    context.saveState.connect(this.onSaveState, this);
    this.user?.userChanged.connect(this.onUserChanged, this);
    // Messages that a page sends later, while it closes, do not arrive.
    window.addEventListener('beforeunload', this.onLeave);
  }

  dispose(): void {
    const { context } = this;
    context.pathChanged.disconnect(this.hello, this);
    context.saveState.disconnect(this.onSaveState, this);
    this.user?.userChanged.disconnect(this.onUserChanged, this);
    window.removeEventListener('beforeunload', this.onLeave);
    clearTimeout(this.leaving);
    this.store.dispose();
  }

  /** Forget the write that the previous kernel process began. */
  forgetProcess(): void {
    this.pieces = null;
  }

  // --- the page and its user ---

  /** The session and user name, for the kernel, if the document is shared. */
  private get sender(): { session?: string; user?: string } {
    if (!isShared(this.context)) {
      return {};
    }
    const name = this.user?.identity?.display_name;
    return { session: this.connection.clientId, ...(name && { user: name }) };
  }

  /** Tell the kernel which record this page has, and what it can do. */
  hello(): void {
    const { connection, context } = this;
    const { clientId } = connection;
    if (!connection.isOpen || clientId === undefined || this.leaving !== undefined) {
      return;
    }

    const { keys, carriers } = this.store.read();
    const message: OutgoingMessage & { type: 'hello' } = {
      type: 'hello',
      path: context.localPath,
      readOnly: Boolean(isReadOnly(context)),
      collaborative: isShared(context),
      state: this.store.state,
      tells: FEATURES,
      client: clientId,
      ...this.sender
    };
    const content = { keys, carriers };
    const text = JSON.stringify(content);
    if (isInline(text)) {
      connection.send({ ...message, ...content });
      return;
    }

    const pieces = split(text);
    connection.send({ ...message, chunks: pieces.length });
    pieces.forEach((piece, i) => {
      connection.send({ type: 'chunk', i, of: pieces.length, text: piece });
    });
  }

  private onUserChanged(): void {
    if (isShared(this.context)) {
      this.hello();
    }
  }

  /**
   * The page closes or reloads: another page takes over, unless the user cancels.
   *
   * The kernel asks all pages for `hello`. If this page still answered, it would take over itself.
   */
  private readonly onLeave = (): void => {
    if (!isShared(this.context)) {
      return;
    }

    this.connection.send({ type: 'bye' });
    clearTimeout(this.leaving);
    this.leaving = setTimeout(() => {
      this.leaving = undefined;
      this.hello();
    }, STAYS_MS);
  };

  /** Another page, or the user, has changed what this page has written into a shared document. */
  private onContentChange(): void {
    if (isShared(this.context) && this.isWriter) {
      this.isWriter = false;
      this.hello();
    }
  }

  // --- writes ---

  /** Apply a write, or a piece of one. */
  onWrite(data: Received<'write'> | Received<'chunk'>): void {
    // Each window has its own copy. Of a shared document, the kernel names the page that writes.
    if (data.to !== this.connection.page) {
      this.isWriter = false;
    } else if (data.type === 'write') {
      this.write(data);
    } else {
      this.addPiece(data);
    }
  }

  private write(data: Received<'write'>): void {
    if (isReadOnly(this.context)) {
      this.nack(data, 'read-only');
      return;
    }

    const why = this.store.write(data);
    if (why) {
      this.nack(data, why);
    } else {
      this.isWriter = true;
      this.ack(data);
    }
    if (why === 'stale') {
      this.hello();
    }
  }

  private addPiece(data: Received<'chunk'>): void {
    const { id, i, of, text } = data;
    if (typeof text !== 'string' || !isCount(of, MAX_PIECES - 1) || !isCount(i, of - 1)) {
      this.nack(data, 'refused');
      return;
    }

    if (this.pieces?.id !== id || this.pieces?.of !== of) {
      this.pieces = { id, of, texts: new Map() };
    }
    const { texts } = this.pieces;
    texts.set(i, text);
    if (texts.size < of) {
      this.ack(data);
      return;
    }

    this.pieces = null;
    const whole = Array.from({ length: of }, (_, n) => texts.get(n)).join('');
    let parts: unknown;
    try {
      parts = JSON.parse(whole);
    } catch {
      // It is refused below.
    }
    const write = isObject(parts) ? parts : {};
    this.write({ ...write, seq: data.seq });
  }

  private ack(data: { seq?: unknown }): void {
    const { dirty } = this.context.model;
    this.connection.send({ type: 'ack', seq: seqOf(data), state: this.store.state, dirty });
  }

  private nack(data: { seq?: unknown }, why: string): void {
    this.connection.send({ type: 'nack', seq: seqOf(data), why });
  }

  // --- saves ---

  /** Note the content at the start of a save. Later entries may not be in the file. */
  private onSaveState(_: unknown, state: DocumentRegistry.SaveState): void {
    if (state === 'started') {
      this.store.beginSave();
      this.saving = this.connection.isOpen ? this.store.state : null;
      return;
    }

    if (state === 'completed' && this.saving !== null) {
      this.connection.send({ type: 'saved', state: this.saving });
    }
    if (state.startsWith('completed') || state === 'failed') {
      this.store.endSave();
    }
  }

  /** Save the file, as the kernel asks. */
  async onSave(data: Received<'save'>): Promise<void> {
    const seq = seqOf(data);
    const { connection, context } = this;
    if (isReadOnly(context)) {
      connection.send({ type: 'save_failed', seq, why: READ_ONLY });
      return;
    }

    // `save` itself waits until the user has closed the error dialog.
    let hasFailed = false;
    const fail = (why: string) => {
      context.saveState.disconnect(watch);
      if (!hasFailed) {
        connection.send({ type: 'save_failed', seq, why });
      }
      hasFailed = true;
    };
    const watch = (_: unknown, state: DocumentRegistry.SaveState) => {
      if (state === 'failed') {
        fail('JupyterLab could not save it');
      }
    };

    context.saveState.connect(watch);
    try {
      await context.save();
      context.saveState.disconnect(watch);
      if (!hasFailed) {
        connection.send({ type: 'saved', seq });
      }
    } catch (error) {
      fail(error instanceof Error ? error.message : String(error));
    }
  }

  /** What the kernel stores in the notebook. */
  private readonly store: NotebookStore;
  /** Whether this page has written last, of those that share the document. */
  private isWriter = false;
  /** The state at the start of the save that runs. */
  private saving: string | null = null;
  /** Pieces of a write of the kernel. */
  private pieces: { id: unknown; of: number; texts: Map<number, string> } | null = null;
  /** The timer after `bye`: the user has canceled the closing if the page is still there. */
  private leaving: ReturnType<typeof setTimeout> | undefined;
}
