import { Signal } from '@lumino/signaling';
import { describe, expect, it } from 'vitest';

import type { IElement } from '../src/page/blocks';
import { codeOf, isPlainBlock, showsAnswers } from '../src/page/blocks';
import { insertBelow } from '../src/page/insertion';
import { DEFAULTS, PageSettings } from '../src/page/settings';
import schema from '../settings/page.json';
import { FakeCell, FakeNotebook } from './fakes';

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
