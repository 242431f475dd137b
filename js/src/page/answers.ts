/** Buttons on the code blocks of answers: Copy, and "Insert as cell". */

import { Clipboard } from '@jupyterlab/apputils';
import { Cell, CodeCell } from '@jupyterlab/cells';
import { Notebook } from '@jupyterlab/notebook';
import { RenderedMarkdown } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import type { Widget } from '@lumino/widgets';

import { markOf } from '../outputs';
import { codeOf, isPlainBlock, showsAnswers } from './blocks';
import { insertBelow } from './insertion';
import type { IPageSettings } from './settings';

const WRAPPER = 'jp-nb-code';
const BAR = 'jp-nb-code-bar';

/** The time for which a button shows what it has done. */
const DONE_MS = 2000;

/** The renderer of Markdown for all notebooks of the page. */
export function makeAnswerFactory(
  settings: IPageSettings,
  trans: TranslationBundle
): IRenderMime.IRendererFactory {
  return {
    safe: true,
    mimeTypes: ['text/markdown'],
    defaultRank: 60,
    createRenderer: options => new AnswerView(options, settings, trans)
  };
}

/** Markdown of an output, with buttons on its code blocks if it is part of an answer. */
class AnswerView extends RenderedMarkdown {
  constructor(
    options: IRenderMime.IRendererOptions,
    private readonly settings: IPageSettings,
    private readonly trans: TranslationBundle
  ) {
    super(options);
    settings.changed.connect(this.decorate, this);
  }

  override async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    // The outputs of a turn have a mark while it runs.
    this.isMarked ||= markOf(model.metadata) !== undefined;
    const focused = this.focusedButton();

    await super.renderModel(model);

    this.isRendered = true;
    this.decorate();
    this.buttons()[focused]?.focus({ preventScroll: true });
  }

  /** The cell is known now, if this was rendered before it was attached. */
  override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this.decorate();
  }

  private buttons(): HTMLButtonElement[] {
    return Array.from(this.node.querySelectorAll<HTMLButtonElement>(`.${BAR} > button`));
  }

  private focusedButton(): number {
    return this.buttons().findIndex(button => button === document.activeElement);
  }

  /** Add the buttons that are missing, or remove all of them. */
  private decorate(): void {
    if (this.isDisposed || !this.isRendered) {
      return;
    }
    const cell = findCellAround(this);
    const isAnswer = cell && (this.isMarked || showsAnswers(cell.model.sharedModel.getSource()));
    if (!isAnswer || !this.settings.isOn('codeButtons')) {
      this.node.querySelectorAll(`.${BAR}`).forEach(bar => bar.remove());
      return;
    }

    for (const code of this.node.querySelectorAll<HTMLElement>('pre > code:only-child')) {
      const pre = code.parentElement as HTMLElement;
      if (!pre.parentElement?.classList.contains(WRAPPER)) {
        if (!isPlainBlock(pre, code)) {
          continue;
        }
        const wrapper = document.createElement('div');
        wrapper.className = WRAPPER;
        pre.replaceWith(wrapper);
        wrapper.append(pre);
      }
      if (!pre.parentElement?.querySelector(`:scope > .${BAR}`)) {
        pre.before(this.makeBar(code));
      }
    }
  }

  private makeBar(code: HTMLElement): HTMLElement {
    const bar = document.createElement('div');
    bar.className = BAR;
    bar.setAttribute('role', 'group');
    bar.setAttribute('aria-label', this.trans.__('Code block'));
    // Otherwise Enter on a button would be the shortcut that edits the cell.
    bar.dataset.lmSuppressShortcuts = 'true';

    const copy = makeButton(this.trans.__('Copy'), () => {
      Clipboard.copyToSystem(codeOf(code.textContent));
      showDone(copy, this.trans.__('Copied'));
    });
    const insert = makeButton(this.trans.__('Insert as cell'), () => {
      if (!this.insert(codeOf(code.textContent))) {
        showDone(insert, this.trans.__('The notebook is read-only'));
      }
    });
    insert.title = this.trans.__('Insert the code as a new cell below. It does not run.');
    bar.append(copy, insert);
    return bar;
  }

  /** Insert a cell below the one of this answer, and select it. */
  private insert(source: string): boolean {
    const cell = findCellAround(this);
    const notebook = cell?.parent;
    if (!cell || !(notebook instanceof Notebook) || !notebook.model) {
      return false;
    }
    const index = insertBelow(notebook.model, cell.model.id, source);
    if (index < 0) {
      return false;
    }
    selectCell(notebook, index);
    return true;
  }

  private isMarked = false;
  private isRendered = false;
}

/** Select a cell, scroll to it, and let it take keys: Shift+Enter runs it. */
export function selectCell(notebook: Notebook, index: number): void {
  notebook.deselectAll();
  notebook.activeCellIndex = index;
  notebook.mode = 'command';
  notebook.activate();
  void notebook.scrollToItem(index, 'smart');
}

/** The code cell that shows `view` as one of its own outputs; not as a part of a form. */
export function findCellAround(view: Widget): CodeCell | undefined {
  let parent = view.parent;
  let areas = 0;
  while (parent && !(parent instanceof Cell)) {
    areas += parent.hasClass('jp-OutputArea') ? 1 : 0;
    parent = parent.parent;
  }
  return parent instanceof CodeCell && areas === 1 ? parent : undefined;
}

export function makeButton(label: string, act: () => void): HTMLButtonElement {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'jp-nb-button';
  button.textContent = label;
  button.addEventListener('click', event => {
    // A click on an output would select its cell, and take the focus.
    event.stopPropagation();
    act();
  });
  return button;
}

/** Show for a moment what a button has done, also to screen readers. */
function showDone(button: HTMLButtonElement, text: string): void {
  const label = (button.dataset.label ??= button.textContent ?? '');
  button.setAttribute('aria-live', 'polite');
  button.textContent = text;
  window.setTimeout(() => {
    button.textContent = label;
  }, DONE_MS);
}
