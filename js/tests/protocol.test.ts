import type { ITranslator } from '@jupyterlab/translation';
import { describe, expect, it } from 'vitest';

import { wordsOfEnd } from '../src/endlines';
import { INLINE_BYTES, isInline, split } from '../src/protocol';
import { readLanguage } from '../src/translation';
import { LANGUAGE } from './fakes';

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
  it('has the words and the numbers of the language', () => {
    const german = readLanguage({
      languageCode: 'de_DE',
      load: () => ({ ...LANGUAGE.trans, __: (text: string, count: string) => `${count} (${text})` })
    } as unknown as ITranslator);
    expect(wordsOfEnd({ seconds: 1200, sent: 3456 }, german)).toBe(
      '1.200 (%1 s) · 3.456 (%1 tokens in)'
    );
  });

  it('has English numbers in a language that the browser does not know', () => {
    const load = () => LANGUAGE.trans;
    const odd = readLanguage({ languageCode: '?', load } as unknown as ITranslator);
    expect(wordsOfEnd({ seconds: 1200 }, odd)).toBe('1,200 s');
  });

  it.each([
    [{ seconds: 1200, sent: 3, received: null }, '1,200 s · 3 tokens in'],
    [{ seconds: 1, sent: null, received: 4 }, '1 s · 4 tokens out'],
    [{ seconds: 1 }, '1 s'],
    [{ seconds: '<img>' }, ''],
    [{ seconds: 1e12 }, ''],
    [{ seconds: 1, sent: -1 }, ''],
    [{ seconds: 1, sent: 0.5 }, '']
  ])('of %j are %j', (counts, words) => {
    expect(wordsOfEnd(counts, LANGUAGE)).toBe(words);
  });
});
