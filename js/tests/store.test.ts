import { describe, expect, it, vi } from 'vitest';

import type { JsonObject } from '../src/json';
import { WIDGET_STATE } from '../src/record';
import { NotebookStore } from '../src/store';
import { FakeNotebook } from './fakes';

const event = (n: number) => ({ type: 'chat_request', event_id: `${n}` });
const record = (...events: unknown[]) => ({ version: 1, conversation: { id: 'a' }, events });
const carrier = (n: number) => ({ model_module: 'jp-nb', state: { jp: record(event(n)) } });
const widgets = (state: JsonObject) => ({ [WIDGET_STATE]: { state, version_major: 2 } });

/** A notebook with this metadata, and its store. */
function open(metadata: JsonObject) {
  const notebook = new FakeNotebook();
  for (const [key, value] of Object.entries(metadata)) {
    notebook.stored.set(key, value);
  }
  const changed = vi.fn();
  return { notebook, store: new NotebookStore(notebook.model, 'p', changed), changed };
}

describe('a write', () => {
  it('changes all keys that it names, and the state', () => {
    const { notebook, store, changed } = open({
      jp: record(event(1)),
      'jp.1': 1,
      'jp.2': 'of another program',
      kernelspec: {}
    });
    const put = { jp: record(), 'jp.3': { from: 0 } };
    expect(store.write({ expect: store.state, state: 's', put, drop: ['jp.1'] })).toBeUndefined();
    expect(store.state).toBe('s');
    expect(notebook.metadata).toEqual({ ...put, 'jp.2': 'of another program', kernelspec: {} });
    expect(changed).not.toHaveBeenCalled();
  });

  it('that arrives twice is applied once', () => {
    const { notebook, store } = open({ jp: record(event(1)) });
    const extend = { at: 1, events: [event(2)] };
    const message = { expect: store.state, state: 's', extend };
    expect(store.write(message)).toBeUndefined();
    expect(store.write(message)).toBeUndefined();
    expect(notebook.metadata).toEqual({ jp: record(event(1), event(2)) });
  });

  it('that expects another content is stale', () => {
    const { notebook, store } = open({ jp: record(event(1)) });
    const { state } = store;
    notebook.setMetadata('jp', record());
    expect(store.state).not.toBe(state);
    expect(store.write({ expect: state, state: 's', put: { jp: 7 } })).toBe('stale');
    expect(notebook.metadata).toEqual({ jp: record() });
  });

  it('appends entries, and changes keys beside them', () => {
    const { notebook, store } = open({ jp: { ...record(event(1)), signature: 'old', future: 1 } });
    const head = { conversation: { id: 'a', title: 'b' }, __proto__: { polluted: true } };
    const extend = { at: 1, events: [event(2)], head, removed: ['signature', 'nothing'] };
    expect(store.write({ expect: store.state, state: 's', extend })).toBeUndefined();
    expect(notebook.metadata.jp).toEqual({
      ...record(event(1), event(2)),
      conversation: { id: 'a', title: 'b' },
      future: 1
    });
  });

  it('copies conversations that the page has', () => {
    const others = [{ conversation: { id: 'b' } }, { conversation: { id: 'c' } }];
    const jp = { ...record(event(1)), others, signature: 'x' };
    const { notebook, store } = open({ jp });
    const next = { ...record(), others: [{ conversation: { id: 'new' } }] };
    const copies = [
      [2, -1, ['conversation', 'events', 'base_config']],
      [0, 1]
    ];
    const put = { jp: next };
    expect(store.write({ expect: store.state, state: 's', put, copies })).toBeUndefined();
    expect(notebook.metadata.jp).toEqual({
      ...next,
      others: [others[1], next.others[0], { conversation: { id: 'a' }, events: [event(1)] }]
    });
  });

  it.each([
    ['a key of others', { put: { kernelspec: {} } }],
    ['a key beside its own', { put: { jp: record(), language_info: {} } }],
    ['a key that is almost its own', { put: { 'jp.01': {} } }],
    ['the name of a prototype', { put: JSON.parse('{"__proto__": {}}') as unknown }],
    ['no object', { put: [] }],
    ['a foreign key to drop', { drop: ['kernelspec'] }],
    ['no list to drop', { drop: { length: 1 } }],
    ['carriers that are no texts', { carriers: [7] }],
    ['a gap', { extend: { at: 2, events: [] } }],
    ['a huge length', { extend: { at: 1e300, events: [] } }],
    ['a length that is no number', { extend: { at: '1', events: [] } }],
    ['entries that are no list', { extend: { at: 1, events: {} } }],
    ['entries that are no objects', { extend: { at: 1, events: [7] } }],
    ['no entries', { extend: { at: 1 } }],
    ['a head that is no object', { extend: { at: 1, events: [], head: [] } }],
    ['entries in the head', { extend: { at: 1, events: [], head: { events: 7 } } }],
    ['the entries to remove', { extend: { at: 1, events: [], removed: ['events'] } }],
    ['two values of one key', { put: { jp: 1 }, extend: { at: 1, events: [] } }],
    ['a copy without a value', { copies: [[0, -1, []]] }],
    ['copies that are no list', { put: { jp: { others: [] } }, copies: 7 }],
    ['a copy that is no list', { put: { jp: { others: [] } }, copies: [7] }],
    ['a copy of nothing', { put: { jp: { others: [] } }, copies: [[0, 5]] }],
    ['a copy of a prototype', { put: { jp: { others: [] } }, copies: [[0, '__proto__']] }],
    ['a copy far away', { put: { jp: { others: [] } }, copies: [[5, -1, ['events']]] }],
    [
      'two copies at one place',
      {
        put: { jp: { others: [] } },
        copies: [
          [0, -1, ['events']],
          [0, -1, ['events']]
        ]
      }
    ],
    ['no name of a state', { state: 7 }],
    ['a name that is too long', { state: 'x'.repeat(1000) }]
  ])('with %s changes nothing', (_, parts) => {
    const metadata = { jp: record(event(1)), kernelspec: { name: 'python3' } };
    const { notebook, store } = open(metadata);
    const { state } = store;
    expect(store.write({ expect: state, state: 's', ...parts })).toBe('refused');
    expect(notebook.metadata).toEqual(metadata);
    expect(store.state).toBe(state);
  });

  it('that fails half-way leaves a state that nobody expects', () => {
    const { notebook, store } = open({ jp: record() });
    const { state } = store;
    vi.spyOn(notebook, 'setMetadata').mockImplementationOnce(() => {
      throw new Error('not now');
    });
    const message = { expect: state, state: 's', put: { jp: record(event(1)) } };
    expect(() => store.write(message)).toThrow('not now');
    expect(store.write(message)).toBe('stale');
    expect(store.write({ ...message, expect: store.state })).toBeUndefined();
    expect(notebook.metadata).toEqual({ jp: record(event(1)) });
  });
});

describe('the state', () => {
  it('is another one after each change that no kernel made', () => {
    const { notebook, store, changed } = open({ jp: record(), widgets: widgets({ w: {} }) });
    const states = new Set([store.state]);
    const note = () => states.add(store.state);
    notebook.setMetadata('kernelspec', {});
    notebook.setMetadata('widgets', widgets({}));
    note();
    expect(states.size).toBe(1);
    notebook.setMetadata('jp', record(event(1)));
    note();
    notebook.setMetadata('jp.4', {});
    note();
    notebook.deleteMetadata('jp');
    note();
    notebook.setMetadata('widgets', widgets({ w: carrier(1) }));
    note();
    expect(states.size).toBe(5);
    expect(changed).toHaveBeenCalledTimes(3);
  });

  it('is another one if the server loads a shared document anew, without a signal', () => {
    const { notebook, store } = open({ jp: record(event(1)) });
    notebook.collaborative = true;
    store.read();
    const { state } = store;
    notebook.stored.set('jp', record());
    const extend = { at: 1, events: [] };
    expect(store.write({ expect: state, state: 's', extend })).toBe('stale');
    expect(store.read().keys).toEqual({ jp: record() });
  });
});

describe('carriers', () => {
  it('are a part of the content, as they are', () => {
    const damaged = { model_module: 'jp-nb', state: 7 };
    const { store } = open({ widgets: widgets({ mine: carrier(1), damaged, other: {} }) });
    expect(store.read()).toEqual({ keys: {}, carriers: { mine: carrier(1), damaged } });
    expect(open({ widgets: 7 }).store.read()).toEqual({ keys: {}, carriers: {} });
  });

  it('are removed by a write of the kernel, and other widgets are not', () => {
    const more = { ...widgets({ mine: carrier(1), other: {} }), more: 1 };
    const { notebook, store } = open({ widgets: more });
    const put = { jp: record(event(1)) };
    const carriers = ['mine', 'other', 'missing'];
    store.write({ expect: store.state, state: 's', put, carriers });
    expect(notebook.metadata).toEqual({ ...put, widgets: { ...widgets({ other: {} }), more: 1 } });
    store.beginSave();
    expect(notebook.metadata.jp).toEqual(record(event(1)));
    expect(notebook.getMetadata('widgets')).toEqual({ ...widgets({ other: {} }), more: 1 });
  });

  it('leave no empty key behind', () => {
    const { notebook, store } = open({ widgets: { [WIDGET_STATE]: { state: { m: carrier(1) } } } });
    store.write({ expect: store.state, state: 's', carriers: ['m'] });
    expect(notebook.metadata).toEqual({});
  });

  it.each(['before', 'after'])('stay if ipywidgets saves its widgets %s this page', order => {
    const { notebook, store } = open({ widgets: widgets({ mine: carrier(1), other: {} }) });
    const { state } = store;
    const save = () => notebook.setMetadata('widgets', widgets({ shown: {} }));
    if (order === 'before') {
      save();
    }
    store.beginSave();
    if (order === 'after') {
      save();
      expect(store.state).toBe(state);
    }
    store.endSave();
    expect(notebook.getMetadata('widgets')).toMatchObject(widgets({ mine: carrier(1), shown: {} }));
    expect(store.read().carriers).toEqual({ mine: carrier(1) });
  });

  it('that another page has moved are not put back', async () => {
    const { notebook, store } = open({ widgets: widgets({ mine: carrier(1) }) });
    notebook.deleteMetadata('widgets');
    await Promise.resolve();
    store.beginSave();
    expect(notebook.metadata).toEqual({});
  });
});
