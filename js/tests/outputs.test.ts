import type { IOutput } from '@jupyterlab/nbformat';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { IDisplayContent } from '../src/outputs';
import {
  areOutputs,
  findCodeCell,
  fillOutputs,
  insertCell,
  placeOf,
  show,
  Showing,
  trustHere,
  WIDGET_VIEW
} from '../src/outputs';
import { Views } from '../src/views';
import { asOutputs, FakeCell, FakeNotebook, fakePanel } from './fakes';

const content = (text: string, id?: string): IDisplayContent => ({
  data: { 'text/plain': text },
  metadata: id ? { jp_nb: { display_id: id } } : {}
});
const display = (text: string, id?: string) =>
  ({ output_type: 'display_data', ...content(text, id) }) as IOutput;
const form = (model: string) =>
  ({
    output_type: 'display_data',
    data: { [WIDGET_VIEW]: { model_id: model }, 'text/plain': 'form' },
    metadata: {}
  }) as IOutput;
const texts = (cell: FakeCell) =>
  cell.outputs.items.map(
    ({ data, text }) => (data as IDisplayContent['data'])?.['text/plain'] ?? text
  );

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('placeOf', () => {
  it('finds an output by its display id, or else by its data in any order of keys', () => {
    const { outputs } = new FakeCell('a');
    outputs.items = [
      { output_type: 'display_data', data: { b: 1, a: 2 }, metadata: {} },
      display('x', 'id')
    ];
    expect(placeOf(asOutputs(outputs), 'id')).toBe(1);
    expect(placeOf(asOutputs(outputs), 'other', { a: 2, b: 1 })).toBe(0);
    expect(placeOf(asOutputs(outputs), 'other')).toBe(-1);
  });
});

describe('cells', () => {
  it('are inserted before an empty last cell', () => {
    const notebook = new FakeNotebook(new FakeCell('a', 'x'), new FakeCell('b'));
    expect(insertCell(notebook.model, 'c', 'new')?.id).toBe('c');
    expect(notebook.list.map(({ id }) => id)).toEqual(['a', 'c', 'b']);
    insertCell(notebook.model, 'd', 'newer');
    expect(notebook.list.map(({ id }) => id)).toEqual(['a', 'c', 'd', 'b']);
    expect(findCodeCell(notebook.model, 'z')).toBeNull();
  });
});

describe('fillOutputs', () => {
  it('shows what the kernel lists, and keeps the error', () => {
    const cell = new FakeCell('a');
    const error = { output_type: 'error', ename: 'E', evalue: '', traceback: [] } as IOutput;
    cell.outputs.items = [display('old'), error];
    fillOutputs(asOutputs(cell.outputs), [
      { name: 'stdout', text: 'hi' },
      content('new'),
      { data: {} }
    ]);
    expect(cell.outputs.items.map(output => output.output_type)).toEqual([
      'stream',
      'display_data',
      'error'
    ]);
    const changes = vi.fn();
    cell.outputs.changed.connect(changes);
    fillOutputs(asOutputs(cell.outputs), [{ name: 'stdout', text: 'hi' }, content('new')]);
    expect(changes).not.toHaveBeenCalled();
  });
});

describe('show', () => {
  it('shows something else between two widgets', () => {
    const { outputs } = new FakeCell('a');
    outputs.items = [form('one')];
    const seen: unknown[] = [];
    outputs.changed.connect(() => seen.push(outputs.items[0].data));
    show(asOutputs(outputs), 0, form('two'));
    expect(seen).toEqual([{ 'text/plain': '' }, form('two').data]);
  });
});

describe('areOutputs', () => {
  it.each([
    [[{ name: 'stdout', text: 'x' }, { data: {} }], true],
    [[7], false],
    [[{ data: 'x' }], false]
  ])('of %j is %s', (outputs, isFine) => {
    expect(areOutputs(outputs)).toBe(isFine);
  });
});

describe('trustHere', () => {
  it('does not write the shared document', () => {
    const cell = new FakeCell('a');
    const update = vi.spyOn(cell.sharedModel, 'updateOutputs');
    trustHere(cell.model);
    expect(cell.outputs.trusted).toBe(true);
    expect(update).not.toHaveBeenCalled();
  });
});

describe('Showing', () => {
  function start(running: Record<string, string> = {}, collaborative = false) {
    const cell = new FakeCell('a');
    const notebook = new FakeNotebook(cell);
    notebook.collaborative = collaborative;
    const views = new Views();
    views.add(fakePanel(notebook, running));
    return {
      cell,
      notebook,
      views,
      running,
      showing: new Showing(notebook.model, views, 'r', 'a')
    };
  }

  it('shows an output once, and updates it', () => {
    const { cell, showing } = start();
    showing.update('id', content('one', 'id'));
    showing.update('id', content('two', 'id'));
    expect(texts(cell)).toEqual(['two']);
    showing.update('empty', { data: {} });
    expect(texts(cell)).toEqual(['two']);
  });

  it('leaves the outputs to JupyterLab while it shows them', () => {
    const { cell, showing } = start({ a: 'r' });
    expect(showing.isKeptHere).toBe(false);
    showing.update('id', content('one', 'id'));
    showing.onError({ ename: 'E', evalue: '', traceback: [] });
    showing.add(display('printed'));
    expect(texts(cell)).toEqual([]);
  });

  it('shows them again if the user clears the cell', () => {
    const { cell, showing } = start({ a: 'r' });
    cell.outputs.items = [display('one', 'id')];
    showing.outputs.set('id', content('one', 'id'));
    cell.outputs.clear();
    vi.runAllTimers();
    expect(texts(cell)).toEqual(['one']);
    expect(cell.executionState).toBe('running');
    expect(showing.isKeptHere).toBe(true);
  });

  it('keeps a cell running that was queued once more', () => {
    const { cell, running, showing } = start({ a: 'r' });
    showing.outputs.set('id', content('one', 'id'));
    cell.executionState = 'running';
    running.a = 'later';
    cell.outputs.clear();
    vi.runAllTimers();
    expect(showing.isQueuedAgain).toBe(true);
    showing.end();
    expect(cell.executionState).toBe('running');
  });

  it('does not bring back outputs that a tool has cleared', () => {
    const { cell, showing } = start({ a: 'r' });
    showing.outputs.set('id', content('one', 'id'));
    showing.onClear(true);
    cell.outputs.clear();
    vi.runAllTimers();
    expect(texts(cell)).toEqual([]);
    cell.outputs.clear();
    showing.onClear(false);
    vi.runAllTimers();
    expect(texts(cell)).toEqual([]);
  });

  it('drops the outputs of user code that are cleared in another page', () => {
    const { cell, showing } = start();
    showing.update('id', content('kept', 'id'));
    showing.add(display('printed'));
    expect(texts(cell)).toEqual(['kept', 'printed']);
    showing.onClear(true);
    expect(texts(cell)).toEqual(['kept', 'printed']);
    showing.add(display('next'));
    expect(texts(cell)).toEqual(['kept', 'next']);
    showing.onClear(false);
    expect(texts(cell)).toEqual(['kept']);
  });

  it('follows a cell that comes back', () => {
    const { notebook, showing } = start();
    showing.update('id', content('one', 'id'));
    notebook.list.pop();
    showing.follow();
    expect(showing.watchedOutputs).toBeNull();
    const back = new FakeCell('a');
    notebook.list.push(back);
    showing.follow();
    expect(texts(back)).toEqual(['one']);
    expect(back.executionState).toBe('running');
  });

  it('knows the form of the open prompt', () => {
    const { cell, showing } = start();
    expect(showing.form).toBeNull();
    showing.update('id', form('m1') as unknown as IDisplayContent);
    expect(showing.form).toEqual({ id: 'id', model: 'm1' });
    showing.end();
    expect(showing.form).toBeNull();
    expect(cell.executionState).toBe('idle');
    expect(showing.watchedOutputs).toBeNull();
  });

  it('removes copies that two pages have added', () => {
    const { cell, showing } = start({}, true);
    showing.update('id', content('one', 'id'));
    cell.outputs.add(display('one', 'id'));
    cell.outputs.add(display('mine'));
    vi.runAllTimers();
    expect(texts(cell)).toEqual(['one', 'mine']);
    showing.end();
    cell.outputs.add(display('one'));
    vi.runAllTimers();
    expect(texts(cell)).toEqual(['one', 'mine']);
  });

  it('stops drawing a copy that another page has removed from the document', () => {
    const { cell, showing } = start({}, true);
    showing.update('id', content('one'));
    showing.end();
    cell.held = cell.outputs.toJSON();
    cell.outputs.add(display('one'));
    vi.runAllTimers();
    expect(texts(cell)).toEqual(['one']);
  });

  it('leaves the document as it is when the page draws other outputs', () => {
    const { cell, showing } = start({}, true);
    showing.update('id', content('one'));
    showing.end();
    cell.held = cell.outputs.toJSON();
    cell.outputs.items = [display('other')];
    cell.outputs.add(display('another'));
    vi.runAllTimers();
    expect(texts(cell)).toEqual(['one']);
    expect(cell.held).toEqual([display('one')]);
  });
});
