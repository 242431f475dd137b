/** Forms in the visible part of the page. */

import { computeScroll } from './scrolling';

const KEEP_IN_VIEW_MS = 2000; // the outputs above the form are drawn later

function findScroller(element: Element): Element | null {
  for (let each = element.parentElement; each; each = each.parentElement) {
    const isScrolling = /auto|scroll/.test(getComputedStyle(each).overflowY);
    if (isScrolling && each.scrollHeight > each.clientHeight) {
      return each;
    }
  }
  return null;
}

/** Scroll to the form, with as much of its cell above it as fits. */
function showWithCell(root: Element): void {
  root.scrollIntoView({ block: 'nearest' }); // also in a scrolling output
  const cell = root.closest('.jp-Cell');
  const scroller = cell && findScroller(cell);
  if (!cell || !scroller) {
    return;
  }

  const view = scroller.getBoundingClientRect();
  const form = root.getBoundingClientRect();
  scroller.scrollTop += computeScroll(view, form, cell.getBoundingClientRect().top);
}

/** Keep the form in view while the page draws, until the user scrolls. */
export function keepInView(root: HTMLElement, focused: Element): ResizeObserver {
  const until = performance.now() + KEEP_IN_VIEW_MS;
  const watcher = new ResizeObserver(() => {
    if (performance.now() > until || !root.contains(document.activeElement)) {
      watcher.disconnect();
      return;
    }
    showWithCell(root);
    if (focused !== root) {
      focused.scrollIntoView({ block: 'nearest' });
    }
  });

  // This also calls it once at the start.
  for (const each of [root.parentElement, root.closest('.jp-Cell')]) {
    if (each) {
      watcher.observe(each);
    }
  }
  const ownScroll = { once: true, passive: true };
  root.ownerDocument.addEventListener('wheel', () => watcher.disconnect(), ownScroll);
  return watcher;
}

/** Call back if `root` is not visible: the page is hidden, or the form is out of view. */
export function callIfUnseen(root: Element | null, call: () => void): void {
  if (document.hidden || !root?.isConnected) {
    call();
    return;
  }

  const watcher = new IntersectionObserver(([{ isIntersecting }]) => {
    watcher.disconnect();
    if (!isIntersecting) {
      call();
    }
  });
  watcher.observe(root);
}
