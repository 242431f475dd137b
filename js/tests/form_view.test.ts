/** The life of a form's view, with as much of a page as it needs. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { IView } from '../src/widgets/anymodel';

type Render = (view: IView<never>) => () => void;

/** An element that has all parts of a form, and no size. */
class FakeElement {
  readonly classList = { add: () => undefined };
  readonly style = {};
  readonly isConnected = true;
  className = '';
  textContent = '';
  tabIndex = 0;

  closest(): FakeElement {
    return this;
  }
  contains(): boolean {
    return false;
  }
  matches(): boolean {
    return false;
  }
  querySelector(selector: string): FakeElement | null {
    return /^input|actions/.test(selector) ? new FakeElement() : null;
  }
  querySelectorAll(selector: string): FakeElement[] {
    return selector === '.jp-nb-control' ? [new FakeElement()] : [];
  }
  get ownerDocument(): Document {
    return document;
  }
  append() {}
  remove() {}
  focus() {}
  scrollIntoView() {}
  setAttribute() {}
  addEventListener() {}
  removeEventListener() {}
}

class FakeObserver {
  observe() {}
  disconnect() {}
}

/** The model of a form with one control, whose own model arrives when `getModel` says so. */
class FakeModel {
  readonly sent: unknown[] = [];
  readonly listeners = new Map<string, Set<unknown>>();
  readonly traits: Record<string, unknown> = {
    controls: ['control'],
    screen: '',
    step: 3,
    notify: true
  };

  constructor(readonly getModel: (id: string) => Promise<unknown>) {}

  readonly widget_manager = { get_model: (id: string) => this.getModel(id) };

  get(name: string): unknown {
    return this.traits[name];
  }

  send(content: unknown): void {
    this.sent.push(content);
  }

  on(event: string, call: unknown): void {
    this.listeners.set(event, (this.listeners.get(event) ?? new Set()).add(call));
  }

  off(event: string, call: unknown): void {
    this.listeners.get(event)?.delete(call);
  }
}

let render: Render;

beforeEach(async () => {
  vi.useFakeTimers();
  vi.stubGlobal('document', {
    title: 'Notebook',
    activeElement: null,
    body: new FakeElement(),
    addEventListener: () => undefined,
    createElement: () => new FakeElement(),
    querySelector: () => null,
    dispatchEvent: () => true
  });
  vi.stubGlobal('MutationObserver', FakeObserver);
  vi.stubGlobal('ResizeObserver', FakeObserver);
  const module = await import('../src/widgets/form');
  render = module.default.render;
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const show = (model: FakeModel) => render({ model, el: new FakeElement() } as never);

describe('a form', () => {
  it('reports that it is visible when the models of its controls have arrived', async () => {
    const model = new FakeModel(() => new Promise(resolve => setTimeout(resolve, 200, null)));
    const dispose = show(model);
    expect(model.sent).toEqual([]);
    await vi.advanceTimersByTimeAsync(300);
    expect(model.sent).toEqual([{ type: 'rendered', step: 3 }]);
    dispose();
  });

  it('that is closed before its models arrive reports nothing, and looks no more', async () => {
    const model = new FakeModel(() => new Promise(resolve => setTimeout(resolve, 200, null)));
    const dispose = show(model);
    dispose();
    await vi.advanceTimersByTimeAsync(5000);
    expect(model.sent).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('leaves no listener behind', () => {
    const model = new FakeModel(() => new Promise(() => undefined));
    const dispose = show(model);
    expect(model.listeners.get('comm_live_update')?.size).toBe(1);
    dispose();
    expect(Array.from(model.listeners.values(), ({ size }) => size)).toEqual([0, 0, 0]);
  });

  it('tries again if the model of a control is not there yet', async () => {
    let tries = 0;
    const getModel = () => {
      tries += 1;
      return tries > 2 ? Promise.resolve(null) : Promise.reject(new Error('not found'));
    };
    const model = new FakeModel(getModel);
    const dispose = show(model);
    await vi.advanceTimersByTimeAsync(500);
    expect(tries).toBe(3);
    expect(model.sent).toEqual([{ type: 'rendered', step: 3 }]);
    dispose();
  });

  it('can be used without the model of a control, and says so in the console', async () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    const model = new FakeModel(() => Promise.reject(new Error('not found')));
    const dispose = show(model);
    await vi.advanceTimersByTimeAsync(2000);
    expect(model.sent).toEqual([{ type: 'rendered', step: 3 }]);
    expect(warn).toHaveBeenCalledTimes(1);
    dispose();
  });
});
