import { describe, expect, it } from 'vitest';

import { wordsOfEnd } from '../src/endlines';
import { INLINE_BYTES, isInline, split } from '../src/protocol';

describe('split', () => {
  it('cuts no surrogate pair, and loses nothing', () => {
    const text = 'ab😀cd😀';
    const pieces = split(text, 3);
    expect(pieces).toEqual(['ab', '😀c', 'd😀']);
    expect(split('')).toEqual([]);
  });
});

describe('isInline', () => {
  it('counts the bytes that a message has', () => {
    expect(isInline('a'.repeat(INLINE_BYTES))).toBe(true);
    expect(isInline('漢'.repeat(INLINE_BYTES / 2))).toBe(false);
  });
});

describe('wordsOfEnd', () => {
  it.each([
    [{ seconds: 1200, sent: 3, received: null }, '1,200 s · 3 tokens in'],
    [{ seconds: 1, sent: null, received: 4 }, '1 s · 4 tokens out'],
    [{ seconds: 1 }, '1 s'],
    [{ seconds: '<img>' }, ''],
    [{ seconds: 1e12 }, ''],
    [{ seconds: 1, sent: -1 }, ''],
    [{ seconds: 1, sent: 0.5 }, '']
  ])('of %j are %j', (counts, words) => {
    expect(wordsOfEnd(counts)).toBe(words);
  });
});
