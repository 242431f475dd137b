/** Buttons on the code blocks of answers: Copy, and "Insert as cell". */

import { Clipboard } from '@jupyterlab/apputils';
import { Cell, CodeCell } from '@jupyterlab/cells';
import { Notebook } from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { Widget } from '@lumino/widgets';

import { markOf } from '../outputs';
import type { Texts } from '../translation';
import { codeOf, isPlainBlock, showsAnswers } from './blocks';
import { warnOfHidden } from './hidden_characters';
import { insertBelow } from './insertion';
import { followRenderer } from './renderers';
import type { IPageSettings } from './settings';

const WRAPPER = 'jp-nb-code';
const BAR = 'jp-nb-code-bar';
const WARNING = 'jp-nb-code-warning';

/** The time for which a button shows what it has done. */
const DONE_MS = 2000;

/** The buttons on the code blocks of one output with Markdown, if it is part of an answer. */
export class AnswerButtons {
  constructor(
    private readonly view: IRenderMime.IRenderer,
    private readonly settings: IPageSettings,
    private readonly trans: Texts
  ) {
    this.node = view.node;
    followRenderer(view, {
      onModel: model => {
        // The outputs of a turn have a mark while it runs.
        this.isMarked ||= markOf(model.metadata) !== undefined;
        this.focused = this.buttons().findIndex(button => button === document.activeElement);
      },
      onRendered: () => {
        this.decorate();
        this.buttons()[this.focused]?.focus({ preventScroll: true });
      }
    });
    settings.changed.connect(this.decorate, this);
    view.disposed.connect(() => settings.changed.disconnect(this.decorate, this));
  }

  private buttons(): HTMLButtonElement[] {
    return Array.from(this.node.querySelectorAll<HTMLButtonElement>(`.${BAR} > button`));
  }

  /** Add the buttons that are missing, or remove all of them. */
  private decorate(): void {
    const cell = findCellAround(this.view);
    const isAnswer = cell && (this.isMarked || showsAnswers(cell.model.sharedModel.getSource()));
    if (!isAnswer || !this.settings.isOn('codeButtons')) {
      this.node.querySelectorAll(`.${BAR}, .${WARNING}`).forEach(added => added.remove());
      return;
    }

    let number = 0;
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
      number += 1;
      if (!pre.parentElement?.querySelector(`:scope > .${BAR}`)) {
        pre.before(this.makeBar(code, number));
        pre.after(...this.makeWarning(code));
      }
    }
  }

  /** The buttons of the block with this number, as a screen reader counts them from 1. */
  private makeBar(code: HTMLElement, number: number): HTMLElement {
    const { trans } = this;
    const bar = document.createElement('div');
    bar.className = BAR;
    bar.setAttribute('role', 'group');
    bar.setAttribute('aria-label', trans.__('Code block %1', number));

    const status = makeStatus();
    const copy = makeButton(trans.__('Copy'), () => {
      Clipboard.copyToSystem(codeOf(code.textContent));
      showDone(copy, status, trans.__('Copied'));
    });
    copy.setAttribute('aria-label', trans.__('Copy code block %1', number));
    const insert = makeButton(trans.__('Insert as cell'), () => {
      if (!this.insert(codeOf(code.textContent))) {
        showDone(insert, status, trans.__('The notebook is read-only'));
      }
    });
    insert.setAttribute('aria-label', trans.__('Insert as cell: code block %1', number));
    insert.title = trans.__('Insert the code as a new cell below. It does not run.');
    bar.append(copy, insert, status);
    return bar;
  }

  /** The warning about characters that the user does not see; none for other code. */
  private makeWarning(code: HTMLElement): HTMLElement[] {
    const text = warnOfHidden(codeOf(code.textContent), this.trans);
    if (!text) {
      return [];
    }

    const warning = document.createElement('div');
    warning.className = WARNING;
    warning.setAttribute('role', 'note');
    warning.textContent = text;
    return [warning];
  }

  /** Insert a cell below the one of this answer, and select it. */
  private insert(source: string): boolean {
    const cell = findCellAround(this.view);
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

  private readonly node: HTMLElement;
  private isMarked = false;
  /** The button that had the focus before the output was rendered again, or -1. */
  private focused = -1;
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
  // Otherwise keys are shortcuts of the notebook: "b" would insert a cell. JupyterLab looks at the
  // element with the focus first, so an element around it does not suffice.
  button.dataset.lmSuppressShortcuts = 'true';
  button.addEventListener('click', event => {
    // A click on an output would select its cell, and take the focus.
    event.stopPropagation();
    act();
  });
  return button;
}

/** An element whose text screen readers read when it changes. It must be there before. */
function makeStatus(): HTMLElement {
  const status = document.createElement('span');
  status.className = 'jp-nb-said';
  status.setAttribute('role', 'status');
  return status;
}

/** Show for a moment what a button has done, and tell it to screen readers. */
function showDone(button: HTMLButtonElement, status: HTMLElement, text: string): void {
  const label = (button.dataset.label ??= button.textContent ?? '');
  button.textContent = text;
  status.textContent = text;
  window.setTimeout(() => {
    button.textContent = label;
    status.textContent = '';
  }, DONE_MS);
}
