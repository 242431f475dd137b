/**
 * Edits of cells that the user has chosen: applied in one transaction, or not at all.
 *
 * `jp_nb/notebook/page_document.py` is the kernel's side, and `docs/cells.md` has the rules. The
 * steps come from the kernel, so each field is checked, and nothing else than cells is changed.
 */

import type { ICellModel } from '@jupyterlab/cells';
import type { INotebookModel } from '@jupyterlab/notebook';

import type { JsonObject } from './json';
import { isObject, list, own } from './json';
import type { IWithUndo } from './opendocument';
import { isCodeCell } from './outputs';
import { cut } from './report';
import type { Views } from './views';

/** The key of the metadata with the last operation. It survives reload, save, and undo. */
export const EDIT_KEY = 'jp_edit';

/** The limit of a source in a conflict. */
const SOURCE_CHARS = 20_000;

const TYPES = ['code', 'markdown', 'raw'] as const;
const START = 'start';

type CellType = (typeof TYPES)[number];

/** One change of the document; `cell` and `after` are ids, or keys of new cells. */
interface IStep {
  kind: 'insert' | 'set' | 'move' | 'delete';
  cell: string;
  after: string;
  type: CellType;
  source: string;
  /** The parts of the present source that `set` replaces: start, end, text. */
  ranges?: unknown;
}

/** A cell as the user saw it. */
interface IExpected {
  id: string;
  type: string;
  source: string;
  editable: boolean;
  deletable: boolean;
}

/** All cells with their whole sources, and the last operation. */
export function describeDocument(model: INotebookModel): JsonObject {
  const mark: unknown = model.getMetadata(EDIT_KEY);
  return {
    cells: Array.from(model.cells, describe),
    operation: own(mark, 'operation') ?? '',
    ids: own(mark, 'ids') ?? {}
  };
}

function describe(cell: ICellModel): JsonObject {
  const tags: unknown = cell.getMetadata('tags');
  return {
    id: cell.id,
    type: cell.type,
    source: cell.sharedModel.getSource(),
    editable: isAllowed(cell, 'editable'),
    deletable: isAllowed(cell, 'deletable'),
    record: cell.getMetadata('jp') !== undefined,
    tags: list(tags).map(String),
    busy: isBusy(cell),
    outputs: isCodeCell(cell) && cell.outputs.length > 0
  };
}

function isAllowed(cell: ICellModel, key: 'editable' | 'deletable'): boolean {
  return cell.getMetadata(key) !== false;
}

/** Whether a cell runs, or waits to run. */
function isBusy(cell: ICellModel): boolean {
  return isCodeCell(cell) && cell.executionState === 'running';
}

/** Apply an operation of the kernel, once; return the answer. */
export function applyEdits(
  model: INotebookModel,
  views: Views,
  message: JsonObject,
  makeId: () => string
): JsonObject {
  const { operation } = message;
  const steps = list(message.steps);
  const expected = list(message.expected);
  if (typeof operation !== 'string' || !operation) {
    return { operation: '', outcome: 'refused', why: 'the operation has no id' };
  }
  const refuse = (why: string) => ({ operation, outcome: 'refused', why });
  if (!steps.every(isStep) || !expected.every(isExpected)) {
    return refuse('the operation is malformed');
  }
  const mark: unknown = model.getMetadata(EDIT_KEY);
  if (own(mark, 'operation') === operation) {
    return { operation, outcome: 'applied', ids: own(mark, 'ids') };
  }
  if (model.readOnly) {
    return refuse('this notebook is read-only');
  }

  const cells = new Map(Array.from(model.cells, cell => [cell.id, cell]));
  const conflicts = [...findConflicts(cells, expected), ...findLost(cells, steps)];
  if (conflicts.length) {
    return { operation, outcome: 'conflict', conflicts };
  }

  const ids = new Map<string, string>();
  for (const step of steps) {
    if (step.kind === 'insert') {
      ids.set(step.cell, makeId());
    }
  }
  const active = rememberActive(views);
  const order = changeCells(model, cells, steps, ids, operation);
  clearReplaced(model, steps);
  active.forEach(restore => restore());

  const present = Array.from(model.cells, ({ id }) => id);
  const isAsPlanned = order.join('\n') === present.join('\n');
  return {
    operation,
    outcome: isAsPlanned ? 'applied' : 'different',
    ids: Object.fromEntries(ids)
  };
}

function isStep(step: unknown): step is IStep {
  return (
    isObject(step) &&
    ['insert', 'set', 'move', 'delete'].includes(String(step.kind)) &&
    typeof step.cell === 'string' &&
    typeof step.after === 'string' &&
    typeof step.source === 'string' &&
    TYPES.includes(step.type as CellType)
  );
}

function isExpected(cell: unknown): cell is IExpected {
  return (
    isObject(cell) &&
    typeof cell.id === 'string' &&
    typeof cell.type === 'string' &&
    typeof cell.source === 'string' &&
    typeof cell.editable === 'boolean' &&
    typeof cell.deletable === 'boolean'
  );
}

/** The cells that are not as the user saw them. A new position is no conflict. */
function findConflicts(
  cells: ReadonlyMap<string, ICellModel>,
  expected: readonly IExpected[]
): JsonObject[] {
  const conflicts: JsonObject[] = [];
  for (const seen of expected) {
    const cell = cells.get(seen.id);
    if (!cell) {
      conflicts.push({ id: seen.id, reason: 'the cell was deleted.' });
      continue;
    }
    const reason = findChange(cell, seen);
    if (reason) {
      const source = cut(cell.sharedModel.getSource(), SOURCE_CHARS);
      conflicts.push({ id: seen.id, reason, source });
    }
  }
  return conflicts;
}

function findChange(cell: ICellModel, seen: IExpected): string | undefined {
  if (cell.sharedModel.getSource() !== seen.source) {
    return 'the source has changed.';
  }
  if (cell.type !== seen.type) {
    return `the cell is now a ${cell.type} cell.`;
  }
  if (isBusy(cell)) {
    return 'the cell is running or waits to run.';
  }
  const { editable, deletable } = seen;
  if (isAllowed(cell, 'editable') !== editable || isAllowed(cell, 'deletable') !== deletable) {
    return 'the metadata `editable` or `deletable` has changed.';
  }
  return undefined;
}

/** The cells that steps name, and that are gone: places of new and moved cells. */
function findLost(cells: ReadonlyMap<string, ICellModel>, steps: readonly IStep[]): JsonObject[] {
  const known = new Set(cells.keys());
  const lost = new Set<string>();
  for (const { kind, cell, after } of steps) {
    const named = kind === 'insert' ? [after] : kind === 'move' ? [cell, after] : [cell];
    for (const id of named) {
      if (id !== START && !known.has(id)) {
        lost.add(id);
      }
    }
    if (kind === 'insert') {
      known.add(cell);
    }
    if (kind === 'delete') {
      known.delete(cell);
    }
  }
  return Array.from(lost, id => ({ id, reason: 'the cell was deleted.' }));
}

/**
 * Apply all steps as one undo step; return the ids of all cells afterwards.
 *
 * The list of the shared model is stale inside of a transaction, so the order is kept here.
 */
function changeCells(
  model: INotebookModel,
  cells: ReadonlyMap<string, ICellModel>,
  steps: readonly IStep[],
  ids: ReadonlyMap<string, string>,
  operation: string
): string[] {
  const { sharedModel } = model;
  const { undoManager } = sharedModel as unknown as IWithUndo;
  const order = Array.from(cells.keys());
  const idOf = (name: string) => ids.get(name) ?? name;
  const placeAfter = (name: string) => (name === START ? 0 : order.indexOf(idOf(name)) + 1);

  // Changes of the same half second would join the step.
  undoManager?.stopCapturing();
  sharedModel.transact(() => {
    // First, because a moved cell gets another model.
    for (const { kind, cell, source, ranges } of steps) {
      if (kind === 'set') {
        setSource(cells.get(cell) as ICellModel, source, ranges);
      }
    }
    for (const { kind, cell, after, type, source } of steps) {
      const id = idOf(cell);
      const index = order.indexOf(id);
      if (kind === 'delete') {
        sharedModel.deleteCell(index);
        order.splice(index, 1);
      } else if (kind === 'move') {
        const moved = (cells.get(id) as ICellModel).sharedModel.toJSON();
        sharedModel.deleteCell(index);
        order.splice(index, 1);
        const place = placeAfter(after);
        sharedModel.insertCell(place, moved);
        order.splice(place, 0, id);
      } else if (kind === 'insert') {
        // JupyterLab trusts its new cells, too, and never saves the key.
        const metadata = type === 'code' ? { trusted: true } : {};
        const place = placeAfter(after);
        sharedModel.insertCell(place, { cell_type: type, id, source, metadata });
        order.splice(place, 0, id);
      }
    }
    sharedModel.setMetadata(EDIT_KEY, { operation, ids: Object.fromEntries(ids) });
  });
  undoManager?.stopCapturing();
  return order;
}

/**
 * Replace the ranges that differ, so that cursors and concurrent changes elsewhere stay.
 *
 * Ranges that do not give `source` exactly are not used: then the whole source is replaced.
 */
function setSource(cell: ICellModel, source: string, ranges: unknown): void {
  const present = cell.sharedModel.getSource();
  const parts = list(ranges).filter(isRange);
  if (replaceRanges(present, parts) !== source) {
    cell.sharedModel.updateSource(0, present.length, source);
    return;
  }
  // From the end, because a replacement moves the positions after it.
  for (const [start, end, text] of parts.reverse()) {
    cell.sharedModel.updateSource(start, end, text);
  }
}

type Range = [start: number, end: number, text: string];

function isRange(value: unknown): value is Range {
  return (
    Array.isArray(value) &&
    value.length === 3 &&
    Number.isInteger(value[0]) &&
    Number.isInteger(value[1]) &&
    typeof value[2] === 'string'
  );
}

/** The source with other texts in place of `ranges`, which are in order. */
function replaceRanges(source: string, ranges: readonly Range[]): string | undefined {
  const parts: string[] = [];
  let position = 0;
  for (const [start, end, text] of ranges) {
    if (start < position || end < start || end > source.length) {
      return undefined;
    }
    parts.push(source.slice(position, start), text);
    position = end;
  }
  parts.push(source.slice(position));
  return parts.join('');
}

/**
 * Clear the outputs of code cells with another source.
 *
 * Not in the transaction: undo would bring them back beside those of a later run.
 */
function clearReplaced(model: INotebookModel, steps: readonly IStep[]): void {
  const replaced = new Set(steps.filter(({ kind }) => kind === 'set').map(({ cell }) => cell));
  for (const cell of model.cells) {
    if (replaced.has(cell.id) && isCodeCell(cell)) {
      cell.clearExecution();
    }
  }
}

/** Note the active cell of each view. Deleting or moving it would activate another one. */
function rememberActive(views: Views): (() => void)[] {
  return Array.from(views.panels, ({ content }) => {
    const id = content.activeCell?.model.id;
    return () => {
      const index = content.widgets.findIndex(({ model }) => model.id === id);
      if (index >= 0 && index !== content.activeCellIndex) {
        content.activeCellIndex = index;
      }
    };
  });
}
