// @vitest-environment node
import type { NotebookPanel } from '@jupyterlab/notebook';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { ReviewMarks } from '../src/reviewmarks';
import { Views } from '../src/views';
import { FakeCell, FakeNotebook, TEXTS } from './fakes';

describe('the marks of a review', () => {
  it('ignores events that are none of a form, and stops to listen', () => {
    const listeners: Record<string, (event: unknown) => void> = {};
    vi.stubGlobal('document', {
      addEventListener: (type: string, listener: (event: unknown) => void) => {
        listeners[type] = listener;
      },
      removeEventListener: (type: string) => delete listeners[type]
    });
    vi.stubGlobal('HTMLElement', class {});
    const marks = new ReviewMarks(new FakeNotebook(new FakeCell('a')).model, new Views(), TEXTS);
    for (const detail of [undefined, 7, {}, { root: 'x', cells: [{ cell: 'a' }] }]) {
      expect(() => listeners['jp-nb-cells']({ detail })).not.toThrow();
    }
    marks.dispose();
    expect(listeners).toEqual({});
    vi.unstubAllGlobals();
  });
});

/** An element with as much of the DOM as a review uses. */
class FakeElement {
  className = '';
  textContent = '';
  title = '';
  isConnected = true;
  parent: FakeElement | null = null;
  children: FakeElement[] = [];
  rect = { top: 0, bottom: 10 };
  readonly attributes: Record<string, string> = {};
  readonly classList = { add: () => undefined, toggle: () => undefined };
  click = () => undefined as void;

  addEventListener(type: string, call: () => void) {
    this.click = type === 'click' ? call : this.click;
  }
  append(...more: (FakeElement | string)[]) {
    for (const each of more) {
      if (typeof each !== 'string') {
        each.parent = this;
        this.children.push(each);
      }
    }
  }
  remove() {
    const { parent } = this;
    this.parent = null;
    if (parent) {
      parent.children = parent.children.filter(each => each !== this);
    }
  }
  focus() {}
  setAttribute(name: string, value: string) {
    this.attributes[name] = value;
  }
  getBoundingClientRect() {
    return this.rect;
  }
  contains() {
    return true;
  }
  querySelector() {
    return null;
  }
  getElementsByClassName() {
    return this.slots;
  }
  slots: FakeElement[] = [];
}

describe('Show cell', () => {
  const view = {};
  let tell: (event: unknown) => void;
  let slot: FakeElement;
  let root: FakeElement;
  let panel: { node: FakeElement };
  let cell: { model: { id: string }; node: FakeElement };
  let marks: ReviewMarks;
  let scrollToItem: () => Promise<void>;

  const review = (id = 'a') => {
    const told = { cell: id, label: 'edit 1', place: false, slot: 'slot-1' };
    tell({ detail: { view, root, cells: [told] } });
    const [button, status] = slot.children;
    return { button, status };
  };

  beforeEach(() => {
    vi.useFakeTimers();
    vi.stubGlobal('HTMLElement', FakeElement);
    vi.stubGlobal('document', {
      addEventListener: (_: string, listener: (event: unknown) => void) => {
        tell = listener;
      },
      removeEventListener: () => undefined,
      createElement: () => new FakeElement()
    });
    slot = new FakeElement();
    root = new FakeElement();
    root.slots = [slot];
    cell = { model: { id: 'a' }, node: new FakeElement() };
    scrollToItem = () => new Promise(resolve => setTimeout(resolve, 500));
    const content = {
      node: new FakeElement(),
      outerNode: Object.assign(new FakeElement(), { scrollTop: 0 }),
      widgets: [cell],
      scrollToItem: () => scrollToItem()
    };
    panel = { node: new FakeElement(), content } as never;
    const views = new Views();
    views.panels.add(panel as unknown as NotebookPanel);
    marks = new ReviewMarks(new FakeNotebook(new FakeCell('a')).model, views, TEXTS);
  });

  afterEach(() => {
    marks.dispose();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it('says beside the button that the page has not drawn the cell within 2 s', async () => {
    scrollToItem = () => new Promise(() => undefined); // the page is still drawing
    cell.node.isConnected = false;
    const { button, status } = review();
    expect(status.attributes.role).toBe('status');

    button.click();
    await vi.advanceTimersByTimeAsync(1900);
    expect(status.textContent).toBe('');
    await vi.advanceTimersByTimeAsync(200);
    expect(status.textContent).toBe('Cell 1 is not drawn yet. Try again.');
    expect(button.textContent).toBe('Show cell');
    expect(button.attributes['aria-label']).toBe('Show cell of edit 1');

    cell.node.isConnected = true;
    button.click();
    await vi.advanceTimersByTimeAsync(2000);
    expect(status.textContent).toBe('Cell 1 is in view. Press the button again to go back.');
    expect(panel.node.children).toHaveLength(1);
  });

  it('says that the cell is gone', async () => {
    const { button, status } = review('z');
    button.click();
    await vi.advanceTimersByTimeAsync(0);
    expect(status.textContent).toBe('The cell is gone.');
    expect(panel.node.children).toEqual([]);
  });

  it('adds no way back to a review that has ended meanwhile', async () => {
    const { button } = review();
    button.click();
    tell({ detail: { view, root, cells: [] } });
    await vi.advanceTimersByTimeAsync(3000);
    expect(panel.node.children).toEqual([]);
    expect(slot.children).toEqual([]);
  });

  it('leads back with the button that has the focus', async () => {
    const { button, status } = review();
    const scroller = (panel as unknown as { content: { outerNode: { scrollTop: number } } }).content
      .outerNode;
    button.click();
    await vi.advanceTimersByTimeAsync(500);
    expect(status.textContent).toBe('Cell 1 is in view. Press the button again to go back.');
    expect(status.className).toBe('jp-nb-said'); // the form keeps its size
    expect(panel.node.children).toHaveLength(1);

    scroller.scrollTop = 70;
    button.click();
    expect(scroller.scrollTop).toBe(0);
    expect(panel.node.children).toEqual([]);
    expect(status.textContent).toBe('');
  });

  it('shows the cell once more if the user has scrolled away from it', async () => {
    const { button } = review();
    button.click();
    await vi.advanceTimersByTimeAsync(500);
    cell.node.rect = { top: 100, bottom: 110 };
    scrollToItem = () => {
      cell.node.rect = { top: 0, bottom: 10 };
      return Promise.resolve();
    };
    button.click();
    await vi.advanceTimersByTimeAsync(0);
    expect(cell.node.rect.top).toBe(0);
    expect(panel.node.children).toHaveLength(1);
  });

  it('adds one way back after two clicks, and removes it with the review', async () => {
    const { button } = review();
    button.click();
    button.click();
    await vi.advanceTimersByTimeAsync(3000);
    expect(panel.node.children.map(({ textContent }) => textContent)).toEqual([
      'Back to the review'
    ]);

    tell({ detail: { view, root, cells: [] } });
    expect(panel.node.children).toEqual([]);
  });
});
