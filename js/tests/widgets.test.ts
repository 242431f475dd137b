/** The rules of the widgets of forms, without a page. */

import { describe, expect, it } from 'vitest';

import { findStep, KeyGuard } from '../src/widgets/keys';
import { computeScroll } from '../src/widgets/scrolling';
import {
  describeCounts,
  isPicked,
  normalizeForSearch,
  select,
  sift,
  splitSearch,
  stepAround
} from '../src/widgets/selection';

describe('a selection', () => {
  it('keeps the order of the clicks, and an option that is ticked again is the last', () => {
    let selection = { picks: [] as number[], custom: 'own' as string | null };
    const click = (index: number, checked: boolean) => {
      selection = { ...selection, ...select(selection, index, { multi: true, checked }) };
    };
    click(2, true);
    click(0, true);
    click(2, false);
    expect(selection.picks).toEqual([0]);
    click(2, true);
    expect(selection).toEqual({ picks: [0, 2], custom: 'own' });
  });

  it('has one option, which an own text replaces and an option replaces in turn', () => {
    const own = { picks: [1], custom: 'own' };
    expect(isPicked(own, 1, false)).toBe(false);
    expect(isPicked(own, 1, true)).toBe(true);
    const changed = select(own, 0, { multi: false, checked: true });
    expect(changed).toEqual({ picks: [0], custom: null });
  });

  it('is described by counts only where they say something', () => {
    const none = { picks: [], custom: null };
    const some = { picks: [3, 1], custom: '' };
    const counted = { multi: true, words: 1, shown: 2, total: 12 };
    expect(describeCounts(some, counted)).toEqual({
      shown: '2 of 12 shown',
      picked: '(3 selected)'
    });
    expect(describeCounts(none, { ...counted, words: 0 })).toEqual({ shown: '', picked: '' });
    expect(describeCounts(some, { ...counted, multi: false }).picked).toBe('');
  });
});

describe('a filter', () => {
  it('ignores case and accents, and needs each word', () => {
    const keys = ['Café au lait\nhot', 'Tea', 'ÉCLAIR'].map(normalizeForSearch);
    expect(sift(keys, splitSearch('cafe HOT'), [])).toEqual([true, false, false]);
    expect(sift(keys, splitSearch('  éclair '), [])).toEqual([false, false, true]);
    expect(sift(keys, splitSearch(' '), [])).toEqual([true, true, true]);
  });

  it('never hides a selected option', () => {
    expect(sift(['tea', 'milk', 'rum'], splitSearch('rum'), [1])).toEqual([false, true, true]);
  });

  it('looks at each selected option a few times, however many there are', () => {
    const keys = Array.from({ length: 1000 }, (_, index) => normalizeForSearch(`Option ${index}`));
    let reads = 0;
    const picks = new Proxy([...keys.keys()], {
      get(target, key) {
        reads += 1;
        return Reflect.get(target, key) as unknown;
      }
    });

    expect(sift(keys, ['999'], picks).every(Boolean)).toBe(true);
    expect(reads).toBeLessThan(5 * keys.length);
  });
});

describe('keys of a form', () => {
  const press = { repeat: false, isText: false, now: 1000 };

  it('are refused until the focus has settled', () => {
    const guard = new KeyGuard();
    guard.settle(1300);
    expect(guard.isOnPurpose('Enter', press)).toBe(false);
    expect(guard.isOnPurpose('a', press)).toBe(true);
    expect(guard.isOnPurpose('Enter', { ...press, now: 1300 })).toBe(true);
  });

  it('are refused if they are held down from before', () => {
    const guard = new KeyGuard();
    const held = { ...press, repeat: true };
    expect(guard.isOnPurpose(' ', held)).toBe(false);
    expect(guard.isOnPurpose(' ', press)).toBe(true);
    expect(guard.isOnPurpose(' ', held)).toBe(true);
    guard.reset(); // the next step is shown, and the key is still down
    expect(guard.isOnPurpose(' ', held)).toBe(false);
  });

  it('are released only where they went down', () => {
    const guard = new KeyGuard();
    expect(guard.release(' ')).toBe(false);
    guard.isOnPurpose(' ', press);
    expect(guard.release(' ')).toBe(true);
    expect(guard.release(' ')).toBe(false);
  });

  it('include spaces of a text at any time', () => {
    const guard = new KeyGuard();
    guard.settle(2000);
    expect(guard.isOnPurpose(' ', { ...press, isText: true })).toBe(true);
    expect(guard.isOnPurpose('Enter', { ...press, isText: true })).toBe(false);
  });

  it('move around both ends', () => {
    expect(['ArrowUp', 'ArrowRight', 'Tab'].map(findStep)).toEqual([-1, 1, 0]);
    expect([stepAround(0, -1, 3), stepAround(2, 1, 3), stepAround(-1, 1, 3)]).toEqual([2, 0, 0]);
  });

  it('move to the first or the last button from elsewhere, and nowhere without buttons', () => {
    expect([stepAround(-1, 1, 3), stepAround(-1, -1, 3)]).toEqual([0, 2]);
    expect([stepAround(-1, 1, 0), stepAround(-1, -1, 0)]).toEqual([-1, -1]);
  });
});

describe('the place of a form', () => {
  const view = { top: 100, bottom: 500 };

  it('shows the whole cell if it fits', () => {
    expect(computeScroll(view, { top: 300, bottom: 450 }, 150)).toBe(0);
    expect(computeScroll(view, { top: 500, bottom: 600 }, 300)).toBe(108);
    expect(computeScroll(view, { top: 120, bottom: 200 }, 20)).toBe(-88);
  });

  it('shows the whole form at the bottom if its cell does not fit', () => {
    expect(computeScroll(view, { top: 480, bottom: 600 }, -400)).toBe(108);
  });

  it('shows the top of a form that does not fit', () => {
    expect(computeScroll(view, { top: 300, bottom: 900 }, -400)).toBe(192);
  });
});
