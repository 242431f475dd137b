import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

import type { JsonObject } from '../src/json';
import { carriersIn, isHead, kindOf, merge, WIDGET_STATE, withKept } from '../src/record';

interface ICase {
  name: string;
  stored?: unknown;
  carried: JsonObject;
  seen?: unknown;
  merged: unknown;
}

const path = new URL('../../tests/record/merge_cases.json', import.meta.url);
const cases = JSON.parse(readFileSync(path, 'utf-8')) as ICase[];

describe('merge', () => {
  it.each(cases)('has the rules of Python: $name', ({ stored, carried, seen, merged }) => {
    expect(merge(stored, carried, seen)).toEqual(merged);
  });
});

describe('carriersIn', () => {
  const head = { version: 1, conversation: { id: 'jp-c1' } };
  const [one, two] = [{ type: 'turn_start' }, { type: 'turn_end' }];
  const read = (state: unknown, module = 'jp-nb') => {
    const widgets = { [WIDGET_STATE]: { state: { mine: { model_module: module, state } } } };
    return carriersIn(widgets).map(({ doc }) => doc);
  };

  it('joins the chunks of a record', () => {
    const state = { jp: head, 'events.0': [one], 'events.1': [two], length: 2 };
    expect(read(state)).toEqual([{ ...head, events: [one, two] }]);
  });

  it.each([
    ['the end of a chunk', { jp: head, 'events.0': [one], length: 2 }],
    ['a chunk', { jp: head, 'events.1': [two] }],
    ['the head', { 'events.0': [one] }],
    ['everything', undefined]
  ])('omits a record without %s', (_, state) => {
    expect(read(state)).toEqual([]);
  });

  it('omits the widgets of others', () => {
    expect(read({ jp: head }, '@jupyter-widgets/base')).toEqual([]);
    expect(carriersIn(undefined)).toEqual([]);
  });
});

describe('kindOf', () => {
  it.each([
    [undefined, 'absent'],
    [7, 'damaged'],
    [{ version: 2, conversation: { id: 'a' } }, 'newer'],
    [{ conversation: { id: 'a' }, events: {} }, 'damaged'],
    [{ conversation: {} }, 'damaged'],
    [{ version: 1, conversation: { id: 'a' } }, 'readable']
  ])('of %j is %s', (value, kind) => {
    expect(kindOf(value)).toBe(kind);
  });
});

describe('withKept', () => {
  const entry = (id: string, n: number) => ({ conversation: { id }, events: Array(n).fill({}) });
  const doc = { ...entry('a', 2), others: [entry('b', 1), entry('c', 1), entry('c', 2)] };

  it('takes the named conversations from the page', () => {
    const next = { ...entry('d', 0), others: [entry('x', 0)] };
    const found = withKept(
      next,
      [
        [1, 'a', 2],
        [0, 'b', 1]
      ],
      doc
    );
    expect(found?.others).toEqual([entry('b', 1), entry('a', 2), entry('x', 0)]);
  });

  it.each([
    ['that is missing', [[0, 'z', 1]]],
    ['of another length', [[0, 'a', 1]]],
    ['that is there twice', [[0, 'c', 1]]],
    ['at a place that does not exist', [[5, 'a', 2]]],
    ['with the name of a prototype', [[0, '__proto__', 0]]],
    ['that is no list', [7]],
    ['without a list', 7]
  ])('refuses a conversation %s', (_, kept) => {
    expect(withKept({ others: [] }, kept, doc)).toBeUndefined();
  });
});

describe('isHead', () => {
  it.each([
    [undefined, true],
    [{}, true],
    [{ conversation: { id: 'a' }, base_config: {}, signature: null }, true],
    [{ signature: 'x' }, true],
    [7, false],
    [{ conversation: { id: 'b' } }, false],
    [{ base_config: [] }, false],
    [{ signature: {} }, false]
  ])('of %j is %s', (head, isFine) => {
    expect(isHead(head, 'a')).toBe(isFine);
  });
});
