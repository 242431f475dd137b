/*
 * Keeps the conversation of jp_nb in the notebook's metadata, under the key `jp`.
 *
 * One bridge per open document, whatever the number of its views. It answers the kernel's
 * messages on comm target `jp_nb.document`; the kernel's side is `jp_nb/notebook/document/live.py`
 * and the protocol is described there and in `wire.py`.
 *
 * Written by hand as a module-federation container, so that nothing has to be built: JupyterLab
 * and Notebook 7 call `init` with the modules they share (none is needed) and `get` for the plugin.
 *
 * What the kernel sends is data. Names that come from it are compared, never used as keys of our
 * own objects, and only `jp` is written (and our own carrier in `widgets` removed).
 */
(function () {
  "use strict";

  const PROTOCOL = 1;
  const VERSION = 1; // of the `jp` object
  const KEY = "jp";
  const TARGET = "jp_nb.document";
  const WIDGET_STATE = "application/vnd.jupyter.widget-state+json";
  const INLINE_CHARS = 4 * 1024 * 1024; // a longer document travels in pieces
  const PIECE_CHARS = 1024 * 1024; // messages above 10 MB never reach the kernel

  // --- reading what a notebook holds; the rules are those of `document/merge.py` ---------------

  const isObject = (x) => typeof x === "object" && x !== null && !Array.isArray(x);
  const own = (object, key) =>
    isObject(object) && Object.hasOwn(object, key) ? object[key] : undefined;
  const list = (x) => (Array.isArray(x) ? x : []);
  /** Put an output behind another one; JupyterLab can only put it behind all. */
  const insertAfter = (outputs, index, output) => {
    if (index === outputs.length - 1) {
      outputs.add(output);
      return;
    }
    const all = outputs.toJSON();
    all.splice(index + 1, 0, output);
    outputs.fromJSON(all);
  };
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

  function isStale(carried, stored) {
    if (idOf(carried) === idOf(stored)) {
      return eventsOf(stored).length > eventsOf(carried).length && covers(stored, carried);
    }
    return othersOf(stored).some((other) => covers(other, shelved(carried)));
  }

  const withOthers = (doc, added) =>
    added.length ? { ...doc, others: othersOf(doc).concat(added) } : doc;

  /** Bring what the notebook stores and a readable carrier together; see `merge` in merge.py. */
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
    if (isStale(carried, stored)) return stored;
    const known = conversations(carried);
    const kept = conversations(stored).filter(
      (entry) =>
        !known.some((k) => covers(k, entry)) &&
        own(own(entry, "conversation"), "made") !== "headless" &&
        !(own(seen, idOf(entry)) >= eventsOf(entry).length)
    );
    const unknown = pick(stored, (key) => !OF_THE_OBJECT.includes(key));
    return withOthers({ ...unknown, ...carried }, kept);
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
    const doc = { ...head, events };
    return kindOf(doc) === "readable" ? doc : null;
  }

  // --- one open document ------------------------------------------------------------------------

  class Bridge {
    constructor(context) {
      this.context = context;
      this.page = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
      this.kernel = null;
      this.comm = null; // id of the kernel's comm
      this.doc = undefined; // our copy of what `read` says, while `fresh`
      this.fresh = false;
      this.writing = false;
      this.carriers = [];
      this.pieces = null; // of a document that the kernel sends
      this.onIOPub = this.onIOPub.bind(this);
      void context.ready.then(() => this.start());
    }

    start() {
      const { context } = this;
      if (context.isDisposed) return;
      this.forget();
      context.model.metadataChanged.connect(() => {
        if (!this.writing) this.fresh = false;
      });
      context.fileChanged.connect(() => this.forget()); // saved, reverted, loaded again
      context.pathChanged.connect(() => this.hello());
      // Opening a notebook changes nothing in it; saving it lifts the carrier.
      context.saveState.connect((_, state) => {
        if (state === "started" && this.carriers.length && !this.readOnly) this.write(this.read());
      });
      context.sessionContext.kernelChanged.connect((_, { newValue }) => this.connect(newValue));
      context.disposed.connect(() => this.connect(null));
      this.connect(context.sessionContext.session?.kernel ?? null);
    }

    // --- the notebook ---

    get path() {
      return this.context.localPath;
    }

    get readOnly() {
      const { model, contentsModel } = this.context;
      return model.readOnly || contentsModel?.writable === false;
    }

    /** Look at the notebook's metadata anew. */
    forget() {
      this.fresh = false;
      this.carriers = carriersIn(this.context.model.getMetadata("widgets"));
    }

    /** The `jp` object, with what carriers add. Ours alone: the model hands out copies. */
    read() {
      if (!this.fresh) {
        this.doc = this.carriers.reduce(
          (doc, { doc: carried, seen }) => merge(doc, carried, seen),
          this.context.model.getMetadata(KEY)
        );
        this.fresh = true;
      }
      return this.doc;
    }

    write(doc) {
      const { model } = this.context;
      this.writing = true;
      try {
        model.setMetadata(KEY, doc);
        if (this.carriers.length) this.dropCarriers();
      } finally {
        this.writing = false;
      }
      this.doc = doc;
      this.fresh = true;
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

    /** Why nothing may be written now; undefined if it may. */
    refusal(doc) {
      if (this.readOnly) return "read-only";
      const kind = kindOf(doc);
      return kind === "newer" || kind === "damaged" ? kind : undefined;
    }

    // --- the kernel ---

    connect(kernel) {
      if (this.kernel === kernel) return;
      this.kernel?.iopubMessage.disconnect(this.onIOPub);
      this.kernel = kernel;
      this.comm = this.pieces = null;
      if (!kernel) return;
      // JupyterLab closes a comm whose target nobody registered. The messages themselves are
      // read from iopub: a connection that shares its kernel is not handed any comm.
      kernel.registerCommTarget(TARGET, () => {});
      kernel.iopubMessage.connect(this.onIOPub);
      void this.adopt(kernel);
    }

    /** Find the comm of a kernel that ran before this page was there. */
    async adopt(kernel) {
      try {
        await kernel.info;
        const reply = await kernel.requestCommInfo({ target_name: TARGET });
        const ids = Object.keys(own(reply.content, "comms") ?? {});
        if (ids.length && this.kernel === kernel && !this.comm) {
          this.comm = ids[ids.length - 1];
          this.hello();
        }
      } catch {
        // The kernel died or does not know comms. A busy one is adopted by what it sends.
      }
    }

    onIOPub(kernel, message) {
      const { content, header, parent_header: parent } = message;
      switch (header.msg_type) {
        case "comm_open":
          // Other documents may share the kernel: this answer is due from the one whose cell runs.
          if (content.target_name === TARGET && parent?.session === kernel.clientId) {
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
        case "display_data":
        case "update_display_data":
          // What this page asked for, JupyterLab shows itself.
          if (parent?.session !== kernel.clientId) this.onDisplay(content);
          break;
      }
    }

    /** A part of a turn that was begun before the page was loaded again. */
    onDisplay({ data, metadata, transient }) {
      const id = transient?.display_id;
      if (typeof id !== "string" || this.readOnly) return;
      const output = { output_type: "display_data", data, metadata };
      const { turn, part } = own(transient, "jp_nb") ?? {};
      let known = false;
      let before;
      for (const { type, outputs } of this.context.model.cells) {
        if (type !== "code") continue;
        for (let index = 0; index < outputs.length; index++) {
          const ours = own(outputs.get(index).metadata, "jp_nb");
          if (own(ours, "display_id") === id) {
            outputs.set(index, output);
            known = true;
          } else if (turn && own(ours, "turn") === turn && ours.part < part) {
            before = { outputs, index };
          }
        }
      }
      if (!known && before) insertAfter(before.outputs, before.index, output);
    }

    onMessage(comm, data) {
      if (!isObject(data) || (data.path && data.path !== this.path)) return;
      if (comm !== this.comm) {
        // The kernel knew this path before the page was loaded.
        if (!data.path) return;
        this.comm = comm;
        this.hello();
        return;
      }
      if (data.v !== PROTOCOL) {
        this.nack(data, "protocol");
        return;
      }
      switch (data.type) {
        case "append":
          return this.onAppend(data);
        case "switch":
          return this.onSwitch(data, data.doc);
        case "chunk":
          return this.onChunk(data);
        case "pull":
          return this.hello();
        case "save":
          // Two pages that write one file at once may leave a mixture of both.
          return data.to && data.to !== this.page ? undefined : void this.onSave(data);
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
        Array.isArray(data.events);
      if (!fits) {
        this.nack(data, why);
        return;
      }
      const added = data.events.slice(events.length - data.base);
      const head = isObject(data.head) ? data.head : {};
      if (added.length || Object.keys(head).length) {
        if (!Object.hasOwn(doc, "events")) doc.events = events;
        for (const event of added) doc.events.push(event);
        for (const key of ["conversation", "base_config", "signature"]) {
          if (!Object.hasOwn(head, key)) continue;
          if (head[key] === null) delete doc[key];
          else doc[key] = head[key];
        }
        this.write(doc);
      }
      this.ack(data);
    }

    onSwitch(data, next) {
      const doc = this.read();
      const why = this.refusal(doc);
      // Damage is overwritten only by a document that keeps it, unchanged, among its others.
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
      if (this.pieces?.id !== id) this.pieces = { id, of, texts: new Map() };
      const { texts } = this.pieces;
      if (typeof text === "string" && Number.isInteger(i) && i >= 0 && i < of) texts.set(i, text);
      if (texts.size < of) {
        this.ack(data);
        return;
      }
      const whole = Array.from({ length: of }, (_, n) => texts.get(n)).join("");
      let next;
      try {
        next = JSON.parse(whole);
      } catch {
        next = undefined;
      }
      this.onSwitch(data, next);
    }

    async onSave({ seq }) {
      const { context } = this;
      if (this.readOnly) {
        this.send({ type: "save_failed", seq, why: "this notebook is read-only" });
        return;
      }
      // `save` itself waits until the person has closed the error dialog.
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

    // --- what goes to the kernel ---

    hello() {
      if (!this.comm) return;
      const doc = this.read();
      const message = {
        type: "hello",
        path: this.path,
        readOnly: Boolean(this.readOnly),
        collaborative: Boolean(this.context.model.collaborative),
        stream: idOf(doc),
        n: eventsOf(doc).length,
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
      const message = {
        channel: "control",
        header: {
          msg_id: crypto.randomUUID?.() ?? `${this.page}-${Math.random()}`,
          msg_type: "comm_msg",
          session: kernel.clientId,
          username: kernel.username,
          date: new Date().toISOString(),
          version: "5.3",
        },
        parent_header: {},
        metadata: {},
        content: { comm_id: comm, data: { v: PROTOCOL, page: this.page, ...data } },
        buffers: [],
      };
      try {
        kernel.sendControlMessage(message, false, true).done.catch(() => {});
      } catch {
        // The kernel is dead: what it has not stored is gone with it.
      }
    }
  }

  /** Cut text, but never through a character outside the basic plane. */
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
      app.docRegistry.addWidgetExtension("Notebook", {
        createNew: (panel, context) => {
          if (!bridges.has(context)) bridges.set(context, new Bridge(context));
        },
      });
    },
  };

  const extension = { __esModule: true, default: plugin, merge, carriersIn };

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["jp-nb"] = {
    init: () => {},
    get: (name) => {
      if (name !== "./extension") throw new Error(`jp-nb has no module ${name}`);
      return Promise.resolve(() => extension);
    },
  };
})();
