/**
 * Outputs of turns in the cells of a document, where JupyterLab does not keep them itself.
 *
 * The cell of a turn that runs, in this page or before it was opened, has one `Showing`.
 * `SharedOutputs` watches the turns of other pages.
 */

import type { ICodeCellModel } from '@jupyterlab/cells';

import type { IPublished, KernelConnection } from './connection';
import { EndLines, wordsOfEnd } from './endlines';
import { FormKeeper } from './forms';
import type { JsonObject } from './json';
import { isObject, list, own } from './json';
import type { OpenDocument } from './opendocument';
import { isShared } from './opendocument';
import type { IDisplayContent, IPrinted } from './outputs';
import {
  areOutputs,
  asOutput,
  asStream,
  fillOutputs,
  findCodeCell,
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
import type { Received } from './protocol';
import { SharedOutputs } from './sharedoutputs';
import type { ILanguage } from './translation';
import type { Views } from './views';

type CellList = OpenDocument['model']['cells'];

/** The limit of ended cells that the user may bring back. */
const MAX_MISSED = 20;

export class TurnOutputs {
  constructor(
    private readonly context: OpenDocument,
    private readonly views: Views,
    private readonly connection: KernelConnection,
    private readonly language: ILanguage
  ) {
    this.sharedOutputs = new SharedOutputs(context, connection);
    this.formKeeper = new FormKeeper(context.model, views, language.trans);
    this.endLines = new EndLines(context.model, views);
  }

  start(): void {
    this.sharedOutputs.start();
    this.cells = this.context.model.cells;
    this.cells.changed.connect(this.onCellsChanged, this);
    this.onCellsChanged();
  }

  /** Leave the cells as they are: they go with the document. */
  dispose(): void {
    this.cells?.changed.disconnect(this.onCellsChanged, this);
    for (const showing of [this.showing, this.ended, ...this.missed]) {
      showing?.dispose();
    }
    this.showing = null;
    this.ended = null;
    this.missed = [];
    this.formKeeper.dispose();
    this.endLines.dispose();
    this.sharedOutputs.dispose();
  }

  /** Forget the turns of the previous kernel process. */
  forgetProcess(): void {
    this.missed = [];
    this.shownRequests.clear();
    this.queuedCells.clear();
    this.sharedOutputs.forgetProcess();
    this.endShowing();
  }

  // --- messages that JupyterLab handles too ---

  /** Follow the outputs of cells. */
  onPublished({ type, content, request, isOwn }: IPublished): void {
    const showing = this.showingOf(request);

    switch (type) {
      case 'stream':
        if (isPrinted(content)) {
          showing?.add(asStream(content));
        }
        break;
      case 'display_data':
      case 'execute_result':
      case 'update_display_data':
        this.onDisplay(content, request, type !== 'update_display_data', isOwn);
        break;
      case 'clear_output':
        showing?.onClear(content.wait === true);
        break;
      case 'error':
        showing?.onError(content);
        break;
      case 'execute_input':
        if (isOwn) {
          this.onRun(request);
        } else if (isShared(this.context)) {
          this.sharedOutputs.trustOutputsOf(content.code);
        }
        break;
      case 'status':
        if (content.execution_state === 'idle') {
          this.onIdle(request);
        }
        break;
    }
  }

  /** The outputs that this page keeps for `request`; null if it keeps none. */
  private showingOf(request: string | undefined): Showing | null {
    return this.showing?.request === request ? this.showing : null;
  }

  private onIdle(request: string | undefined): void {
    if (request !== undefined && this.shownRequests.delete(request)) {
      this.connection.send({ type: 'seen', request });
    }
    if (request === this.showing?.request) {
      this.endShowing();
    }
    this.sharedOutputs.drop(request);
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

    const showing = this.showingOf(request);
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
      this.shownRequests.add(request);
    }
    if (isOwn && isOfTurn && request !== undefined) {
      this.follow(id, request);
    }

    const followed = this.showingOf(request);
    if (followed && (isOfTurn || followed.outputs.has(id))) {
      followed.update(id, { data, metadata });
      this.formKeeper.keep(followed);
    } else if (followed && isNew) {
      followed.add(asOutput({ data, metadata }));
    } else if (!isOwn && isShared(this.context)) {
      if (isOfTurn || this.sharedOutputs.has(id)) {
        this.sharedOutputs.trustWhatShows(id, request, data);
      }
    } else if (isOfTurn && !this.views.runs(request)) {
      this.sharedOutputs.ask(request);
    } else if (!isOwn && !isNew) {
      this.replace(id, { data, metadata });
    }
  }

  /** Keep the outputs of a turn in a cell of this page. */
  private follow(id: string, request: string): void {
    if (this.showing?.request === request) {
      return;
    }

    const { model } = this.context;
    const cell = findCodeCell(model, this.views.findRunningCell(request));
    // A widget `Output` may show them instead of the cell.
    if (!cell || placeOf(cell.outputs, id) < 0) {
      return;
    }
    this.endShowing();
    this.showing = new Showing(model, this.views, request, cell.id);
  }

  /** Update an output that is older than this page. */
  private replace(id: string, content: IDisplayContent): void {
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

  /** Clear a cell that was queued while it ran, when it runs again. */
  private onRun(request: string | undefined): void {
    const id = this.views.findRunningCell(request);
    this.endLines.remove(id);
    const cell = findCodeCell(this.context.model, id);
    if (cell && this.queuedCells.delete(cell.id)) {
      cell.outputs.clear();
    }
  }

  // --- the cells ---

  /** The user may have deleted, moved, or brought back the cell of a turn. */
  private onCellsChanged(): void {
    for (const { id } of this.context.model.cells) {
      this.knownCells.add(id);
    }
    this.endLines.follow();
    this.showing?.follow();
    if (this.showing?.form) {
      this.formKeeper.keep(this.showing);
    }
    this.missed = this.missed.filter(missed => {
      missed.follow();
      return !missed.watchedOutputs;
    });
  }

  private endShowing(): void {
    const { showing } = this;
    if (!showing) {
      return;
    }

    this.showing = null;
    this.ended?.dispose();
    this.ended = showing;
    showing.end();
    this.formKeeper.stop();
    if (showing.isQueuedAgain) {
      this.queuedCells.add(showing.cell);
    }
    if (!showing.cellModel) {
      this.missed = [...this.missed, showing].slice(-MAX_MISSED);
    }
  }

  // --- messages of jp_nb ---

  /** Show the outputs of a cell that started before this page opened. */
  onShow(message: Received<'show'>): void {
    const { to, request, cell: id, code, outputs, puts } = message;
    const { model } = this.context;
    const isOver = message.over === true;
    const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
    if (!isText(request) || !isText(id) || !isText(code) || !areOutputs(outputs)) {
      return;
    }
    if (to !== this.connection.page || model.readOnly) {
      return;
    }
    // JupyterLab shows these outputs; they must not appear twice.
    if (this.views.runs(request)) {
      return;
    }

    const listed = list(outputs) as typeof outputs;
    const ofTurn = selectOutputsOfTurn(listed);
    if (isShared(this.context) && puts !== true) {
      // Another page writes them.
      for (const [displayId, { data }] of ofTurn) {
        this.sharedOutputs.trustWhatShows(displayId, request, data);
      }
      return;
    }

    // A cell that this page had was deleted by the user, who may bring it back.
    const isNew = !this.knownCells.has(id);
    const cell = findCodeCell(model, id) ?? (isNew ? insertCell(model, id, code) : null);
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
    this.sharedOutputs.drop(request);
    this.shownRequests.add(request);
    if (isOver) {
      this.onIdle(request);
    } else {
      this.formKeeper.keep(showing);
    }
  }

  /** Make `cell` ready for the outputs of a turn: trusted, and without those of an earlier run. */
  private prepare(
    cell: ICodeCellModel,
    listed: (IPrinted | IDisplayContent)[],
    ofTurn: ReadonlyMap<string, IDisplayContent>
  ): void {
    const { outputs } = cell;
    if (Array.from(ofTurn.keys()).every(id => placeOf(outputs, id) < 0)) {
      outputs.clear();
    }
    if (isShared(this.context)) {
      trustHere(cell);
    } else {
      cell.trusted = true; // as that of every cell that runs
    }
    // In a shared document, filling it again would draw all outputs anew in the other pages.
    const hasOthers = ofTurn.size < listed.length;
    if (hasOthers && !(isShared(this.context) && outputs.length)) {
      fillOutputs(outputs, listed);
    }
  }

  /** A turn has ended in a cell that runs. */
  onEnded({ request, cell, ...counts }: Received<'ended'>): void {
    if (typeof request !== 'string' || typeof cell !== 'string') {
      return;
    }
    const running = this.showingOf(request)?.cell ?? this.views.findRunningCell(request);
    const text = wordsOfEnd(counts, this.language);
    if (text && running === cell) {
      this.endLines.put(cell, text);
    }
  }

  private readonly sharedOutputs: SharedOutputs;
  private readonly formKeeper: FormKeeper;
  private readonly endLines: EndLines;
  /** The cells of the document. Its model has none after it is disposed. */
  private cells: CellList | null = null;
  /** Outputs of a turn in a cell of this page. */
  private showing: Showing | null = null;
  /** The `showing` before. */
  private ended: Showing | null = null;
  /** Requests of this page with outputs of a turn. */
  private readonly shownRequests = new Set<string>();
  /** Outputs of turns that ended while their cells were gone. */
  private missed: Showing[] = [];
  /** The ids of all cells that this page had. */
  private readonly knownCells = new Set<string>();
  /** The ids of cells that were run again while they ran. */
  private readonly queuedCells = new Set<string>();
}

/** The outputs of a turn among the listed outputs of its cell, by display id. */
function selectOutputsOfTurn(
  listed: (IPrinted | IDisplayContent)[]
): ReadonlyMap<string, IDisplayContent> {
  const ofTurn = new Map<string, IDisplayContent>();
  for (const output of listed) {
    const displayId = own(output, 'display_id');
    if (typeof displayId === 'string' && !isPrinted(output)) {
      const { data, metadata } = output;
      ofTurn.set(displayId, { data, metadata: isObject(metadata) ? metadata : {} });
    }
  }
  return ofTurn;
}
