import type { IOutput } from '@jupyterlab/nbformat';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Bridge } from '../src/bridge';
import type { JsonObject } from '../src/json';
import { PIECE_CHARS } from '../src/protocol';
import { WIDGET_STATE } from '../src/record';
import { FakeCell, FakeContext, FakeKernel, FakeNotebook, fakePanel, LANGUAGE } from './fakes';

const COMM = 'jp_nb.document.1';
const event = (n: number, text = '') => ({ type: 'chat_request', event_id: `${n}`, text });
const record = (...events: unknown[]) => ({
  version: 1,
  conversation: { id: 'jp-c1' },
  base_config: {},
  events
});

/** A page with a notebook, and the kernel that it is connected to. */
class Page {
  readonly cell = new FakeCell('a', '%%jp');
  readonly notebook = new FakeNotebook(this.cell);
  readonly kernel = new FakeKernel();
  readonly context = new FakeContext(this.notebook, this.kernel);
  readonly running: Record<string, string> = {};
  readonly user = {
    identity: { display_name: 'Ada' },
    userChanged: { connect: vi.fn(), disconnect: vi.fn() }
  };
  seq = 0;
  /** The id and the state that the page has named. */
  id = '';
  state = '';

  constructor(jp?: unknown) {
    if (jp !== undefined) {
      this.notebook.stored.set('jp', jp);
    }
  }

  get jp(): JsonObject {
    return this.notebook.getMetadata('jp') as JsonObject;
  }

  /** Open the page; the kernel has opened its comm. */
  async open(): Promise<JsonObject> {
    const bridge = new Bridge(this.context as never, this.user as never, LANGUAGE);
    bridge.views.add(fakePanel(this.notebook, this.running));
    await settle();
    this.kernel.publish('comm_open', { target_name: 'jp_nb.document', comm_id: COMM });
    const [hello] = this.kernel.take();
    this.id = hello.page as string;
    this.state = hello.state as string;
    return hello;
  }

  /** Send a message of the kernel, and return the answers. */
  tell(message: JsonObject, comm = COMM): JsonObject[] {
    this.seq++;
    const data = { v: 2, ctl: true, seq: this.seq, path: 'talk.ipynb', ...message };
    this.kernel.publish('comm_msg', { comm_id: comm, data });
    return this.kernel.take();
  }

  /** Write as the kernel does, in the state that the page has. */
  write(parts: JsonObject): JsonObject[] {
    const state = `kernel.${this.seq}`;
    const answers = this.tell({ type: 'write', to: this.id, expect: this.state, state, ...parts });
    if (answers[0]?.type === 'ack') {
      this.state = answers[0].state as string;
    }
    return answers;
  }

  append(at: number, ...events: unknown[]): JsonObject[] {
    return this.write({ extend: { at, events } });
  }
}

/** Let the promises of the page come to their end. */
async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) {
    await Promise.resolve();
  }
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
  vi.stubGlobal('window', new EventTarget());
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe('hello', () => {
  it('has the state of the page', async () => {
    const doc = record(event(1));
    expect(await new Page(doc).open()).toMatchObject({
      type: 'hello',
      v: 2,
      path: 'talk.ipynb',
      readOnly: false,
      collaborative: false,
      state: expect.any(String) as string,
      keys: { jp: doc },
      carriers: {},
      client: 'client'
    });
  });

  it('has no record without one, and no name of a user who works alone', async () => {
    const hello = await new Page().open();
    expect(hello).toMatchObject({ keys: {}, carriers: {} });
    expect(hello).not.toHaveProperty('user');
  });

  it('has the name of a user who shares the document', async () => {
    const page = new Page();
    page.notebook.collaborative = true;
    expect(await page.open()).toMatchObject({
      collaborative: true,
      user: 'Ada',
      session: 'client'
    });
  });

  it('is sent to a kernel that runs already, and after a rename', async () => {
    const page = new Page();
    page.kernel.comms = { [COMM]: {}, other: {} };
    new Bridge(page.context as never, null, LANGUAGE);
    await settle();
    expect(page.kernel.take().map(({ type }) => type)).toEqual(['hello']);
    page.context.localPath = 'new.ipynb';
    page.context.pathChanged.emit();
    expect(page.kernel.take()).toMatchObject([{ type: 'hello', path: 'new.ipynb' }]);
  });

  it('is not sent if another page has run the cell', async () => {
    const page = new Page();
    new Bridge(page.context as never, null, LANGUAGE);
    await settle();
    page.kernel.publish(
      'comm_open',
      { target_name: 'jp_nb.document', comm_id: COMM },
      'r',
      'another'
    );
    expect(page.kernel.take()).toEqual([]);
  });

  it('has a long record in pieces', async () => {
    const page = new Page(record(event(1, 'x'.repeat(4.5 * PIECE_CHARS))));
    const hello = await page.open();
    expect(hello).toMatchObject({ chunks: 5 });
    const pieces = page.tell({ type: 'pull' }).slice(1);
    const keys = { jp: page.jp };
    expect(JSON.parse(pieces.map(({ text }) => text).join(''))).toEqual({ keys, carriers: {} });
  });
});

describe('a write', () => {
  it('stores entries, and changes of the head', async () => {
    const page = new Page({ ...record(event(1)), signature: 'old' });
    await page.open();
    expect(page.append(1, event(2))).toMatchObject([{ type: 'ack', seq: 1, state: 'kernel.0' }]);
    const head = { base_config: { a: 1 } };
    page.write({ extend: { at: 2, events: [], head, removed: ['signature'] } });
    expect(page.jp).toEqual({ ...record(event(1), event(2)), base_config: { a: 1 } });
  });

  it('stores entries once that arrive twice', async () => {
    const page = new Page(record(event(1)));
    await page.open();
    const message = {
      type: 'write',
      to: page.id,
      expect: page.state,
      state: 's',
      extend: { at: 1, events: [event(2)] }
    };
    expect(page.tell(message)).toMatchObject([{ type: 'ack', state: 's' }]);
    expect(page.tell(message)).toMatchObject([{ type: 'ack', state: 's' }]);
    expect(page.jp.events).toEqual([1, 2].map(n => event(n)));
  });

  it('that does not fit the content is answered with the content', async () => {
    const page = new Page(record(event(1)));
    await page.open();
    page.notebook.setMetadata('jp', record());
    const answers = page.append(1, event(2));
    expect(answers).toMatchObject([
      { type: 'nack', seq: 1, why: 'stale' },
      { type: 'hello', keys: { jp: record() } }
    ]);
    expect(page.jp).toEqual(record());
    page.state = answers[1].state as string;
    expect(page.append(0, event(1))).toMatchObject([{ type: 'ack' }]);
  });

  it.each([
    ['a gap', { extend: { at: 2, events: [event(2)] } }],
    ['a key of others', { put: { kernelspec: {} } }],
    ['no object', { put: 7 }]
  ])('with %s is refused', async (_, parts) => {
    const page = new Page(record(event(1)));
    await page.open();
    expect(page.write(parts)).toMatchObject([{ type: 'nack', why: 'refused' }]);
    expect(page.notebook.metadata).toEqual({ jp: record(event(1)) });
  });

  it('that fails is not acknowledged, and the kernel learns what is there', async () => {
    const page = new Page(record());
    await page.open();
    vi.spyOn(page.notebook, 'setMetadata').mockImplementationOnce(() => {
      throw new Error('not now');
    });
    vi.spyOn(console, 'error').mockImplementation(() => undefined);
    expect(page.append(0, event(1))).toEqual([]);
    expect(page.jp).toEqual(record());
    const [, hello] = page.append(0, event(1));
    page.state = hello.state as string;
    expect(page.append(0, event(1))).toMatchObject([{ type: 'ack' }]);
    expect(page.jp).toEqual(record(event(1)));
  });

  it('is refused if the notebook is read-only', async () => {
    const page = new Page(record());
    await page.open();
    page.context.contentsModel.writable = false;
    expect(page.append(0, event(1))).toMatchObject([{ type: 'nack', why: 'read-only' }]);
    expect(page.jp).toEqual(record());
  });

  it('arrives in pieces, in any order', async () => {
    const page = new Page(record(event(1)));
    await page.open();
    const put = { jp: record(event(2)) };
    const text = JSON.stringify({ expect: page.state, state: 's', put });
    const piece = (i: number) => ({
      type: 'chunk',
      to: page.id,
      id: 7,
      i,
      of: 2,
      text: [text.slice(0, 9), text.slice(9)][i]
    });
    expect(page.tell(piece(1))).toMatchObject([{ type: 'ack' }]);
    expect(page.jp).toEqual(record(event(1)));
    expect(page.tell(piece(0))).toMatchObject([{ type: 'ack', seq: 2, state: 's' }]);
    expect(page.jp).toEqual(record(event(2)));
  });

  it.each([
    [{ id: 1, i: 0, of: 1e12, text: '[' }],
    [{ id: 1, i: -1, of: 2, text: '[' }],
    [{ id: 1, i: 0, of: 1, text: '[' }],
    [{ id: 1, i: 0, of: 1, text: '[]' }],
    [{ id: 1, i: 0, of: 1, text: 7 }]
  ])('refuses the piece %j', async piece => {
    const page = new Page(record(event(1)));
    await page.open();
    expect(page.tell({ type: 'chunk', to: page.id, ...piece })).toMatchObject([{ type: 'nack' }]);
    expect(page.jp).toEqual(record(event(1)));
  });
});

describe('messages of others', () => {
  it.each([
    ['another path', { path: 'other.ipynb' }, []],
    ['no path', { path: undefined }, []],
    ['a newer protocol', { v: 3 }, [{ type: 'nack', why: 'protocol' }]],
    ['an unknown type', { type: '__proto__' }, []],
    ['another page', { to: 'another' }, []],
    ['no page', { to: undefined }, []]
  ])('with %s change nothing', async (_, change, answers) => {
    const page = new Page(record());
    await page.open();
    expect(page.write({ put: { jp: record(event(9)) }, ...change })).toMatchObject(answers);
    expect(page.jp).toEqual(record());
  });

  it.each([
    { type: 'append', stream: 'jp-c1', base: 0, events: [event(1)] },
    { type: 'switch', doc: record(event(1)) },
    { type: 'chunk', id: 1, i: 0, of: 1, text: JSON.stringify(record(event(1))) },
    { type: 'pull' }
  ])('of a kernel with protocol 1 change nothing: $type', async message => {
    const page = new Page(record());
    await page.open();
    const answers = page.tell({ v: 1, ...message });
    expect(answers).toMatchObject([{ type: 'nack', why: 'protocol' }]);
    expect(page.jp).toEqual(record());
  });

  it('on another comm change nothing; the page follows one if its own is closed', async () => {
    const page = new Page(record());
    await page.open();
    page.kernel.comms = { [COMM]: {} };
    const put = { jp: record(event(9)) };
    const forged = { type: 'write', to: page.id, expect: page.state, state: 's', put };
    page.tell(forged, 'jp_nb.document.2');
    await settle();
    expect(page.kernel.take()).toEqual([]);
    page.kernel.comms = { 'jp_nb.document.2': {} };
    page.tell(forged, 'jp_nb.document.2');
    await settle();
    expect(page.kernel.take()).toMatchObject([{ type: 'hello' }]);
    expect(page.jp).toEqual(record());
  });

  it('end with the kernel', async () => {
    const page = new Page(record());
    await page.open();
    page.kernel.statusChanged.emit('restarting');
    expect(page.append(0, event(1))).toMatchObject([{ type: 'hello' }]); // of the next kernel
    page.kernel.publish('comm_close', { comm_id: COMM });
    page.context.pathChanged.emit();
    expect(page.kernel.take()).toEqual([]);
    page.context.sessionContext.kernelChanged.emit({ newValue: null });
    page.kernel.publish('comm_open', { target_name: 'jp_nb.document', comm_id: COMM });
    expect(page.kernel.take()).toEqual([]);
  });
});

describe('save', () => {
  it('answers when the file is saved, and says what is in it', async () => {
    const page = new Page(record(event(1)));
    await page.open();
    page.context.saving = () => {
      page.append(1, event(2)); // is not in the file
      return Promise.resolve();
    };
    const { state } = page;
    page.tell({ type: 'save', to: '' });
    await settle();
    expect(page.kernel.take()).toMatchObject([
      { type: 'saved', state },
      { type: 'saved', seq: 1 }
    ]);
  });

  it('answers once if it fails', async () => {
    const page = new Page(record());
    await page.open();
    page.context.saving = () => {
      page.context.saveState.emit('failed');
      return Promise.reject(new Error('disk full'));
    };
    expect(page.tell({ type: 'save', to: '' })).toMatchObject([{ type: 'save_failed', seq: 1 }]);
    await settle();
    expect(page.kernel.take()).toEqual([]);
    page.context.saving = () => Promise.reject(new Error('disk full'));
    page.tell({ type: 'save' });
    await settle();
    expect(page.kernel.take()).toMatchObject([{ type: 'save_failed', why: 'disk full' }]);
  });

  it('is not done by other pages, or if the notebook is read-only', async () => {
    const page = new Page(record());
    await page.open();
    const save = vi.spyOn(page.context, 'save');
    page.tell({ type: 'save', to: 'another' });
    page.notebook.readOnly = true;
    expect(page.tell({ type: 'save', to: '' })).toMatchObject([{ type: 'save_failed' }]);
    expect(save).not.toHaveBeenCalled();
  });

  it('keeps the record of a headless run until the kernel moves it into the notebook', async () => {
    const page = new Page();
    const mine = { model_module: 'jp-nb', state: { jp: record(), 'events.0': [event(1)] } };
    const widgets = { [WIDGET_STATE]: { state: { mine, other: {} } }, more: 1 };
    page.notebook.stored.set('widgets', widgets);
    expect(await page.open()).toMatchObject({ keys: {}, carriers: { mine } });
    page.context.saveState.connect((_, state) => {
      if (state === 'started') {
        page.notebook.setMetadata('widgets', { [WIDGET_STATE]: { state: { shown: {} } } });
      }
    });
    await page.context.save();
    expect(page.notebook.getMetadata('widgets')).toMatchObject({
      [WIDGET_STATE]: { state: { mine, shown: {} } }
    });
    page.kernel.take();
    const [{ state }] = page.tell({ type: 'pull' });
    page.state = state as string;
    page.write({ put: { jp: record(event(1)) }, carriers: ['mine'] });
    expect(page.jp).toEqual(record(event(1)));
    const { state: left } = (page.notebook.getMetadata('widgets') as JsonObject)[
      WIDGET_STATE
    ] as JsonObject;
    expect(left).toEqual({ shown: {} });
  });
});

describe('a shared document', () => {
  async function share(...events: unknown[]): Promise<[Page, string]> {
    const page = new Page(record(...events));
    page.notebook.collaborative = true;
    const hello = await page.open();
    return [page, hello.page as string];
  }

  it('is written by the page that the kernel names', async () => {
    const [page, id] = await share();
    const extend = { at: 0, events: [event(1)] };
    expect(page.write({ extend, to: 'another' })).toEqual([]);
    expect(page.jp).toEqual(record());
    expect(page.write({ extend, to: id })).toMatchObject([{ type: 'ack' }]);
    expect(page.jp).toEqual(record(event(1)));
  });

  it('that another page changes makes the page say hello that has written', async () => {
    const [page] = await share();
    page.notebook.setMetadata('jp', record(event(9)));
    expect(page.kernel.take()).toEqual([]); // it has written nothing
    const [{ state }] = page.tell({ type: 'pull' });
    page.state = state as string;
    page.append(1, event(1));
    page.notebook.setMetadata('jp', record());
    expect(page.kernel.take()).toMatchObject([{ type: 'hello', keys: { jp: record() } }]);
    page.notebook.setMetadata('jp', record(event(7)));
    expect(page.kernel.take()).toEqual([]); // the kernel has not written since
  });

  it('is no more looked after by a page once the kernel names another one', async () => {
    const [page] = await share();
    page.append(0, event(1));
    page.write({ to: 'another' });
    page.notebook.setMetadata('jp', record());
    expect(page.kernel.take()).toEqual([]);
  });

  it('is left with bye', async () => {
    await share();
    const [page] = await share();
    window.dispatchEvent(new Event('beforeunload'));
    expect(page.kernel.take()).toMatchObject([{ type: 'bye' }]);
    vi.advanceTimersByTime(3000); // the user has canceled it
    expect(page.kernel.take()).toMatchObject([{ type: 'hello' }]);
    expect(page.tell({ type: 'pull' })).toMatchObject([{ type: 'hello' }]);
  });

  it('that closes does not offer itself as the page that takes over', async () => {
    const [page] = await share();
    window.dispatchEvent(new Event('beforeunload'));
    page.kernel.take();
    expect(page.tell({ type: 'pull' })).toEqual([]);
    page.context.pathChanged.emit();
    vi.advanceTimersByTime(1500);
    window.dispatchEvent(new Event('beforeunload')); // the user canceled it, and closes it again
    page.kernel.take();
    vi.advanceTimersByTime(1500);
    expect(page.kernel.take()).toEqual([]);
    vi.advanceTimersByTime(1500);
    expect(page.kernel.take()).toMatchObject([{ type: 'hello' }]);
  });
});

describe('outputs', () => {
  const data = { 'text/plain': 'answer' };
  const metadata = { jp_nb: { display_id: 'id' } };
  const shown = {
    request: 'r',
    cell: 'a',
    code: '%%jp',
    outputs: [{ display_id: 'id', data, metadata }]
  };
  const display = (page: Page, request: string, session = 'client') =>
    page.kernel.publish(
      'display_data',
      { data, metadata, transient: { display_id: 'id' } },
      request,
      session
    );

  it('of a turn are shown in its cell until it ends', async () => {
    const page = new Page();
    const { page: to } = await page.open();
    page.tell({ type: 'show', to, ...shown });
    expect(page.cell.outputs.items).toMatchObject([{ data }]);
    expect(page.cell.executionState).toBe('running');
    page.kernel.publish('stream', { name: 'stdout', text: 'hi' });
    page.kernel.publish('error', { ename: 'E', evalue: '', traceback: [] });
    page.kernel.publish('clear_output', { wait: true });
    page.kernel.publish('display_data', { data: { 'text/plain': 'plain' }, metadata: {} });
    expect(page.cell.outputs.items.map(output => output.output_type)).toEqual([
      'display_data',
      'display_data'
    ]);
    page.kernel.publish('status', { execution_state: 'idle' });
    expect(page.kernel.take()).toMatchObject([{ type: 'seen', request: 'r' }]);
    expect(page.cell.executionState).toBe('idle');
  });

  it('of a cell that ended without a page are final', async () => {
    const page = new Page();
    const { page: to } = await page.open();
    page.tell({ type: 'show', to, over: true, ...shown, code: 'changed since' });
    expect(page.cell.outputs.items).toEqual([]);
    expect(page.tell({ type: 'show', to, over: true, ...shown })).toMatchObject([{ type: 'seen' }]);
    expect(page.cell.outputs.items).toMatchObject([{ data }]);
  });

  it('of a cell that was never saved are shown in a new one', async () => {
    const page = new Page();
    const { page: to } = await page.open();
    page.tell({
      type: 'show',
      to,
      ...shown,
      cell: 'b',
      outputs: [...shown.outputs, { name: 'stdout', text: 'hi' }]
    });
    expect(page.notebook.list.map(({ id }) => id)).toEqual(['a', 'b']);
    expect(page.notebook.list[1].outputs.items).toHaveLength(2);
    page.notebook.list.pop();
    page.notebook.cells.changed.emit();
    page.tell({ type: 'show', to, ...shown, cell: 'b' });
    expect(page.notebook.list.map(({ id }) => id)).toEqual(['a']); // the user has deleted it
  });

  it.each([
    ['another page', { to: 'another' }],
    ['no cell', { cell: 7 }],
    ['no code', { code: '' }],
    ['outputs of another shape', { outputs: [7] }]
  ])('with %s are not shown', async (_, change) => {
    const page = new Page();
    const { page: to } = await page.open();
    page.tell({ type: 'show', to, ...shown, ...change });
    expect(page.cell.outputs.items).toEqual([]);
    expect(page.notebook.list).toHaveLength(1);
  });

  it('that no cell shows are requested, once a second', async () => {
    const page = new Page();
    await page.open();
    display(page, 'other');
    display(page, 'other');
    expect(page.kernel.take()).toMatchObject([{ type: 'want', request: 'other' }]);
  });

  it('of requests of this page are followed', async () => {
    const page = new Page();
    await page.open();
    page.running.a = 'r';
    page.cell.outputs.add({ output_type: 'display_data', data, metadata });
    display(page, 'r');
    page.cell.outputs.clear();
    vi.advanceTimersByTime(1);
    expect(page.cell.outputs.items).toMatchObject([{ data }]);
    delete page.running.a;
    page.kernel.publish('status', { execution_state: 'idle' });
    expect(page.kernel.take()).toMatchObject([{ type: 'seen' }]);
  });

  it('that are older than the page are updated', async () => {
    const page = new Page();
    await page.open();
    page.cell.outputs.add({ output_type: 'display_data', data: {}, metadata });
    const content = { data, metadata: {}, transient: { display_id: 'id' } };
    page.kernel.publish('update_display_data', content, 'other', 'another');
    expect(page.cell.outputs.items).toMatchObject([{ data }]);
  });

  it('of another page are trusted, and requested if they do not arrive', async () => {
    const page = new Page();
    page.notebook.collaborative = true;
    await page.open();
    page.kernel.publish('execute_input', { code: '%%jp' }, 'other', 'another');
    expect(page.cell.outputs.trusted).toBe(true);
    display(page, 'other', 'another');
    expect(page.kernel.take()).toEqual([]);
    vi.advanceTimersByTime(1000);
    expect(page.kernel.take()).toMatchObject([{ type: 'want', request: 'other' }]);
    page.cell.outputs.add({ output_type: 'display_data', data, metadata });
    page.notebook.contentChanged.emit();
    vi.advanceTimersByTime(5000);
    expect(page.kernel.take()).toEqual([]);
  });

  it('of a cell that another page runs twice are trusted once, when they are cleared', async () => {
    const page = new Page();
    page.notebook.collaborative = true;
    page.cell.outputs.add({ output_type: 'display_data', data, metadata });
    await page.open();
    const trusted = vi.fn();
    Object.defineProperty(page.cell.outputs, 'trusted', { set: trusted });
    page.kernel.publish('execute_input', { code: '%%jp' }, 'other', 'another');
    page.kernel.publish('execute_input', { code: '%%jp' }, 'third', 'another');
    expect(trusted).not.toHaveBeenCalled();
    page.cell.outputs.clear();
    page.cell.outputs.clear();
    expect(trusted).toHaveBeenCalledTimes(1);
  });

  /** A page of a shared document, whose other page has written an output of a turn. */
  const open = async () => {
    const page = new Page();
    page.notebook.collaborative = true;
    await page.open();
    write(page, 'asks');
    update(page, 'asks');
    expect(page.cell.outputs.trusted).toBe(true);
    return page;
  };
  const update = (page: Page, text: string, marks: JsonObject = metadata) => {
    const content = { data: { 'text/plain': text }, metadata: marks };
    const message = { ...content, transient: { display_id: 'id' } };
    page.kernel.publish('update_display_data', message, 'other', 'another');
  };
  const write = (page: Page, text: string, marks: JsonObject = metadata) => {
    const content = { data: { 'text/plain': text }, metadata: marks };
    page.cell.outputs.items = [{ output_type: 'display_data', ...content } as IOutput];
    page.notebook.contentChanged.emit();
  };

  it('of another page are requested if their content stays old', async () => {
    const page = await open();
    vi.advanceTimersByTime(5000);
    expect(page.kernel.take()).toEqual([]);
    update(page, 'noted');
    update(page, 'asks again');
    vi.advanceTimersByTime(1000);
    expect(page.kernel.take()).toMatchObject([{ type: 'want', request: 'other' }]);
    write(page, 'asks again');
    vi.advanceTimersByTime(5000);
    expect(page.kernel.take()).toEqual([]);
  });

  it('of another page are not requested while it writes them', async () => {
    const page = await open();
    for (let n = 0; n < 10; n++) {
      update(page, `text ${n}`);
      vi.advanceTimersByTime(700);
      write(page, n % 2 ? `text ${n}` : `text ${n - 0.5}`); // an older one than the page knows
    }
    update(page, 'last', {});
    vi.advanceTimersByTime(700);
    write(page, 'last', {});
    vi.advanceTimersByTime(5000);
    expect(page.kernel.take()).toEqual([]);
  });

  it('of another page are requested until the cell ends', async () => {
    const page = await open();
    update(page, 'last', {});
    vi.advanceTimersByTime(1000);
    expect(page.kernel.take()).toMatchObject([{ type: 'want', request: 'other' }]);
    page.kernel.publish('status', { execution_state: 'idle' }, 'other', 'another');
    vi.advanceTimersByTime(5000);
    expect(page.kernel.take()).toEqual([]);
  });

  it('of another page are written by this one if the kernel says so', async () => {
    const page = await open();
    update(page, 'noted');
    vi.advanceTimersByTime(1000);
    const [{ page: to }] = page.kernel.take();
    const outputs = [{ display_id: 'id', data, metadata }];
    page.tell({ type: 'show', to, ...shown, request: 'other', outputs, puts: true });
    expect(page.cell.outputs.items).toMatchObject([{ data }]);
    update(page, 'asks again');
    expect(page.cell.outputs.items).toMatchObject([{ data: { 'text/plain': 'asks again' } }]);
    vi.advanceTimersByTime(5000);
    expect(page.kernel.take()).toEqual([]);
  });

  it('of a cell that was queued again are cleared when it runs', async () => {
    const page = new Page();
    const { page: to } = await page.open();
    page.tell({ type: 'show', to, ...shown });
    page.running.a = 'later';
    page.kernel.publish('status', { execution_state: 'idle' });
    expect(page.cell.executionState).toBe('running');
    page.kernel.publish('execute_input', { code: '%%jp' }, 'later');
    expect(page.cell.outputs.items).toEqual([]);
  });
});

describe('questions of the kernel', () => {
  it('for cells are answered to it alone', async () => {
    const page = new Page();
    const { page: to } = await page.open();
    expect(page.tell({ type: 'cells', to: 'another', whole: null })).toEqual([]);
    const [answer] = page.tell({ type: 'cells', to, whole: null });
    expect(answer).toMatchObject({ type: 'cells', i: 0, of: 1 });
    expect(JSON.parse(answer.text as string)).toMatchObject([{ id: 'a', source: '%%jp' }]);
  });

  it('for an input box are answered', async () => {
    const page = new Page();
    await page.open();
    page.running.a = 'r';
    expect(page.tell({ type: 'input', request: 'r' })).toMatchObject([{ can: true }]);
    expect(page.tell({ type: 'input', request: 'x' })).toMatchObject([{ can: false }]);
  });
});

describe('edits', () => {
  it('insert cells with ids that nbformat allows, also on a page without HTTPS', async () => {
    vi.stubGlobal('crypto', {}); // `randomUUID` is for secure pages only
    const page = new Page();
    const { page: to } = await page.open();
    const step = { kind: 'insert', cell: 'new1', after: 'a', type: 'code', source: 'x = 1' };
    const [answer] = page.tell({ type: 'edit', to, operation: 'o1', steps: [step], expected: [] });
    expect(JSON.parse(answer.text as string)).toMatchObject({ outcome: 'applied' });
    expect(page.notebook.list.map(({ source }) => source)).toEqual(['%%jp', 'x = 1']);
    expect(page.notebook.list[1].id).toMatch(/^[a-zA-Z0-9-_]{1,64}$/);
    expect(to).toMatch(/^[a-zA-Z0-9-_]{1,64}$/);
  });
});

describe('a document that closes', () => {
  it('leaves its kernel, and no timer of an open form', async () => {
    const page = new Page();
    const { page: to } = await page.open();
    const data = { 'application/vnd.jupyter.widget-view+json': { model_id: 'm' } };
    const outputs = [{ display_id: 'id', data, metadata: { jp_nb: { display_id: 'id' } } }];
    const shown = { request: 'r', cell: 'a', code: '%%jp', outputs };
    page.tell({ type: 'show', to, ...shown });
    expect(vi.getTimerCount()).toBeGreaterThan(0);

    page.notebook.collaborative = true;
    // As JupyterLab does it: the model has no cells after it is disposed.
    Object.assign(page.notebook, { cells: null });
    page.context.disposed.emit();
    page.cell.outputs.clear();
    page.context.pathChanged.emit();
    window.dispatchEvent(new Event('beforeunload'));
    page.notebook.contentChanged.emit();

    expect(page.tell({ type: 'pull' })).toEqual([]);
    expect(page.user.userChanged.disconnect).toHaveBeenCalledTimes(1);
    expect(vi.getTimerCount()).toBe(0);
  });
});
