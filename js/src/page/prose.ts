/**
 * The rules of cells with `%%jp`, whose text is prose and no code.
 *
 * `prose_editor.ts` applies them to editors, and `mentions.ts` completes names in them.
 */

/** The first line of a request. Lines above it may be blank, as for IPython. */
const REQUEST = /^\s*%%jp(?!\S)/;

/** The limit of characters that are searched for the first line. */
const START_CHARS = 500;

/** A name after "@": a variable, a path, or a cell. In "ada@example.org" it is none. */
const MENTION = /(?:^|[\s([{"'>])@([\w./~-]*)$/;

/** Whether a text that starts with `start` is a request. */
export function isProse(start: string): boolean {
  return REQUEST.test(start.slice(0, START_CHARS));
}

/** The start of a text, as long as `isProse` needs it. */
export function startOf(text: { sliceString(from: number, to: number): string }): string {
  return text.sliceString(0, START_CHARS);
}

/** The name that the user types after "@" below the first line, and its place; or null. */
export function findMention(text: string, offset: number): { start: number; name: string } | null {
  if (!isProse(text)) {
    return null;
  }
  const line = text.lastIndexOf('\n', offset - 1) + 1;
  if (!text.slice(0, line).trim()) {
    return null; // the line of the magic
  }
  const name = MENTION.exec(text.slice(line, offset))?.[1];
  return name === undefined ? null : { start: offset - name.length - 1, name };
}
