import { describe, expect, it, vi } from 'vitest';

import type { IPosition } from '../src/inview';
import { CellInView, CellPositions, distanceTo, isInView } from '../src/inview';

const VIEW = 800;

function at(top: number, height: number, view = VIEW): IPosition {
  return { top, height, view };
}

describe('a position', () => {
  it.each([
    ['a whole cell', at(100, 50), true],
    ['the end of a tall cell', at(-1900, 2000), true],
    ['a cell around the view', at(-500, 3000), true],
    ['a small cell', at(10, 20), true],
    ['a small cell that is cut off', at(-10, 20), false],
    ['the last pixels of a cell', at(-190, 200), false],
    ['the first pixels of a cell', at(790, 200), false],
    ['a cell above', at(-300, 200), false],
    ['a cell below', at(900, 200), false],
    ['a cell without a height, as of a hidden view', at(0, 0, 0), false]
  ])('of %s is in view or not', (_, position, expected) => {
    expect(isInView(position)).toBe(expected);
  });

  it('shows a whole cell, or the end of a taller one', () => {
    expect(distanceTo(at(-300, 200))).toBe(-300);
    expect(distanceTo(at(-3000, 1000))).toBe(-3000 + 1000 - VIEW);
    expect(distanceTo(at(900, 200))).toBe(900);
  });
});

describe('the positions of a cell', () => {
  function distances(...positions: IPosition[]): number[] {
    const cell = new CellPositions();
    return positions.map(position => cell.next(position));
  }

  it('bring it back after it has become smaller', () => {
    expect(distances(at(-1900, 2000), at(-1900, 200))).toEqual([0, -1900]);
  });

  it('bring it back after each of several steps', () => {
    const steps = [at(-1900, 2000), at(-1900, 1500), at(-900, 950), at(-750, 900)];
    expect(distances(...steps)).toEqual([0, -1900 + 1500 - VIEW, -900 + 950 - VIEW, 0]);
    const small = [at(-1900, 2000), at(-1900, 300), at(0, 200), at(0, 250)];
    expect(distances(...small)).toEqual([0, -1900, 0, 0]);
  });

  it('bring it back when the browser has limited the scroll position meanwhile', () => {
    expect(distances(at(-1900, 2000), at(-1400, 200))).toEqual([0, -1400]);
  });

  it('leave a cell that the user has scrolled away, whatever it does then', () => {
    expect(distances(at(-1900, 2000), at(-2500, 2000), at(-2500, 200))).toEqual([0, 0, 0]);
    expect(distances(at(-1900, 2000), at(1200, 2000), at(1200, 200))).toEqual([0, 0, 0]);
  });

  it('leave a cell that grows, or stays in view', () => {
    expect(distances(at(700, 50), at(700, 900), at(500, 300))).toEqual([0, 0, 0]);
  });

  it('are not compared while the view is hidden or the cell is not drawn', () => {
    const hidden = at(0, 0, 0);
    expect(distances(at(-1900, 2000), hidden, at(-1900, 200))).toEqual([0, 0, -1900]);
    const cell = new CellPositions();
    cell.next(at(-1900, 2000));
    cell.clear();
    expect(cell.next(at(-1900, 200))).toBe(0);
  });
});

describe('a cell in view', () => {
  it('is scrolled to by its own size, and not any more after the end', () => {
    let resize: () => void = () => undefined;
    const observed = new Set<unknown>();
    vi.stubGlobal(
      'ResizeObserver',
      class {
        constructor(call: () => void) {
          resize = call;
        }
        observe(node: unknown) {
          observed.add(node);
        }
        disconnect() {
          observed.clear();
        }
      }
    );
    let height = 2000;
    const listeners = new Map<string, () => void>();
    const scroller = {
      scrollTop: 1900,
      getBoundingClientRect: () => ({ top: 30, height: VIEW }),
      addEventListener: (type: string, call: () => void) => listeners.set(type, call),
      removeEventListener: (type: string) => listeners.delete(type)
    };
    const cell = {
      isConnected: true,
      getBoundingClientRect: () => ({ top: 30 - scroller.scrollTop, height })
    };
    const kept = new CellInView(cell as unknown as HTMLElement, scroller as unknown as HTMLElement);
    expect(observed).toEqual(new Set([cell]));

    resize();
    height = 200;
    resize();
    expect(scroller.scrollTop).toBe(0);

    height = 2000;
    resize();
    scroller.scrollTop = 2500;
    listeners.get('scroll')?.();
    height = 200;
    resize();
    expect(scroller.scrollTop).toBe(2500);

    cell.isConnected = false;
    resize();
    kept.dispose();
    expect(observed).toEqual(new Set());
    expect(listeners.size).toBe(0);
    vi.unstubAllGlobals();
  });
});
