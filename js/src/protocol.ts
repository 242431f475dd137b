/** The comm messages between kernel and page; see docs/protocol.md. */

import { isCount } from './json';
import type { KernelMessage, PageMessage } from './messages';

export const PROTOCOL = 2;

/** The comm target, which the page registers. */
export const TARGET = 'jp_nb.document';

/** A larger content travels in pieces: messages above 10 MB never reach the kernel. */
export const INLINE_BYTES = 4 * 1024 * 1024;

/** The size of a piece, of which each character has up to 3 bytes. */
export const PIECE_CHARS = 1024 * 1024;

/** The limit of the pieces of a write. */
export const MAX_PIECES = 4096;

/** A message of the kernel as it arrives: any code in the kernel may have sent it. */
export type Received<Type extends KernelMessage['type']> = Unchecked<
  Extract<KernelMessage, { type: Type }>
>;

type Unchecked<Message> = { [Field in keyof Message]?: unknown };

/** A message of the page, without the fields that all of them have. */
export type OutgoingMessage = WithoutCommon<PageMessage>;

type WithoutCommon<Message> = Message extends unknown ? Omit<Message, 'v' | 'page'> : never;

/** The features that the page lists in `hello`. */
export const FEATURES = ['cells', 'input', 'ended', 'printed', 'edits', 'runs'];

/** Whether a message can carry `text` in one piece. */
export function isInline(text: string): boolean {
  return new TextEncoder().encode(text).length <= INLINE_BYTES;
}

/** The number of a message; 0 is that of none. */
export function seqOf({ seq }: { seq?: unknown }): number {
  return isCount(seq) ? seq : 0;
}

/** Split text, but no surrogate pairs. */
export function split(text: string, size = PIECE_CHARS): string[] {
  const pieces: string[] = [];
  let start = 0;
  while (start < text.length) {
    let end = Math.min(start + size, text.length);
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last <= 0xdbff) {
      end--;
    }
    pieces.push(text.slice(start, end));
    start = end;
  }
  return pieces;
}
