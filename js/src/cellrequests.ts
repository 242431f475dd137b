/** Requests of the kernel about the cells of a document: to read, edit, and run them. */

import { UUID } from '@lumino/coreutils';

import { beginRun, endRun } from './cellruns';
import { applyEdits, describeDocument } from './cells';
import type { KernelConnection } from './connection';
import type { OpenDocument } from './opendocument';
import { isReadOnly, READ_ONLY } from './opendocument';
import type { Received } from './protocol';
import { seqOf, split } from './protocol';
import { reportCells } from './report';
import type { Views } from './views';

/** Answers requests that name this page. */
export class CellRequests {
  constructor(
    private readonly context: OpenDocument,
    private readonly views: Views,
    private readonly connection: KernelConnection
  ) {}

  /** Report the cells, for tools that read the notebook. */
  onCells(data: Received<'cells'>): void {
    if (this.isForThisPage(data)) {
      this.answer(data, reportCells(this.context.model, data.whole ?? null));
    }
  }

  /** Report all cells with their whole sources, before the user reviews edits. */
  onDocument(data: Received<'document'>): void {
    if (this.isForThisPage(data)) {
      this.answer(data, describeDocument(this.context.model));
    }
  }

  /** Apply edits that the user has chosen. */
  onEdit(data: Received<'edit'>): void {
    if (!this.isForThisPage(data)) {
      return;
    }

    const { operation } = data;
    if (isReadOnly(this.context)) {
      this.answer(data, { operation, outcome: 'refused', why: READ_ONLY });
      return;
    }
    this.answer(data, applyEdits(this.context.model, this.views, data, UUID.uuid4));
  }

  /** Show that the kernel runs a cell inside of a turn. */
  onRun(data: Received<'run'>): void {
    if (this.isForThisPage(data) && !isReadOnly(this.context)) {
      beginRun(this.context.model, this.views, data);
    }
  }

  /** Store the outputs of a cell that the kernel has run inside of a turn. */
  async onRan(data: Received<'ran'>): Promise<void> {
    if (!this.isForThisPage(data)) {
      return;
    }

    const answer = isReadOnly(this.context)
      ? { outcome: 'refused', why: READ_ONLY }
      : await endRun(this.context.model, this.views, data);
    this.answer(data, answer);
  }

  private isForThisPage({ to }: { to?: unknown }): boolean {
    return to === this.connection.page;
  }

  /** Answer a request in pieces. */
  private answer(data: { seq?: unknown }, report: unknown): void {
    const seq = seqOf(data);
    const pieces = split(JSON.stringify(report));
    pieces.forEach((text, i) => {
      this.connection.send({ type: 'cells', seq, i, of: pieces.length, text });
    });
  }
}
