/** The cells of the notebook, for tools that read it. */

import type { ICellModel } from '@jupyterlab/cells';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { IOutputModel } from '@jupyterlab/rendermime';

import type { JsonObject } from './json';
import { isObject, list, own } from './json';
import { isCodeCell } from './outputs';

/** Limits in characters: of one text, and of all together. */
interface IBounds {
  source: number;
  sources: number;
  output: number;
  outputs: number;
  images: number;
}

/** All cells in short. */
const LISTED: IBounds = {
  source: 20e3,
  sources: 2e6,
  output: 10e3,
  outputs: 1.5e6,
  images: 0
};

/** One cell at length. */
const LOOKED_AT: IBounds = {
  source: 200e3,
  sources: 200e3,
  output: 200e3,
  outputs: 200e3,
  images: 6e6
};

const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

const KINDS = new Map([
  ['stream', 'stream'],
  ['execute_result', 'result'],
  ['error', 'error']
]);

/** The rest of the limits in a report of the cells. */
class Room {
  constructor(private readonly bounds: IBounds) {
    this.sources = bounds.sources;
    this.outputs = bounds.outputs;
    this.images = bounds.images;
  }

  leftOut = 0;

  source(text: string): string {
    const most = Math.min(this.bounds.source, this.sources);
    this.sources -= Math.min(text.length, most);
    this.leftOut += Math.max(0, text.length - most);
    return cut(text, most);
  }

  /** The beginning and the end of an output, because errors are at the end. */
  output(text: string): string {
    const most = Math.min(this.bounds.output, this.outputs);
    this.outputs -= Math.min(text.length, most);
    if (text.length <= most) {
      return text;
    }
    this.leftOut += text.length - most;
    const half = Math.floor(most / 2);
    return `${cut(text, half)}\n…\n${cutStart(text, half)}`;
  }

  image(text: unknown): boolean {
    if (typeof text !== 'string' || text.length > this.images) {
      return false;
    }
    this.images -= text.length;
    return true;
  }

  private sources: number;
  private outputs: number;
  private images: number;
}

/** The beginning of `text`, without splitting a surrogate pair. */
export function cut(text: string, most: number): string {
  const last = text.length > most ? text.charCodeAt(most - 1) : 0;
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most);
}

/** The end of `text`, without splitting a surrogate pair. */
function cutStart(text: string, most: number): string {
  const start = text.length - most;
  const first = text.charCodeAt(start);
  return text.slice(first >= 0xdc00 && first <= 0xdfff ? start + 1 : start);
}

/** A text, which nbformat may have as a list of lines; undefined if it is none. */
function joined(text: unknown): string | undefined {
  if (Array.isArray(text)) {
    return text.join('');
  }
  return typeof text === 'string' ? text : undefined;
}

function textOf({ output_type, text, data, ename, evalue, traceback }: JsonObject): string {
  if (output_type === 'stream') {
    return joined(text) ?? '';
  }
  if (output_type === 'error') {
    const lines = list(traceback).map(line => `${String(line)}\n`);
    return lines.join('') || `${String(ename)}: ${String(evalue)}`;
  }
  const plain = joined(own(data, 'text/plain'));
  const types = Object.keys(isObject(data) ? data : {}).join(', ');
  return plain ?? `(${types})`;
}

function outputOf(model: IOutputModel, room: Room): JsonObject {
  const output = model.toJSON() as JsonObject;
  const images = IMAGES.map(type => ({ type, data: joined(own(output.data, type)) }));
  return {
    kind: KINDS.get(String(output.output_type)) ?? 'display',
    text: room.output(textOf(output)),
    images: images.filter(image => room.image(image.data))
  };
}

function reportOf(cell: ICellModel, number: number, room: Room): JsonObject {
  const { id, type } = cell;
  room.leftOut = 0;
  const report: JsonObject = {
    number,
    id,
    type,
    source: room.source(cell.sharedModel.getSource())
  };
  if (isCodeCell(cell)) {
    report.execution_count = cell.executionCount;
    report.busy = cell.executionState === 'running'; // also while it is queued
    report.edited = cell.isDirty === true;
    const outputs: JsonObject[] = [];
    for (let i = 0; i < cell.outputs.length; i++) {
      outputs.push(outputOf(cell.outputs.get(i), room));
    }
    report.outputs = outputs;
  }
  return { ...report, left_out: room.leftOut };
}

/** All cells in short, or one cell (by number or id) at length and the ids of the others. */
export function reportCells(model: INotebookModel, whole: unknown): JsonObject[] {
  const room = new Room(whole === null ? LISTED : LOOKED_AT);
  return Array.from(model.cells, (cell, number) => {
    const { id, type } = cell;
    const names: unknown[] = [number, String(number), id];
    const isWanted = whole === null || names.includes(whole);
    return isWanted ? reportOf(cell, number, room) : { number, id, type };
  });
}
