/*
 * Stores the conversation of jp_nb in the notebook's metadata, under the key `jp`.
 *
 * Each open document has one bridge, which all of its views share. The bridge answers the kernel's
 * messages on the comm target `jp_nb.document`. `docs/protocol.md` describes the protocol, and
 * `jp_nb/notebook/page/live_store.py` is the kernel's side.
 *
 * This file is a hand-written module-federation container without a build step. JupyterLab and
 * Notebook 7 call `init` with the shared modules (none is needed), and `get` for the plugin.
 *
 * Messages of the kernel carry data only. Names in them are compared, and never used as keys of
 * objects. Any code in the kernel can send such messages. So a message only affects the notebook
 * whose path it names: it can replace `jp` and the carrier in `widgets`, save the file, show output
 * in a running cell, and read the cells.
 */
(function () {
  "use strict";

  const PROTOCOL = 1;
  const VERSION = 1; // of the `jp` object
  const KEY = "jp";
  const SEALED_VERSION = 2; // of a stored object whose entries are in segments
  const SEGMENT = /^jp\.[1-9][0-9]{0,6}$/; // the keys of these
  const SEGMENT_CHARS = 16 * 1024; // of a full one
  const TARGET = "jp_nb.document";
  const WIDGET_STATE = "application/vnd.jupyter.widget-state+json";
  const WIDGET_VIEW = "application/vnd.jupyter.widget-view+json";
  const INLINE_CHARS = 4 * 1024 * 1024; // a longer document travels in pieces
  const PIECE_CHARS = 1024 * 1024; // messages above 10 MB never reach the kernel
  const STAYS_MS = 2000; // after `bye`; a closing page is gone by then
  const LOOK_MS = 400; // between two looks at an open form
  const DRAW_MS = 1500; // for a form to be drawn; then it is drawn again
  const ASK_AGAIN_MS = 1000; // for outputs that no cell shows
  const MAX_MISSED = 20; // ended cells that the user may bring back
  const MAX_PIECES = 4096; // of a document that the kernel sends
  const MAX_COUNT = 1e9; // of seconds and tokens
  // Of the cells that the kernel asks for: characters of one text, and of all together.
  const LISTED = { source: 20e3, sources: 2e6, output: 10e3, outputs: 1.5e6, images: 0 };
  const LOOKED_AT = { source: 200e3, sources: 200e3, output: 200e3, outputs: 200e3, images: 6e6 };
  const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

  // --- reading what a notebook holds; the rules are those of `record/merge.py` ---------------

  const isObject = (x) => typeof x === "object" && x !== null && !Array.isArray(x);
  const own = (object, key) =>
    isObject(object) && Object.hasOwn(object, key) ? object[key] : undefined;
  const list = (x) => (Array.isArray(x) ? x : []);
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  const idOf = (entry) => {
    const id = own(own(entry, "conversation"), "id");
    return typeof id === "string" ? id : "";
  };
  const eventsOf = (entry) => list(own(entry, "events"));
  const othersOf = (doc) => list(own(doc, "others"));
  const pick = (object, keep) =>
    Object.fromEntries(Object.entries(object).filter(([key]) => keep(key)));

  const OF_A_CONVERSATION = ["conversation", "base_config", "events", "signature"];
  const OF_THE_OBJECT = ["version", "others", ...OF_A_CONVERSATION];
  const shelved = (doc) => pick(doc, (key) => OF_A_CONVERSATION.includes(key));
  const conversations = (doc) =>
    (eventsOf(doc).length ? [shelved(doc)] : []).concat(othersOf(doc));

  function kindOf(value) {
    if (value === undefined) return "absent";
    if (!isObject(value)) return "damaged";
    if (Object.hasOwn(value, "version") && value.version !== VERSION) return "newer";
    const lists = ["events", "others"].every(
      (key) => !Object.hasOwn(value, key) || Array.isArray(value[key])
    );
    return idOf(value) && lists ? "readable" : "damaged";
  }

  const identity = (event) =>
    JSON.stringify(["type", "timestamp", "id"].map((key) => own(event, key) ?? null));
  const startsWith = (events, beginning) =>
    events.length >= beginning.length &&
    beginning.every((event, i) => identity(event) === identity(events[i]));

  function covers(entry, other) {
    const id = idOf(other);
    if (!id) return same(entry, other);
    return idOf(entry) === id && startsWith(eventsOf(entry), eventsOf(other));
  }

  // An untrusted record may have many conversations with one id. A prefix tree of their entries
  // finds conversations that another one covers.
  const marks = (entry) =>
    idOf(entry)
      ? ["id", idOf(entry), ...eventsOf(entry).map(identity)]
      : ["damaged", JSON.stringify(entry)];

  function beginnings(entries) {
    const root = new Map();
    for (const entry of entries) {
      let node = root;
      for (const mark of marks(entry)) {
        if (!node.has(mark)) node.set(mark, new Map());
        node = node.get(mark);
      }
    }
    return root;
  }

  function isAmong(root, entry) {
    let node = root;
    return marks(entry).every((mark) => (node = node.get(mark)));
  }

  const isHeadless = (entry) => own(own(entry, "conversation"), "made") === "headless";
  const hasSeen = (seen, entry) => own(seen, idOf(entry)) >= eventsOf(entry).length;

  function isStale(carried, stored, seen) {
    if (idOf(carried) === idOf(stored)) {
      const longer = eventsOf(stored).length > eventsOf(carried).length;
      return longer && !isHeadless(stored) && covers(stored, carried);
    }
    if (hasSeen(seen, stored)) return false;
    return othersOf(stored).some((other) => covers(other, shelved(carried)));
  }

  const withOthers = (doc, added) =>
    added.length ? { ...doc, others: othersOf(doc).concat(added) } : doc;

  /** Merge the stored record with a readable carrier; see `merge` in merge.py. */
  function merge(stored, carried, seen) {
    switch (kindOf(stored)) {
      case "absent":
        return carried;
      case "newer":
        return stored;
      case "damaged": {
        const kept = othersOf(carried).some((other) => same(other, stored));
        return withOthers(carried, kept ? [] : [stored]);
      }
    }
    if (isStale(carried, stored, seen)) return stored;
    const known = beginnings(conversations(carried));
    const kept = conversations(stored).filter(
      (entry) => !isAmong(known, entry) && !isHeadless(entry) && !hasSeen(seen, entry)
    );
    const unknown = pick(stored, (key) => !OF_THE_OBJECT.includes(key));
    return withOthers({ ...unknown, ...carried }, kept);
  }

  /**
   * The document of an `exchange`, with the conversations of `doc` that it names by place, id and
   * number of entries; undefined if one of them is not there, or is there twice.
   */
  function withKept({ doc: next, kept }, doc) {
    if (!isObject(next) || !Array.isArray(kept) || kindOf(doc) !== "readable") return undefined;
    const there = new Map();
    for (const entry of conversations(doc)) {
      const id = idOf(entry);
      there.set(id, there.has(id) ? undefined : entry);
    }
    const places = new Map();
    for (const named of kept) {
      const [place, id, n] = list(named);
      const found = id ? there.get(id) : undefined;
      if (!found || eventsOf(found).length !== n) return undefined;
      places.set(place, found);
    }
    const sent = othersOf(next).values();
    const others = Array.from({ length: othersOf(next).length + kept.length }, (_, place) =>
      places.has(place) ? places.get(place) : sent.next().value
    );
    return others.includes(undefined) ? undefined : { ...next, others };
  }

  /** Whether the record stays readable with the `head` of an `append`. */
  function isHead(head, stream) {
    if (head === undefined) return true;
    const has = (key, fits) => !Object.hasOwn(head, key) || fits(head[key]);
    return (
      isObject(head) &&
      has("conversation", (value) => own(value, "id") === stream) &&
      has("base_config", isObject) &&
      has("signature", (value) => value === null || typeof value === "string")
    );
  }

  /** The readable carriers in the notebook's `widgets` metadata: `[{ key, doc, seen }]`. */
  function carriersIn(widgets) {
    const states = own(own(widgets, WIDGET_STATE), "state");
    const found = [];
    for (const [key, model] of Object.entries(isObject(states) ? states : {})) {
      if (own(model, "model_module") !== "jp-nb") continue;
      const state = own(model, "state");
      const doc = carriedDocument(state);
      if (doc) found.push({ key, doc, seen: own(state, "seen") });
    }
    return found;
  }

  function carriedDocument(state) {
    const head = own(state, KEY);
    if (!isObject(head)) return null;
    const chunks = Object.keys(state).filter((key) => key.startsWith("events."));
    const events = [];
    for (let i = 0; i < chunks.length; i++) {
      const chunk = own(state, `events.${i}`);
      if (!Array.isArray(chunk)) return null; // missing or damaged
      for (const event of chunk) events.push(event);
    }
    if (Object.hasOwn(state, "length") && state.length !== events.length) {
      return null; // what a chunk ended with is missing
    }
    const doc = { ...head, events };
    return kindOf(doc) === "readable" ? doc : null;
  }

  // --- segments, in which a shared document keeps entries; see `record/merge.py` --------------

  /** The CRC-32 of the canonical form of the entries in a segment. */
  function checkOf(events) {
    let rest = ~0;
    const text = canonical(events);
    for (let i = 0; i < text.length; i++) {
      rest = CRC[(rest ^ text.charCodeAt(i)) & 255] ^ (rest >>> 8);
    }
    return (~rest >>> 0).toString(16).padStart(8, "0");
  }

  const CRC = Array.from({ length: 256 }, (_, n) => {
    for (let k = 0; k < 8; k++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
    return n;
  });

  /** Canonical JSON text in ASCII; see docs/record.md, Signature. */
  function canonical(x) {
    if (typeof x === "string") return asciiText(x);
    if (typeof x === "number") return numberText(x);
    if (Array.isArray(x)) return `[${x.map(canonical).join(",")}]`;
    if (!isObject(x)) return JSON.stringify(x ?? null);
    const texts = Object.keys(x).map((key) => [wholeText(key), key]);
    texts.sort(([a], [b]) => (byCodePoint(a) < byCodePoint(b) ? -1 : 1));
    return `{${texts.map(([text, key]) => `${asciiText(text)}:${canonical(x[key])}`).join(",")}}`;
  }

  const wholeText = (text) => text.replace(/\p{Surrogate}/gu, "\ufffd");
  const escaped = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  const asciiText = (text) =>
    JSON.stringify(wholeText(text)).replace(/[^ -~]/g, escaped);
  // UTF-16 code units would sort characters above U+FFFF before U+E000.
  const byCodePoint = (text) =>
    text.replace(/[\ud800-\udfff]|[\ue000-\uffff]/g, (unit) =>
      String.fromCharCode(unit.charCodeAt(0) + (unit < "\ue000" ? 0x2000 : -0x800))
    );

  function numberText(x) {
    if (!Number.isFinite(x)) return "null";
    if (x === 0) return "0.0";
    const [, sign, digits, power] = /^(-?)([0-9.]+)e(.+)$/.exec(x.toExponential());
    const exponent = Number(power);
    if (exponent >= 16 || exponent < -4) {
      const size = String(Math.abs(exponent)).padStart(2, "0");
      return `${sign}${digits}e${exponent < 0 ? "-" : "+"}${size}`;
    }
    const all = digits.replace(".", "");
    if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${all}`;
    const whole = all.slice(0, exponent + 1).padEnd(exponent + 1, "0");
    return `${sign}${whole}.${all.slice(exponent + 1) || "0"}`;
  }

  const isSealed = (x) => own(x, "version") === SEALED_VERSION && Object.hasOwn(x, "sealed");

  /** The record in this metadata, with the entries of its segments. */
  function unsealed(metadata) {
    const stored = own(metadata, KEY);
    if (!isSealed(stored)) return stored;
    const left = pick(metadata, (key) => SEGMENT.test(key));
    const active = { ...pick(stored, (key) => key !== "others"), version: VERSION };
    const found = wholeOf(active, left);
    const others = othersOf(stored).map((other) => wholeOf(other, left));
    // An unreferenced segment may be the missing one.
    if (Object.hasOwn(found, "broken")) Object.assign(found.segments, left);
    return others.length ? { ...found, others } : found;
  }

  /** A conversation with all of its entries, or its parts if one is missing. */
  function wholeOf(entry, left) {
    if (!isObject(entry) || !Object.hasOwn(entry, "sealed")) return entry;
    const events = [];
    const taken = {};
    let broken = null;
    for (const seal of Array.isArray(entry.sealed) ? entry.sealed : [null]) {
      const number = own(seal, "segment");
      const name = `${KEY}.${number}`;
      const segment = own(left, name);
      if (segment !== undefined) taken[name] = segment;
      delete left[name];
      if (broken === null && !fits(seal, segment, entry, events.length)) {
        broken = Number.isInteger(number) ? number : 0;
      }
      for (const event of eventsOf(segment)) events.push(event);
    }
    if (broken !== null) return { segments: { [KEY]: entry, ...taken }, broken };
    for (const event of eventsOf(entry)) events.push(event);
    return { ...pick(entry, (key) => key !== "sealed"), events };
  }

  function fits(seal, segment, entry, start) {
    const events = eventsOf(segment);
    return (
      Array.isArray(own(segment, "events")) &&
      own(segment, "conversation") === idOf(entry) &&
      own(segment, "from") === start &&
      own(seal, "length") === events.length &&
      own(seal, "check") === checkOf(events)
    );
  }

  /**
   * How a shared document stores `doc`: in `jp` the `rest`, and segments of which some are `added`.
   *
   * Segments are written once: those that `seals` lists, by conversation, are there already. They
   * are looked at anew unless `appended`, when they are known to hold what `doc` begins with. Keys
   * that are `taken`, by whomever, are left alone; those of the new segments are put among them.
   */
  function sealed(doc, seals, appended, taken) {
    const plan = { known: seals, appended, added: {}, seals: new Map(), taken, next: 1 };
    const active = sealedOf(doc, plan, true);
    const others = othersOf(doc).map((entry) =>
      kindOf(entry) === "readable" ? sealedOf(entry, plan, false) : entry
    );
    const { added } = plan;
    if (!plan.seals.size) return { rest: doc, added, seals: plan.seals };
    const rest = { ...active, version: SEALED_VERSION, sealed: active.sealed ?? [] };
    return { rest: others.length ? { ...rest, others } : rest, added, seals: plan.seals };
  }

  /** The lowest free number: a foreign segment may have the highest possible one. */
  function numberIn(plan) {
    while (plan.taken.has(`${KEY}.${plan.next}`)) plan.next++;
    plan.taken.add(`${KEY}.${plan.next}`);
    return plan.next;
  }

  /** A conversation without entries in segments; the active one keeps those of a partial one. */
  function sealedOf(entry, plan, goesOn) {
    const id = idOf(entry);
    if (plan.seals.has(id)) return entry; // damage: a second one of this id
    const events = eventsOf(entry);
    const found = [];
    let start = 0;
    for (const seal of plan.known.get(id) ?? []) {
      const end = start + seal.length;
      if (end > events.length) break;
      if (!plan.appended && checkOf(events.slice(start, end)) !== seal.check) break;
      found.push(seal);
      start = end;
    }
    const close = (end) => {
      const part = events.slice(start, end);
      const segment = numberIn(plan);
      plan.added[`${KEY}.${segment}`] = { conversation: id, from: start, events: part };
      found.push({ segment, length: part.length, check: checkOf(part) });
      start = end;
    };
    let size = 0;
    for (let end = start + 1; end <= events.length; end++) {
      size += JSON.stringify(events[end - 1]).length;
      if (size < SEGMENT_CHARS) continue;
      close(end);
      size = 0;
    }
    if (!goesOn && start < events.length) close(events.length);
    if (!found.length) return entry;
    plan.seals.set(id, found);
    return { ...entry, sealed: found, events: events.slice(start) };
  }

  /** The seals of what a notebook stores, by conversation; `whole` is that without segments. */
  function sealsIn(metadata, whole) {
    const stored = own(metadata, KEY);
    const found = new Map();
    if (!isSealed(stored)) return found;
    const read = [whole, ...othersOf(whole)];
    [stored, ...othersOf(stored)].forEach((entry, place) => {
      const seals = list(own(entry, "sealed")); // of a conversation that is whole, all fit
      if (!seals.length || kindOf(read[place]) !== "readable" || found.has(idOf(entry))) return;
      found.set(idOf(entry), seals);
    });
    return found;
  }

  // --- outputs of running cells -----------------------------------------------------------------

  /** The index of the output with this display id, or else with this data; or -1. */
  function placeOf(outputs, id, { data } = {}) {
    let alike = -1;
    for (let index = 0; index < outputs.length; index++) {
      const output = outputs.get(index);
      if (own(own(output.metadata, "jp_nb"), "display_id") === id) return index;
      // A shared document may have another order of keys.
      if (data && canonical(output.toJSON().data) === canonical(data)) alike = index;
    }
    return alike;
  }

  function cellOf(model, id) {
    for (const cell of model.cells) {
      if (cell.id === id && cell.type === "code") return cell;
    }
    return null;
  }

  /** Insert a running cell that was never saved at the end, before an empty last cell. */
  function insertCell(model, id, code) {
    const { cells, sharedModel } = model;
    const last = cells.length ? cells.get(cells.length - 1) : null;
    const isEmpty = last?.type === "code" && !last.sharedModel.getSource();
    const place = cells.length - (isEmpty ? 1 : 0);
    sharedModel.insertCell(place, { cell_type: "code", id, source: code, metadata: {} });
    return cellOf(model, id);
  }

  const asOutput = ({ data, metadata }) => ({
    output_type: "display_data",
    data,
    metadata: isObject(metadata) ? metadata : {},
  });

  const isPrinted = (x) => typeof own(x, "text") === "string" && typeof x.name === "string";

  const asStream = ({ name, text }) => ({ output_type: "stream", name, text });

  /**
   * Show what the kernel lists as the outputs of a running cell: also those of user code, which have
   * no ids. The error of a cell that has ended stays.
   */
  function fill(outputs, listed) {
    const before = outputs.toJSON();
    const shown = listed
      .filter((x) => isPrinted(x) || Object.keys(x.data).length)
      .map((x) => (isPrinted(x) ? asStream(x) : asOutput(x)))
      .concat(before.filter((x) => x.output_type === "error"));
    if (canonical(before) !== canonical(shown)) outputs.fromJSON(shown);
  }

  const isWidget = (output) => Boolean(own(own(output, "data"), WIDGET_VIEW));

  /**
   * Show `output` at `place`.
   *
   * JupyterLab draws a widget where the one before it was drawn, and hides that place when the one
   * before is closed. So something else is shown there in between.
   */
  function show(outputs, place, output) {
    if (isWidget(output) && isWidget(outputs.get(place).toJSON())) {
      outputs.set(place, { ...output, data: { "text/plain": "" } });
    }
    outputs.set(place, output);
  }

  /**
   * Outputs of a turn, kept in its cell until the cell ends.
   *
   * JupyterLab loses them if the page reloads before they are saved. It also clears them if the
   * user runs the cell again, although the turn still runs.
   */
  class Showing {
    constructor(model, views, request, cell) {
      this.model = model;
      this.views = views;
      this.request = request;
      this.cell = cell;
      this.outputs = new Map(); // by display id: the newest content
      this.lost = false; // JupyterLab does not update outputs that were cleared or moved
      this.again = false; // the cell was queued once more
      this.emptied = 0; // the timer that restores cleared outputs
      this.clearsNext = false; // `clear_output(wait=True)`: the next output clears them
      this.dropsNext = false; // the same, where JupyterLab does not clear them
      this.watched = null; // the outputs of the cell's model, which is new after an undo
      this.onChanged = this.onChanged.bind(this);
      this.watch();
    }

    get cellModel() {
      return cellOf(this.model, this.cell);
    }

    get outputsOfCell() {
      return this.cellModel?.outputs;
    }

    /** Whether JupyterLab does not update these outputs. */
    get ours() {
      return this.lost || !this.views.runs(this.request);
    }

    /** The form of the open prompt: its display id and the id of its model; null without one. */
    get form() {
      if (this.over) return null;
      for (const [id, { data }] of this.outputs) {
        const model = own(own(data, WIDGET_VIEW), "model_id");
        if (typeof model === "string" && model) return { id, model };
      }
      return null;
    }

    /** Watch the outputs of the cell; return true if the cell has come back, as by an undo. */
    watch() {
      const outputs = this.outputsOfCell ?? null;
      if (outputs === this.watched) return false;
      this.watched?.changed.disconnect(this.onChanged);
      this.watched = outputs;
      outputs?.changed.connect(this.onChanged);
      return outputs !== null;
    }

    /** Show the outputs in the cell that the user has moved, or deleted and brought back. */
    follow() {
      if (!this.watch()) return;
      this.lost = true;
      this.putAll();
      if (!this.over) setRunning(this.cellModel, true);
    }

    /** Set the content of the output `id`. */
    update(id, content) {
      this.outputs.set(id, content);
      if (this.ours) this.put(id);
    }

    put(id) {
      const outputs = this.outputsOfCell;
      const content = this.outputs.get(id);
      if (!outputs) return;
      const place = placeOf(outputs, id, content);
      const output = asOutput(content);
      if (place >= 0) {
        if (canonical(outputs.get(place).toJSON()) !== canonical(output)) {
          show(outputs, place, output);
        }
      } else if (Object.keys(content.data).length) {
        outputs.add(output);
      }
    }

    putAll() {
      for (const id of this.outputs.keys()) this.put(id);
    }

    /** Show the error of the cell, which JupyterLab shows only in the page that ran it. */
    onError({ ename, evalue, traceback }) {
      if (!this.ours) return;
      this.outputsOfCell?.add({ output_type: "error", ename, evalue, traceback });
    }

    /** A tool has cleared the cell: the kernel sends the outputs of the turn again. */
    onClear(wait) {
      if (!this.ours) {
        if (wait) this.clearsNext = true;
        else clearTimeout(this.emptied);
      } else if (!this.views.runs(this.request)) {
        // JupyterLab leaves these outputs alone.
        if (wait) this.dropsNext = true;
        else this.dropOthers();
      }
    }

    /** Show an output of user code, which JupyterLab shows only in the page that ran the cell. */
    add(output) {
      if (this.over || this.views.runs(this.request)) return;
      this.onNext();
      this.outputsOfCell?.add(output);
    }

    /** Another output arrives. */
    onNext() {
      if (!this.dropsNext) return;
      this.dropsNext = false;
      this.dropOthers();
    }

    /** Remove the outputs of user code. */
    dropOthers() {
      const outputs = this.outputsOfCell;
      const all = outputs?.toJSON() ?? [];
      const kept = all.filter((x) => this.idsOf(x).length);
      if (kept.length === all.length) return;
      outputs.changed.disconnect(this.onChanged); // the user has not cleared them
      outputs.fromJSON(kept);
      outputs.changed.connect(this.onChanged);
    }

    /** The ids that `output` may have; after its last update, an output has no mark. */
    idsOf({ data, metadata }) {
      const mark = own(own(metadata, "jp_nb"), "display_id");
      if (mark !== undefined) return [mark];
      const text = canonical(data);
      return [...this.outputs].filter(([, x]) => canonical(x.data) === text).map(([id]) => id);
    }

    /**
     * Remove copies of outputs, which two pages of a shared document may have added.
     *
     * The first copy stays, so that all pages keep the same one, and gets the newest content.
     */
    dropCopies() {
      const cell = this.cellModel;
      if (!cell) return;
      const shown = new Set();
      const copies = [];
      for (const [index, output] of cell.sharedModel.getOutputs().entries()) {
        const ids = this.idsOf(output);
        const id = ids.find((x) => !shown.has(x));
        if (id !== undefined) shown.add(id);
        else if (ids.length) copies.unshift(index);
      }
      if (!copies.length) return;
      for (const index of copies) cell.sharedModel.updateOutputs(index, index + 1, []);
      // JupyterLab appends what another page has inserted, and then removes by index.
      const left = cell.sharedModel.getOutputs();
      if (canonical(cell.outputs.toJSON()) !== canonical(left)) {
        changeHere(cell, () => cell.outputs.fromJSON(left));
      }
      for (const id of shown) if (this.outputs.has(id)) this.put(id);
    }

    onChanged(outputs, { type }) {
      if (type === "add" && this.model.collaborative) {
        setTimeout(() => {
          if (outputs === this.outputsOfCell) this.dropCopies();
        });
      }
      if (this.over || outputs.length || (type !== "remove" && type !== "clear")) return;
      if (this.clearsNext) {
        this.clearsNext = false;
        return;
      }
      // Wait until the current change of the outputs is complete.
      clearTimeout(this.emptied);
      this.emptied = setTimeout(() => {
        if (this.over || outputs !== this.outputsOfCell) return;
        // A shared document replaces an output by removing it and adding the new one.
        if (this.model.collaborative && outputs.length) return;
        const cell = this.cellModel;
        this.lost = true;
        this.again ||= cell.executionState === "running" && !this.views.runs(this.request);
        if (cell.executionState !== "running") setRunning(cell, true); // "Clear Cell Output"
        this.putAll();
      });
    }

    /** The cell has ended. In a shared document, copies of its outputs may still arrive. */
    end() {
      const { ours } = this;
      const cell = this.cellModel;
      this.again ||= this.views.isQueued(this.cell, this.request);
      this.over = true;
      if (!this.model.collaborative) this.release();
      if (cell && ours && !this.again) setRunning(cell, false);
    }

    release() {
      this.watched?.changed.disconnect(this.onChanged);
      this.watched = null;
    }
  }

  /**
   * Trust the outputs of `cell` in this page only.
   *
   * Trusting an output creates it again. In a shared document, all pages would then redraw it, and
   * users would lose the text that they are typing.
   */
  function trustHere(cell) {
    if (!cell.outputs.trusted) changeHere(cell, () => { cell.outputs.trusted = true; });
  }

  /** Change the outputs of a cell in this page, and not in the shared document. */
  function changeHere({ sharedModel }, change) {
    sharedModel.updateOutputs = () => {};
    try {
      change();
    } finally {
      delete sharedModel.updateOutputs;
    }
  }

  function setRunning(cell, runs) {
    // Older pages have no such state, and show no star.
    if (cell.executionState !== undefined) cell.executionState = runs ? "running" : "idle";
  }

  // --- the form of an open prompt ---------------------------------------------------------------

  /** The views of one document in this page. */
  class Views {
    constructor() {
      this.panels = new Set();
    }

    add(panel) {
      this.panels.add(panel);
      panel.disposed.connect(() => this.panels.delete(panel));
    }

    /** The requests for which JupyterLab fills the outputs of a cell, with the id of the cell. */
    *running() {
      for (const { content } of this.panels) {
        for (const { model, outputArea } of content.widgets) {
          const future = outputArea?.future;
          if (future && !future.isDisposed) yield [future.msg.header.msg_id, model.id];
        }
      }
    }

    /** The id of the cell in which JupyterLab shows the outputs of `request`, or undefined. */
    cellOf(request) {
      for (const [running, cell] of this.running()) if (running === request) return cell;
      return undefined;
    }

    /** JupyterLab gives the outputs of a cell to the last request that runs or will run it. */
    runs(request) {
      return this.cellOf(request) !== undefined;
    }

    isQueued(cell, request) {
      for (const [other, id] of this.running()) if (id === cell && other !== request) return true;
      return false;
    }
  }

  /** Why a view does not show a form in its cell, as the user reads it. */
  const GONE = "The cell of this question is gone. You can answer here.";
  const HIDDEN = "The cell of this question is collapsed. You can answer here, or expand it.";
  const UNDRAWN = "The cell of this question does not show it. You can answer here.";

  /**
   * Keeps the form of the open prompt visible in each view of the document, once.
   *
   * The form belongs into the output of its cell. A view that cannot show it there, because the cell
   * is deleted or collapsed, shows it above the notebook.
   */
  class FormKeeper {
    constructor(model, views) {
      this.model = model;
      this.views = views;
      this.showing = null; // of the running cell
      this.docks = new Map(); // by view
      this.undrawn = new Map(); // by view: the time since which its form is missing
      this.timer = 0;
      this.soon = 0;
    }

    /** Look at the form of `showing`, now and until its prompt has ended. */
    keep(showing) {
      if (!showing.form && !this.timer) return;
      this.showing = showing;
      clearTimeout(this.soon);
      this.soon = setTimeout(() => this.look());
      this.timer ||= setInterval(() => this.look(), LOOK_MS);
    }

    look() {
      const form = this.showing?.form;
      if (!form) {
        clearInterval(this.timer);
        this.timer = 0;
        this.undrawn.clear();
      } else {
        if (this.showing.ours) this.showing.put(form.id);
        this.dropOthers(form);
      }
      for (const panel of this.docks.keys()) {
        if (!form || !this.views.panels.has(panel)) this.undock(panel);
      }
      if (!form) return;
      for (const panel of this.views.panels) {
        const why = this.whyNotInCell(panel, form);
        if (why) this.dock(panel, form, why);
        else this.undock(panel);
      }
    }

    /** Cells that the user pasted or split off may have a second form: it becomes its text. */
    dropOthers({ id }) {
      let kept = false;
      for (const cell of this.model.cells) {
        if (cell.type !== "code") continue;
        for (let index = 0; index < cell.outputs.length; index++) {
          const output = cell.outputs.get(index).toJSON();
          if (own(own(output.metadata, "jp_nb"), "display_id") !== id || !isWidget(output)) continue;
          if (cell.id === this.showing.cell && !kept) kept = true;
          else cell.outputs.set(index, asText(output));
        }
      }
    }

    /** Why `panel` does not show the form in its cell; "" if it does, or does so on scrolling. */
    whyNotInCell(panel, form) {
      const cell = panel.content.widgets.find(({ model }) => model?.id === this.showing.cell);
      if (cell?.model.type !== "code") return GONE;
      if (cell.isHidden || cell.outputHidden) return HIDDEN;
      const place = placeOf(cell.model.outputs, form.id);
      if (place >= (cell.outputArea?.maxNumberOutputs ?? Infinity)) return HIDDEN;
      const isDrawn = cell.outputArea?.node.querySelector(`.jp-nb-form-${form.model}[role="group"]`);
      if (isDrawn || !panel.isVisible || !cell.node.isConnected) {
        this.undrawn.delete(panel);
        return "";
      }
      return this.drawAgain(panel, cell, place);
    }

    /** A page that loads may draw an output before it knows the widget. */
    drawAgain(panel, cell, place) {
      const now = performance.now();
      const { since, redrawn } = this.undrawn.get(panel) ?? { since: now, redrawn: false };
      const waited = now - since;
      const again = !redrawn && waited > DRAW_MS && place >= 0;
      this.undrawn.set(panel, { since, redrawn: redrawn || again });
      if (again) show(cell.model.outputs, place, cell.model.outputs.get(place).toJSON());
      return waited > 2 * DRAW_MS ? UNDRAWN : "";
    }

    dock(panel, { model }, why) {
      const dock = this.docks.get(panel);
      if (dock?.model === model) {
        dock.tell(why);
        return;
      }
      this.undock(panel);
      this.docks.set(panel, new Dock(panel, model, why));
    }

    undock(panel) {
      this.docks.get(panel)?.dispose();
      this.docks.delete(panel);
    }

    stop() {
      this.showing = null;
      this.look();
    }
  }

  const asText = ({ output_type, data }) => ({
    output_type,
    data: pick(data, (key) => key !== WIDGET_VIEW),
    metadata: {},
  });

  /** A view of a form above the notebook. */
  class Dock {
    constructor(panel, model, why) {
      this.panel = panel;
      this.model = model;
      this.why = document.createElement("div");
      this.why.setAttribute("role", "status");
      this.why.style.padding = "0 0 8px";
      this.tell(why);
      this.view = panel.content.rendermime.createRenderer(WIDGET_VIEW);
      this.view.addClass("jp-nb-dock");
      Object.assign(this.view.node.style, {
        overflow: "auto",
        padding: "8px 16px",
        borderBottom: "1px solid var(--jp-border-color1)",
        background: "var(--jp-layout-color1)",
      });
      this.resized = new ResizeObserver(() => this.fit());
      panel.contentHeader.addWidget(this.view);
      void this.draw();
    }

    async draw() {
      const { view, model } = this;
      const data = { [WIDGET_VIEW]: { version_major: 2, version_minor: 0, model_id: model } };
      await view.renderModel({ trusted: true, data, metadata: {}, setData() {} });
      if (view.isDisposed) return;
      view.node.prepend(this.why);
      for (const child of view.node.children) this.resized.observe(child);
    }

    tell(why) {
      if (this.why.textContent !== why) this.why.textContent = why;
    }

    /** The layout of the panel takes the height from the style. */
    fit() {
      const heights = Array.from(this.view.node.children, ({ offsetHeight }) => offsetHeight);
      const whole = heights.reduce((sum, height) => sum + height, 16);
      const height = Math.min(whole, this.panel.node.offsetHeight / 2);
      this.view.node.style.minHeight = `${Math.ceil(height)}px`;
      this.panel.contentHeader.fit();
    }

    dispose() {
      this.resized.disconnect();
      this.view.dispose();
    }
  }

  // --- the end of a turn -----------------------------------------------------------------------

  /** The words about a turn that has ended; "" unless they are counts. */
  function wordsOfEnd({ seconds, sent, received }) {
    const isCount = (x) => Number.isInteger(x) && x >= 0 && x <= MAX_COUNT;
    const isKnown = (x) => x !== undefined && x !== null;
    const tokens = [sent, received].filter(isKnown);
    if (![seconds, ...tokens].every(isCount)) return "";
    const inText = (x) => x.toLocaleString("en-US");
    const words = [`${inText(seconds)} s`];
    if (isKnown(sent)) words.push(`${inText(sent)} tokens in`);
    if (isKnown(received)) words.push(`${inText(received)} tokens out`);
    return words.join(" · ");
  }

  /**
   * Quiet lines below cells, with the duration and the tokens of the last turn.
   *
   * They are in this page only, and no outputs: neither the document nor the file has them.
   */
  class EndLines {
    constructor(model, views) {
      this.model = model;
      this.views = views;
      this.lines = new Map(); // by id of the cell
    }

    put(id, text) {
      this.remove(id);
      const outputs = cellOf(this.model, id)?.outputs;
      if (!outputs) return;
      const nodes = [];
      for (const { content } of this.views.panels) {
        const cell = content.widgets.find(({ model }) => model?.id === id);
        if (!cell) continue;
        const node = document.createElement("div");
        node.className = "jp-nb-end";
        node.textContent = text;
        Object.assign(node.style, {
          color: "var(--jp-ui-font-color2)",
          fontSize: "var(--jp-ui-font-size0)",
          padding: "2px 8px 0",
          textAlign: "right",
        });
        cell.node.append(node);
        nodes.push(node);
      }
      // The next run clears the cell, as the user can.
      const onChanged = () => {
        if (!outputs.length) this.remove(id);
      };
      outputs.changed.connect(onChanged);
      this.lines.set(id, { nodes, outputs, onChanged });
    }

    remove(id) {
      const line = this.lines.get(id);
      if (!line) return;
      this.lines.delete(id);
      line.outputs.changed.disconnect(line.onChanged);
      for (const node of line.nodes) node.remove();
    }

    /** Forget the lines of cells that the user has deleted. */
    follow() {
      for (const [id, { outputs }] of this.lines) {
        if (cellOf(this.model, id)?.outputs !== outputs) this.remove(id);
      }
    }
  }

  // --- cells for tools --------------------------------------------------------------------------

  const joined = (text) => (Array.isArray(text) ? text.join("") : text);

  /** Limits of the characters in a report of the cells. */
  class Room {
    constructor(bounds) {
      this.bounds = bounds;
      this.sources = bounds.sources;
      this.outputs = bounds.outputs;
      this.images = bounds.images;
      this.leftOut = 0;
    }

    source(text) {
      const most = Math.min(this.bounds.source, this.sources);
      this.sources -= Math.min(text.length, most);
      this.leftOut += Math.max(0, text.length - most);
      return cut(text, most);
    }

    /** The beginning and the end of an output, because errors are at the end. */
    output(text) {
      const most = Math.min(this.bounds.output, this.outputs);
      this.outputs -= Math.min(text.length, most);
      if (text.length <= most) return text;
      this.leftOut += text.length - most;
      const half = Math.floor(most / 2);
      return `${cut(text, half)}\n…\n${text.slice(text.length - half)}`;
    }

    image(text) {
      if (typeof text !== "string" || text.length > this.images) return false;
      this.images -= text.length;
      return true;
    }
  }

  /** The beginning of `text`, without splitting a surrogate pair. */
  function cut(text, most) {
    const last = text.length > most ? text.charCodeAt(most - 1) : 0;
    return text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most);
  }

  const KINDS = { stream: "stream", execute_result: "result", error: "error" };

  function outputOf(output, room) {
    const { output_type: type, text, data, ename, evalue, traceback } = output.toJSON();
    const error = () => joined(list(traceback).map((line) => `${line}\n`)) || `${ename}: ${evalue}`;
    const shown = () => joined(own(data, "text/plain")) ?? `(${Object.keys(data ?? {}).join(", ")})`;
    const plain = type === "stream" ? joined(text) : type === "error" ? error() : shown();
    const images = IMAGES.map((mime) => ({ type: mime, data: joined(own(data, mime)) }));
    return {
      kind: KINDS[type] ?? "display",
      text: room.output(String(plain)),
      images: images.filter((image) => room.image(image.data)),
    };
  }

  function cellAsRead(cell, number, room) {
    const { id, type } = cell;
    room.leftOut = 0;
    const read = { number, id, type, source: room.source(cell.sharedModel.getSource()) };
    if (type === "code") {
      read.execution_count = cell.executionCount;
      read.busy = cell.executionState === "running"; // also while it is queued
      read.edited = cell.isDirty === true;
      read.outputs = [];
      for (let i = 0; i < cell.outputs.length; i++) {
        read.outputs.push(outputOf(cell.outputs.get(i), room));
      }
    }
    return { ...read, left_out: room.leftOut };
  }

  /** All cells in short, or one cell (by number or id) at length and the ids of the others. */
  function cellsAsRead(model, whole) {
    const room = new Room(whole === null ? LISTED : LOOKED_AT);
    return Array.from(model.cells, (cell, number) => {
      const { id, type } = cell;
      const wanted = whole === null || [number, String(number), id].includes(whole);
      return wanted ? cellAsRead(cell, number, room) : { number, id, type };
    });
  }

  const isForAnother = ({ type, to }, page) =>
    ["append", "switch", "exchange", "chunk"].includes(type) && Boolean(to) && to !== page;

  // --- one open document ------------------------------------------------------------------------

  class Bridge {
    constructor(context, user) {
      this.context = context;
      this.user = user; // of the page: JupyterLab's manager of it
      this.page = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
      this.kernel = null;
      this.comm = null; // id of the kernel's comm
      this.doc = undefined; // result of `read`, valid while `fresh`
      this.fresh = false;
      this.writing = false;
      this.carriers = [];
      this.seals = new Map(); // of the segments that are there, by conversation
      this.taken = new Set(); // the keys of the metadata that no new segment may have
      this.written = null; // the last write of this page in a shared document
      this.pieces = null; // of a document that the kernel sends
      this.views = new Views();
      this.keeper = null; // of the form of the open prompt
      this.ends = null; // the lines below cells whose turn has ended
      this.showing = null; // outputs of a turn in a cell of this page
      this.ended = null; // the `showing` before
      this.shows = new Set(); // requests of this page with outputs of a turn
      this.missed = []; // those that ended while their cells were gone
      this.cellIds = new Set(); // of all cells that this page had
      this.asked = null; // the last request whose outputs this page asked for, and when
      this.awaited = new Map(); // outputs of turns in other pages, by display id
      this.askTimer = 0; // until this page asks for one of them
      this.queued = new Set(); // ids of cells that were run again while they ran
      this.onUser = () => this.shared && this.hello(); // the user's name has changed
      // The page closes or reloads: another page takes over, unless the user cancels.
      this.onLeave = () => {
        if (!this.shared) return;
        this.send({ type: "bye" });
        setTimeout(() => this.hello(), STAYS_MS);
      };
      this.onStatus = this.onStatus.bind(this);
      this.onIOPub = this.onIOPub.bind(this);
      void context.ready.then(() => this.start());
    }

    start() {
      const { context } = this;
      if (context.isDisposed) return;
      this.forget();
      context.model.metadataChanged.connect((_, { key }) => {
        if (this.writing) return;
        this.fresh = false;
        if (key === KEY) this.checkWritten();
      });
      this.keeper = new FormKeeper(context.model, this.views);
      this.ends = new EndLines(context.model, this.views);
      context.model.contentChanged.connect(() => this.trustAwaited());
      context.model.cells.changed.connect(() => this.onCellsChanged());
      this.onCellsChanged();
      context.fileChanged.connect(() => this.forget()); // saved, reverted, loaded again
      context.pathChanged.connect(() => this.hello());
      // Opening a notebook does not change it; saving it moves the carrier into `jp`.
      context.saveState.connect((_, state) => {
        if (state === "started") this.onSaveStarted();
        else if (state === "completed" && this.saving) this.send({ type: "saved", ...this.saving });
      });
      context.sessionContext.kernelChanged.connect((_, { newValue }) => this.connect(newValue));
      context.disposed.connect(() => this.connect(null));
      this.user?.userChanged.connect(this.onUser);
      // Messages that a page sends later, while it closes, do not arrive.
      window.addEventListener("beforeunload", this.onLeave);
      context.disposed.connect(() => {
        this.user?.userChanged.disconnect(this.onUser);
        window.removeEventListener("beforeunload", this.onLeave);
      });
      this.connect(context.sessionContext.session?.kernel ?? null);
    }

    // --- the notebook ---

    get path() {
      return this.context.localPath;
    }

    /** Whether other pages may have the same document, and write it. */
    get shared() {
      return Boolean(this.context.model.collaborative);
    }

    /** The session and user name, for the kernel, if the document is shared. */
    get sender() {
      const name = this.user?.identity?.display_name;
      return this.shared ? { session: this.kernel.clientId, ...(name && { user: name }) } : {};
    }

    get readOnly() {
      const { model, contentsModel } = this.context;
      return model.readOnly || contentsModel?.writable === false;
    }

    /** Note the entries at the start of a save. Later ones may not be in the file. */
    onSaveStarted() {
      if (this.carriers.length && !this.readOnly) this.write(this.read());
      const doc = this.comm ? this.read() : undefined;
      this.saving = doc && { stream: idOf(doc), n: eventsOf(doc).length };
    }

    /** Discard the copy of the notebook's metadata. */
    forget() {
      this.fresh = false;
      this.carriers = carriersIn(this.context.model.getMetadata("widgets"));
    }

    /** The `jp` object merged with carriers. The model returns copies, so it may be kept. */
    read() {
      if (!this.fresh) {
        const { metadata } = this.context.model;
        const whole = unsealed(metadata);
        this.doc = this.carriers.reduce(
          (doc, { doc: carried, seen }) => merge(doc, carried, seen),
          whole
        );
        this.seals = kindOf(this.doc) === "readable" ? sealsIn(metadata, whole) : new Map();
        this.taken = new Set(Object.keys(metadata));
        this.fresh = true;
      }
      return this.doc;
    }

    /** Write `doc`. With `appended`, it only has additional entries at the end. */
    write(doc, { appended = false } = {}) {
      const { sharedModel } = this.context.model;
      this.writing = true;
      this.fresh = false; // until all of it is there
      try {
        // Other pages of a shared document, and the server, must see all changes at once.
        sharedModel.transact(() => this.writeParts(doc, appended && !this.carriers.length), false);
      } finally {
        this.writing = false;
      }
      this.doc = doc;
      this.fresh = true;
      this.written = this.shared ? { stream: idOf(doc), n: eventsOf(doc).length } : null;
    }

    writeParts(doc, appended) {
      const { model } = this.context;
      const none = { rest: doc, added: {}, seals: new Map() };
      const folds = !this.shared && this.seals.size;
      const { rest, added, seals } = this.shared
        ? sealed(doc, this.seals, appended, this.taken)
        : none;
      for (const [key, segment] of Object.entries(added)) model.setMetadata(key, segment);
      model.setMetadata(KEY, rest);
      this.seals = seals;
      if (!appended || folds) this.dropSegments();
      if (this.carriers.length) this.dropCarriers();
    }

    /** Delete the segments that nothing refers to. */
    dropSegments() {
      const { model } = this.context;
      const kept = new Set(
        Array.from(this.seals.values()).flat().map(({ segment }) => `${KEY}.${segment}`)
      );
      for (const key of Object.keys(model.metadata)) {
        if (SEGMENT.test(key) && !kept.has(key)) model.deleteMetadata(key);
      }
    }

    /** Check that a concurrent write of another page did not remove entries of this page. */
    checkWritten() {
      if (!this.written) return;
      const { stream, n } = this.written;
      const doc = this.read();
      if (idOf(doc) === stream && eventsOf(doc).length >= n) return;
      this.written = null;
      this.hello();
    }

    dropCarriers() {
      const { model } = this.context;
      const lifted = new Set(this.carriers.map(({ key }) => key));
      const { [WIDGET_STATE]: widgets, ...rest } = model.getMetadata("widgets");
      const state = pick(widgets.state, (key) => !lifted.has(key));
      const kept = Object.keys(state).length ? { [WIDGET_STATE]: { ...widgets, state } } : {};
      const result = { ...rest, ...kept };
      if (Object.keys(result).length) model.setMetadata("widgets", result);
      else model.deleteMetadata("widgets");
      this.carriers = [];
    }

    /** The reason not to write now, or undefined. */
    refusal(doc) {
      if (this.readOnly) return "read-only";
      const kind = kindOf(doc);
      return kind === "newer" || kind === "damaged" ? kind : undefined;
    }

    // --- the kernel ---

    connect(kernel) {
      if (this.kernel === kernel) return;
      this.kernel?.iopubMessage.disconnect(this.onIOPub);
      this.kernel?.statusChanged.disconnect(this.onStatus);
      this.kernel = kernel;
      this.begin();
      if (!kernel) return;
      // JupyterLab closes comms of unregistered targets. Messages are read from iopub, because a
      // connection that shares its kernel does not receive comms.
      kernel.registerCommTarget(TARGET, () => {});
      kernel.iopubMessage.connect(this.onIOPub);
      kernel.statusChanged.connect(this.onStatus);
      void this.adopt(kernel, kernel.info.then(() => this.comms(kernel)));
      void this.adopt(kernel, this.commsOfBusy(kernel));
    }

    /** Reset the state that belongs to the previous kernel process. */
    begin() {
      this.comm = this.pieces = null;
      this.missed = [];
      this.shows.clear();
      this.queued.clear();
      this.awaited.clear();
      this.endShowing();
    }

    onStatus(_, status) {
      if (["restarting", "autorestarting", "dead"].includes(status)) this.begin();
    }

    comms(kernel) {
      return kernel.requestCommInfo({ target_name: TARGET });
    }

    /** While a cell runs, ipykernel answers on the control channel only. */
    async commsOfBusy(kernel) {
      if ((await kernel.spec)?.language !== "python") return null;
      const message = this.message("comm_info_request", { target_name: TARGET });
      return kernel.sendControlMessage(message, true, true).done;
    }

    /** Find the comm of a kernel that ran before this page opened. */
    async adopt(kernel, answer) {
      try {
        const ids = Object.keys(own((await answer)?.content, "comms") ?? {});
        const found = ids.filter((id) => id.startsWith(`${TARGET}.`)).pop();
        if (found && this.kernel === kernel && !this.comm) {
          this.comm = found;
          this.hello();
        }
      } catch {
        // The kernel died or has no comms. A busy kernel is adopted by its next message.
      }
    }

    onIOPub(kernel, message) {
      const { content, header, parent_header: parent } = message;
      const asked = parent?.session === kernel.clientId; // by this page
      switch (header.msg_type) {
        case "comm_open":
          // Documents may share the kernel: only the one that ran the cell answers.
          if (content.target_name === TARGET && asked) {
            this.comm = content.comm_id;
            this.hello();
          }
          break;
        case "comm_msg":
          if (String(content.comm_id).startsWith(`${TARGET}.`)) {
            this.onMessage(content.comm_id, content.data);
          }
          break;
        case "comm_close":
          if (content.comm_id === this.comm) this.comm = null;
          break;
        case "stream":
          if (parent?.msg_id === this.showing?.request && isPrinted(content)) {
            this.showing?.add(asStream(content));
          }
          break;
        case "display_data":
        case "execute_result":
        case "update_display_data":
          this.onDisplay(message, asked);
          break;
        case "clear_output":
          if (parent?.msg_id === this.showing?.request) this.showing?.onClear(content.wait === true);
          break;
        case "error":
          if (parent?.msg_id === this.showing?.request) this.showing?.onError(content);
          break;
        case "execute_input":
          if (asked) this.onRun(parent.msg_id);
          else if (this.shared) this.trustOutputsOf(content.code);
          break;
        case "status":
          if (content.execution_state === "idle") this.onIdle(parent?.msg_id);
          break;
      }
    }

    onIdle(request) {
      if (this.shows.delete(request)) this.send({ type: "seen", request });
      if (request === this.showing?.request) this.endShowing();
      for (const [id, by] of this.awaited) {
        if (by === request) this.awaited.delete(id);
      }
    }

    onDisplay({ header, content, parent_header: parent }, asked) {
      const { data, metadata, transient } = content;
      const id = transient?.display_id;
      if (!isObject(data) || this.context.model.readOnly) return;
      const isNew = header.msg_type !== "update_display_data";
      if (isNew && this.showing?.request === parent?.msg_id) this.showing?.onNext();
      if (typeof id !== "string") {
        if (this.showing?.request === parent?.msg_id) this.showing?.add(asOutput(content));
        return;
      }
      const isOfTurn = own(own(metadata, "jp_nb"), "display_id") === id;
      // JupyterLab has already shown outputs of this page's own requests.
      if (isOfTurn && this.views.runs(parent?.msg_id)) this.shows.add(parent.msg_id);
      if (asked && isOfTurn) this.follow(id, parent.msg_id);
      const { showing } = this;
      if (showing?.request === parent?.msg_id && (isOfTurn || showing?.outputs.has(id))) {
        showing.update(id, { data, metadata });
        this.keeper.keep(showing);
      } else if (isNew && showing?.request === parent?.msg_id) {
        showing?.add(asOutput(content));
      } else if (!asked && this.shared) {
        if (isOfTurn) this.trustWhatShows(id, parent?.msg_id);
      } else if (isOfTurn && !this.views.runs(parent?.msg_id)) {
        this.askOutputs(parent?.msg_id);
      } else if (!asked && !isNew) {
        this.replace(id, { data, metadata });
      }
    }

    /**
     * Trust the outputs of a cell that another page runs, such as a form.
     *
     * This is done while the cell has no outputs: later, all pages would redraw each of them.
     */
    trustOutputsOf(code) {
      for (const cell of this.context.model.cells) {
        if (cell.type !== "code" || cell.sharedModel.getSource() !== code) continue;
        const { outputs } = cell;
        const trust = () => {
          if (outputs.length) return;
          outputs.changed.disconnect(trust);
          outputs.trusted = true; // as those of every cell that runs
        };
        outputs.changed.connect(trust);
        trust();
      }
    }

    /**
     * Trust an output in a cell that another page runs.
     *
     * The shared document may arrive later than the kernel's message.
     */
    trustWhatShows(id, request) {
      this.awaited.set(id, request);
      this.trustAwaited();
      this.askForAwaited();
    }

    /**
     * Ask the kernel for outputs that the shared document does not get.
     *
     * The page that ran their cell is gone: it wrote none of them, and this page may have to.
     */
    askForAwaited() {
      if (!this.awaited.size || this.askTimer) return;
      this.askTimer = setTimeout(() => {
        this.askTimer = 0;
        const [request] = this.awaited.values();
        if (request === undefined) return;
        this.askOutputs(request);
        this.askForAwaited();
      }, ASK_AGAIN_MS);
    }

    trustAwaited() {
      if (!this.awaited.size) return;
      for (const cell of this.context.model.cells) {
        if (cell.type !== "code") continue;
        for (const id of this.awaited.keys()) {
          if (placeOf(cell.outputs, id) < 0) continue;
          this.awaited.delete(id);
          trustHere(cell);
        }
      }
    }

    /** Keep the outputs of a turn in a cell of this page. */
    follow(id, request) {
      if (this.showing?.request === request) return;
      const { model } = this.context;
      const cell = cellOf(model, this.views.cellOf(request));
      // A widget `Output` may show them instead of the cell.
      if (!cell || placeOf(cell.outputs, id) < 0) return;
      this.endShowing();
      this.showing = new Showing(model, this.views, request, cell.id);
    }

    /**
     * Ask the kernel for the outputs of a request that nothing in this page shows.
     *
     * JupyterLab drops them if the user runs the cell again, and if the page that ran the cell was
     * reloaded while the cell was queued.
     */
    askOutputs(request) {
      const now = performance.now();
      if (!request || !this.comm) return;
      if (this.asked?.request === request && now - this.asked.at < ASK_AGAIN_MS) return;
      this.asked = { request, at: now };
      this.send({ type: "want", request });
    }

    /** The user may have deleted, moved, or brought back the cell of a turn. */
    onCellsChanged() {
      for (const { id } of this.context.model.cells) this.cellIds.add(id);
      this.ends.follow();
      this.showing?.follow();
      if (this.showing?.form) this.keeper.keep(this.showing);
      this.missed = this.missed.filter((missed) => {
        missed.follow();
        return !missed.watched;
      });
    }

    /** Update an output that is older than this page. */
    replace(id, content) {
      for (const { type, outputs } of this.context.model.cells) {
        const place = type === "code" ? placeOf(outputs, id) : -1;
        if (place >= 0) show(outputs, place, asOutput(content));
      }
    }

    endShowing() {
      const { showing } = this;
      if (!showing) return;
      this.showing = null;
      this.ended?.release();
      this.ended = showing;
      showing.end();
      this.keeper.stop();
      if (showing.again) this.queued.add(showing.cell);
      if (!showing.cellModel) this.missed = [...this.missed, showing].slice(-MAX_MISSED);
    }

    /** Clear a cell that was queued while it ran, when it runs again. */
    onRun(request) {
      this.ends.remove(this.views.cellOf(request));
      const cell = cellOf(this.context.model, this.views.cellOf(request));
      if (cell && this.queued.delete(cell.id)) cell.outputs.clear();
    }

    /** Show the outputs of a cell that started before this page opened. */
    onShow({ to, request, cell: id, code, outputs, puts, over }) {
      const { model } = this.context;
      const wellFormed =
        [request, id, code].every((x) => typeof x === "string" && x) &&
        list(outputs).every((x) => isPrinted(x) || isObject(own(x, "data")));
      if (to !== this.page || !wellFormed || model.readOnly) return;
      // JupyterLab shows these outputs; they must not appear twice.
      if (this.views.runs(request)) return;
      const listed = list(outputs);
      const ofTurn = listed.filter((x) => typeof own(x, "display_id") === "string");
      if (this.shared && puts !== true) {
        // Another page writes them.
        for (const { display_id } of ofTurn) this.trustWhatShows(display_id, request);
        return;
      }
      // A cell that this page had was deleted by the user, who may bring it back.
      const isNew = !this.cellIds.has(id);
      const cell = cellOf(model, id) ?? (isNew ? insertCell(model, id, code) : null);
      if (over === true && cell?.sharedModel.getSource() !== code) return;
      this.endShowing();
      // All this is done before `Showing` observes the cell: otherwise the cell would count as queued
      // again, and keep its `[*]`.
      if (cell && ofTurn.every((x) => placeOf(cell.outputs, x.display_id) < 0)) {
        cell.outputs.clear(); // they are from an earlier run
      }
      if (cell && this.shared) trustHere(cell);
      else if (cell) cell.trusted = true; // as that of every cell that runs
      // In a shared document, filling it again would draw all outputs anew in the other pages.
      if (cell && ofTurn.length < listed.length && !(this.shared && cell.outputs.length)) {
        fill(cell.outputs, listed);
      }
      const showing = new Showing(model, this.views, request, id);
      if (cell) setRunning(cell, true);
      for (const { display_id, data, metadata } of ofTurn) {
        showing.outputs.set(display_id, { data, metadata: isObject(metadata) ? metadata : {} });
      }
      showing.putAll();
      this.showing = showing;
      this.shows.add(request);
      if (over === true) this.onIdle(request);
      else this.keeper.keep(showing);
    }

    /** A turn has ended in a cell that runs. */
    onEnded({ request, cell, ...counts }) {
      if (typeof request !== "string" || typeof cell !== "string") return;
      const { showing } = this;
      const runs = showing?.request === request ? showing.cell : this.views.cellOf(request);
      const text = wordsOfEnd(counts);
      if (text && runs === cell) this.ends.put(cell, text);
    }

    onMessage(comm, data) {
      // Each message names its notebook, because two notebooks may share a kernel.
      if (!isObject(data) || data.path !== this.path) return;
      if (!this.comm) {
        // The kernel knew this path before the page loaded.
        this.comm = comm;
        this.hello();
        return;
      }
      if (comm !== this.comm) {
        this.checkComm();
        return;
      }
      if (data.v !== PROTOCOL) {
        this.nack(data, "protocol");
        return;
      }
      // The kernel names the page of a shared document that writes.
      if (this.shared && isForAnother(data, this.page)) {
        this.written = null;
        return undefined;
      }
      switch (data.type) {
        case "append":
          return this.onAppend(data);
        case "switch":
          return this.onSwitch(data, data.doc);
        case "exchange":
          return this.onSwitch(data, withKept(data, this.read()));
        case "chunk":
          return this.onChunk(data);
        case "pull":
          return this.hello();
        case "show":
          return this.onShow(data);
        case "ended":
          return this.onEnded(data);
        case "input":
          return this.send({ type: "input", seq: data.seq, can: this.views.runs(data.request) });
        case "cells":
          return data.to === this.page ? this.onCells(data) : undefined;
        case "save":
          // Two pages that write one file at once can corrupt it.
          return data.to && data.to !== this.page ? undefined : void this.onSave(data);
      }
    }

    /** Follow another comm for this notebook if the current one is closed. */
    async checkComm() {
      const { kernel, comm } = this;
      if (this.checking) return;
      this.checking = true;
      try {
        const answer = await this.commsOfBusy(kernel);
        const open = own(answer?.content, "comms");
        if (isObject(open) && !Object.hasOwn(open, comm) && this.comm === comm) {
          this.comm = null;
          await this.adopt(kernel, answer);
        }
      } catch {
        // The kernel is gone.
      } finally {
        this.checking = false;
      }
    }

    onAppend(data) {
      const doc = this.read();
      const why = this.refusal(doc);
      const events = eventsOf(doc);
      const fits =
        !why &&
        kindOf(doc) === "readable" &&
        idOf(doc) === data.stream &&
        Number.isInteger(data.base) &&
        data.base >= 0 &&
        data.base <= events.length &&
        Array.isArray(data.events) &&
        data.events.every(isObject) &&
        isHead(data.head, data.stream);
      if (!fits) {
        this.nack(data, why);
        return;
      }
      const added = data.events.slice(events.length - data.base);
      const head = isObject(data.head) ? data.head : {};
      if (added.length || Object.keys(head).length) {
        const next = { ...doc, events: events.concat(added) };
        for (const key of ["conversation", "base_config", "signature"]) {
          if (!Object.hasOwn(head, key)) continue;
          if (head[key] === null) delete next[key];
          else next[key] = head[key];
        }
        this.write(next, { appended: true });
      }
      this.ack(data);
    }

    onSwitch(data, next) {
      const doc = this.read();
      const why = this.refusal(doc);
      // Only a document that keeps the damaged record among its `others` may replace it.
      const keeps = why === "damaged" && othersOf(next).some((other) => same(other, doc));
      if ((why && !keeps) || kindOf(next) !== "readable") {
        this.nack(data, why);
        return;
      }
      if (!same(next, doc)) this.write(next);
      this.ack(data);
    }

    onChunk(data) {
      const { id, i, of, text } = data;
      const isWhole = (x, below) => Number.isInteger(x) && x >= 0 && x < below;
      if (typeof text !== "string" || !isWhole(of, MAX_PIECES) || !isWhole(i, of)) {
        this.nack(data);
        return;
      }
      if (this.pieces?.id !== id || this.pieces.of !== of) {
        this.pieces = { id, of, texts: new Map() };
      }
      const { texts } = this.pieces;
      texts.set(i, text);
      if (texts.size < of) {
        this.ack(data);
        return;
      }
      this.pieces = null;
      let next;
      try {
        next = JSON.parse(Array.from({ length: of }, (_, n) => texts.get(n)).join(""));
      } catch {
        next = undefined;
      }
      this.onSwitch(data, next);
    }

    onCells({ seq, whole }) {
      const pieces = split(JSON.stringify(cellsAsRead(this.context.model, whole ?? null)));
      pieces.forEach((text, i) => this.send({ type: "cells", seq, i, of: pieces.length, text }));
    }

    async onSave({ seq }) {
      const { context } = this;
      if (this.readOnly) {
        this.send({ type: "save_failed", seq, why: "this notebook is read-only" });
        return;
      }
      // `save` itself waits until the user has closed the error dialog.
      let failed = false;
      const answer = (data) => {
        context.saveState.disconnect(watch);
        if (!failed) this.send({ seq, ...data });
        failed = data.type === "save_failed";
      };
      const watch = (_, state) => {
        if (state === "failed") answer({ type: "save_failed", why: "JupyterLab could not save it" });
      };
      context.saveState.connect(watch);
      try {
        await context.save();
        answer({ type: "saved" });
      } catch (error) {
        answer({ type: "save_failed", why: String(error?.message ?? error) });
      }
    }

    // --- messages to the kernel ---

    hello() {
      if (!this.comm) return;
      const doc = this.read();
      const message = {
        type: "hello",
        path: this.path,
        readOnly: Boolean(this.readOnly),
        collaborative: this.shared,
        stream: idOf(doc),
        n: eventsOf(doc).length,
        tells: ["cells", "exchange", "input", "ended", "printed"],
        client: this.kernel.clientId,
        ...this.sender,
      };
      const text = doc === undefined ? "" : JSON.stringify(doc);
      if (text.length <= INLINE_CHARS) {
        this.send(doc === undefined ? message : { ...message, doc });
        return;
      }
      const pieces = split(text);
      this.send({ ...message, chunks: pieces.length });
      pieces.forEach((piece, i) =>
        this.send({ type: "chunk", i, of: pieces.length, text: piece })
      );
    }

    ack({ seq }) {
      const doc = this.read();
      const { dirty } = this.context.model;
      this.send({ type: "ack", seq, stream: idOf(doc), n: eventsOf(doc).length, dirty });
    }

    nack({ seq }, why) {
      const doc = this.read();
      this.send({ type: "nack", seq, stream: idOf(doc), n: eventsOf(doc).length, why });
    }

    /** On the control channel: a message on shell waits until the running cell has ended. */
    send(data) {
      const { kernel, comm } = this;
      if (!kernel || kernel.isDisposed || !comm) return;
      const content = { comm_id: comm, data: { v: PROTOCOL, page: this.page, ...data } };
      try {
        const message = this.message("comm_msg", content);
        kernel.sendControlMessage(message, false, true).done.catch(() => {});
      } catch {
        // The kernel is dead.
      }
    }

    message(type, content) {
      return {
        channel: "control",
        header: {
          msg_id: crypto.randomUUID?.() ?? `${this.page}-${Math.random()}`,
          msg_type: type,
          session: this.kernel.clientId,
          username: this.kernel.username,
          date: new Date().toISOString(),
          version: "5.3",
        },
        parent_header: {},
        metadata: {},
        content,
        buffers: [],
      };
    }
  }

  /** Split text, but no surrogate pairs. */
  function split(text) {
    const pieces = [];
    for (let start = 0; start < text.length; ) {
      let end = Math.min(start + PIECE_CHARS, text.length);
      const last = text.charCodeAt(end - 1);
      if (end < text.length && last >= 0xd800 && last <= 0xdbff) end--;
      pieces.push(text.slice(start, end));
      start = end;
    }
    return pieces;
  }

  // --- the container ----------------------------------------------------------------------------

  const bridges = new WeakMap(); // by document context: its views share one

  const plugin = {
    id: "jp-nb:document",
    autoStart: true,
    activate: (app) => {
      const { user } = app.serviceManager;
      app.docRegistry.addWidgetExtension("Notebook", {
        createNew: (panel, context) => {
          if (!bridges.has(context)) bridges.set(context, new Bridge(context, user));
          bridges.get(context).views.add(panel);
        },
      });
    },
  };

  const extension = { __esModule: true, default: plugin, merge, carriersIn, sealed, unsealed };

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["jp-nb"] = {
    init: () => {},
    get: (name) => {
      if (name !== "./extension") throw new Error(`jp-nb has no module ${name}`);
      return Promise.resolve(() => extension);
    },
  };
})();
