/**
 * The part of a notebook in which the kernel keeps the record: metadata keys, and widgets.
 *
 * The kernel knows what is in it; this page only compares and sets. A *state* names the present
 * content. A write of the kernel is applied in the one state that it expects, as a whole or not at
 * all. See `docs/protocol.md`.
 */

import type { INotebookModel } from '@jupyterlab/notebook';

import type { JsonObject } from './json';
import { filterKeys, hasSameText, isCount, isObject, list, own } from './json';
import type { Received } from './protocol';
import { KEY, WIDGET_STATE } from './record';

/** The key of the states of widgets. */
const WIDGETS = 'widgets';

/** The module of the widgets that carry the record of a headless run. */
const CARRIER_MODULE = 'jp-nb';

/** The keys of segments. */
const SEGMENT = /^jp\.[1-9][0-9]{0,6}$/;

/** The place of the active conversation, which is not among `others`. */
const ACTIVE = -1;

/** The limit of a text that the kernel chooses. */
const MAX_STATE_CHARS = 200;

/** What the kernel must know to compute the next content. */
export interface IStoredContent {
  keys: JsonObject;
  carriers: JsonObject;
}

/** The parts of a write that are checked, ready to be set. */
interface IChange {
  put: JsonObject;
  drop: string[];
  carriers: string[];
}

export function isOwned(key: string): boolean {
  return key === KEY || SEGMENT.test(key);
}

export class NotebookStore {
  /**
   * `page` is the id of the page. `onChange` is called if something else than a write of the kernel
   * changes the content.
   */
  constructor(
    private readonly model: INotebookModel,
    private readonly page: string,
    private readonly onChange: () => void
  ) {
    this.state = this.nameState();
    this.carriers = this.findCarriers();
    model.metadataChanged.connect(this.onMetadataChanged, this);
  }

  dispose(): void {
    this.model.metadataChanged.disconnect(this.onMetadataChanged, this);
  }

  /** The name of the present content. */
  state: string;

  /** Return the content, for `hello`. */
  read(): IStoredContent {
    this.checkShared();
    const keys = filterKeys(this.model.metadata, isOwned);
    this.value = { isKnown: true, jp: keys[KEY] };
    return { keys, carriers: this.findCarriers() };
  }

  /**
   * Keep carriers that a save of the widgets' states would remove, until `endSave`.
   *
   * ipywidgets replaces all states by those of the widgets that it shows.
   */
  beginSave(): void {
    this.isSaving = true;
    this.carriers = { ...this.lost, ...this.carriers, ...this.findCarriers() };
    this.restoreCarriers();
  }

  endSave(): void {
    this.isSaving = false;
  }

  /** Apply a write of the kernel; return the reason if nothing was written. */
  write(data: Received<'write'>): 'stale' | 'refused' | undefined {
    const { expect, state } = data;
    if (typeof state !== 'string' || !state || state.length > MAX_STATE_CHARS) {
      return 'refused';
    }
    this.checkShared();
    if (state === this.state) {
      return undefined; // the message came twice
    }
    if (expect !== this.state) {
      return 'stale';
    }

    const change = this.check(data);
    if (!change) {
      return 'refused';
    }

    this.apply(change);
    this.state = state;
    return undefined;
  }

  /** Return the change, or undefined if one of its parts does not fit. */
  private check(data: Received<'write'>): IChange | undefined {
    const { put = {}, drop = [], copies, carriers = [], extend } = data;
    if (!isObject(put) || !Object.keys(put).every(isOwned)) {
      return undefined;
    }
    if (!areTexts(drop) || !drop.every(isOwned) || !areTexts(carriers)) {
      return undefined;
    }

    const values = { ...put };
    if (copies !== undefined) {
      const whole = withCopies(values[KEY], copies, this.jp);
      if (!whole) {
        return undefined;
      }
      values[KEY] = whole;
    }

    if (extend !== undefined) {
      const longer = extended(this.jp, extend);
      if (!longer || Object.hasOwn(put, KEY)) {
        return undefined;
      }
      values[KEY] = longer;
    }

    return { put: values, drop, carriers };
  }

  private apply(change: IChange): void {
    this.isWriting = true;
    this.value = { isKnown: false };
    // If a part of it fails, the content is neither the old nor the new one.
    this.state = this.nameState();
    try {
      // Other pages of a shared document, and the server, must see all changes at once.
      this.model.sharedModel.transact(() => this.applyParts(change), false);
    } finally {
      this.isWriting = false;
    }
    if (Object.hasOwn(change.put, KEY)) {
      this.value = { isKnown: true, jp: change.put[KEY] };
    }
  }

  private applyParts({ put, drop, carriers }: IChange): void {
    for (const key of Object.keys(put).filter(each => each !== KEY)) {
      this.model.setMetadata(key, put[key]);
    }
    if (Object.hasOwn(put, KEY)) {
      this.model.setMetadata(KEY, put[KEY]);
    }
    for (const key of drop) {
      this.model.deleteMetadata(key);
    }
    if (carriers.length) {
      this.dropCarriers(new Set(carriers));
    }
  }

  /** The value of `jp`. The model returns copies, so it may be kept. */
  private get jp(): unknown {
    if (!this.value.isKnown) {
      this.value = { isKnown: true, jp: this.model.getMetadata(KEY) };
    }
    return this.value.jp;
  }

  /**
   * Compare the value of `jp` in a shared document, where it is short.
   *
   * If the server loads the file anew, the document gets new metadata without a signal.
   */
  private checkShared(): void {
    const { isKnown, jp } = this.value;
    if (this.model.collaborative && isKnown && !hasSameText(jp, this.model.getMetadata(KEY))) {
      this.value = { isKnown: false };
      this.rename();
    }
  }

  private onMetadataChanged(_: unknown, { key }: { key: string }): void {
    if (this.isWriting) {
      return;
    }
    if (key === WIDGETS) {
      this.onWidgets();
      return;
    }
    if (isOwned(key)) {
      this.value = { isKnown: false };
      this.rename();
      this.onChange();
    }
  }

  private onWidgets(): void {
    if (this.isSaving && this.restoreCarriers()) {
      return;
    }
    const present = this.findCarriers();
    if (hasSameText(present, this.carriers)) {
      return;
    }
    // The save of the states may begin before this page learns of it, in the same moment.
    this.lost = this.carriers;
    queueMicrotask(() => {
      this.lost = {};
    });
    this.carriers = present;
    this.rename();
  }

  private rename(): void {
    this.state = this.nameState();
  }

  private nameState(): string {
    this.count++;
    return `${this.page}.${this.count}`;
  }

  // --- carriers ---

  private findCarriers(): JsonObject {
    const states = own(own(this.model.getMetadata(WIDGETS), WIDGET_STATE), 'state');
    if (!isObject(states)) {
      return {};
    }
    return filterKeys(states, key => own(states[key], 'model_module') === CARRIER_MODULE);
  }

  /** Put carriers back that are missing; return whether there are any. */
  private restoreCarriers(): boolean {
    const present = this.findCarriers();
    const lost = filterKeys(this.carriers, key => !Object.hasOwn(present, key));
    if (this.model.readOnly || !Object.keys(lost).length) {
      return false;
    }

    const widgets = asObject(this.model.getMetadata(WIDGETS));
    const states = asObject(own(widgets, WIDGET_STATE));
    const state = { ...asObject(own(states, 'state')), ...lost };
    const versions = { version_major: 2, version_minor: 0 };
    this.isWriting = true;
    try {
      const whole = { ...widgets, [WIDGET_STATE]: { ...versions, ...states, state } };
      this.model.setMetadata(WIDGETS, whole);
    } finally {
      this.isWriting = false;
    }
    return true;
  }

  private dropCarriers(dropped: ReadonlySet<string>): void {
    const stored = asObject(this.model.getMetadata(WIDGETS));
    const widgets = asObject(own(stored, WIDGET_STATE));
    const isKept = (key: string) => !dropped.has(key) || !Object.hasOwn(this.carriers, key);
    const state = filterKeys(asObject(widgets.state), isKept);
    const result = filterKeys(stored, key => key !== WIDGET_STATE);
    if (Object.keys(state).length) {
      result[WIDGET_STATE] = { ...widgets, state };
    }
    if (Object.keys(result).length) {
      this.model.setMetadata(WIDGETS, result);
    } else {
      this.model.deleteMetadata(WIDGETS);
    }
    this.carriers = this.findCarriers();
  }

  /** The value of `jp`, if it was read since the last change. */
  private value: { isKnown: boolean; jp?: unknown } = { isKnown: false };
  /** The carriers when the content was looked at, by the ids of their widgets. */
  private carriers: JsonObject = {};
  /** The carriers before the change of this moment. */
  private lost: JsonObject = {};
  private isWriting = false;
  private isSaving = false;
  /** The number of states that this page has named. */
  private count = 0;
}

function asObject(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

function areTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every(each => typeof each === 'string');
}

/** The value of `jp` with more entries, and other changes; undefined if they do not fit. */
function extended(jp: unknown, change: unknown): JsonObject | undefined {
  const events: unknown = own(jp, 'events');
  const added: unknown = own(change, 'events');
  const head = own(change, 'head') ?? {};
  const removed = own(change, 'removed') ?? [];
  const fits =
    isObject(jp) &&
    Array.isArray(events) &&
    own(change, 'at') === events.length &&
    Array.isArray(added) &&
    added.every(isObject) &&
    isObject(head) &&
    areTexts(removed) &&
    ![...Object.keys(head), ...removed].includes('events');
  if (!fits) {
    return undefined;
  }
  const rest = filterKeys(jp, key => !removed.includes(key));
  return { ...rest, ...head, events: [...list(events), ...list(added)] };
}

/**
 * `next` with conversations of `jp`: each copy names its position in `others`, and its place in
 * those of `jp`, or the keys of the active conversation. Undefined if one of them is not there.
 */
function withCopies(next: unknown, copies: unknown, jp: unknown): JsonObject | undefined {
  const others = list(own(jp, 'others'));
  const sent = own(next, 'others');
  if (!isObject(next) || !isObject(jp) || !Array.isArray(sent) || !Array.isArray(copies)) {
    return undefined;
  }

  const byPosition = new Map<number, unknown>();
  for (const copy of copies) {
    const [position, place, keys] = list(copy);
    if (!isCount(position) || byPosition.has(position)) {
      return undefined;
    }
    if (place === ACTIVE && areTexts(keys)) {
      byPosition.set(
        position,
        filterKeys(jp, key => keys.includes(key))
      );
    } else if (isCount(place) && place < others.length) {
      byPosition.set(position, others[place]);
    } else {
      return undefined;
    }
  }

  const rest = sent.values();
  const length = sent.length + byPosition.size;
  if (Array.from(byPosition.keys()).some(position => position >= length)) {
    return undefined;
  }
  const whole = Array.from({ length }, (_, position): unknown =>
    byPosition.has(position) ? byPosition.get(position) : rest.next().value
  );
  return { ...next, others: whole };
}
