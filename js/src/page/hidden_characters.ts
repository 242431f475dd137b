/**
 * Characters in code that are invisible, or look like others.
 *
 * The same rules as `escape_invisible` in `jp_nb/exact_form.py`, by which `%jp code` warns:
 * `hidden_characters.json` in `js/tests/` has cases that the tests of both languages read.
 */

import type { Texts } from '../translation';

/** The limit of lines that a warning names. */
const MAX_LINES = 10;

/** The limit of marks on one letter. More of them cover the lines above and below. */
const MAX_MARKS = 4;

const ASCII = /^[\0-\x7f]*$/;

/** Controls, formats, unassigned characters, and all spaces but the one of ASCII. */
const UNPRINTABLE = /^[\p{C}\p{Z}]$/u;

/** Characters without a shape, although they count as letters, marks, or signs. */
const INVISIBLE = RegExp(
  '^[\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u2800\\u3164\\ufe00-\\ufe0f\\uffa0\\ufffc' +
    '\\u{13441}\\u{13442}\\u{16fe4}\\u{1d159}\\u{e0100}-\\u{e01ef}]$',
  'u'
);

/** Look like characters of paths, addresses, and command lines. */
const LOOKALIKE = RegExp(
  '^[\\u00b4\\u02b9\\u02bc\\u02cb\\u02d0\\u2010-\\u2012\\u2024\\u2025\\u2032\\u2033\\u2035\\u2044' +
    '\\u204e\\u2215\\u2216\\u2217\\u2219\\u2223\\u2236\\u223c\\u2571\\u2572\\u2758\\u27cb\\u27cd' +
    '\\u29f5\\u29f8\\u29f9\\ua4f8\\ua4fa\\ua4fd\\ua789\\ua78c]$',
  'u'
);

const MARK = /^[\p{Mn}\p{Me}]$/u;
const CARRIES_MARKS = /^[\p{L}\p{N}\p{M}]/u;

/** The numbers, from 1, of the lines with characters that a reader does not see or mistakes. */
export function findSuspectLines(code: string): number[] {
  if (ASCII.test(code)) {
    return [];
  }
  const lines = code.replaceAll('\t', ' ').split('\n');
  return lines.flatMap((line, index) => (isSuspect(line) ? [index + 1] : []));
}

function isSuspect(line: string): boolean {
  if (ASCII.test(line)) {
    return false;
  }

  let cluster: string[] = []; // the last letter, and the marks on it so far
  for (const char of line) {
    if (!isRecognizable(char, cluster)) {
      return true;
    }
    cluster = MARK.test(char) ? [...cluster, char] : [char];
  }
  return false;
}

/**
 * Whether a reader can tell `char` from all others, after the letter in `cluster`.
 *
 * A letter with its marks must be in its normal form: `é` also has another one that looks the same.
 */
function isRecognizable(char: string, cluster: readonly string[]): boolean {
  if (char === ' ') {
    return true;
  }
  if (UNPRINTABLE.test(char) || INVISIBLE.test(char) || LOOKALIKE.test(char)) {
    return false;
  }
  if (ASCII.test(char)) {
    return true;
  }

  if (MARK.test(char)) {
    const hasRoom = cluster.length > 0 && cluster.length <= MAX_MARKS;
    if (!hasRoom || !CARRIES_MARKS.test(cluster[0])) {
      return false;
    }
  }
  const text = [...cluster, char].join('');
  return text.normalize('NFC') === text;
}

/** The warning about code with such characters, in the words of `%jp code`; "" without them. */
export function warnOfHidden(code: string, trans: Texts): string {
  const lines = findSuspectLines(code);
  if (!lines.length) {
    return '';
  }

  const more = lines.length - MAX_LINES;
  let named = lines.slice(0, MAX_LINES).join(', ');
  if (more > 0) {
    named = trans.__('%1 and %2 more', named, more);
  }
  return trans._n(
    'Check the code before you run it: line %2 contains characters that are invisible or look like other characters.',
    'Check the code before you run it: lines %2 contain characters that are invisible or look like other characters.',
    lines.length,
    named
  );
}
