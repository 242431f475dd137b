import { describe, expect, it } from 'vitest';

import type { JsonObject } from '../src/json';
import { cut, reportCells } from '../src/report';
import { FakeCell, FakeNotebook } from './fakes';

const image = { output_type: 'display_data', data: { 'image/png': 'QUJD' }, metadata: {} };

function notebook(): FakeNotebook {
  const code = new FakeCell('a', 'print(1)');
  code.executionCount = 3;
  code.isDirty = true;
  code.outputs.items = [
    { output_type: 'stream', name: 'stdout', text: ['1', '\n'] },
    { output_type: 'execute_result', data: { 'text/plain': 'x'.repeat(30_000) }, metadata: {} },
    { output_type: 'error', ename: 'E', evalue: 'why', traceback: ['one', 'two'] },
    { output_type: 'error', ename: 'E', evalue: 'why' },
    image
  ] as FakeCell['outputs']['items'];
  return new FakeNotebook(code, new FakeCell('b', '# Title', 'markdown'));
}

describe('reportCells', () => {
  it('lists all cells in short', () => {
    const [code, text] = reportCells(notebook().model, null);
    expect(text).toEqual({ number: 1, id: 'b', type: 'markdown', source: '# Title', left_out: 0 });
    expect(code).toMatchObject({ execution_count: 3, busy: false, edited: true, left_out: 20_000 });
    const outputs = code.outputs as JsonObject[];
    expect(outputs.map(({ kind }) => kind)).toEqual([
      'stream',
      'result',
      'error',
      'error',
      'display'
    ]);
    expect(outputs[0].text).toBe('1\n');
    expect(outputs[1].text).toMatch(/^x{5000}\n…\nx{5000}$/);
    expect(outputs[2].text).toBe('one\ntwo\n');
    expect(outputs[3].text).toBe('E: why');
    expect(outputs[4]).toEqual({ kind: 'display', text: '(image/png)', images: [] });
  });

  it.each([0, '0', 'a'])('shows the cell %j at length', whole => {
    const [code, other] = reportCells(notebook().model, whole);
    expect(other).toEqual({ number: 1, id: 'b', type: 'markdown' });
    const outputs = code.outputs as JsonObject[];
    expect(outputs[4].images).toEqual([{ type: 'image/png', data: 'QUJD' }]);
  });

  it('cuts no surrogate pair', () => {
    expect(cut('a😀', 2)).toBe('a');
    expect(cut('a😀', 3)).toBe('a😀');
  });

  it.each(['', 'b', 'bc'])('cuts no surrogate pair of a long output that ends with %j', end => {
    const cell = new FakeCell('a', 'print()');
    const text = `a${'😀'.repeat(7000)}${end}`;
    cell.outputs.items = [{ output_type: 'stream', name: 'stdout', text }];
    const [{ outputs }] = reportCells(new FakeNotebook(cell).model, null);
    const [output] = outputs as JsonObject[];
    expect(output.text).toMatch(new RegExp(`^a?(😀)+\n…\n(😀)+${end}$`, 'u'));
  });
});
