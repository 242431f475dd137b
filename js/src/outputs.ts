/** Outputs of running cells, where JupyterLab does not keep them itself. */

import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { IOutputAreaModel } from '@jupyterlab/outputarea';

import type { JsonObject } from './json';
import { isObject, list, own, sortedText } from './json';
import type { Views } from './views';

export const WIDGET_VIEW = 'application/vnd.jupyter.widget-view+json';

/** The content of a display. */
export interface IDisplayContent {
  data: JsonObject;
  metadata?: unknown;
}

/** Text that user code has printed. */
export interface IPrinted {
  name: string;
  text: string;
}

/** The form of an open prompt: its display id, and the id of its widget model. */
export interface IForm {
  id: string;
  model: string;
}

export function isCodeCell(cell: ICellModel): cell is ICodeCellModel {
  return cell.type === 'code';
}

/** The display id that the kernel has written into an output that can still change. */
export function markOf(metadata: unknown): unknown {
  return own(own(metadata, 'jp_nb'), 'display_id');
}

/** The index of the output with this display id, or else with this data; or -1. */
export function placeOf(outputs: IOutputAreaModel, id: unknown, data?: unknown): number {
  let alike = -1;
  for (let index = 0; index < outputs.length; index++) {
    const output = outputs.get(index);
    if (markOf(output.metadata) === id) {
      return index;
    }
    // A shared document may have another order of keys.
    if (data && sortedText(output.toJSON().data) === sortedText(data)) {
      alike = index;
    }
  }
  return alike;
}

export function findCodeCell(model: INotebookModel, id: unknown): ICodeCellModel | null {
  for (const cell of model.cells) {
    if (cell.id === id && isCodeCell(cell)) {
      return cell;
    }
  }
  return null;
}

/** Insert a running cell that was never saved at the end, before an empty last cell. */
export function insertCell(model: INotebookModel, id: string, code: string): ICodeCellModel | null {
  const { cells, sharedModel } = model;
  const last = cells.length ? cells.get(cells.length - 1) : null;
  const isEmpty = last?.type === 'code' && !last.sharedModel.getSource();
  const place = cells.length - (isEmpty ? 1 : 0);
  sharedModel.insertCell(place, { cell_type: 'code', id, source: code, metadata: {} });
  return findCodeCell(model, id);
}

export function asOutput({ data, metadata }: IDisplayContent): IOutput {
  return {
    output_type: 'display_data',
    data,
    metadata: isObject(metadata) ? metadata : {}
  } as IOutput;
}

export function isPrinted(value: unknown): value is IPrinted {
  return typeof own(value, 'text') === 'string' && typeof own(value, 'name') === 'string';
}

export function asStream({ name, text }: IPrinted): IOutput {
  return { output_type: 'stream', name, text };
}

/**
 * Show what the kernel lists as the outputs of a running cell: also those of user code, which have
 * no ids. The error of a cell that has ended stays.
 */
export function fillOutputs(
  outputs: IOutputAreaModel,
  listed: (IPrinted | IDisplayContent)[]
): void {
  const before = outputs.toJSON();
  const errors = before.filter(output => output.output_type === 'error');
  const shown = listed
    .filter(output => isPrinted(output) || Object.keys(output.data).length)
    .map(output => (isPrinted(output) ? asStream(output) : asOutput(output)));
  const wanted = [...shown, ...errors];
  if (sortedText(before) !== sortedText(wanted)) {
    outputs.fromJSON(wanted);
  }
}

export function isWidget(output: unknown): boolean {
  return Boolean(own(own(output, 'data'), WIDGET_VIEW));
}

/**
 * Show `output` at `place`.
 *
 * JupyterLab draws a widget where the one before it was drawn, and hides that place when the one
 * before is closed. So something else is shown there in between.
 */
export function show(outputs: IOutputAreaModel, place: number, output: IOutput): void {
  if (isWidget(output) && isWidget(outputs.get(place).toJSON())) {
    outputs.set(place, { ...output, data: { 'text/plain': '' } });
  }
  outputs.set(place, output);
}

/**
 * Trust the outputs of `cell` in this page only.
 *
 * Trusting an output creates it again. In a shared document, all pages would then redraw it, and
 * users would lose the text that they are typing.
 */
export function trustHere(cell: ICodeCellModel): void {
  if (!cell.outputs.trusted) {
    changeHere(cell, () => {
      cell.outputs.trusted = true;
    });
  }
}

/**
 * Change the outputs of a cell in this page, and not in the shared document.
 *
 * The cell's model writes each change of its outputs with one of two methods.
 */
export function changeHere({ sharedModel }: ICodeCellModel, change: () => void): void {
  const own = sharedModel as { updateOutputs?: unknown; clearOutputs?: unknown };
  own.updateOutputs = () => undefined;
  own.clearOutputs = () => undefined;
  try {
    change();
  } finally {
    delete own.updateOutputs;
    delete own.clearOutputs;
  }
}

export function setRunning(cell: ICodeCellModel, isRunning: boolean): void {
  cell.executionState = isRunning ? 'running' : 'idle';
}

/**
 * Outputs of a turn, kept in its cell until the cell ends.
 *
 * JupyterLab loses them if the page reloads before they are saved. It also clears them if the
 * user runs the cell again, although the turn still runs.
 */
export class Showing {
  constructor(
    private readonly model: INotebookModel,
    private readonly views: Views,
    readonly request: string,
    readonly cell: string
  ) {
    this.watch();
  }

  /** By display id: the newest content. */
  readonly outputs = new Map<string, IDisplayContent>();

  /** The cell was queued once more. */
  isQueuedAgain = false;

  /** The outputs of the cell's model, which is new after an undo. */
  watchedOutputs: IOutputAreaModel | null = null;

  get cellModel(): ICodeCellModel | null {
    return findCodeCell(this.model, this.cell);
  }

  get outputsOfCell(): IOutputAreaModel | undefined {
    return this.cellModel?.outputs;
  }

  /** Whether JupyterLab does not update these outputs. */
  get isKeptHere(): boolean {
    return this.isLost || !this.views.runs(this.request);
  }

  /** The form of the open prompt; null without one. */
  get form(): IForm | null {
    if (this.isOver) {
      return null;
    }
    for (const [id, { data }] of this.outputs) {
      const model = own(own(data, WIDGET_VIEW), 'model_id');
      if (typeof model === 'string' && model) {
        return { id, model };
      }
    }
    return null;
  }

  /** Watch the outputs of the cell; return true if the cell has come back, as by an undo. */
  private watch(): boolean {
    const outputs = this.outputsOfCell ?? null;
    if (outputs === this.watchedOutputs) {
      return false;
    }
    this.watchedOutputs?.changed.disconnect(this.onChanged, this);
    this.watchedOutputs = outputs;
    outputs?.changed.connect(this.onChanged, this);
    return outputs !== null;
  }

  /** Show the outputs in the cell that the user has moved, or deleted and brought back. */
  follow(): void {
    if (!this.watch()) {
      return;
    }
    this.isLost = true;
    this.putAll();
    if (!this.isOver) {
      setRunning(this.cellModel!, true);
    }
  }

  /** Set the content of the output `id`. */
  update(id: string, content: IDisplayContent): void {
    this.outputs.set(id, content);
    if (this.isKeptHere) {
      this.put(id);
    }
  }

  put(id: string): void {
    const outputs = this.outputsOfCell;
    const content = this.outputs.get(id);
    if (!outputs || !content) {
      return;
    }
    const place = placeOf(outputs, id, content.data);
    const output = asOutput(content);
    if (place >= 0) {
      if (sortedText(outputs.get(place).toJSON()) !== sortedText(output)) {
        show(outputs, place, output);
      }
    } else if (Object.keys(content.data).length) {
      outputs.add(output);
    }
  }

  putAll(): void {
    for (const id of this.outputs.keys()) {
      this.put(id);
    }
  }

  /** Show the error of the cell, which JupyterLab shows only in the page that ran it. */
  onError({ ename, evalue, traceback }: JsonObject): void {
    if (this.isKeptHere) {
      const error = { output_type: 'error', ename, evalue, traceback } as IOutput;
      this.outputsOfCell?.add(error);
    }
  }

  /** A tool has cleared the cell: the kernel sends the outputs of the turn again. */
  onClear(wait: boolean): void {
    if (!this.isKeptHere) {
      if (wait) {
        this.clearsNext = true;
      } else {
        clearTimeout(this.emptied);
      }
    } else if (!this.views.runs(this.request)) {
      // JupyterLab leaves these outputs alone.
      if (wait) {
        this.dropsNext = true;
      } else {
        this.dropOthers();
      }
    }
  }

  /** Show an output of user code, which JupyterLab shows only in the page that ran the cell. */
  add(output: IOutput): void {
    if (this.isOver || this.views.runs(this.request)) {
      return;
    }
    this.onNext();
    this.outputsOfCell?.add(output);
  }

  /** Another output arrives. */
  onNext(): void {
    if (!this.dropsNext) {
      return;
    }
    this.dropsNext = false;
    this.dropOthers();
  }

  /** Remove the outputs of user code. */
  private dropOthers(): void {
    const outputs = this.outputsOfCell;
    const all = outputs?.toJSON() ?? [];
    const kept = all.filter(output => this.idsOf(output).length);
    if (!outputs || kept.length === all.length) {
      return;
    }
    outputs.changed.disconnect(this.onChanged, this); // the user has not cleared them
    outputs.fromJSON(kept);
    outputs.changed.connect(this.onChanged, this);
  }

  /** The ids that `output` may have; after its last update, an output has no mark. */
  private idsOf({ data, metadata }: JsonObject): unknown[] {
    const mark = markOf(metadata);
    if (mark !== undefined) {
      return [mark];
    }
    const text = sortedText(data);
    const alike = [...this.outputs].filter(([, content]) => sortedText(content.data) === text);
    return alike.map(([id]) => id);
  }

  /** The ids that the outputs of the turn among `outputs` may have, in their order. */
  private idsOfAll(outputs: JsonObject[]): unknown[][] {
    return outputs.map(output => this.idsOf(output)).filter(ids => ids.length > 0);
  }

  /**
   * In a shared document: remove copies of outputs, which two pages may have added.
   *
   * The first copy stays, so that all pages keep the same one, and gets the newest content.
   */
  dropCopies(): void {
    const cell = this.cellModel;
    if (!cell) {
      return;
    }

    const shared = cell.sharedModel;
    const { shown, copies } = this.findCopies(shared.getOutputs());
    for (const index of copies.reverse()) {
      shared.updateOutputs(index, index + 1, []);
    }

    const held = shared.getOutputs();
    const drawn = cell.outputs.toJSON();
    const isInStep = sortedText(this.idsOfAll(drawn)) === sortedText(this.idsOfAll(held));
    if (!copies.length && isInStep) {
      return;
    }

    // JupyterLab appends what another page has inserted, and then removes by index. So this page
    // may draw outputs that the document does not hold, and would write to wrong places in it.
    this.isLost ||= !isInStep;
    if (sortedText(drawn) !== sortedText(held)) {
      changeHere(cell, () => cell.outputs.fromJSON(held));
    }

    const kept = [...this.outputs.keys()].filter(id => !this.isOver || shown.has(id));
    kept.forEach(id => this.put(id));
  }

  /** The ids in `outputs`, and the places of outputs whose id was there before. */
  private findCopies(outputs: JsonObject[]): { shown: Set<unknown>; copies: number[] } {
    const shown = new Set<unknown>();
    const copies: number[] = [];
    for (const [index, output] of outputs.entries()) {
      const ids = this.idsOf(output);
      const id = ids.find(each => !shown.has(each));
      if (id !== undefined) {
        shown.add(id);
      } else if (ids.length) {
        copies.push(index);
      }
    }
    return { shown, copies };
  }

  private onChanged(outputs: IOutputAreaModel, { type }: IOutputAreaModel.ChangedArgs): void {
    if (type === 'add' && this.model.collaborative) {
      setTimeout(() => {
        if (outputs === this.outputsOfCell) {
          this.dropCopies();
        }
      });
    }
    const mayBeEmpty = type === 'remove' || type === 'clear';
    if (this.isOver || outputs.length || !mayBeEmpty) {
      return;
    }
    if (this.clearsNext) {
      this.clearsNext = false;
      return;
    }
    // Wait until the current change of the outputs is complete.
    clearTimeout(this.emptied);
    this.emptied = setTimeout(() => this.onEmptied(outputs));
  }

  private onEmptied(outputs: IOutputAreaModel): void {
    const cell = this.cellModel;
    if (this.isOver || !cell || outputs !== cell.outputs) {
      return;
    }
    // A shared document replaces an output by removing it and adding the new one.
    if (this.model.collaborative && outputs.length) {
      return;
    }
    const isRunning = cell.executionState === 'running';
    this.isLost = true;
    this.isQueuedAgain ||= isRunning && !this.views.runs(this.request);
    if (!isRunning) {
      setRunning(cell, true); // the user chose "Clear Cell Output"
    }
    this.putAll();
  }

  /** The cell has ended. In a shared document, copies of its outputs may still arrive. */
  end(): void {
    const { isKeptHere } = this;
    const cell = this.cellModel;
    this.isQueuedAgain ||= this.views.isQueued(this.cell, this.request);
    this.isOver = true;
    if (!this.model.collaborative) {
      this.dispose();
    }
    if (cell && isKeptHere && !this.isQueuedAgain) {
      setRunning(cell, false);
    }
  }

  dispose(): void {
    clearTimeout(this.emptied);
    this.watchedOutputs?.changed.disconnect(this.onChanged, this);
    this.watchedOutputs = null;
  }

  /** JupyterLab does not update outputs that were cleared or moved. */
  private isLost = false;
  private isOver = false;
  /** The timer that restores cleared outputs. */
  private emptied: ReturnType<typeof setTimeout> | undefined;
  /** `clear_output(wait=True)`: the next output clears them. */
  private clearsNext = false;
  /** The same, where JupyterLab does not clear them. */
  private dropsNext = false;
}

/** Whether the kernel's list of the outputs of a cell can be shown. */
export function areOutputs(outputs: unknown): outputs is (IPrinted | IDisplayContent)[] {
  return list(outputs).every(output => isPrinted(output) || isObject(own(output, 'data')));
}
