/** The user's language: the texts of the page, and its numbers. Texts of forms are the kernel's. */

import type { ITranslator, TranslationBundle } from '@jupyterlab/translation';

/** The domain of the translations, by which a language pack names them. */
export const DOMAIN = 'jp_nb';

/** What is used of a bundle of translations. */
export type Texts = Pick<TranslationBundle, '__' | '_n'>;

export interface ILanguage {
  readonly trans: Texts;
  /** A number with the signs between its digits that the language has: 1,234. */
  formatCount(count: number): string;
}

export function readLanguage(translator: ITranslator): ILanguage {
  const format = findFormat(translator.languageCode);
  return {
    trans: translator.load(DOMAIN),
    formatCount: count => format.format(count)
  };
}

/** The numbers of a language; those of English if the browser does not know `code`. */
function findFormat(code: string): Intl.NumberFormat {
  try {
    return new Intl.NumberFormat(code.replaceAll('_', '-'));
  } catch (error) {
    if (error instanceof RangeError) {
      return new Intl.NumberFormat('en-US');
    }
    throw error;
  }
}
