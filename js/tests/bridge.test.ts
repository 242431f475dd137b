import type { IOutput } from '@jupyterlab/nbformat';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Bridge } from '../src/bridge';
import type { JsonObject } from '../src/json';
import { PIECE_CHARS } from '../src/protocol';
import { WIDGET_STATE } from '../src/record';
import { FakeCell, FakeContext, FakeKernel, FakeNotebook, fakePanel } from './fakes';

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
    const bridge = new Bridge(this.context as never, this.user as never);
    bridge.views.add(fakePanel(this.notebook, this.running));
    await settle();
    this.kernel.publish('comm_open', { target_name: 'jp_nb.document', comm_id: COMM });
    const [hello] = this.kernel.take();
    return hello;
  }

  /** Send a message of the kernel, and return the answers. */
  tell(message: JsonObject, comm = COMM): JsonObject[] {
    this.seq++;
    const data = { v: 1, ctl: true, seq: this.seq, path: 'talk.ipynb', ...message };
    this.kernel.publish('comm_msg', { comm_id: comm, data });
    return this.kernel.take();
  }

  append(base: number, ...events: unknown[]): JsonObject[] {
    return this.tell({ type: 'append', stream: 'jp-c1', base, events });
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
      v: 1,
      path: 'talk.ipynb',
      readOnly: false,
      collaborative: false,
      stream: 'jp-c1',
      n: 1,
      doc,
      client: 'client'
    });
  });

  it('has no record without one, and no name of a user who works alone', async () => {
    const hello = await new Page().open();
    expect(hello).toMatchObject({ stream: '', n: 0 });
    expect(hello).not.toHaveProperty('doc');
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
    new Bridge(page.context as never, null);
    await settle();
    expect(page.kernel.take().map(({ type }) => type)).toEqual(['hello']);
    page.context.localPath = 'new.ipynb';
    page.context.pathChanged.emit();
    expect(page.kernel.take()).toMatchObject([{ type: 'hello', path: 'new.ipynb' }]);
  });

  it('is not sent if another page has run the cell', async () => {
    const page = new Page();
    new Bridge(page.context as never, null);
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
    expect(JSON.parse(pieces.map(({ text }) => text).join(''))).toEqual(page.jp);
  });
});

describe('append', () => {
  it('stores entries, and changes of the head', async () => {
    const page = new Page({ ...record(event(1)), signature: 'old' });
    await page.open();
    expect(page.append(1, event(2))).toMatchObject([
      { type: 'ack', seq: 1, stream: 'jp-c1', n: 2 }
    ]);
    const head = { signature: null, base_config: { a: 1 } };
    page.tell({ type: 'append', stream: 'jp-c1', base: 2, events: [], head });
    expect(page.jp).toEqual({ ...record(event(1), event(2)), base_config: { a: 1 } });
  });

  it('stores entries once that arrive twice', async () => {
    const page = new Page(record(event(1)));
    await page.open();
    page.append(1, event(2), event(3));
    page.append(1, event(2), event(3), event(4));
    expect(page.jp.events).toEqual([1, 2, 3, 4].map(n => event(n)));
  });

  it.each([
    ['a gap', { base: 2 }],
    ['a negative base', { base: -1 }],
    ['a base that is no number', { base: '1' }],
    ['another conversation', { stream: 'jp-c2' }],
    ['entries that are no list', { events: {} }],
    ['entries that are no objects', { events: [7] }],
    ['a head of another conversation', { head: { conversation: { id: 'evil' } } }],
    ['a head that is no object', { head: 7 }]
  ])('refuses %s', async (_, change) => {
    const page = new Page(record(event(1)));
    await page.open();
    const message = { type: 'append', stream: 'jp-c1', base: 1, events: [event(2)], ...change };
    expect(page.tell(message)).toMatchObject([{ type: 'nack', n: 1 }]);
    expect(page.jp).toEqual(record(event(1)));
  });

  it('is repeated if the first one could not be written', async () => {
    const page = new Page(record());
    await page.open();
    const set = vi.spyOn(page.notebook, 'setMetadata').mockImplementationOnce(() => {
      throw new Error('not now');
    });
    vi.spyOn(console, 'error').mockImplementation(() => undefined);
    page.append(0, event(1));
    expect(page.jp).toEqual(record());
    expect(page.append(0, event(1))).toMatchObject([{ type: 'ack', n: 1 }]);
    expect(set).toHaveBeenCalledTimes(2);
    expect(page.jp).toEqual(record(event(1)));
  });

  it.each([
    ['read-only', (page: Page) => (page.context.contentsModel.writable = false)],
    ['newer', (page: Page) => page.notebook.setMetadata('jp', { ...record(), version: 9 })],
    ['damaged', (page: Page) => page.notebook.setMetadata('jp', 7)]
  ])('is refused if the notebook is %s', async (why, change) => {
    const page = new Page(record());
    await page.open();
    change(page);
    const before = page.notebook.metadata;
    expect(page.append(0, event(1))).toMatchObject([{ type: 'nack', why }]);
    expect(page.notebook.metadata).toEqual(before);
  });
});

describe('messages of others', () => {
  it.each([
    ['another path', { path: 'other.ipynb' }, []],
    ['no path', { path: undefined }, []],
    ['another protocol', { v: 2 }, [{ type: 'nack', why: 'protocol' }]],
    ['an unknown type', { type: '__proto__' }, []]
  ])('with %s change nothing', async (_, change, answers) => {
    const page = new Page(record());
    await page.open();
    expect(page.tell({ type: 'switch', doc: record(event(9)), ...change })).toMatchObject(answers);
    expect(page.jp).toEqual(record());
  });

  it('on another comm change nothing; the page follows one if its own is closed', async () => {
    const page = new Page(record());
    await page.open();
    page.kernel.comms = { [COMM]: {} };
    page.tell({ type: 'switch', doc: record(event(9)) }, 'jp_nb.document.2');
    await settle();
    expect(page.kernel.take()).toEqual([]);
    page.kernel.comms = { 'jp_nb.document.2': {} };
    page.tell({ type: 'switch', doc: record(event(9)) }, 'jp_nb.document.2');
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

describe('switch', () => {
  it('replaces the record', async () => {
    const page = new Page(record(event(1)));
    await page.open();
    const doc = { ...record(), conversation: { id: 'jp-c2' } };
    expect(page.tell({ type: 'switch', doc })).toMatchObject([{ type: 'ack', stream: 'jp-c2' }]);
    expect(page.jp).toEqual(doc);
  });

  it('keeps a damaged record among the other conversations', async () => {
    const page = new Page({ damaged: true });
    await page.open();
    expect(page.tell({ type: 'switch', doc: record() })).toMatchObject([{ type: 'nack' }]);
    const doc = { ...record(), others: [{ damaged: true }] };
    expect(page.tell({ type: 'switch', doc })).toMatchObject([{ type: 'ack' }]);
    expect(page.jp).toEqual(doc);
  });

  it('arrives in pieces, in any order', async () => {
    const page = new Page(record(event(1)));
    await page.open();
    const text = JSON.stringify(record(event(2)));
    const piece = (i: number) => ({
      type: 'chunk',
      id: 7,
      i,
      of: 2,
      text: [text.slice(0, 9), text.slice(9)][i]
    });
    expect(page.tell(piece(1))).toMatchObject([{ type: 'ack' }]);
    expect(page.jp).toEqual(record(event(1)));
    page.tell(piece(0));
    expect(page.jp).toEqual(record(event(2)));
  });

  it.each([
    [{ id: 1, i: 0, of: 1e12, text: '[' }],
    [{ id: 1, i: -1, of: 2, text: '[' }],
    [{ id: 1, i: 0, of: 1, text: '[' }],
    [{ id: 1, i: 0, of: 1, text: 7 }]
  ])('refuses the piece %j', async piece => {
    const page = new Page(record(event(1)));
    await page.open();
    expect(page.tell({ type: 'chunk', ...piece })).toMatchObject([{ type: 'nack' }]);
    expect(page.jp).toEqual(record(event(1)));
  });

  it('takes conversations that the page has', async () => {
    const page = new Page(record(event(1)));
    await page.open();
    const doc = { ...record(), conversation: { id: 'jp-c2' }, others: [] };
    page.tell({ type: 'exchange', doc, kept: [[0, 'jp-c1', 1]] });
    expect(page.jp.others).toMatchObject([{ conversation: { id: 'jp-c1' }, events: [event(1)] }]);
    const refused = page.tell({ type: 'exchange', doc, kept: [[0, 'jp-c9', 1]] });
    expect(refused).toMatchObject([{ type: 'nack' }]);
  });
});

describe('save', () => {
  it('answers when the file is saved, and says what is in it', async () => {
    const page = new Page(record(event(1)));
    await page.open();
    page.tell({ type: 'save', to: '' });
    await settle();
    expect(page.kernel.take()).toMatchObject([
      { type: 'saved', stream: 'jp-c1', n: 1 },
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

  it('moves the record of a headless run into the notebook', async () => {
    const page = new Page();
    const state = { jp: record(), 'events.0': [event(1)] };
    const mine = { model_module: 'jp-nb', state };
    const widgets = { [WIDGET_STATE]: { state: { mine, other: {} } }, more: 1 };
    page.notebook.stored.set('widgets', widgets);
    expect(await page.open()).toMatchObject({ n: 1 });
    expect(page.jp).toBeUndefined();
    await page.context.save();
    expect(page.jp).toEqual(record(event(1)));
    expect(page.notebook.getMetadata('widgets')).toEqual({
      [WIDGET_STATE]: { state: { other: {} } },
      more: 1
    });
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
    const message = { type: 'append', stream: 'jp-c1', base: 0, events: [event(1)] };
    expect(page.tell({ ...message, to: 'another' })).toEqual([]);
    expect(page.jp).toEqual(record());
    expect(page.tell({ ...message, to: id })).toMatchObject([{ type: 'ack', n: 1 }]);
    expect(page.jp).toEqual(record(event(1)));
  });

  it('has earlier entries in segments', async () => {
    const [page] = await share();
    const long = [1, 2, 3].map(n => event(n, 'x'.repeat(9000)));
    long.forEach((each, base) => page.append(base, each));
    expect(Object.keys(page.notebook.metadata).sort()).toEqual(['jp', 'jp.1']);
    expect(page.jp.events).toEqual(long.slice(2));
    page.tell({ type: 'switch', doc: { ...record(), conversation: { id: 'jp-c2' } } });
    expect(Object.keys(page.notebook.metadata)).toEqual(['jp']);
  });

  it('that lost entries of this page makes it send hello', async () => {
    const [page] = await share();
    page.append(0, event(1));
    page.notebook.setMetadata('jp', record(event(1), event(2)));
    expect(page.kernel.take()).toEqual([]);
    page.notebook.setMetadata('jp', record());
    expect(page.kernel.take()).toMatchObject([{ type: 'hello', n: 0 }]);
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
