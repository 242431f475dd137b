/**
 * Keep a cell in view when it becomes smaller, as after the answer to a tall form.
 *
 * A notebook can be scrolled past its end. So when a tall cell at the end becomes small, the view
 * would show nothing.
 */

/** The part of a cell that must be visible for the cell to be in view, in pixels. */
const MIN_VISIBLE = 60;

/** Where a cell is in the view of its notebook, in pixels. */
export interface IPosition {
  /** From the upper edge of the view to that of the cell: negative if the cell begins above. */
  top: number;
  height: number;
  /** The height of the view: 0 while it is hidden. */
  view: number;
}

export function isInView({ top, height, view }: IPosition): boolean {
  const visible = Math.min(top + height, view) - Math.max(top, 0);
  return visible > 0 && visible >= Math.min(height, MIN_VISIBLE);
}

/** How far to scroll down to see a cell: all of it, or the end of one that is taller than the view. */
export function distanceTo({ top, height, view }: IPosition): number {
  return height > view ? top + height - view : top;
}

/** The positions of one cell over time, and what follows from them. */
export class CellPositions {
  private last: IPosition | null = null;

  /**
   * Take the position at this moment, and return how far to scroll.
   *
   * A cell that the user scrolls away keeps its height. So a cell that is smaller, and not in view
   * any more, was taken away by its new height, and is brought back.
   */
  next(position: IPosition): number {
    // A hidden view has no position. When it is shown, it is compared with the one before.
    if (position.view <= 0) {
      return 0;
    }

    const { last } = this;
    this.last = position;
    const isSmaller = last !== null && position.height < last.height;
    if (!isSmaller || !isInView(last) || isInView(position)) {
      return 0;
    }

    const distance = distanceTo(position);
    this.last = { ...position, top: position.top - distance };
    return distance;
  }

  /** Forget the cell, which is not drawn. */
  clear(): void {
    this.last = null;
  }
}

/** Keeps `cell` in view of `scroller`, until `dispose`. */
export class CellInView {
  constructor(
    readonly cell: HTMLElement,
    private readonly scroller: HTMLElement
  ) {
    // It is called before the page is painted, so the user does not see the empty view.
    this.resized.observe(cell);
    scroller.addEventListener('scroll', this.look, { passive: true });
  }

  dispose(): void {
    this.resized.disconnect();
    this.scroller.removeEventListener('scroll', this.look);
  }

  private readonly look = (): void => {
    if (!this.cell.isConnected) {
      this.positions.clear();
      return;
    }
    const cell = this.cell.getBoundingClientRect();
    const view = this.scroller.getBoundingClientRect();
    const position = { top: cell.top - view.top, height: cell.height, view: view.height };
    const distance = this.positions.next(position);
    if (distance !== 0) {
      this.scroller.scrollTop += distance;
    }
  };

  private readonly positions = new CellPositions();
  private readonly resized = new ResizeObserver(this.look);
}
