/** The rules of a list of options: its selection, its filter, and its counts. */

/** The selected options, in the order of the clicks, and the user's own text. */
export interface ISelection {
  picks: number[];
  /** null if it is not part of the answer. */
  custom: string | null;
}

/** Return the change after the user selected or cleared the option `index`. */
export function select(
  before: ISelection,
  index: number,
  { multi, checked }: { multi: boolean; checked: boolean }
): Partial<ISelection> {
  if (!multi) {
    return { picks: [index], custom: null };
  }

  const others = before.picks.filter(each => each !== index);
  return { picks: checked ? [...others, index] : others };
}

/** Return true if the option is part of the answer. An own text replaces a single choice. */
export function isPicked({ picks, custom }: ISelection, index: number, multi: boolean): boolean {
  return (multi || custom === null) && picks.includes(index);
}

/** Return the text as the filter compares it: without accents, in lower case. */
export function normalizeForSearch(text: string): string {
  return text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
}

/** Return the words of the filter's text. Each of them must be in an option that it shows. */
export function splitSearch(search: string): string[] {
  return normalizeForSearch(search).split(/\s+/).filter(Boolean);
}

/** Return true for each option that stays visible: selected ones, and those with all `words`. */
export function sift(keys: readonly string[], words: readonly string[], picks: readonly number[]) {
  const picked = new Set(picks);
  return keys.map((key, index) => picked.has(index) || words.every(word => key.includes(word)));
}

/** Return the texts below the list: the number of shown and of selected options; "" for none. */
export function describeCounts(
  { picks, custom }: ISelection,
  { multi, words, shown, total }: { multi: boolean; words: number; shown: number; total: number }
): { shown: string; picked: string } {
  const picked = picks.length + (custom === null ? 0 : 1);
  return {
    shown: words ? `${shown} of ${total} shown` : '',
    picked: multi && picked ? `(${picked} selected)` : ''
  };
}

/**
 * Return the index after a step from `at` among `count` places, around both ends.
 *
 * From elsewhere (-1), a step forward leads to the first place, and a step back to the last one.
 * Returns -1 if there are no places.
 */
export function stepAround(at: number, step: number, count: number): number {
  if (count === 0) {
    return -1;
  }
  if (at < 0) {
    return step > 0 ? 0 : count - 1;
  }
  return (at + step + count) % count;
}
