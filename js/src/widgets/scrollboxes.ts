/** Texts of a form that scroll: the Tab key reaches them while they do, so that keys scroll them. */

const BOXES = [
  '.widget-html-content',
  '.jp-nb-context',
  '.jp-nb-about',
  '.jp-nb-url',
  '.jp-nb-lines',
  '.jp-nb-summary li > div:first-child > *'
].join();
const FOCUSABLE = 'a[href], button, input, select, textarea, summary, [tabindex]';

/** Marks the boxes that this module has added to the Tab order. */
const ADDED = 'jp-nb-scrolls';

function isScrolling(box: Element): boolean {
  const isHigher = box.scrollHeight > box.clientHeight + 1;
  const isWider = box.scrollWidth > box.clientWidth + 1;
  if (!isHigher && !isWider) {
    return false;
  }
  const { overflowX, overflowY } = getComputedStyle(box);
  return (isHigher && overflowY === 'auto') || (isWider && overflowX === 'auto');
}

function update(box: HTMLElement): void {
  const isAdded = box.classList.contains(ADDED);
  const isWanted = isScrolling(box) && !box.querySelector(FOCUSABLE);
  if (isWanted && !isAdded && !box.hasAttribute('tabindex')) {
    box.classList.add(ADDED);
    box.tabIndex = 0;
  }
  // A box that has the focus keeps it.
  if (!isWanted && isAdded && box !== document.activeElement) {
    box.classList.remove(ADDED);
    box.removeAttribute('tabindex');
  }
}

/** Follows the size of a form: its texts scroll when there is little room. */
export class ScrollBoxes {
  dispose(): void {
    this.watcher.disconnect();
  }

  /** Look at the texts of the present step, and again when the form changes its size. */
  follow(root: HTMLElement): void {
    this.watcher.disconnect();
    this.watcher.observe(root); // this also calls it once at the start
  }

  private readonly watcher = new ResizeObserver(([{ target }]) => {
    target.querySelectorAll<HTMLElement>(BOXES).forEach(update);
  });
}
