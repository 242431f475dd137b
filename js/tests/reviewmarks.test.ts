// @vitest-environment node
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
});
