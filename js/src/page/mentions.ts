/** Completions after "@" in a request: variables and files from the kernel, cells from the page. */

import type {
  CompletionHandler,
  ICompletionContext,
  ICompletionProvider
} from '@jupyterlab/completer';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';

import { findMention } from './prose';

/** The limit of cells that are offered. */
const MAX_CELLS = 200;

/** The limit of characters of a cell's first line. */
const LINE_CHARS = 60;

/** The time for the kernel's names. A kernel that is busy answers later, and only cells appear. */
const KERNEL_MS = 800;

type Item = CompletionHandler.ICompletionItem;

/** What is read of a cell. */
interface ICell {
  readonly id: string;
  readonly sharedModel: { getSource(): string };
}

/** What is read of a notebook. */
export interface INotebookOf {
  (context: ICompletionContext): Pick<NotebookPanel, 'content'> | undefined;
}

export class MentionProvider implements ICompletionProvider {
  readonly identifier = 'jp-nb:mentions';
  /** Above the kernel, whose items are the same with other labels. */
  readonly rank = 1100;

  constructor(private readonly notebookOf: INotebookOf) {}

  isApplicable({ editor }: ICompletionContext): Promise<boolean> {
    if (!editor) {
      return Promise.resolve(false);
    }
    const text = editor.model.sharedModel.getSource();
    const offset = editor.getOffsetAt(editor.getCursorPosition());
    return Promise.resolve(findMention(text, offset) !== null);
  }

  async fetch(
    { text, offset }: CompletionHandler.IRequest,
    context: ICompletionContext
  ): Promise<CompletionHandler.ICompletionItemsReply> {
    const mention = findMention(text, offset);
    if (!mention) {
      return { start: offset, end: offset, items: [] };
    }
    const kernel = context.session?.kernel;
    const names = kernel ? await askKernel(kernel, text, offset, mention.start) : [];
    const cells = this.notebookOf(context)?.content.model?.cells ?? [];
    const items = [...names, ...offerCells(cells, mention.name)];
    if (items.length) {
      // JupyterLab types the common beginning of all texts, by which no label would be found.
      const typed = `@${mention.name}`;
      items.push({ label: typed, insertText: typed, type: 'text' });
    }
    return { start: mention.start, end: offset, items };
  }
}

/** The names of the kernel: `{{name}}` gets the label `@name`, by which the list is filtered. */
async function askKernel(
  kernel: Kernel.IKernelConnection,
  code: string,
  offset: number,
  start: number
): Promise<Item[]> {
  const late = new Promise<null>(resolve => setTimeout(() => resolve(null), KERNEL_MS));
  const asked = kernel.requestComplete({ code, cursor_pos: offset }).catch(() => null);
  const reply = await Promise.race([asked, late]);
  if (!reply || reply.content.status !== 'ok' || reply.content.cursor_start !== start) {
    return [];
  }
  return reply.content.matches.flatMap(match => {
    const item = labelled(match);
    return item ? [item] : [];
  });
}

/** A match of the kernel as an item; null if the kernel completed something else. */
export function labelled(match: string): Item | null {
  const variable = /^\{\{(.+)\}\}$/.exec(match)?.[1];
  if (variable !== undefined) {
    return { label: `@${variable}`, insertText: match, type: 'variable' };
  }
  const file = /^`(.+)`$/.exec(match)?.[1];
  if (file !== undefined) {
    return { label: `@${file}`, insertText: match, type: 'file' };
  }
  return /^@.+\/$/.test(match) ? { label: match, insertText: match, type: 'folder' } : null;
}

/** The cells of the notebook, by number and first line. The text names the id, as tools do. */
export function offerCells(cells: Iterable<ICell>, typed: string): Item[] {
  const items: Item[] = [];
  let number = 0;
  for (const { id, sharedModel } of cells) {
    number += 1;
    const label = `@cell${number}`;
    if (!label.startsWith(`@${typed}`)) {
      continue;
    }
    const first = sharedModel
      .getSource()
      .split('\n', 20)
      .find(line => line.trim());
    const documentation = Array.from(first?.trim() ?? '')
      .slice(0, LINE_CHARS)
      .join('');
    items.push({ label, insertText: `cell \`${id}\``, type: 'cell', documentation });
    if (items.length === MAX_CELLS) {
      break;
    }
  }
  return items;
}
