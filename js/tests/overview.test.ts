import { describe, expect, it } from 'vitest';

import { findOpenQuestion } from '../src/page/open_question';
import { readOverview, scaleBars, shorten } from '../src/page/overview';
import { FakeCell, FakeNotebook } from './fakes';

const usage = { input_tokens: 100, output_tokens: 5 };
const EVENTS = [
  { type: 'config_delta' },
  { type: 'turn_start' },
  { type: 'chat_request', content: 'Plan\n a  walk.' },
  { type: 'tool_call_request', id: 'c1', name: 'forecast' },
  { type: 'inquiry_request', id: 'q1', question: { text: 'Where?' } },
  { type: 'inquiry_response', id: 'q1', outcome: 'answered' },
  { type: 'tool_call_response', id: 'c1', is_error: true },
  { type: 'chat_response', message: 'Done.', metadata: { usage } },
  { type: 'turn_start' },
  { type: 'chat_request', content: 'And now?' },
  { type: 'inquiry_request', id: 'q2', question: { text: 'Really?' } },
  { type: 'chat_response', metadata: { usage: [usage, usage, 'odd'] } }
];

function record(more: object = {}): object {
  const others = [{ conversation: { id: 'jp-c1', title: 'Older' }, base_config: {}, events: [] }];
  return { jp: { version: 1, conversation: { id: 'jp-c2' }, events: EVENTS, others, ...more } };
}

describe('the overview of a record', () => {
  it('has turns with their tools, questions, and tokens', () => {
    const { state, turns } = readOverview(record());
    expect(state).toBe('readable');
    expect(turns).toEqual([
      {
        number: 1,
        request: 'Plan a walk.',
        tools: [{ name: 'forecast', isError: true }],
        questions: [{ text: 'Where?', outcome: 'answered' }],
        inputTokens: 100,
        outputTokens: 5
      },
      {
        number: 2,
        request: 'And now?',
        tools: [],
        questions: [{ text: 'Really?', outcome: 'open' }],
        inputTokens: 200,
        outputTokens: 10
      }
    ]);
    expect(scaleBars(turns)).toEqual([0.5, 1]);
    expect(scaleBars([])).toEqual([]);
  });

  it('has the conversations, the current one first', () => {
    expect(readOverview(record()).conversations).toEqual([
      { title: 'jp-c2', id: 'jp-c2', isActive: true, turns: 2 },
      { title: 'Older', id: 'jp-c1', isActive: false, turns: 0 }
    ]);
  });

  it('makes no command of an id that is none', () => {
    const ids = ['jp-c1\n!rm -rf x', '--yes', '', 'a b', '$(x)', '<b>', 'x'.repeat(999)];
    const others = ids.map(id => ({ conversation: { id, title: '<b>' }, events: [] }));
    const found = readOverview(record({ others })).conversations.slice(1);
    expect(found.map(({ id }) => id)).toEqual(ids.map(() => ''));
    expect(found[0].title).toBe('<b>');
  });

  it('survives values of any type, and entries that nothing precedes', () => {
    const odd = [null, 'x', [], { type: 3 }, { type: 'tool_call_response', id: 'zz' }];
    const usages = [{ input_tokens: -1, output_tokens: 1e300 }, { input_tokens: '9' }].map(
      each => ({
        type: 'chat_response',
        metadata: { usage: each }
      })
    );
    const events = [
      ...odd,
      { type: 'turn_start' },
      ...odd,
      { type: 'inquiry_response', id: 'zz' },
      { type: 'chat_request', content: { a: 1 } },
      ...usages
    ];
    const [turn] = readOverview(record({ events })).turns;
    expect(turn).toMatchObject({ request: '', inputTokens: 0, outputTokens: 0 });
  });

  it.each([
    ['absent', {}],
    ['newer', { jp: { version: 99 } }],
    ['damaged', { jp: 'x' }]
  ])('names a record that is %s', (state, metadata) => {
    const overview = readOverview(metadata);
    expect(overview).toMatchObject({ state, turns: [], conversations: [] });
  });

  it('is bounded', () => {
    const turn = [{ type: 'turn_start' }, { type: 'chat_request', content: 'y'.repeat(10_000) }];
    const calls = Array.from({ length: 50 }, (_, i) => ({
      type: 'tool_call_request',
      id: `c${i}`,
      name: 't'
    }));
    const events = Array.from({ length: 200 }, () => [...turn, ...calls]).flat();
    const others = Array.from({ length: 300 }, (_, i) => ({
      conversation: { id: `jp-d${i}` },
      events: []
    }));

    const overview = readOverview(record({ events, others }));
    expect(overview.turns).toHaveLength(100);
    expect(overview.turns[99].number).toBe(200);
    expect(overview.turns[0].tools).toHaveLength(20);
    expect(overview.hiddenTurns).toBe(100);
    expect(overview.hiddenConversations).toBe(201);
  });

  it('is read in proportion to the record', () => {
    const countReads = (turnCount: number): number => {
      let reads = 0;
      const makeEvent = (type: string, index: number): object => ({
        id: `c${index}`,
        get type() {
          reads += 1;
          return type;
        }
      });
      const types = ['turn_start', 'tool_call_request', 'tool_call_response', 'chat_response'];
      const events = Array.from({ length: turnCount }, (_, index) =>
        types.map(type => makeEvent(type, index))
      );
      readOverview(record({ events: events.flat() }));
      return reads;
    };

    const reads = countReads(200);
    expect(reads).toBeGreaterThan(0);
    expect(countReads(400)).toBeLessThan(2.1 * reads);
  });

  it('shortens texts without cutting a character in two', () => {
    expect(shorten('😀'.repeat(200))).toBe(`${'😀'.repeat(159)}…`);
    expect(shorten(7)).toBe('');
  });
});

describe('the open question', () => {
  const form = {
    output_type: 'display_data',
    data: { 'application/vnd.jupyter.widget-view+json': { model_id: 'm' } },
    metadata: { jp_nb: { display_id: 'jp-nb-1' } }
  };

  it('is the form of a running cell', () => {
    const running = new FakeCell('b');
    running.executionState = 'running';
    const stored = new FakeCell('a');
    const notebook = new FakeNotebook(stored, new FakeCell('m', '', 'markdown'), running);
    stored.outputs.add(form);
    running.outputs.add({ output_type: 'stream', name: 'stdout', text: '' });
    expect(findOpenQuestion(notebook.model)).toBe(-1);
    running.outputs.add(form);
    expect(findOpenQuestion(notebook.model)).toBe(2);
  });
});
