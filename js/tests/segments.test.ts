import { describe, expect, it } from 'vitest';

import { canonical, checkOf } from '../src/canonical';
import type { JsonObject } from '../src/json';
import { sealed, sealsIn, unsealed } from '../src/segments';

const events = (count: number) =>
  Array.from({ length: count }, (_, i) => ({
    type: 'x',
    event_id: `${i}`,
    text: 'y'.repeat(9000)
  }));
const record = (count: number, more: JsonObject = {}) => ({
  version: 1,
  conversation: { id: 'jp-c1' },
  events: events(count),
  ...more
});

/** Store `doc` in `metadata` as the bridge does. */
function store(metadata: JsonObject, doc: unknown, isAppended = false): JsonObject {
  const seals = sealsIn(metadata, unsealed(metadata));
  const taken = new Set(Object.keys(metadata));
  const { rest, added } = sealed(doc, seals, isAppended, taken);
  return { ...metadata, ...added, jp: rest };
}

describe('canonical', () => {
  it('is the text of Python', () => {
    const value = {
      b: [1, -0.5, 1e16, 1e-5, 123456.75, 0],
      '\ue000': true,
      '😀': null,
      a: 'é"\ud800'
    };
    expect(canonical(value)).toBe(
      '{"a":"\\u00e9\\"\\ufffd","b":[1.0,-0.5,1e+16,1e-05,123456.75,0.0],"\\ue000":true,"\\ud83d\\ude00":null}'
    );
    expect(canonical([NaN, undefined, 0.001])).toBe('[null,null,0.001]');
  });

  it('has the checksum of zlib', () => {
    expect(checkOf([])).toBe('0d4cbb29');
  });
});

describe('segments', () => {
  it('are read as they were written', () => {
    const doc = record(20, { others: [{ conversation: { id: 'b' }, events: events(3) }, 7] });
    const metadata = store({ 'jp.2': 'of another program' }, doc);
    expect(unsealed(metadata)).toEqual(doc);
    expect(metadata['jp.2']).toBe('of another program');
    expect(JSON.stringify(metadata.jp).length).toBeLessThan(20_000);
  });

  it('are written once', () => {
    const before = store({}, record(20));
    const after = store(before, record(30), true);
    for (const key of Object.keys(before).filter(each => each !== 'jp')) {
      expect(after[key]).toBe(before[key]);
    }
    expect(unsealed(after)).toEqual(record(30));
  });

  it('are written again if the record has changed', () => {
    const changed = record(20);
    changed.events[0].text = 'z';
    expect(unsealed(store(store({}, record(20)), changed))).toEqual(changed);
  });

  it('are not needed for a short record', () => {
    expect(store({}, record(1))).toEqual({ jp: record(1) });
  });

  it.each([
    ['missing', (metadata: JsonObject) => delete metadata['jp.1']],
    ['changed', (metadata: JsonObject) => (metadata['jp.1'] = { conversation: 'jp-c1', from: 0 })],
    ['not named', (metadata: JsonObject) => ((metadata.jp as JsonObject).sealed = 7)]
  ])('that are %s make the record damaged', (_, damage) => {
    const metadata = store({}, record(20));
    damage(metadata);
    expect(unsealed(metadata)).toHaveProperty('broken');
    expect(sealsIn(metadata, unsealed(metadata)).size).toBe(0);
  });
});
