/** Quiet lines below cells, with the duration and the tokens of the last turn. */

import type { INotebookModel } from '@jupyterlab/notebook';
import type { IOutputAreaModel } from '@jupyterlab/outputarea';

import { isCount } from './json';
import { findCodeCell } from './outputs';
import type { Received } from './protocol';
import type { ILanguage } from './translation';
import type { Views } from './views';

/** The limit of seconds and tokens. */
const MAX_COUNT = 1e9;

type Counts = Pick<Received<'ended'>, 'seconds' | 'sent' | 'received'>;

/** The words about a turn that has ended; "" unless they are counts. */
export function wordsOfEnd(
  { seconds, sent, received }: Counts,
  { trans, formatCount }: ILanguage
): string {
  const isKnown = (count: unknown) => count !== undefined && count !== null;
  const counts = [seconds, ...[sent, received].filter(isKnown)];
  if (!counts.every(count => isCount(count, MAX_COUNT))) {
    return '';
  }
  const inText = (count: unknown) => formatCount(count as number);
  const words = [trans.__('%1 s', inText(seconds))];
  if (isKnown(sent)) {
    words.push(trans.__('%1 tokens in', inText(sent)));
  }
  if (isKnown(received)) {
    words.push(trans.__('%1 tokens out', inText(received)));
  }
  return words.join(' · ');
}

interface ILine {
  nodes: HTMLElement[];
  outputs: IOutputAreaModel;
  onChanged: () => void;
}

/** The lines are in this page only, and no outputs: neither the document nor the file has them. */
export class EndLines {
  constructor(
    private readonly model: INotebookModel,
    private readonly views: Views
  ) {}

  put(id: string, text: string): void {
    this.remove(id);
    const outputs = findCodeCell(this.model, id)?.outputs;
    if (!outputs) {
      return;
    }
    const nodes: HTMLElement[] = [];
    for (const { content } of this.views.panels) {
      const cell = content.widgets.find(({ model }) => model?.id === id);
      if (!cell) {
        continue;
      }
      const node = document.createElement('div');
      node.className = 'jp-nb-end';
      node.textContent = text;
      Object.assign(node.style, {
        color: 'var(--jp-ui-font-color2)',
        fontSize: 'var(--jp-ui-font-size0)',
        padding: '2px 8px 0',
        textAlign: 'right'
      });
      cell.node.append(node);
      nodes.push(node);
    }
    // The next run clears the cell, as the user can.
    const onChanged = () => {
      if (!outputs.length) {
        this.remove(id);
      }
    };
    outputs.changed.connect(onChanged);
    this.lines.set(id, { nodes, outputs, onChanged });
  }

  remove(id: string | undefined): void {
    const line = id === undefined ? undefined : this.lines.get(id);
    if (id === undefined || !line) {
      return;
    }
    this.lines.delete(id);
    line.outputs.changed.disconnect(line.onChanged);
    for (const node of line.nodes) {
      node.remove();
    }
  }

  dispose(): void {
    for (const id of this.lines.keys()) {
      this.remove(id);
    }
  }

  /** Forget the lines of cells that the user has deleted. */
  follow(): void {
    for (const [id, { outputs }] of this.lines) {
      if (findCodeCell(this.model, id)?.outputs !== outputs) {
        this.remove(id);
      }
    }
  }

  private readonly lines = new Map<string, ILine>();
}
