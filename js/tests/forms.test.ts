import type { IOutput } from '@jupyterlab/nbformat';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { FormKeeper } from '../src/forms';
import type { IDisplayContent } from '../src/outputs';
import { Showing, WIDGET_VIEW } from '../src/outputs';
import { Views } from '../src/views';
import { FakeCell, FakeNotebook, TEXTS } from './fakes';

const FORM: IDisplayContent = {
  data: { [WIDGET_VIEW]: { model_id: 'm' }, 'text/plain': 'form' },
  metadata: { jp_nb: { display_id: 'id' } }
};
const OUTPUT = { output_type: 'display_data', ...FORM } as IOutput;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function keepForm(collaborative: boolean, ...cells: FakeCell[]): FakeCell[] {
  const notebook = new FakeNotebook(new FakeCell('a'), ...cells);
  notebook.collaborative = collaborative;
  const views = new Views();
  const showing = new Showing(notebook.model, views, 'r', 'a');
  showing.update('id', FORM);
  vi.runAllTimers();
  // As if another page had added it, and its signal were still to be handled.
  notebook.list[0].outputs.items.push(structuredClone(OUTPUT));

  const keeper = new FormKeeper(notebook.model, views, TEXTS);
  keeper.keep(showing);
  vi.advanceTimersByTime(1000);
  keeper.stop();
  showing.end();
  return notebook.list;
}

it('removes a copy of the form that another page has added to its cell', () => {
  const [cell] = keepForm(true);
  expect(cell.outputs.items).toEqual([OUTPUT]);
});

it('makes a form in another cell its text, and one of the same cell that no other page added', () => {
  const pasted = new FakeCell('b');
  pasted.outputs.items.push(structuredClone(OUTPUT));
  const [cell, other] = keepForm(false, pasted);
  const text = { output_type: 'display_data', data: { 'text/plain': 'form' }, metadata: {} };
  expect(cell.outputs.items).toEqual([OUTPUT, text]);
  expect(other.outputs.items).toEqual([text]);
});

it('makes a second form in a cell of another id its text, also in a shared document', () => {
  const pasted = new FakeCell('b');
  pasted.outputs.items.push(structuredClone(OUTPUT));
  const [cell, other] = keepForm(true, pasted);
  const text = { output_type: 'display_data', data: { 'text/plain': 'form' }, metadata: {} };
  expect(cell.outputs.items).toEqual([OUTPUT]);
  expect(other.outputs.items).toEqual([text]);
});

it('draws what the shared document holds when the page has lost step with it', () => {
  const notebook = new FakeNotebook(new FakeCell('a'));
  notebook.collaborative = true;
  const showing = new Showing(notebook.model, new Views(), 'r', 'a');
  showing.update('id', FORM);
  const [cell] = notebook.list;
  const text = { output_type: 'display_data', data: { 'text/plain': 'form' }, metadata: {} };
  cell.outputs.items.push(text);
  cell.held = [];

  showing.dropCopies();

  expect(cell.outputs.items).toEqual([OUTPUT]);
  showing.end();
});

it('keeps what user code has printed in a shared document', () => {
  const notebook = new FakeNotebook(new FakeCell('a'));
  notebook.collaborative = true;
  const showing = new Showing(notebook.model, new Views(), 'r', 'a');
  showing.update('id', FORM);
  const [cell] = notebook.list;
  const printed = { output_type: 'stream', name: 'stdout', text: 'x' } as IOutput;
  cell.outputs.items.push(printed);
  cell.held = [structuredClone(OUTPUT), printed, structuredClone(OUTPUT)];

  showing.dropCopies();

  expect(cell.held).toEqual([OUTPUT, printed]);
  expect(cell.outputs.items).toEqual([OUTPUT, printed]);
  showing.end();
});
