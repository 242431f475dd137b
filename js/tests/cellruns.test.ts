import { describe, expect, it } from 'vitest';

import { beginRun, endRun } from '../src/cellruns';
import { Views } from '../src/views';
import { FakeCell, FakeNotebook, fakePanel } from './fakes';

const PRINTED = { output_type: 'stream', name: 'stdout', text: 'new\n' };

function opened(running: Record<string, string> = {}) {
  const cell = new FakeCell('a', 'x = 1');
  const notebook = new FakeNotebook(cell);
  const views = new Views();
  views.add(fakePanel(notebook, running));
  cell.outputs.add({ output_type: 'stream', name: 'stdout', text: 'old\n' });
  return { cell, model: notebook.model, views, notebook };
}

describe('a cell that runs in a turn', () => {
  it('is empty and running, and then has its outputs and its number', async () => {
    const { cell, model, views } = opened();
    beginRun(model, views, { cell: 'a', source: 'x = 1' });
    expect([cell.executionState, cell.outputs.length, cell.trusted]).toEqual(['running', 0, true]);

    const ran = { cell: 'a', source: 'x = 1', count: 7, outputs: [PRINTED] };
    expect(await endRun(model, views, ran)).toEqual({ outcome: 'stored' });
    expect([cell.executionState, cell.executionCount]).toEqual(['idle', 7]);
    expect(cell.outputs.toJSON()).toEqual([PRINTED]);
  });

  it('loses the outputs of an earlier run in a step of its own', async () => {
    const { cell, model, views } = opened();
    const ran = { cell: 'a', source: 'x = 1', count: 7, outputs: [PRINTED] };
    const stored = endRun(model, views, ran);
    expect(cell.outputs.length).toBe(0);
    await stored;
    expect(cell.outputs.toJSON()).toEqual([PRINTED]);
  });

  it.each([
    ['another source', { source: 'y' }, {}],
    ['a cell that is gone', { cell: 'b' }, {}],
    ['a cell that the user has run', {}, { a: 'request' }],
    ['a count that is none', { count: 'x' }, {}],
    ['outputs that are none', { outputs: [{ output_type: 'script' }] }, {}],
    ['a stream of lines', { outputs: [{ ...PRINTED, text: ['a', 'b'] }] }, {}]
  ])('is left alone: %s', async (_, change, running) => {
    const { cell, model, views } = opened(running);
    const before = cell.outputs.toJSON();
    const ran = { cell: 'a', source: 'x = 1', count: 7, outputs: [PRINTED], ...change };
    expect((await endRun(model, views, ran)).outcome).toBe('refused');
    expect(cell.outputs.toJSON()).toEqual(before);
    expect(cell.executionCount).toBe(null);
  });

  it('is left alone in a notebook that is read-only', async () => {
    const { cell, model, views, notebook } = opened();
    notebook.readOnly = true;
    beginRun(model, views, { cell: 'a', source: 'x = 1' });
    const ran = { cell: 'a', source: 'x = 1', count: 7, outputs: [PRINTED] };
    expect((await endRun(model, views, ran)).outcome).toBe('refused');
    expect([cell.executionState, cell.outputs.length]).toEqual(['idle', 1]);
  });
});
