/**
 * Read the record of a notebook, to show it.
 *
 * The kernel alone knows all rules of the record, and checks it. It may be from anyone.
 */

import type { JsonObject } from './json';
import { filterKeys, isObject, list, own } from './json';

/** The key of the record in the notebook's metadata. */
export const KEY = 'jp';

/** The version of the `jp` object. */
const VERSION = 1;

/** The version of a `jp` object whose earlier entries are in segments, keys of their own. */
const SEGMENTED_VERSION = 2;

export const WIDGET_STATE = 'application/vnd.jupyter.widget-state+json';

export type RecordKind = 'absent' | 'readable' | 'newer' | 'damaged';

const OF_A_CONVERSATION = ['conversation', 'base_config', 'events', 'signature'];

export function idOf(entry: unknown): string {
  const id = own(own(entry, 'conversation'), 'id');
  return typeof id === 'string' ? id : '';
}

export function eventsOf(entry: unknown): unknown[] {
  return list(own(entry, 'events'));
}

export function conversations(doc: unknown): unknown[] {
  const shelved = isObject(doc) ? filterKeys(doc, key => OF_A_CONVERSATION.includes(key)) : {};
  const active = eventsOf(doc).length ? [shelved] : [];
  return [...active, ...list(own(doc, 'others'))];
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

/** The record in this metadata, with the entries of its segments. */
export function readRecord(metadata: unknown): unknown {
  const stored = own(metadata, KEY);
  const isSegmented =
    isObject(stored) && stored.version === SEGMENTED_VERSION && Object.hasOwn(stored, 'sealed');
  if (!isSegmented) {
    return stored;
  }

  const left = { ...(metadata as JsonObject) };
  const active = withSegments(stored, left);
  const others = list(stored.others).map(other => withSegments(other, left));
  return isObject(active) ? { ...active, version: VERSION, others } : null;
}

/**
 * A conversation with the entries of its segments; null if one of them is missing.
 *
 * A segment is removed from `left`: each belongs to one conversation, which bounds the work.
 */
function withSegments(entry: unknown, left: JsonObject): unknown {
  if (!isObject(entry) || !Object.hasOwn(entry, 'sealed')) {
    return entry;
  }
  const parts: unknown[][] = [];
  for (const seal of list(entry.sealed)) {
    const key = `${KEY}.${String(own(seal, 'segment'))}`;
    const events = eventsOf(own(left, key));
    delete left[key];
    if (!events.length || own(seal, 'length') !== events.length) {
      return null;
    }
    parts.push(events);
  }
  return {
    ...filterKeys(entry, key => key !== 'sealed'),
    events: [...parts, eventsOf(entry)].flat()
  };
}
