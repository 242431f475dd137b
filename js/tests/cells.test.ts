import type { YMarkdownCell } from '@jupyter/ydoc';
import { YNotebook } from '@jupyter/ydoc';
import type { INotebookModel } from '@jupyterlab/notebook';
import { describe, expect, it } from 'vitest';

import { applyEdits, describeDocument, EDIT_KEY } from '../src/cells';
import type { JsonObject } from '../src/json';
import { Views } from '../src/views';

type Source = string | { source: string; type?: string; metadata?: JsonObject };

/** A notebook with the cells `a`, `b`, …, whose shared model is the real one. */
class Notebook {
  constructor(...sources: Source[]) {
    while (this.shared.cells.length) {
      this.shared.deleteCell(0);
    }
    sources.forEach((given, index) => {
      const cell = typeof given === 'string' ? { source: given } : given;
      this.shared.insertCell(index, {
        cell_type: cell.type ?? 'code',
        id: String.fromCharCode(97 + index),
        source: cell.source,
        metadata: cell.metadata ?? {},
        ...(cell.type ? {} : { outputs: [stream], execution_count: 3 })
      } as Parameters<YNotebook['insertCell']>[1]);
    });
    this.shared.undoManager.clear();
  }

  readonly shared = YNotebook.create();
  readonly busy = new Set<string>();
  readonly cleared: string[] = [];
  readOnly = false;

  get model(): INotebookModel {
    const { shared } = this;
    const model = {
      sharedModel: shared,
      readOnly: this.readOnly,
      getMetadata: (key: string) => shared.getMetadata(key),
      cells: { [Symbol.iterator]: () => this.cells() }
    };
    return model as unknown as INotebookModel;
  }

  private *cells(): Generator<unknown> {
    for (const cell of this.shared.cells) {
      yield {
        id: cell.getId(),
        type: cell.cell_type,
        sharedModel: cell,
        getMetadata: (key: string): unknown => cell.getMetadata(key),
        executionState: this.busy.has(cell.getId()) ? 'running' : 'idle',
        outputs: { length: 1 },
        clearExecution: () => this.cleared.push(cell.getId())
      };
    }
  }

  get sources(): string[] {
    return this.shared.cells.map(cell => cell.getSource());
  }

  get ids(): string[] {
    return this.shared.cells.map(cell => cell.getId());
  }

  expected(...ids: string[]): JsonObject[] {
    const cells = describeDocument(this.model).cells as JsonObject[];
    return cells.filter(({ id }) => ids.includes(id as string));
  }

  apply(steps: JsonObject[], expected: JsonObject[] = [], operation = 'o1'): JsonObject {
    const whole = steps.map(step => ({ after: '', type: 'code', source: '', ...step }));
    const message = { operation, steps: whole, expected };
    let made = 0;
    return applyEdits(this.model, new Views(), message, () => `made-${++made}`);
  }
}

const stream = { output_type: 'stream', name: 'stdout', text: 'seen' };

const ALL = [
  { kind: 'set', cell: 'a', source: 'uno' },
  { kind: 'insert', cell: 'new:1', after: 'start', type: 'markdown', source: '# Title' },
  { kind: 'insert', cell: 'new:2', after: 'new:1', source: 'x = 1' },
  { kind: 'delete', cell: 'b' },
  { kind: 'move', cell: 'c', after: 'a' },
  { kind: 'set', cell: 'c', source: 'tres' }
];

describe('applyEdits', () => {
  it('applies all steps as one undo step, and keeps outputs of other cells', () => {
    const notebook = new Notebook('one', 'two', 'three', 'four');
    notebook.shared.cells[3].setSource('four, typed by the user');
    const answer = notebook.apply(ALL, notebook.expected('a', 'b', 'c'));
    expect(answer).toEqual({
      operation: 'o1',
      outcome: 'applied',
      ids: { 'new:1': 'made-1', 'new:2': 'made-2' }
    });
    expect(notebook.ids).toEqual(['made-1', 'made-2', 'a', 'c', 'd']);
    expect(notebook.sources).toEqual([
      '# Title',
      'x = 1',
      'uno',
      'tres',
      'four, typed by the user'
    ]);
    expect(notebook.shared.cells[4].toJSON()).toMatchObject({
      outputs: [stream],
      execution_count: 3
    });
    expect(notebook.cleared).toEqual(['a', 'c']);

    notebook.shared.undo();
    expect(notebook.ids).toEqual(['a', 'b', 'c', 'd']);
    expect(notebook.sources.slice(0, 3)).toEqual(['one', 'two', 'three']);
    expect(notebook.shared.cells[1].toJSON()).toMatchObject({ outputs: [stream] });
    expect(notebook.shared.getMetadata(EDIT_KEY)).toMatchObject({ operation: 'o1' });
  });

  it('keeps everything of cells that are not named, and of moved ones', () => {
    const metadata = { tags: ['kept'], other: { tool: 'its data' } };
    const text = { source: 'image', type: 'markdown', metadata };
    const notebook = new Notebook('one', { source: 'two', metadata }, text, text);
    const attachments = { 'a.png': { 'image/png': 'AAAA' } };
    for (const cell of notebook.shared.cells.slice(2)) {
      (cell as YMarkdownCell).setAttachments(attachments);
    }
    const before = notebook.shared.cells.map(cell => cell.toJSON());
    const steps = [
      { kind: 'set', cell: 'a', source: 'uno' },
      { kind: 'move', cell: 'd', after: 'start' }
    ];
    notebook.apply(steps, notebook.expected('a', 'd'));
    const after = notebook.shared.cells.map(cell => cell.toJSON());
    expect(after).toEqual([before[3], { ...before[0], source: 'uno' }, before[1], before[2]]);
    expect(after[0]).toMatchObject({ attachments, metadata });
  });

  it('applies an operation once', () => {
    const notebook = new Notebook('one');
    const step = { kind: 'insert', cell: 'new:1', after: 'a', source: 'x' };
    const first = notebook.apply([step]);
    expect(notebook.apply([step])).toEqual(first);
    expect(notebook.sources).toEqual(['one', 'x']);
    expect(describeDocument(notebook.model)).toMatchObject({
      operation: 'o1',
      ids: { 'new:1': 'made-1' }
    });
    notebook.apply([step], [], 'o2');
    expect(notebook.sources).toEqual(['one', 'x', 'x']);
  });

  it.each([
    ['source', (notebook: Notebook) => notebook.shared.cells[1].setSource('typed')],
    ['running', (notebook: Notebook) => notebook.busy.add('b')],
    ['deleted', (notebook: Notebook) => notebook.shared.deleteCell(1)],
    ['metadata', (notebook: Notebook) => notebook.shared.cells[1].setMetadata('editable', false)]
  ])('applies nothing if a cell has changed: %s', (reason, change) => {
    const notebook = new Notebook('one', 'two', 'three');
    const expected = notebook.expected('a', 'b', 'c');
    change(notebook);
    const before = notebook.sources;
    const answer = notebook.apply(ALL, expected);
    expect(answer.outcome).toBe('conflict');
    expect(answer.conflicts).toMatchObject([{ id: 'b' }, ...(reason === 'deleted' ? [{}] : [])]);
    expect(JSON.stringify(answer.conflicts)).toContain(reason);
    expect(notebook.sources).toEqual(before);
    expect(notebook.shared.getMetadata(EDIT_KEY)).toBeUndefined();
  });

  it('accepts another position, and reports the place of an insertion that is gone', () => {
    const notebook = new Notebook('one', 'two', 'three');
    const expected = notebook.expected('a');
    notebook.shared.moveCell(0, 2);
    const set = { kind: 'set', cell: 'a', source: 'uno' };
    expect(notebook.apply([set], expected).outcome).toBe('applied');
    expect(notebook.sources).toEqual(['two', 'three', 'uno']);

    const insert = { kind: 'insert', cell: 'new:1', after: 'gone', source: 'x' };
    const answer = notebook.apply([insert], [], 'o2');
    expect(answer).toMatchObject({ outcome: 'conflict', conflicts: [{ id: 'gone' }] });
  });

  it('splits no surrogate pair, and writes byte for byte', () => {
    const notebook = new Notebook('a😀b', 'x');
    const source = 'a😁b\r\n\u202e\u200b';
    notebook.apply([{ kind: 'set', cell: 'a', source }], notebook.expected('a'));
    expect(notebook.sources[0]).toBe(source);
    notebook.apply([{ kind: 'set', cell: 'a', source: '' }], notebook.expected('a'), 'o2');
    expect(notebook.sources[0]).toBe('');
  });

  it('replaces only the ranges that differ, so that another edit beside them stays', () => {
    const notebook = new Notebook('a = 1\nb = 2\nc = 3', 'x');
    const changes: unknown[] = [];
    notebook.shared.cells[0].changed.connect((_, { sourceChange }) => changes.push(sourceChange));
    const ranges = [
      [4, 5, '10'],
      [16, 17, '30']
    ];
    const source = 'a = 10\nb = 2\nc = 30';
    notebook.apply([{ kind: 'set', cell: 'a', source, ranges }], notebook.expected('a'));
    expect(notebook.sources[0]).toBe(source);
    expect(changes).toEqual([
      [
        { retain: 4 },
        { insert: '10' },
        { delete: 1 },
        { retain: 11 },
        { insert: '30' },
        { delete: 1 }
      ]
    ]);
  });

  it.each([
    [[[4, 5, '20']]],
    [[[4, 99, '10']]],
    [[[5, 4, '10']]],
    [
      [
        [4, 5, ''],
        [3, 4, '10']
      ]
    ],
    [[['4', 5, '10']]],
    ['forged'],
    [undefined]
  ])('gives exactly the source of the step with the ranges %j', ranges => {
    const notebook = new Notebook('a = 1', 'x');
    const step = { kind: 'set', cell: 'a', source: 'a = 10', ranges } as JsonObject;
    notebook.apply([step], notebook.expected('a'));
    expect(notebook.sources[0]).toBe('a = 10');
  });

  it('refuses a read-only notebook and malformed operations', () => {
    const notebook = new Notebook('one');
    const step = { kind: 'set', cell: 'a', source: 'x' };
    for (const steps of [
      [{ ...step, kind: 'eval' }],
      [{ ...step, source: 1 }],
      [{ kind: 'set' }]
    ]) {
      expect(notebook.apply(steps as JsonObject[]).outcome).toBe('refused');
    }
    expect(notebook.apply([step], [{ id: 'a' }]).outcome).toBe('refused');
    expect(notebook.apply([step], [], '').outcome).toBe('refused');
    notebook.readOnly = true;
    expect(notebook.apply([step]).outcome).toBe('refused');
    expect(notebook.sources).toEqual(['one']);
  });

  it('describes metadata that forbids edits, and data of jp', () => {
    const metadata = { editable: false, deletable: false, jp: {}, tags: ['x'] };
    const notebook = new Notebook({ source: 'one', type: 'markdown', metadata }, 'two');
    const [one, two] = describeDocument(notebook.model).cells as JsonObject[];
    expect(one).toMatchObject({ editable: false, deletable: false, record: true, tags: ['x'] });
    expect(two).toMatchObject({ editable: true, deletable: true, record: false, outputs: true });
  });
});
