/**
 * The conversations and turns of a record, for the side panel.
 *
 * The record may be from anyone. All values are texts to show, shortened, and never commands. An id
 * becomes a part of a command only if it has the form of an id.
 */

import type { JsonObject } from '../json';
import { isCount, isObject, list, own } from '../json';
import { conversations, eventsOf, idOf, kindOf, readRecord } from '../record';

/** The limit of turns and conversations that are shown; the newest ones. */
export const MAX_SHOWN = 100;

/** The limit of characters of one text. */
const TEXT_CHARS = 160;

/** The limit of tools and of questions of one turn. */
const MAX_PARTS = 20;

const ID = /^[A-Za-z0-9][\w-]{0,80}$/;

export interface ITurn {
  /** As users count, from 1. */
  number: number;
  request: string;
  tools: { name: string; isError: boolean }[];
  questions: { text: string; outcome: string }[];
  inputTokens: number;
  outputTokens: number;
}

export interface IConversation {
  title: string;
  /** The id for commands; "" if it has not the form of one. */
  id: string;
  isActive: boolean;
  turns: number;
}

export interface IOverview {
  state: 'absent' | 'readable' | 'newer' | 'damaged';
  conversations: IConversation[];
  turns: ITurn[];
  /** The number of turns and conversations that are not shown. */
  hiddenTurns: number;
  hiddenConversations: number;
}

/** Read the metadata of a notebook, in one pass over the entries of each conversation. */
export function readOverview(metadata: unknown): IOverview {
  const record = readRecord(metadata);
  const state = kindOf(record);
  const overview: IOverview = {
    state,
    conversations: [],
    turns: [],
    hiddenTurns: 0,
    hiddenConversations: 0
  };
  if (state !== 'readable') {
    return overview;
  }

  const turns = readTurns(eventsOf(record));
  overview.turns = turns.slice(-MAX_SHOWN);
  overview.hiddenTurns = turns.length - overview.turns.length;

  const all = conversations(record);
  overview.hiddenConversations = Math.max(0, all.length - MAX_SHOWN);
  overview.conversations = all.slice(0, MAX_SHOWN).map(each => ({
    title: shorten(own(own(each, 'conversation'), 'title')) || shorten(idOf(each)),
    id: ID.test(idOf(each)) ? idOf(each) : '',
    isActive: idOf(each) === idOf(record),
    turns: eventsOf(each).filter(event => own(event, 'type') === 'turn_start').length
  }));
  return overview;
}

function readTurns(events: readonly unknown[]): ITurn[] {
  const turns: ITurn[] = [];
  const tools = new Map<string, ITurn['tools'][number]>();
  const questions = new Map<string, ITurn['questions'][number]>();

  for (const event of events) {
    if (!isObject(event)) {
      continue;
    }
    if (event.type === 'turn_start') {
      turns.push(newTurn(turns.length + 1));
    }
    const turn = turns.at(-1);
    if (!turn) {
      continue;
    }
    const id = String(event.id);
    switch (event.type) {
      case 'chat_request':
        turn.request ||= shorten(event.content);
        break;
      case 'tool_call_request': {
        const tool = { name: shorten(event.name), isError: false };
        tools.set(id, tool);
        addPart(turn.tools, tool);
        break;
      }
      case 'tool_call_response': {
        const tool = tools.get(id);
        if (tool) {
          tool.isError = event.is_error === true;
        }
        break;
      }
      case 'inquiry_request': {
        const text = shorten(own(event.question, 'text'));
        const question = { text, outcome: 'open' };
        questions.set(id, question);
        addPart(turn.questions, question);
        break;
      }
      case 'inquiry_response': {
        const question = questions.get(id);
        if (question) {
          question.outcome = shorten(event.outcome ?? 'answered');
        }
        break;
      }
    }
    addUsage(turn, event);
  }
  return turns;
}

function newTurn(number: number): ITurn {
  return { number, request: '', tools: [], questions: [], inputTokens: 0, outputTokens: 0 };
}

function addPart<T>(parts: T[], part: T): void {
  if (parts.length < MAX_PARTS) {
    parts.push(part);
  }
}

/** The tokens of an entry: one object, or a list of several models'. */
function addUsage(turn: ITurn, event: JsonObject): void {
  const usage = own(event.metadata, 'usage');
  for (const each of isObject(usage) ? [usage] : list(usage)) {
    const input = own(each, 'input_tokens');
    const output = own(each, 'output_tokens');
    turn.inputTokens += isCount(input, 1e9) ? input : 0;
    turn.outputTokens += isCount(output, 1e9) ? output : 0;
  }
}

/** A text in one line, shortened; "" if it is no text. */
export function shorten(value: unknown): string {
  if (typeof value !== 'string') {
    return '';
  }
  const line = value
    .slice(0, 4 * TEXT_CHARS)
    .replace(/\s+/g, ' ')
    .trim();
  const chars = Array.from(line);
  return chars.length > TEXT_CHARS ? `${chars.slice(0, TEXT_CHARS - 1).join('')}…` : line;
}

/** The heights of the bars of a chart, from 0 to 1. */
export function scaleBars(turns: readonly ITurn[]): number[] {
  const most = Math.max(
    1,
    ...turns.map(({ inputTokens, outputTokens }) => inputTokens + outputTokens)
  );
  return turns.map(({ inputTokens, outputTokens }) => (inputTokens + outputTokens) / most);
}
