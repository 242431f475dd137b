/**
 * The cells that an open review is about: outlined, and shown at the click of a button.
 *
 * The form tells its cells by an event (`tellCells` in `widgets/form.ts`). Nothing here changes the
 * document, so a forged event can only outline and show cells.
 */

import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';

import { isObject, list } from './json';
import type { Texts } from './translation';
import type { Views } from './views';

const AFFECTED = 'jp-nb-affected';
const INSERTS_BELOW = 'jp-nb-inserts-below';
const INSERTS_AT_START = 'jp-nb-inserts-at-start';
const START = 'start';

/** The class of a text that the user sees, and of one that screen readers alone read. */
const PROBLEM = 'jp-nb-show-problem';
const SAID = 'jp-nb-said';

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
  /** The way back from the cell that is shown. */
  way: IWayBack | null;
}

/** A button that shows a cell, and the text beside it. */
interface IShowButton {
  button: HTMLButtonElement;
  status: HTMLElement;
  cell: IReviewedCell;
}

interface IWayBack {
  /** The button that has shown the cell. */
  from: HTMLElement;
  /** Whether the cell is still in view. */
  isInView: () => boolean;
  goBack: () => void;
}

export class ReviewMarks {
  constructor(
    private readonly model: INotebookModel,
    private readonly views: Views,
    private readonly trans: Texts
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
    row.append(this.trans.__('Show in the notebook: '));
    const review: IReview = { cells, row, added: [], visit: new AbortController(), way: null };

    for (const cell of cells) {
      const slot = cell.slot ? root.getElementsByClassName(cell.slot)[0] : undefined;
      // Screen readers read the text of an element that had this role before.
      const status = document.createElement('span');
      status.className = PROBLEM;
      status.setAttribute('role', 'status');
      const button = makeButton(slot ? this.trans.__('Show cell') : cell.label, () => {
        void this.visit(review, panel, { button, status, cell });
      });
      button.title = this.trans.__('Show %1 in the notebook', cell.label);
      if (slot) {
        button.setAttribute('aria-label', this.trans.__('Show cell of %1', cell.label));
      }
      review.added.push(button, status);
      (slot ?? row).append(button, status);
    }

    if (row.querySelector('button')) {
      root.append(row);
    }
    return review;
  }

  /** Show a cell, or go back from it with the same button. Tell the user beside the button. */
  private async visit(review: IReview, panel: NotebookPanel, pressed: IShowButton): Promise<void> {
    const { way } = review;
    if (way?.from === pressed.button && way.isInView()) {
      way.goBack();
      return;
    }

    review.visit.abort();
    review.visit = new AbortController();
    pressed.status.className = PROBLEM;
    pressed.status.textContent = await this.show(review, panel, pressed);
  }

  /**
   * Scroll to a cell, without a change of the focus, and add a button that leads back.
   *
   * That button is far from the focus, so the one that was pressed leads back, too. Returns what
   * the user should know: this, or why the cell is not shown; "" if the visit has ended meanwhile.
   */
  private async show(
    review: IReview,
    panel: NotebookPanel,
    { button, status, cell: { cell } }: IShowButton
  ): Promise<string> {
    const { signal } = review.visit;
    const { content } = panel;
    const scroller = content.outerNode;
    const { scrollTop } = scroller;
    const found = content.widgets.findIndex(({ model }) => model?.id === cell);
    const index = cell === START ? 0 : found;
    if (index < 0) {
      return this.trans.__('The cell is gone.');
    }

    const scrolled = content.scrollToItem(index, 'center').catch(() => undefined);
    await Promise.race([scrolled, new Promise(resolve => setTimeout(resolve, SCROLL_MS))]);

    // Meanwhile, the user may have answered, or shown another cell.
    if (signal.aborted) {
      return '';
    }
    const isShown = () => isInView(content.widgets[index]?.node, scroller);
    if (!isShown()) {
      return this.trans.__('Cell %1 is not drawn yet. Try again.', index + 1);
    }

    const leave = () => {
      back.remove();
      review.way = null;
      status.textContent = '';
    };
    const goBack = () => {
      leave();
      scroller.scrollTop = scrollTop;
      button.focus({ preventScroll: true });
    };
    const back = makeButton(this.trans.__('Back to the review'), goBack);
    back.classList.add('jp-nb-back');
    panel.node.append(back);
    review.way = { from: button, isInView: isShown, goBack };
    signal.addEventListener('abort', leave);
    // A text with a size would make the form larger, and a form that grows scrolls into view.
    status.className = SAID;
    return this.trans.__('Cell %1 is in view. Press the button again to go back.', index + 1);
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
