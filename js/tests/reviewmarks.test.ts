// @vitest-environment node
import type { NotebookPanel } from '@jupyterlab/notebook';
import { describe, expect, it, vi } from 'vitest';

import { ReviewMarks } from '../src/reviewmarks';
import { Views } from '../src/views';
import { FakeCell, FakeNotebook } from './fakes';

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
    const marks = new ReviewMarks(new FakeNotebook(new FakeCell('a')).model, new Views());
    for (const detail of [undefined, 7, {}, { root: 'x', cells: [{ cell: 'a' }] }]) {
      expect(() => listeners['jp-nb-cells']({ detail })).not.toThrow();
    }
    marks.dispose();
    expect(listeners).toEqual({});
    vi.unstubAllGlobals();
  });

  it('names a cell by its number if the page has not drawn it within 2 s', async () => {
    vi.useFakeTimers();
    let tell: (event: unknown) => void = () => undefined;
    const made = new Map<string, FakeElement>();
    class FakeElement {
      className = '';
      textContent = '';
      title = '';
      isConnected = false;
      children: FakeElement[] = [];
      classList = { add: () => undefined, toggle: () => undefined };
      click = () => undefined as void;
      addEventListener(type: string, call: () => void) {
        this.click = type === 'click' ? call : this.click;
      }
      append(...more: FakeElement[]) {
        this.children.push(...more);
      }
      setAttribute() {}
      remove() {}
      contains() {
        return true;
      }
      querySelector() {
        return null;
      }
      getElementsByClassName(name: string) {
        return name === 'slot-1' ? [made.get('slot')] : [];
      }
    }
    made.set('slot', new FakeElement());
    vi.stubGlobal('HTMLElement', FakeElement);
    vi.stubGlobal('document', {
      addEventListener: (_: string, listener: (event: unknown) => void) => {
        tell = listener;
      },
      removeEventListener: () => undefined,
      createElement: () => new FakeElement()
    });

    const views = new Views();
    const cell = { model: { id: 'a' }, node: new FakeElement() };
    const scrollToItem = () => new Promise(() => undefined); // the page is still drawing
    const content = {
      node: new FakeElement(),
      outerNode: { scrollTop: 0 },
      widgets: [cell],
      scrollToItem
    };
    const panel = { node: new FakeElement(), content };
    views.panels.add(panel as unknown as NotebookPanel);
    const marks = new ReviewMarks(new FakeNotebook(new FakeCell('a')).model, views);
    const told = { cell: 'a', label: 'edit 1', place: false, slot: 'slot-1' };
    tell({ detail: { view: {}, root: new FakeElement(), cells: [told] } });

    const [button] = made.get('slot')?.children ?? [];
    expect(button.textContent).toBe('Show cell');
    button.click();
    await vi.advanceTimersByTimeAsync(1900);
    expect(button.textContent).toBe('Show cell');
    await vi.advanceTimersByTimeAsync(200);
    expect(button.textContent).toBe('edit 1 (cell 1: not drawn yet)');

    marks.dispose();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
});
