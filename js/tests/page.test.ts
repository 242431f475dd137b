import { Signal } from '@lumino/signaling';
import { describe, expect, it, vi } from 'vitest';

import type { IElement } from '../src/page/blocks';
import { codeOf, isPlainBlock, showsAnswers } from '../src/page/blocks';
import { findSuspectLines, warnOfHidden } from '../src/page/hidden_characters';
import { insertBelow } from '../src/page/insertion';
import { isExplained, requestWhy, usesJp, WHY } from '../src/page/last_error';
import { MentionProvider, offerCells } from '../src/page/mentions';
import { RunOrder, RunOrders } from '../src/page/run_order';
import { findMention, isProse, startOf } from '../src/page/prose';
import { DEFAULTS, PageSettings } from '../src/page/settings';
import schema from '../settings/page.json';
import { FakeCell, FakeContext, FakeKernel, FakeNotebook, TEXTS } from './fakes';
import hiddenCharacters from './hidden_characters.json';

function element(
  tagName: string,
  attributes: Record<string, string> = {},
  ...children: IElement[]
): IElement {
  const list = Object.entries(attributes).map(([name, value]) => ({ name, value }));
  return { tagName, attributes: list, children };
}

describe('cells that show answers', () => {
  it.each(['%%jp\nHi', '\n %%jp -m fast\nHi', 'x = 1\n%jp log', "jp.query('Hi')"])('%j', source =>
    expect(showsAnswers(source)).toBe(true)
  );

  it.each(['', '%%jpx', 'x = 1\n%%jp', "print('%jp')", '%jpeg', 'my_jp.query_all()', 'Hi'])(
    'not %j',
    source => expect(showsAnswers(source)).toBe(false)
  );
});

describe('characters that the user does not see', () => {
  it.each(hiddenCharacters)('are in the lines that %j names', ({ code, lines }) => {
    expect(findSuspectLines(code)).toEqual(lines);
  });

  it('are told in the words of `%jp code`', () => {
    const says = 'characters that are invisible or look like other characters.';
    expect(warnOfHidden('x = 1', TEXTS)).toBe('');
    expect(warnOfHidden('x\n\u200b', TEXTS)).toBe(
      `Check the code before you run it: line 2 contains ${says}`
    );
    expect(warnOfHidden('\u200b\n\u202e', TEXTS)).toBe(
      `Check the code before you run it: lines 1, 2 contain ${says}`
    );
    expect(warnOfHidden('\u200b\n'.repeat(12), TEXTS)).toBe(
      `Check the code before you run it: lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more contain ${says}`
    );
  });
});

describe('plain code blocks', () => {
  const pre = element('PRE');

  it('are highlighted by Markdown', () => {
    const word = element('SPAN', { class: 'ͼ1a cm-tok' }, element('SPAN'));
    const code = element('CODE', { class: 'cm-s-jupyter language-python' }, word);
    expect(isPlainBlock(pre, code)).toBe(true);
  });

  it.each([
    ['a hidden word', pre, element('CODE', {}, element('SPAN', { hidden: '' }))],
    ['a class that hides', pre, element('CODE', {}, element('SPAN', { class: 'lm-mod-hidden' }))],
    [
      'a nested style',
      pre,
      element('CODE', {}, element('SPAN', {}, element('SPAN', { style: 'font-size: 0' })))
    ],
    ['other elements', pre, element('CODE', {}, element('B'))],
    ['a style of the block', element('PRE', { style: 'color: white' }), element('CODE')],
    ['a class of the block', pre, element('CODE', { class: 'language-python lm-mod-hidden' })]
  ])('have no %s', (_, outer, code) => expect(isPlainBlock(outer, code)).toBe(false));

  it('end without the line break that Markdown adds', () => {
    expect(codeOf('a\n\n')).toBe('a\n');
    expect(codeOf(null)).toBe('');
  });
});

describe('inserted cells', () => {
  it('stand below the cell, and run nothing', () => {
    const notebook = new FakeNotebook(new FakeCell('a'), new FakeCell('b'));
    expect(insertBelow(notebook.model, 'a', 'x = 1')).toBe(1);
    expect(notebook.list.map(({ source }) => source)).toEqual(['', 'x = 1', '']);
    expect(notebook.list[1].executionState).toBe('idle');
  });

  it('are not made in a read-only notebook, or below a cell that is gone', () => {
    const notebook = new FakeNotebook(new FakeCell('a'));
    expect(insertBelow(notebook.model, 'z', 'x')).toBe(-1);
    notebook.readOnly = true;
    expect(insertBelow(notebook.model, 'a', 'x')).toBe(-1);
    expect(notebook.list).toHaveLength(1);
  });
});

describe('requests as prose', () => {
  it.each(['%%jp', '\n  %%jp -m x\nHi', '%%jp\tq'])('%j', text => expect(isProse(text)).toBe(true));

  it.each(['', '%%jpx', 'x\n%%jp', '%jp log', '%%bash', `${'\n'.repeat(600)}%%jp`])(
    'not %j',
    text => expect(isProse(text)).toBe(false)
  );

  it('are found by their start', () => {
    const text = { sliceString: (from: number, to: number) => 'x'.repeat(9999).slice(from, to) };
    expect(startOf(text)).toHaveLength(500);
  });

  const find = (marked: string) => {
    const offset = marked.indexOf('|');
    return findMention(marked.replace('|', ''), offset);
  };

  it.each([
    ['%%jp\n@|', 5, ''],
    ['%%jp\nLook at @da| now', 13, 'da'],
    ['%%jp -n\n\n(@a/b.c|)', 10, 'a/b.c']
  ])('%j has a name after @', (text, start, name) => expect(find(text)).toEqual({ start, name }));

  it.each([
    '%%jp @|',
    '%%jp\nada@ex|',
    '%%jp\n@a b|',
    '@|',
    'x = 1\n@|',
    '%%jp\n`@`|',
    '\n%%jp @a|'
  ])('%j has none', text => expect(find(text)).toBeNull());
});

describe('completions after @', () => {
  const notebook = new FakeNotebook(new FakeCell('a1', '\n  df = 1\n'), new FakeCell('b2'));
  const panel = { content: { model: notebook.model } };
  const provider = new MentionProvider(() => panel as never);
  const reply = (matches: string[], cursor_start = 5) => ({
    requestComplete: () => Promise.resolve({ content: { status: 'ok', matches, cursor_start } })
  });
  const fetch = (kernel: unknown, text = '%%jp\n@') =>
    provider.fetch({ text, offset: text.length }, { session: { kernel } } as never);

  it('are names of the kernel, and cells of the page', async () => {
    const kernel = reply(['{{df}}', '`a b.md`', '@docs/', 'print']);
    const { start, end, items } = await fetch(kernel);
    expect([start, end]).toEqual([5, 6]);
    expect(items.map(({ label, insertText }) => [label, insertText])).toEqual([
      ['@df', '{{df}}'],
      ['@a b.md', '`a b.md`'],
      ['@docs/', '@docs/'],
      ['@cell1', 'cell `a1`'],
      ['@cell2', 'cell `b2`'],
      ['@', '@']
    ]);
    expect(items[3].documentation).toBe('df = 1');
  });

  it('are cells if the kernel completes something else, fails, or is missing', async () => {
    const failing = { requestComplete: () => Promise.reject(new Error('dead')) };
    for (const kernel of [reply(['{{df}}'], 6), failing, null]) {
      const { items } = await fetch(kernel);
      expect(items.map(({ label }) => label)).toEqual(['@cell1', '@cell2', '@']);
    }
  });

  it('are cells if the kernel is busy', async () => {
    vi.useFakeTimers();
    const pending = fetch({ requestComplete: () => new Promise(() => undefined) }, '%%jp\n@cell2');
    await vi.advanceTimersByTimeAsync(1000);
    expect((await pending).items.map(({ label }) => label)).toEqual(['@cell2', '@cell2']);
    vi.useRealTimers();
  });

  it('are limited, and none elsewhere', async () => {
    const cells = Array.from(
      { length: 300 },
      (_, index) => new FakeCell(`c${index}`, 'x'.repeat(99))
    );
    const items = offerCells(cells, 'cell');
    expect(items).toHaveLength(200);
    expect(items[0].documentation).toHaveLength(60);
    expect((await fetch(null, 'x = 1')).items).toEqual([]);
    expect((await fetch(null, '%%jp\n@zzz')).items).toEqual([]);
  });

  it('are offered in requests only', async () => {
    const editor = (text: string) => ({
      model: { sharedModel: { getSource: () => text } },
      getCursorPosition: () => ({}),
      getOffsetAt: () => text.length
    });
    const isApplicable = (text: string) => provider.isApplicable({ editor: editor(text) } as never);
    expect(await isApplicable('%%jp\n@')).toBe(true);
    expect(await isApplicable('x = 1\n@')).toBe(false);
    expect(await provider.isApplicable({} as never)).toBe(false);
  });
});

describe('requests about an error', () => {
  const failed = (id: string, count: number | null, source = '1 / 0') => {
    const cell = new FakeCell(id, source);
    cell.executionCount = count;
    cell.outputs.add({ output_type: 'stream', name: 'stdout', text: '' });
    cell.outputs.add({ output_type: 'error', ename: 'E', evalue: '', traceback: [] });
    return cell;
  };

  const ask = (notebook: FakeNotebook, id: string, order = new RunOrder(notebook.model)) =>
    requestWhy(notebook.model, id, order);

  /** A cell runs in the page, and fails. */
  const fail = (cell: FakeCell, count: number) => {
    cell.clearExecution();
    cell.outputs.add({ output_type: 'error', ename: 'E', evalue: '', traceback: [] });
    cell.executionCount = count;
    cell.stateChanged.emit({ name: 'executionCount', newValue: count });
  };

  it('are inserted below the cell that failed last', () => {
    const jp = failed('c', 9, '%jp why');
    const notebook = new FakeNotebook(failed('a', 3), new FakeCell('x'), failed('b', 2), jp);
    expect(ask(notebook, 'a')).toEqual({ kind: 'inserted', index: 1 });
    expect(notebook.list[1].source).toBe(WHY);
    expect(ask(notebook, 'a')).toEqual({ kind: 'present', index: 1 });
    expect(notebook.list).toHaveLength(5);
  });

  it('are refused for an earlier error, and in a read-only notebook', () => {
    const notebook = new FakeNotebook(failed('a', 3), failed('b', 4), failed('c', null));
    expect(ask(notebook, 'a')).toEqual({ kind: 'uncertain' });
    const order = new RunOrder(notebook.model);
    fail(notebook.list[1], 5);
    expect(ask(notebook, 'a', order)).toEqual({ kind: 'earlier' });
    notebook.readOnly = true;
    expect(ask(notebook, 'b', order)).toEqual({ kind: 'readonly' });
    expect(notebook.list).toHaveLength(3);
  });

  it('follow the order of the runs, not the numbers, which a new kernel counts from 1', () => {
    const notebook = new FakeNotebook(failed('a', 50), failed('b', 40));
    const context = new FakeContext(notebook, new FakeKernel());
    const added = new Signal<object, object>({});
    const forEach = (call: (panel: unknown) => void) => call({ context });
    const orders = new RunOrders({ forEach, widgetAdded: added } as never);
    const order = orders.of(notebook.model);
    added.emit({ context }); // another view of the document
    expect(orders.of(notebook.model)).toBe(order);

    context.sessionContext.statusChanged.emit('busy');
    expect(order.isRestarted).toBe(false);
    context.sessionContext.statusChanged.emit('restarting');
    expect(ask(notebook, 'a', order)).toEqual({ kind: 'restarted' });

    const [a, b] = notebook.list;
    fail(b, 3);
    expect(ask(notebook, 'a', order)).toEqual({ kind: 'restarted' });
    expect(ask(notebook, 'b', order)).toEqual({ kind: 'inserted', index: 2 });
    notebook.list.pop();

    fail(a, 4);
    expect(ask(notebook, 'b', order)).toEqual({ kind: 'earlier' });
    expect(ask(notebook, 'a', order)).toEqual({ kind: 'inserted', index: 1 });
  });

  it('forget the runs of a kernel that was changed, and know those of new cells', () => {
    const notebook = new FakeNotebook(failed('a', 1));
    const context = new FakeContext(notebook, new FakeKernel());
    const widgetAdded = new Signal<object, object>({});
    const orders = new RunOrders({ forEach: () => undefined, widgetAdded } as never);
    widgetAdded.emit({ context });
    const order = orders.of(notebook.model);

    context.sessionContext.kernelChanged.emit({ oldValue: null, newValue: {} });
    notebook.list.push(new FakeCell('b', '1 / 0'));
    notebook.cells.changed.emit();
    fail(notebook.list[1], 7);
    expect(ask(notebook, 'b', order)).toEqual({ kind: 'inserted', index: 2 });
    notebook.list.pop();
    context.sessionContext.kernelChanged.emit({ oldValue: {}, newValue: {} });
    expect(ask(notebook, 'b', order)).toEqual({ kind: 'restarted' });
  });

  it('are offered where jp_nb is used, not about its own cells', () => {
    const notebook = new FakeNotebook(new FakeCell('a', 'x = 1'));
    expect(usesJp(notebook.model)).toBe(false);
    notebook.list[0].source = 'x = 1\n%load_ext jp_nb';
    expect(usesJp(notebook.model)).toBe(true);
    notebook.list[0].source = '';
    notebook.setMetadata('jp', {});
    expect(usesJp(notebook.model)).toBe(true);
    expect([isExplained('1 / 0'), isExplained('%jp why'), isExplained('%%jp\nHi')]).toEqual([
      true,
      false,
      false
    ]);
  });
});

describe('settings of the page', () => {
  it('have the names and defaults of their schema', () => {
    const defaults = Object.entries(schema.properties).map(([name, each]) => [name, each.default]);
    expect(Object.fromEntries(defaults)).toEqual(DEFAULTS);
  });

  it('have defaults, and follow those of JupyterLab', () => {
    const settings = new PageSettings();
    expect(settings.isOn('codeButtons')).toBe(true);
    let changes = 0;
    settings.changed.connect(() => changes++);
    const source = { composite: { codeButtons: false } as Record<string, unknown> };
    const changed = new Signal<typeof source, void>(source);
    settings.follow({ ...source, changed: changed });
    expect(settings.isOn('codeButtons')).toBe(false);
    source.composite.codeButtons = 'odd';
    changed.emit();
    expect(settings.isOn('codeButtons')).toBe(true);
    expect(changes).toBe(2);
  });
});
