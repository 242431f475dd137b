/**
 * The cells that an open review is about: outlined, and shown at the click of a button.
 *
 * The form tells its cells by an event (`tellCells` in `widgets/form.ts`). Nothing here changes the
 * document, so a forged event can only outline and show cells.
 */

import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';

import { isObject, list } from './json';
import type { Views } from './views';

const AFFECTED = 'jp-nb-affected';
const INSERTS_BELOW = 'jp-nb-inserts-below';
const INSERTS_AT_START = 'jp-nb-inserts-at-start';
const START = 'start';

/** A large notebook may still be drawing. */
const SCROLL_MS = 2000;

interface IReviewedCell {
  cell: string;
  label: string;
  place: boolean;
  /** Class of the element in the form that gets the button. */
  slot?: string;
}

/** A view of a form, its cells, and the row of its buttons. */
interface IReview {
  cells: IReviewedCell[];
  row: HTMLElement;
  /** The buttons, and the texts beside them. */
  added: HTMLElement[];
  /** Aborted when the user shows another cell, and when the review ends. */
  visit: AbortController;
}

export class ReviewMarks {
  constructor(
    private readonly model: INotebookModel,
    private readonly views: Views
  ) {
    document.addEventListener('jp-nb-cells', this.onCells);
    model.cells.changed.connect(this.onMoved, this);
  }

  dispose(): void {
    document.removeEventListener('jp-nb-cells', this.onCells);
    this.model.cells?.changed.disconnect(this.onMoved, this);
    for (const review of this.reviews.values()) {
      end(review);
    }
    this.reviews.clear();
  }

  private readonly onCells = (event: Event): void => {
    const { detail } = event as CustomEvent<unknown>;
    if (!isObject(detail) || !(detail.root instanceof HTMLElement)) {
      return;
    }
    const { view, root } = detail;
    const earlier = this.reviews.get(view);
    if (earlier) {
      end(earlier);
    }
    this.reviews.delete(view);

    const cells = list(detail.cells).filter(isReviewedCell);
    const panel = Array.from(this.views.panels).find(({ node }) => node.contains(root));
    if (panel && cells.length) {
      this.reviews.set(view, this.begin(panel, root, cells));
    }
    this.mark();
  };

  private begin(panel: NotebookPanel, root: HTMLElement, cells: IReviewedCell[]): IReview {
    const row = document.createElement('div');
    row.className = 'jp-nb-show-cells';
    row.append('Show in the notebook: ');
    const review: IReview = { cells, row, added: [], visit: new AbortController() };

    for (const cell of cells) {
      const slot = cell.slot ? root.getElementsByClassName(cell.slot)[0] : undefined;
      // Screen readers read the text of an element that had this role before.
      const status = document.createElement('span');
      status.className = 'jp-nb-show-problem';
      status.setAttribute('role', 'status');
      const button = makeButton(slot ? 'Show cell' : cell.label, () => {
        review.visit.abort();
        review.visit = new AbortController();
        const { signal } = review.visit;
        void this.show(panel, button, cell, signal).then(problem => {
          status.textContent = problem;
        });
      });
      button.title = `Show ${cell.label} in the notebook`;
      if (slot) {
        button.setAttribute('aria-label', `Show cell of ${cell.label}`);
      }
      review.added.push(button, status);
      (slot ?? row).append(button, status);
    }

    if (row.querySelector('button')) {
      root.append(row);
    }
    return review;
  }

  /**
   * Scroll to a cell, without a change of the focus, and add a button that leads back.
   *
   * Returns why the cell is not shown; "" if it is, or if `signal` has ended the visit.
   */
  private async show(
    panel: NotebookPanel,
    button: HTMLButtonElement,
    { cell }: IReviewedCell,
    signal: AbortSignal
  ): Promise<string> {
    const { content } = panel;
    const scroller = content.outerNode;
    const { scrollTop } = scroller;
    const found = content.widgets.findIndex(({ model }) => model?.id === cell);
    const index = cell === START ? 0 : found;
    if (index < 0) {
      return 'The cell is gone.';
    }

    const scrolled = content.scrollToItem(index, 'center').catch(() => undefined);
    await Promise.race([scrolled, new Promise(resolve => setTimeout(resolve, SCROLL_MS))]);

    // Meanwhile, the user may have answered, or shown another cell.
    if (signal.aborted) {
      return '';
    }
    if (!isInView(content.widgets[index]?.node, scroller)) {
      return `Cell ${index + 1} is not drawn yet. Try again.`;
    }

    const back = makeButton('Back to the review', () => {
      back.remove();
      scroller.scrollTop = scrollTop;
      button.focus({ preventScroll: true });
    });
    back.classList.add('jp-nb-back');
    panel.node.append(back);
    signal.addEventListener('abort', () => back.remove());
    return '';
  }

  /** The views of the cells change after the cells. */
  private onMoved(): void {
    if (this.reviews.size) {
      setTimeout(() => this.mark());
    }
  }

  private mark(): void {
    const cells = Array.from(this.reviews.values(), review => review.cells).flat();
    const idsOf = (isPlace: boolean) =>
      new Set(cells.filter(({ place }) => place === isPlace).map(({ cell }) => cell));
    const affected = idsOf(false);
    const places = idsOf(true);
    for (const { content } of this.views.panels) {
      for (const { node, model } of content.widgets) {
        node.classList.toggle(AFFECTED, affected.has(model?.id));
        node.classList.toggle(INSERTS_BELOW, places.has(model?.id));
      }
      content.node.classList.toggle(INSERTS_AT_START, places.has(START));
    }
  }

  private readonly reviews = new Map<unknown, IReview>();
}

function end({ row, added, visit }: IReview): void {
  visit.abort();
  for (const each of [row, ...added]) {
    each.remove();
  }
}

function makeButton(text: string, onClick: () => void): HTMLButtonElement {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'jp-nb-show-cell jupyter-button';
  button.textContent = text;
  // The focus stays where it is.
  button.addEventListener('mousedown', event => event.preventDefault());
  button.addEventListener('click', onClick);
  return button;
}

function isInView(node: HTMLElement | undefined, scroller: HTMLElement): boolean {
  if (!node?.isConnected) {
    return false;
  }
  const cell = node.getBoundingClientRect();
  const view = scroller.getBoundingClientRect();
  return cell.bottom > view.top && cell.top < view.bottom;
}

function isReviewedCell(value: unknown): value is IReviewedCell {
  return (
    isObject(value) &&
    typeof value.cell === 'string' &&
    typeof value.label === 'string' &&
    typeof value.place === 'boolean' &&
    (value.slot === undefined || typeof value.slot === 'string')
  );
}
