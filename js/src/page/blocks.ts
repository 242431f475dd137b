/** Which cells show answers, and which elements are plain code blocks of them. */

const CELL_MAGIC = /^\s*%%jp(?!\S)/;
const LINE_MAGIC = /^[ \t]*%jp(?!\S)/m;
const QUERY = /\bjp\.query\b/;

/** The classes that the highlighting of code in Markdown gives to words. */
const HIGHLIGHT = /^(?:ͼ|cm-)/;

/** The classes that Markdown gives to the element of a block. */
const LANGUAGE = /^(?:language-|cm-s-|hljs$)/;

/** Whether a cell with this source shows answers of a model. */
export function showsAnswers(source: string): boolean {
  return CELL_MAGIC.test(source) || LINE_MAGIC.test(source) || QUERY.test(source);
}

/** What is read of an element. */
export interface IElement {
  readonly tagName: string;
  readonly attributes: Iterable<{ name: string; value: string }>;
  readonly children: Iterable<IElement>;
}

/**
 * Whether the user sees all text of the block `code`.
 *
 * Markdown of someone else may contain HTML that hides a part of the text. Such a block gets no
 * buttons, so that nobody copies text that they have not seen.
 */
export function isPlainBlock(pre: IElement, code: IElement): boolean {
  if (Array.from(pre.attributes).length || !hasClasses(code, LANGUAGE)) {
    return false;
  }
  const left = Array.from(code.children);
  for (let element = left.pop(); element; element = left.pop()) {
    if (element.tagName !== 'SPAN' || !hasClasses(element, HIGHLIGHT)) {
      return false;
    }
    left.push(...element.children);
  }
  return true;
}

/** Whether `element` has no other attribute than classes that `allowed` matches. */
function hasClasses({ attributes }: IElement, allowed: RegExp): boolean {
  return Array.from(attributes).every(
    ({ name, value }) =>
      name === 'class' &&
      value
        .split(/\s+/)
        .filter(Boolean)
        .every(each => allowed.test(each))
  );
}

/** The code of a block, without the line break at its end. */
export function codeOf(text: string | null): string {
  return (text ?? '').replace(/\n$/, '');
}
