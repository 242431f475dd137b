/**
 * One open document: stores the record in its metadata, and answers the kernel.
 *
 * `jp_nb/notebook/page/live_store.py` is the kernel's side. Messages of the kernel carry data only.
 * Any code in the kernel can send such messages. So a message only affects the notebook whose path
 * it names: it can change the record (`store.ts`), save the file, show output in a running cell, and
 * read and edit the cells.
 */

import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { IOutputAreaModel } from '@jupyterlab/outputarea';
import type { Kernel, KernelMessage, User } from '@jupyterlab/services';
import { UUID } from '@lumino/coreutils';

import { AwaitedOutputs } from './awaited';
import { beginRun, endRun } from './cellruns';
import { applyEdits, describeDocument } from './cells';
import { EndLines, wordsOfEnd } from './endlines';
import { FormKeeper } from './forms';
import type { JsonObject } from './json';
import { isCount, isObject, list, own } from './json';
import type { IContent } from './outputs';
import {
  areOutputs,
  asOutput,
  asStream,
  cellOf,
  fill,
  insertCell,
  isCodeCell,
  isPrinted,
  markOf,
  placeOf,
  setRunning,
  show,
  Showing,
  trustHere
} from './outputs';
import type { Answer, Received } from './protocol';
import { FEATURES, isInline, MAX_PIECES, PROTOCOL, split, TARGET } from './protocol';
import { reportCells } from './report';
import { NotebookStore } from './store';
import { Views } from './views';

/** After `bye`; a closing page is gone by then. */
const STAYS_MS = 2000;

/** The time between two requests for outputs that no cell shows. */
const ASK_AGAIN_MS = 1000;

/** The limit of ended cells that the user may bring back. */
const MAX_MISSED = 20;

type Context = DocumentRegistry.IContext<INotebookModel>;
type IOPubMessage = KernelMessage.IIOPubMessage;
type ControlMessage = KernelMessage.IControlMessage;

export class Bridge {
  constructor(
    private readonly context: Context,
    private readonly user: User.IManager | null
  ) {
    this.awaited = new AwaitedOutputs(context.model);
    this.keeper = new FormKeeper(context.model, this.views);
    this.ends = new EndLines(context.model, this.views);
    this.store = new NotebookStore(context.model, this.page, () => this.onContentChange());
    void context.ready.then(() => this.start());
  }

  /** All views of the document. */
  readonly views = new Views();

  private start(): void {
    const { context } = this;
    if (context.isDisposed) {
      return;
    }
    context.model.contentChanged.connect(() => this.lookForAwaited());
    context.model.cells.changed.connect(() => this.onCellsChanged());
    this.onCellsChanged();
    context.pathChanged.connect(() => this.hello());
    context.saveState.connect((_, state) => this.onSaveState(state));
    context.sessionContext.kernelChanged.connect((_, { newValue }) => this.connect(newValue));
    context.disposed.connect(() => this.connect(null));
    this.user?.userChanged.connect(this.onUser, this);
    // Messages that a page sends later, while it closes, do not arrive.
    const onLeave = () => this.onLeave();
    window.addEventListener('beforeunload', onLeave);
    context.disposed.connect(() => {
      this.user?.userChanged.disconnect(this.onUser, this);
      window.removeEventListener('beforeunload', onLeave);
    });
    this.connect(context.sessionContext.session?.kernel ?? null);
  }

  /** The user's name has changed. */
  private onUser(): void {
    if (this.shared) {
      this.hello();
    }
  }

  /**
   * The page closes or reloads: another page takes over, unless the user cancels.
   *
   * The kernel asks all pages for `hello`. If this page still answered, it would take over itself.
   */
  private onLeave(): void {
    if (!this.shared) {
      return;
    }
    this.send({ type: 'bye' });
    clearTimeout(this.leaving);
    this.leaving = setTimeout(() => {
      this.leaving = undefined;
      this.hello();
    }, STAYS_MS);
  }

  // --- the notebook ---

  private get path(): string {
    return this.context.localPath;
  }

  /** Whether other pages may have the same document, and write it. */
  private get shared(): boolean {
    return Boolean(this.context.model.collaborative);
  }

  /** The session and user name, for the kernel, if the document is shared. */
  private get sender(): { session?: string; user?: string } {
    if (!this.shared) {
      return {};
    }
    const name = this.user?.identity?.display_name;
    return { session: this.kernel?.clientId, ...(name && { user: name }) };
  }

  private get readOnly(): boolean {
    const { model, contentsModel } = this.context;
    return model.readOnly || contentsModel?.writable === false;
  }

  /** Note the content at the start of a save. Later entries may not be in the file. */
  private onSaveState(state: DocumentRegistry.SaveState): void {
    if (state === 'started') {
      this.store.beginSave();
      this.saving = this.comm ? this.store.state : null;
      return;
    }
    if (state === 'completed' && this.saving !== null) {
      this.send({ type: 'saved', state: this.saving });
    }
    if (state.startsWith('completed') || state === 'failed') {
      this.store.endSave();
    }
  }

  /** Another page, or the user, has changed what this page has written into a shared document. */
  private onContentChange(): void {
    if (this.shared && this.isWriter) {
      this.isWriter = false;
      this.hello();
    }
  }

  // --- the kernel ---

  private connect(kernel: Kernel.IKernelConnection | null): void {
    if (this.kernel === kernel) {
      return;
    }
    this.kernel?.iopubMessage.disconnect(this.onIOPub, this);
    this.kernel?.statusChanged.disconnect(this.onStatus, this);
    this.kernel = kernel;
    this.begin();
    if (!kernel) {
      return;
    }
    // JupyterLab closes comms of unregistered targets. Messages are read from iopub, because a
    // connection that shares its kernel does not receive comms.
    kernel.registerCommTarget(TARGET, () => undefined);
    kernel.iopubMessage.connect(this.onIOPub, this);
    kernel.statusChanged.connect(this.onStatus, this);
    void this.adopt(
      kernel,
      kernel.info.then(() => kernel.requestCommInfo({ target_name: TARGET }))
    );
    void this.adopt(kernel, this.commsOfBusy(kernel));
  }

  /** Reset the state that belongs to the previous kernel process. */
  private begin(): void {
    this.comm = null;
    this.pieces = null;
    this.missed = [];
    this.shows.clear();
    this.queued.clear();
    this.awaited = new AwaitedOutputs(this.context.model);
    clearTimeout(this.askTimer);
    this.askTimer = undefined;
    this.endShowing();
  }

  private onStatus(_: unknown, status: Kernel.Status): void {
    if (['restarting', 'autorestarting', 'dead'].includes(status)) {
      this.begin();
    }
  }

  /** While a cell runs, ipykernel answers on the control channel only. */
  private async commsOfBusy(kernel: Kernel.IKernelConnection): Promise<unknown> {
    if ((await kernel.spec)?.language !== 'python') {
      return null;
    }
    const message = this.message(kernel, 'comm_info_request', { target_name: TARGET });
    return kernel.sendControlMessage(message, true, true).done;
  }

  /** Find the comm of a kernel that ran before this page opened. */
  private async adopt(kernel: Kernel.IKernelConnection, answer: unknown): Promise<void> {
    try {
      const comms = own(own(await answer, 'content'), 'comms');
      const ids = Object.keys(isObject(comms) ? comms : {});
      const found = ids.filter(id => id.startsWith(`${TARGET}.`)).pop();
      if (found && this.kernel === kernel && !this.comm) {
        this.comm = found;
        this.hello();
      }
    } catch {
      // The kernel died or has no comms. A busy kernel is adopted by its next message.
    }
  }

  private onIOPub(kernel: Kernel.IKernelConnection, message: IOPubMessage): void {
    const { header, parent_header } = message;
    const content = message.content as JsonObject;
    const parent = parent_header as Partial<KernelMessage.IHeader> | undefined;
    const request = parent?.msg_id;
    const isOfShowing = this.showing !== null && request === this.showing.request;
    const isOwn = parent?.session === kernel.clientId; // this page has asked for it
    switch (header.msg_type) {
      case 'comm_open':
        // Documents may share the kernel: only the one that ran the cell answers.
        if (content.target_name === TARGET && isOwn) {
          this.comm = content.comm_id as string;
          this.hello();
        }
        break;
      case 'comm_msg':
        if (String(content.comm_id).startsWith(`${TARGET}.`)) {
          this.onMessage(content.comm_id as string, content.data);
        }
        break;
      case 'comm_close':
        if (content.comm_id === this.comm) {
          this.comm = null;
        }
        break;
      case 'stream':
        if (isOfShowing && isPrinted(content)) {
          this.showing?.add(asStream(content));
        }
        break;
      case 'display_data':
      case 'execute_result':
      case 'update_display_data':
        this.onDisplay(content, request, header.msg_type !== 'update_display_data', isOwn);
        break;
      case 'clear_output':
        if (isOfShowing) {
          this.showing?.onClear(content.wait === true);
        }
        break;
      case 'error':
        if (isOfShowing) {
          this.showing?.onError(content);
        }
        break;
      case 'execute_input':
        if (isOwn) {
          this.onRun(request);
        } else if (this.shared) {
          this.trustOutputsOf(content.code);
        }
        break;
      case 'status':
        if (content.execution_state === 'idle') {
          this.onIdle(request);
        }
        break;
    }
  }

  private onIdle(request: string | undefined): void {
    if (request !== undefined && this.shows.delete(request)) {
      this.send({ type: 'seen', request });
    }
    if (request === this.showing?.request) {
      this.endShowing();
    }
    this.awaited.drop(request);
  }

  private onDisplay(
    content: JsonObject,
    request: string | undefined,
    isNew: boolean,
    isOwn: boolean
  ): void {
    const { data, metadata } = content;
    const id = own(content.transient, 'display_id');
    if (!isObject(data) || this.context.model.readOnly) {
      return;
    }
    const showing = this.showing?.request === request ? this.showing : null;
    if (isNew) {
      showing?.onNext();
    }
    if (typeof id !== 'string') {
      showing?.add(asOutput({ data, metadata }));
      return;
    }
    const isOfTurn = markOf(metadata) === id;
    // JupyterLab has already shown outputs of this page's own requests.
    if (isOfTurn && request !== undefined && this.views.runs(request)) {
      this.shows.add(request);
    }
    if (isOwn && isOfTurn && request !== undefined) {
      this.follow(id, request);
    }
    const followed = this.showing?.request === request ? this.showing : null;
    if (followed && (isOfTurn || followed.outputs.has(id))) {
      followed.update(id, { data, metadata });
      this.keeper.keep(followed);
    } else if (followed && isNew) {
      followed.add(asOutput({ data, metadata }));
    } else if (!isOwn && this.shared) {
      if (isOfTurn || this.awaited.has(id)) {
        this.trustWhatShows(id, request, data);
      }
    } else if (isOfTurn && !this.views.runs(request)) {
      this.askOutputs(request);
    } else if (!isOwn && !isNew) {
      this.replace(id, { data, metadata });
    }
  }

  /**
   * Trust the outputs of a cell that another page runs, such as a form.
   *
   * This is done while the cell has no outputs: later, all pages would redraw each of them.
   */
  private trustOutputsOf(code: unknown): void {
    for (const cell of this.context.model.cells) {
      if (!isCodeCell(cell) || cell.sharedModel.getSource() !== code) {
        continue;
      }
      // A second connection of the same method does nothing.
      cell.outputs.changed.connect(this.trustEmpty, this);
      this.trustEmpty(cell.outputs);
    }
  }

  private trustEmpty(outputs: IOutputAreaModel): void {
    if (outputs.length) {
      return;
    }
    outputs.changed.disconnect(this.trustEmpty, this);
    outputs.trusted = true; // as those of every cell that runs
  }

  /**
   * Trust an output in a cell that another page runs, once the document shows its newest content.
   *
   * The shared document may arrive later than the kernel's message.
   */
  private trustWhatShows(id: string, request: string | undefined, data: JsonObject): void {
    this.awaited.add(id, request, data);
    this.awaited.look();
    this.askForAwaited();
  }

  /** The document has changed: the page that ran a cell may have written outputs. */
  private lookForAwaited(): void {
    if (this.awaited.look()) {
      clearTimeout(this.askTimer);
      this.askTimer = undefined;
      this.askForAwaited();
    }
  }

  /**
   * Ask the kernel for outputs, or contents of them, that the shared document does not get.
   *
   * The page that ran their cell is gone: it does not write them, and this page may have to.
   */
  private askForAwaited(): void {
    if (this.awaited.request === undefined || this.askTimer !== undefined) {
      return;
    }
    this.askTimer = setTimeout(() => {
      this.askTimer = undefined;
      this.askOutputs(this.awaited.request);
      this.askForAwaited();
    }, ASK_AGAIN_MS);
  }

  /** Keep the outputs of a turn in a cell of this page. */
  private follow(id: string, request: string): void {
    if (this.showing?.request === request) {
      return;
    }
    const { model } = this.context;
    const cell = cellOf(model, this.views.cellOf(request));
    // A widget `Output` may show them instead of the cell.
    if (!cell || placeOf(cell.outputs, id) < 0) {
      return;
    }
    this.endShowing();
    this.showing = new Showing(model, this.views, request, cell.id);
  }

  /**
   * Ask the kernel for the outputs of a request that nothing in this page shows.
   *
   * JupyterLab drops them if the user runs the cell again, and if the page that ran the cell was
   * reloaded while the cell was queued.
   */
  private askOutputs(request: string | undefined): void {
    const now = performance.now();
    if (!request || !this.comm) {
      return;
    }
    if (this.asked?.request === request && now - this.asked.at < ASK_AGAIN_MS) {
      return;
    }
    this.asked = { request, at: now };
    this.send({ type: 'want', request });
  }

  /** The user may have deleted, moved, or brought back the cell of a turn. */
  private onCellsChanged(): void {
    for (const { id } of this.context.model.cells) {
      this.cellIds.add(id);
    }
    this.ends.follow();
    this.showing?.follow();
    if (this.showing?.form) {
      this.keeper.keep(this.showing);
    }
    this.missed = this.missed.filter(missed => {
      missed.follow();
      return !missed.watched;
    });
  }

  /** Update an output that is older than this page. */
  private replace(id: string, content: IContent): void {
    for (const cell of this.context.model.cells) {
      if (!isCodeCell(cell)) {
        continue;
      }
      const place = placeOf(cell.outputs, id);
      if (place >= 0) {
        show(cell.outputs, place, asOutput(content));
      }
    }
  }

  private endShowing(): void {
    const { showing } = this;
    if (!showing) {
      return;
    }
    this.showing = null;
    this.ended?.release();
    this.ended = showing;
    showing.end();
    this.keeper.stop();
    if (showing.again) {
      this.queued.add(showing.cell);
    }
    if (!showing.cellModel) {
      this.missed = [...this.missed, showing].slice(-MAX_MISSED);
    }
  }

  /** Clear a cell that was queued while it ran, when it runs again. */
  private onRun(request: string | undefined): void {
    const id = this.views.cellOf(request);
    this.ends.remove(id);
    const cell = cellOf(this.context.model, id);
    if (cell && this.queued.delete(cell.id)) {
      cell.outputs.clear();
    }
  }

  /** Show the outputs of a cell that started before this page opened. */
  private onShow(message: Received<'show'>): void {
    const { to, request, cell: id, code, outputs, puts } = message;
    const { model } = this.context;
    const isOver = message.over === true;
    const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
    if (!isText(request) || !isText(id) || !isText(code) || !areOutputs(outputs)) {
      return;
    }
    if (to !== this.page || model.readOnly) {
      return;
    }
    // JupyterLab shows these outputs; they must not appear twice.
    if (this.views.runs(request)) {
      return;
    }
    const listed = list(outputs) as typeof outputs;
    const ofTurn = new Map<string, IContent>();
    for (const output of listed) {
      const displayId = own(output, 'display_id');
      if (typeof displayId === 'string' && !isPrinted(output)) {
        const { data, metadata } = output;
        ofTurn.set(displayId, { data, metadata: isObject(metadata) ? metadata : {} });
      }
    }
    if (this.shared && puts !== true) {
      // Another page writes them.
      for (const [displayId, { data }] of ofTurn) {
        this.trustWhatShows(displayId, request, data);
      }
      return;
    }
    // A cell that this page had was deleted by the user, who may bring it back.
    const isNew = !this.cellIds.has(id);
    const cell = cellOf(model, id) ?? (isNew ? insertCell(model, id, code) : null);
    if (isOver && cell?.sharedModel.getSource() !== code) {
      return;
    }
    this.endShowing();
    // All this is done before `Showing` observes the cell: otherwise the cell would count as queued
    // again, and keep its `[*]`.
    if (cell) {
      this.prepare(cell, listed, ofTurn);
    }
    const showing = new Showing(model, this.views, request, id);
    if (cell) {
      setRunning(cell, true);
    }
    for (const [displayId, content] of ofTurn) {
      showing.outputs.set(displayId, content);
    }
    showing.putAll();
    this.showing = showing;
    this.awaited.drop(request);
    this.shows.add(request);
    if (isOver) {
      this.onIdle(request);
    } else {
      this.keeper.keep(showing);
    }
  }

  /** Make `cell` ready for the outputs of a turn: trusted, and without those of an earlier run. */
  private prepare(
    cell: NonNullable<ReturnType<typeof cellOf>>,
    listed: Parameters<typeof fill>[1],
    ofTurn: ReadonlyMap<string, IContent>
  ): void {
    const { outputs } = cell;
    if (Array.from(ofTurn.keys()).every(id => placeOf(outputs, id) < 0)) {
      outputs.clear();
    }
    if (this.shared) {
      trustHere(cell);
    } else {
      cell.trusted = true; // as that of every cell that runs
    }
    // In a shared document, filling it again would draw all outputs anew in the other pages.
    const hasOthers = ofTurn.size < listed.length;
    if (hasOthers && !(this.shared && outputs.length)) {
      fill(outputs, listed);
    }
  }

  /** A turn has ended in a cell that runs. */
  private onEnded({ request, cell, ...counts }: Received<'ended'>): void {
    if (typeof request !== 'string' || typeof cell !== 'string') {
      return;
    }
    const { showing } = this;
    const runs = showing?.request === request ? showing.cell : this.views.cellOf(request);
    const text = wordsOfEnd(counts);
    if (text && runs === cell) {
      this.ends.put(cell, text);
    }
  }

  private onMessage(comm: string, data: unknown): void {
    // Each message names its notebook, because two notebooks may share a kernel.
    if (!isObject(data) || data.path !== this.path) {
      return;
    }
    if (!this.comm) {
      // The kernel knew this path before the page loaded.
      this.comm = comm;
      this.hello();
      return;
    }
    if (comm !== this.comm) {
      void this.checkComm();
      return;
    }
    if (data.v !== PROTOCOL) {
      this.nack(data, 'protocol');
      return;
    }
    switch (data.type) {
      case 'write':
      case 'chunk':
        // Each window has its own copy. Of a shared document, the kernel names the page that writes.
        if (data.to !== this.page) {
          this.isWriter = false;
        } else if (data.type === 'write') {
          this.onWrite(data);
        } else {
          this.onChunk(data);
        }
        break;
      case 'pull':
        if (!data.to || data.to === this.page) {
          this.hello();
        }
        break;
      case 'show':
        this.onShow(data);
        break;
      case 'ended':
        this.onEnded(data);
        break;
      case 'input':
        this.send({ type: 'input', seq: seqOf(data), can: this.views.runs(data.request) });
        break;
      case 'cells':
        if (data.to === this.page) {
          this.onCells(data);
        }
        break;
      case 'document':
        if (data.to === this.page) {
          this.answer(data, describeDocument(this.context.model));
        }
        break;
      case 'edit':
        if (data.to === this.page) {
          this.onEdit(data);
        }
        break;
      case 'run':
        if (data.to === this.page && !this.readOnly) {
          beginRun(this.context.model, this.views, data);
        }
        break;
      case 'ran':
        if (data.to === this.page) {
          void this.onRan(data);
        }
        break;
      case 'save':
        // Two pages that write one file at once can corrupt it.
        if (!data.to || data.to === this.page) {
          void this.onSave(data);
        }
        break;
    }
  }

  /** Follow another comm for this notebook if the current one is closed. */
  private async checkComm(): Promise<void> {
    const { kernel, comm } = this;
    if (this.isChecking || !kernel || !comm) {
      return;
    }
    this.isChecking = true;
    try {
      const answer = await this.commsOfBusy(kernel);
      const open = own(own(answer, 'content'), 'comms');
      if (isObject(open) && !Object.hasOwn(open, comm) && this.comm === comm) {
        this.comm = null;
        await this.adopt(kernel, answer);
      }
    } catch {
      // The kernel is gone.
    } finally {
      this.isChecking = false;
    }
  }

  private onWrite(data: Received<'write'>): void {
    if (this.readOnly) {
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

  private onChunk(data: Received<'chunk'>): void {
    const { id, i, of, text } = data;
    const isWhole = (value: unknown, below: number): value is number =>
      Number.isInteger(value) && (value as number) >= 0 && (value as number) < below;
    if (typeof text !== 'string' || !isWhole(of, MAX_PIECES) || !isWhole(i, of)) {
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
    this.onWrite({ ...write, seq: data.seq });
  }

  private onCells(data: Received<'cells'>): void {
    this.answer(data, reportCells(this.context.model, data.whole ?? null));
  }

  /** Apply edits that the user has chosen. */
  private onEdit(data: Received<'edit'>): void {
    const { operation } = data;
    if (this.readOnly) {
      this.answer(data, { operation, outcome: 'refused', why: 'this notebook is read-only' });
      return;
    }
    this.answer(data, applyEdits(this.context.model, this.views, data, UUID.uuid4));
  }

  /** Store the outputs of a cell that the kernel has run inside of a turn. */
  private async onRan(data: Received<'ran'>): Promise<void> {
    const answer = this.readOnly
      ? { outcome: 'refused', why: 'this notebook is read-only' }
      : await endRun(this.context.model, this.views, data);
    this.answer(data, answer);
  }

  /** Answer a request for cells, in pieces. */
  private answer(data: { seq?: unknown }, report: unknown): void {
    const seq = seqOf(data);
    const pieces = split(JSON.stringify(report));
    pieces.forEach((text, i) => this.send({ type: 'cells', seq, i, of: pieces.length, text }));
  }

  private async onSave(data: Received<'save'>): Promise<void> {
    const seq = seqOf(data);
    const { context } = this;
    if (this.readOnly) {
      this.send({ type: 'save_failed', seq, why: 'this notebook is read-only' });
      return;
    }
    // `save` itself waits until the user has closed the error dialog.
    let hasFailed = false;
    const fail = (why: string) => {
      context.saveState.disconnect(watch);
      if (!hasFailed) {
        this.send({ type: 'save_failed', seq, why });
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
        this.send({ type: 'saved', seq });
      }
    } catch (error) {
      fail(error instanceof Error ? error.message : String(error));
    }
  }

  // --- messages to the kernel ---

  private hello(): void {
    if (!this.comm || !this.kernel || this.leaving !== undefined) {
      return;
    }
    const { keys, carriers } = this.store.read();
    const message: Answer & { type: 'hello' } = {
      type: 'hello',
      path: this.path,
      readOnly: Boolean(this.readOnly),
      collaborative: this.shared,
      state: this.store.state,
      tells: FEATURES,
      client: this.kernel.clientId,
      ...this.sender
    };
    const content = { keys, carriers };
    const text = JSON.stringify(content);
    if (isInline(text)) {
      this.send({ ...message, ...content });
      return;
    }
    const pieces = split(text);
    this.send({ ...message, chunks: pieces.length });
    pieces.forEach((piece, i) => this.send({ type: 'chunk', i, of: pieces.length, text: piece }));
  }

  private ack(data: { seq?: unknown }): void {
    const { dirty } = this.context.model;
    this.send({ type: 'ack', seq: seqOf(data), state: this.store.state, dirty });
  }

  private nack(data: { seq?: unknown }, why: string): void {
    this.send({ type: 'nack', seq: seqOf(data), why });
  }

  /** On the control channel: a message on shell waits until the running cell has ended. */
  private send(data: Answer): void {
    const { kernel, comm } = this;
    if (!kernel || kernel.isDisposed || !comm) {
      return;
    }
    const content = { comm_id: comm, data: { v: PROTOCOL, page: this.page, ...data } };
    try {
      const message = this.message(kernel, 'comm_msg', content);
      kernel.sendControlMessage(message, false, true).done.catch(() => undefined);
    } catch {
      // The kernel is dead.
    }
  }

  /** A message for the control channel, which JupyterLab's types do not know for comms. */
  private message(
    kernel: Kernel.IKernelConnection,
    type: string,
    content: JsonObject
  ): ControlMessage {
    const message: unknown = {
      channel: 'control',
      header: {
        msg_id: UUID.uuid4(),
        msg_type: type,
        session: kernel.clientId,
        username: kernel.username,
        date: new Date().toISOString(),
        version: '5.3'
      },
      parent_header: {},
      metadata: {},
      content,
      buffers: []
    };
    return message as ControlMessage;
  }

  /** The id of this page, for the kernel. */
  private readonly page = UUID.uuid4();
  private kernel: Kernel.IKernelConnection | null = null;
  /** The id of the kernel's comm. */
  private comm: string | null = null;
  private isChecking = false;
  /** What the kernel stores in the notebook. */
  private readonly store: NotebookStore;
  /** Whether this page has written last, of those that share the document. */
  private isWriter = false;
  /** The state at the start of the save that runs. */
  private saving: string | null = null;
  /** Pieces of a write of the kernel. */
  private pieces: { id: unknown; of: number; texts: Map<number, string> } | null = null;
  private readonly keeper: FormKeeper;
  private readonly ends: EndLines;
  /** Outputs of a turn in a cell of this page. */
  private showing: Showing | null = null;
  /** The `showing` before. */
  private ended: Showing | null = null;
  /** Requests of this page with outputs of a turn. */
  private readonly shows = new Set<string>();
  /** Outputs of turns that ended while their cells were gone. */
  private missed: Showing[] = [];
  /** The ids of all cells that this page had. */
  private readonly cellIds = new Set<string>();
  /** The last request whose outputs this page asked for, and when. */
  private asked: { request: string; at: number } | null = null;
  /** Outputs of turns in other pages. */
  private awaited: AwaitedOutputs;
  /** The timer until this page asks for one of them. */
  private askTimer: ReturnType<typeof setTimeout> | undefined;
  /** The timer after `bye`: the user has canceled the closing if the page is still there. */
  private leaving: ReturnType<typeof setTimeout> | undefined;
  /** The ids of cells that were run again while they ran. */
  private readonly queued = new Set<string>();
}

/** The number of a message; 0 is that of none. */
function seqOf({ seq }: { seq?: unknown }): number {
  return isCount(seq) ? seq : 0;
}
