/** Read and merge the record of a notebook; the rules are those of `jp_nb/record/documents/merge.py`. */

import type { JsonObject } from './json';
import { hasSameText, isObject, list, own, pick } from './json';

/** The key of the record in the notebook's metadata. */
export const KEY = 'jp';

/** The version of the `jp` object. */
export const VERSION = 1;

export const WIDGET_STATE = 'application/vnd.jupyter.widget-state+json';

export type RecordKind = 'absent' | 'readable' | 'newer' | 'damaged';

/** A record that a headless run has left in the state of a widget. */
export interface ICarrier {
  key: string;
  doc: JsonObject;
  seen: unknown;
}

const OF_A_CONVERSATION = ['conversation', 'base_config', 'events', 'signature'];
const OF_THE_OBJECT = ['version', 'others', ...OF_A_CONVERSATION];

export function idOf(entry: unknown): string {
  const id = own(own(entry, 'conversation'), 'id');
  return typeof id === 'string' ? id : '';
}

export function eventsOf(entry: unknown): unknown[] {
  return list(own(entry, 'events'));
}

export function othersOf(doc: unknown): unknown[] {
  return list(own(doc, 'others'));
}

export function conversations(doc: unknown): unknown[] {
  const active = eventsOf(doc).length && isObject(doc) ? [shelved(doc)] : [];
  return [...active, ...othersOf(doc)];
}

function shelved(doc: JsonObject): JsonObject {
  return pick(doc, key => OF_A_CONVERSATION.includes(key));
}

export function kindOf(value: unknown): RecordKind {
  if (value === undefined) {
    return 'absent';
  }
  if (!isObject(value)) {
    return 'damaged';
  }
  if (Object.hasOwn(value, 'version') && value.version !== VERSION) {
    return 'newer';
  }
  const hasLists = ['events', 'others'].every(
    key => !Object.hasOwn(value, key) || Array.isArray(value[key])
  );
  return idOf(value) && hasLists ? 'readable' : 'damaged';
}

function identity(event: unknown): string {
  return JSON.stringify(['type', 'timestamp', 'id'].map(key => own(event, key) ?? null));
}

function startsWith(events: unknown[], beginning: unknown[]): boolean {
  return (
    events.length >= beginning.length &&
    beginning.every((event, i) => identity(event) === identity(events[i]))
  );
}

function covers(entry: unknown, other: unknown): boolean {
  const id = idOf(other);
  if (!id) {
    return hasSameText(entry, other);
  }
  return idOf(entry) === id && startsWith(eventsOf(entry), eventsOf(other));
}

interface INode extends Map<string, INode> {}

/**
 * The steps of a conversation in the tree of `beginnings`.
 *
 * An untrusted record may have many conversations with one id. A prefix tree of their entries
 * finds conversations that another one covers, without comparing them in pairs.
 */
function marks(entry: unknown): string[] {
  const id = idOf(entry);
  return id ? ['id', id, ...eventsOf(entry).map(identity)] : ['damaged', JSON.stringify(entry)];
}

function beginnings(entries: unknown[]): INode {
  const root: INode = new Map();
  for (const entry of entries) {
    let node = root;
    for (const mark of marks(entry)) {
      let next = node.get(mark);
      if (!next) {
        next = new Map();
        node.set(mark, next);
      }
      node = next;
    }
  }
  return root;
}

function isAmong(root: INode, entry: unknown): boolean {
  let node: INode | undefined = root;
  for (const mark of marks(entry)) {
    node = node.get(mark);
    if (!node) {
      return false;
    }
  }
  return true;
}

function isHeadless(entry: unknown): boolean {
  return own(own(entry, 'conversation'), 'made') === 'headless';
}

function hasSeen(seen: unknown, entry: unknown): boolean {
  const length = own(seen, idOf(entry));
  return typeof length === 'number' && length >= eventsOf(entry).length;
}

function isStale(carried: JsonObject, stored: JsonObject, seen: unknown): boolean {
  if (idOf(carried) === idOf(stored)) {
    const isLonger = eventsOf(stored).length > eventsOf(carried).length;
    return isLonger && !isHeadless(stored) && covers(stored, carried);
  }
  if (hasSeen(seen, stored)) {
    return false;
  }
  return othersOf(stored).some(other => covers(other, shelved(carried)));
}

function withOthers(doc: JsonObject, added: unknown[]): JsonObject {
  return added.length ? { ...doc, others: [...othersOf(doc), ...added] } : doc;
}

/** Merge the stored record with a readable carrier; see `merge_records` in merge.py. */
export function merge(stored: unknown, carried: JsonObject, seen: unknown): unknown {
  switch (kindOf(stored)) {
    case 'absent':
      return carried;
    case 'newer':
      return stored;
    case 'damaged': {
      const isKept = othersOf(carried).some(other => hasSameText(other, stored));
      return withOthers(carried, isKept ? [] : [stored]);
    }
  }
  const readable = stored as JsonObject;
  if (isStale(carried, readable, seen)) {
    return stored;
  }
  const known = beginnings(conversations(carried));
  const kept = conversations(stored).filter(
    entry => !isAmong(known, entry) && !isHeadless(entry) && !hasSeen(seen, entry)
  );
  const unknown = pick(readable, key => !OF_THE_OBJECT.includes(key));
  return withOthers({ ...unknown, ...carried }, kept);
}

/**
 * The document of an `exchange`, with the conversations of `doc` that it names by place, id and
 * number of entries; undefined if one of them is not there, or is there twice.
 */
export function withKept(next: unknown, kept: unknown, doc: unknown): JsonObject | undefined {
  if (!isObject(next) || !Array.isArray(kept) || kindOf(doc) !== 'readable') {
    return undefined;
  }
  const there = new Map<string, unknown>();
  for (const entry of conversations(doc)) {
    const id = idOf(entry);
    there.set(id, there.has(id) ? undefined : entry);
  }
  const places = new Map<unknown, unknown>();
  for (const named of kept) {
    const [place, id, n] = list(named);
    const found = typeof id === 'string' && id ? there.get(id) : undefined;
    if (!found || eventsOf(found).length !== n) {
      return undefined;
    }
    places.set(place, found);
  }
  const sent = othersOf(next).values();
  const length = othersOf(next).length + kept.length;
  const others = Array.from({ length }, (_, place) =>
    places.has(place) ? places.get(place) : sent.next().value
  );
  return others.includes(undefined) ? undefined : { ...next, others };
}

/** Whether the record stays readable with the `head` of an `append`. */
export function isHead(head: unknown, stream: unknown): boolean {
  if (head === undefined) {
    return true;
  }
  if (!isObject(head)) {
    return false;
  }
  const has = (key: string, fits: (value: unknown) => boolean) =>
    !Object.hasOwn(head, key) || fits(head[key]);
  return (
    has('conversation', value => own(value, 'id') === stream) &&
    has('base_config', isObject) &&
    has('signature', value => value === null || typeof value === 'string')
  );
}

/** The readable carriers in the notebook's `widgets` metadata. */
export function carriersIn(widgets: unknown): ICarrier[] {
  const states = own(own(widgets, WIDGET_STATE), 'state');
  const found: ICarrier[] = [];
  for (const [key, model] of Object.entries(isObject(states) ? states : {})) {
    if (own(model, 'model_module') !== 'jp-nb') {
      continue;
    }
    const state = own(model, 'state');
    const doc = carriedDocument(state);
    if (doc) {
      found.push({ key, doc, seen: own(state, 'seen') });
    }
  }
  return found;
}

function carriedDocument(state: unknown): JsonObject | null {
  const head = own(state, KEY);
  if (!isObject(state) || !isObject(head)) {
    return null;
  }
  const chunks = Object.keys(state).filter(key => key.startsWith('events.'));
  const events: unknown[] = [];
  for (let i = 0; i < chunks.length; i++) {
    const chunk = own(state, `events.${i}`);
    if (!Array.isArray(chunk)) {
      return null; // missing or damaged
    }
    for (const event of chunk) {
      events.push(event);
    }
  }
  if (Object.hasOwn(state, 'length') && state.length !== events.length) {
    return null; // the end of a chunk is missing
  }
  const doc = { ...head, events };
  return kindOf(doc) === 'readable' ? doc : null;
}
