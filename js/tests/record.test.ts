import { describe, expect, it } from 'vitest';

import type { JsonObject } from '../src/json';
import { sortedText } from '../src/json';
import { conversations, kindOf, readRecord } from '../src/record';

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

describe('a record in segments', () => {
  const part = (id: string, from: number, ...events: unknown[]) => ({
    conversation: id,
    from,
    events
  });
  const seal = (segment: number, length: number) => ({ segment, length, check: '' });
  const stored = () => ({
    jp: {
      version: 2,
      conversation: { id: 'a' },
      sealed: [seal(1, 2), seal(3, 1)],
      events: ['late'],
      others: [{ conversation: { id: 'b' }, sealed: [seal(4, 1)], events: [] }, 7]
    } as JsonObject,
    'jp.1': part('a', 0, 'x', 'y'),
    'jp.3': part('a', 2, 'z'),
    'jp.4': part('b', 0, 'w')
  });

  it('is shown with all its entries', () => {
    const record = readRecord(stored());
    expect(kindOf(record)).toBe('readable');
    expect(conversations(record)).toEqual([
      { conversation: { id: 'a' }, events: ['x', 'y', 'z', 'late'] },
      { conversation: { id: 'b' }, events: ['w'] },
      7
    ]);
  });

  it.each([
    ['missing', (metadata: JsonObject) => delete metadata['jp.1']],
    ['shorter', (metadata: JsonObject) => (metadata['jp.1'] = part('a', 0, 'x'))],
    ['named twice', ({ jp }: JsonObject) => ((jp as JsonObject).sealed = [seal(1, 2), seal(1, 2)])],
    ['not named', ({ jp }: JsonObject) => ((jp as JsonObject).sealed = [null])]
  ])('is damaged if a segment is %s', (_, damage) => {
    const metadata = stored();
    damage(metadata);
    expect(kindOf(readRecord(metadata))).toBe('damaged');
  });
});

describe('sortedText', () => {
  it('is the same in whatever order the keys are', () => {
    const value = { b: [1, { d: null, c: 'x' }], a: { f: 1, e: 2 } };
    expect(sortedText(value)).toBe('{"a":{"e":2,"f":1},"b":[1,{"c":"x","d":null}]}');
    expect(sortedText(['b', 'a'])).toBe('["b","a"]');
  });
});
