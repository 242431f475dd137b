/**
 * Segments, in which a shared document keeps entries; see `jp_nb/record/documents/merge.py`.
 *
 * A document that several pages share keeps its history. So earlier entries are written once, to
 * keys of their own, and only the rest is written again.
 */

import { checkOf } from './canonical';
import type { JsonObject } from './json';
import { isObject, list, own, pick } from './json';
import { eventsOf, idOf, KEY, kindOf, othersOf, VERSION } from './record';

/** The version of a stored object whose entries are in segments. */
const SEALED_VERSION = 2;

/** The keys of segments. */
export const SEGMENT = /^jp\.[1-9][0-9]{0,6}$/;

/** The size of a full segment, in characters. */
const SEGMENT_CHARS = 16 * 1024;

/** The place of some entries of a conversation. */
export interface ISeal {
  segment: number;
  length: number;
  check: string;
}

/** Seals by the id of their conversation. */
export type Seals = Map<string, ISeal[]>;

/** A record as a shared document stores it. */
export interface ISealed {
  /** The value of `jp`. */
  rest: unknown;
  /** New segments, by key. */
  added: JsonObject;
  seals: Seals;
}

interface IPlan {
  known: Seals;
  isAppended: boolean;
  added: JsonObject;
  seals: Seals;
  taken: Set<string>;
  next: number;
}

function isSealed(value: unknown): value is JsonObject {
  return isObject(value) && value.version === SEALED_VERSION && Object.hasOwn(value, 'sealed');
}

/** The record in this metadata, with the entries of its segments. */
export function unsealed(metadata: unknown): unknown {
  const stored = own(metadata, KEY);
  if (!isSealed(stored)) {
    return stored;
  }
  const left = pick(metadata as JsonObject, key => SEGMENT.test(key));
  const active = { ...pick(stored, key => key !== 'others'), version: VERSION };
  const found = wholeOf(active, left) as JsonObject;
  const others = othersOf(stored).map(other => wholeOf(other, left));
  if (Object.hasOwn(found, 'broken')) {
    // An unreferenced segment may be the missing one.
    Object.assign(found.segments as JsonObject, left);
  }
  return others.length ? { ...found, others } : found;
}

/** A conversation with all of its entries, or its parts if one is missing. */
function wholeOf(entry: unknown, left: JsonObject): unknown {
  if (!isObject(entry) || !Object.hasOwn(entry, 'sealed')) {
    return entry;
  }
  const events: unknown[] = [];
  const taken: JsonObject = {};
  let broken: number | null = null;
  for (const seal of Array.isArray(entry.sealed) ? entry.sealed : [null]) {
    const number = own(seal, 'segment');
    const name = `${KEY}.${String(number)}`;
    const segment = own(left, name);
    if (segment !== undefined) {
      taken[name] = segment;
    }
    delete left[name];
    if (broken === null && !fits(seal, segment, entry, events.length)) {
      broken = Number.isInteger(number) ? (number as number) : 0;
    }
    for (const event of eventsOf(segment)) {
      events.push(event);
    }
  }
  if (broken !== null) {
    return { segments: { [KEY]: entry, ...taken }, broken };
  }
  for (const event of eventsOf(entry)) {
    events.push(event);
  }
  return { ...pick(entry, key => key !== 'sealed'), events };
}

function fits(seal: unknown, segment: unknown, entry: JsonObject, start: number): boolean {
  const events = eventsOf(segment);
  return (
    Array.isArray(own(segment, 'events')) &&
    own(segment, 'conversation') === idOf(entry) &&
    own(segment, 'from') === start &&
    own(seal, 'length') === events.length &&
    own(seal, 'check') === checkOf(events)
  );
}

/**
 * How a shared document stores `doc`: in `jp` the `rest`, and segments of which some are `added`.
 *
 * Segments are written once: those that `seals` lists, by conversation, are there already. They
 * are looked at anew unless `isAppended`, when they are known to hold what `doc` begins with. Keys
 * that are `taken`, by whomever, are left alone; those of the new segments are put among them.
 */
export function sealed(
  doc: unknown,
  seals: Seals,
  isAppended: boolean,
  taken: Set<string>
): ISealed {
  const plan: IPlan = { known: seals, isAppended, added: {}, seals: new Map(), taken, next: 1 };
  const active = sealedOf(doc, plan, true) as JsonObject;
  const others = othersOf(doc).map(entry =>
    kindOf(entry) === 'readable' ? sealedOf(entry, plan, false) : entry
  );
  const { added } = plan;
  if (!plan.seals.size) {
    return { rest: doc, added, seals: plan.seals };
  }
  const rest = { ...active, version: SEALED_VERSION, sealed: active.sealed ?? [] };
  return { rest: others.length ? { ...rest, others } : rest, added, seals: plan.seals };
}

/** The lowest free number: a foreign segment may have the highest possible one. */
function numberIn(plan: IPlan): number {
  while (plan.taken.has(`${KEY}.${plan.next}`)) {
    plan.next++;
  }
  plan.taken.add(`${KEY}.${plan.next}`);
  return plan.next;
}

/** A conversation without entries in segments; the active one keeps those of a partial one. */
function sealedOf(entry: unknown, plan: IPlan, isActive: boolean): unknown {
  const id = idOf(entry);
  if (plan.seals.has(id)) {
    return entry; // damage: a second one of this id
  }
  const events = eventsOf(entry);
  const found: ISeal[] = [];
  let start = 0;
  for (const seal of plan.known.get(id) ?? []) {
    const end = start + seal.length;
    if (end > events.length) {
      break;
    }
    if (!plan.isAppended && checkOf(events.slice(start, end)) !== seal.check) {
      break;
    }
    found.push(seal);
    start = end;
  }
  const close = (end: number) => {
    const part = events.slice(start, end);
    const segment = numberIn(plan);
    plan.added[`${KEY}.${segment}`] = { conversation: id, from: start, events: part };
    found.push({ segment, length: part.length, check: checkOf(part) });
    start = end;
  };
  let size = 0;
  for (let end = start + 1; end <= events.length; end++) {
    size += JSON.stringify(events[end - 1]).length;
    if (size < SEGMENT_CHARS) {
      continue;
    }
    close(end);
    size = 0;
  }
  if (!isActive && start < events.length) {
    close(events.length);
  }
  if (!found.length) {
    return entry;
  }
  plan.seals.set(id, found);
  return { ...(entry as JsonObject), sealed: found, events: events.slice(start) };
}

/** The seals of what a notebook stores, by conversation; `whole` is that without segments. */
export function sealsIn(metadata: unknown, whole: unknown): Seals {
  const stored = own(metadata, KEY);
  const found: Seals = new Map();
  if (!isSealed(stored)) {
    return found;
  }
  const read = [whole, ...othersOf(whole)];
  [stored, ...othersOf(stored)].forEach((entry, place) => {
    // Of a conversation that is whole, all seals fit.
    const seals = list(own(entry, 'sealed')) as ISeal[];
    if (!seals.length || kindOf(read[place]) !== 'readable' || found.has(idOf(entry))) {
      return;
    }
    found.set(idOf(entry), seals);
  });
  return found;
}
