/**
 * The connection of a document to its kernel: it finds the kernel's comm, and carries messages.
 *
 * Messages are read from iopub, and sent on the control channel (`docs/protocol.md`).
 */

import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { UUID } from '@lumino/coreutils';

import type { JsonObject } from './json';
import { isObject, own } from './json';
import type { OpenDocument } from './opendocument';
import type { OutgoingMessage } from './protocol';
import { PROTOCOL, seqOf, TARGET } from './protocol';

type IOPubMessage = KernelMessage.IIOPubMessage;
type ControlMessage = KernelMessage.IControlMessage;

/** A message on iopub that belongs to no comm. */
export interface IPublished {
  type: string;
  content: JsonObject;
  /** The id of the request that it belongs to. */
  request: string | undefined;
  /** Whether this page has sent that request. */
  isOwn: boolean;
}

/** The receiver of everything that a kernel sends to a document. */
export interface IConnectionHandler {
  /** Forget what belongs to the previous kernel process. */
  onNewProcess(): void;
  /** Introduce the page: the comm of the kernel is known. */
  onComm(): void;
  /** Handle a comm message for this document, which any code in the kernel may have sent. */
  onMessage(data: JsonObject): void;
  /** Handle another message of the kernel. */
  onPublished(message: IPublished): void;
}

export class KernelConnection {
  constructor(
    private readonly context: OpenDocument,
    private readonly handler: IConnectionHandler
  ) {}

  /** The id of this page, for the kernel. */
  readonly page = UUID.uuid4();

  /** The id of this page's client at the kernel. */
  get clientId(): string | undefined {
    return this.kernel?.clientId;
  }

  /** Whether the kernel receives what the page sends. */
  get isOpen(): boolean {
    return this.kernel !== null && this.comm !== null;
  }

  /** Connect to the kernel of the document, now and after each change of it. */
  start(): void {
    const { sessionContext } = this.context;
    sessionContext.kernelChanged.connect(this.onKernelChanged, this);
    this.connect(sessionContext.session?.kernel ?? null);
  }

  dispose(): void {
    this.context.sessionContext.kernelChanged.disconnect(this.onKernelChanged, this);
    this.connect(null);
  }

  private onKernelChanged(
    _: unknown,
    { newValue }: { newValue: Kernel.IKernelConnection | null }
  ): void {
    this.connect(newValue);
  }

  private connect(kernel: Kernel.IKernelConnection | null): void {
    if (this.kernel === kernel) {
      return;
    }

    this.kernel?.iopubMessage.disconnect(this.onIOPub, this);
    this.kernel?.statusChanged.disconnect(this.onStatus, this);
    this.kernel = kernel;
    this.forgetProcess();
    if (!kernel) {
      return;
    }

    // JupyterLab closes comms of unregistered targets. Messages are read from iopub, because a
    // connection that shares its kernel does not receive comms.
    kernel.registerCommTarget(TARGET, () => undefined);
    kernel.iopubMessage.connect(this.onIOPub, this);
    kernel.statusChanged.connect(this.onStatus, this);
    void this.adopt(
      kernel,
      kernel.info.then(() => kernel.requestCommInfo({ target_name: TARGET }))
    );
    void this.adopt(kernel, this.commsOfBusy(kernel));
  }

  private onStatus(_: unknown, status: Kernel.Status): void {
    if (['restarting', 'autorestarting', 'dead'].includes(status)) {
      this.forgetProcess();
    }
  }

  private forgetProcess(): void {
    this.comm = null;
    this.handler.onNewProcess();
  }

  // --- the comm ---

  /** While a cell runs, ipykernel answers on the control channel only. */
  private async commsOfBusy(kernel: Kernel.IKernelConnection): Promise<unknown> {
    if ((await kernel.spec)?.language !== 'python') {
      return null;
    }
    const message = makeControlMessage(kernel, 'comm_info_request', { target_name: TARGET });
    return kernel.sendControlMessage(message, true, true).done;
  }

  /** Find the comm of a kernel that ran before this page opened. */
  private async adopt(kernel: Kernel.IKernelConnection, answer: unknown): Promise<void> {
    try {
      const comms = own(own(await answer, 'content'), 'comms');
      const ids = Object.keys(isObject(comms) ? comms : {});
      const found = ids.filter(id => id.startsWith(`${TARGET}.`)).pop();
      if (found && this.kernel === kernel && !this.comm) {
        this.follow(found);
      }
    } catch {
      // The kernel died or has no comms. A busy kernel is adopted by its next message.
    }
  }

  private follow(comm: string): void {
    this.comm = comm;
    this.handler.onComm();
  }

  /** Follow another comm for this notebook if the current one is closed. */
  private async checkComm(): Promise<void> {
    const { kernel, comm } = this;
    if (this.isChecking || !kernel || !comm) {
      return;
    }

    this.isChecking = true;
    try {
      const answer = await this.commsOfBusy(kernel);
      const open = own(own(answer, 'content'), 'comms');
      if (isObject(open) && !Object.hasOwn(open, comm) && this.comm === comm) {
        this.comm = null;
        await this.adopt(kernel, answer);
      }
    } catch {
      // The kernel is gone.
    } finally {
      this.isChecking = false;
    }
  }

  // --- messages from the kernel ---

  private onIOPub(kernel: Kernel.IKernelConnection, message: IOPubMessage): void {
    const type = message.header.msg_type;
    const content = message.content as JsonObject;
    const parent = message.parent_header as Partial<KernelMessage.IHeader> | undefined;
    const isOwn = parent?.session === kernel.clientId; // this page has asked for it

    switch (type) {
      case 'comm_open':
        // Documents may share the kernel: only the one that ran the cell answers.
        if (content.target_name === TARGET && isOwn) {
          this.follow(content.comm_id as string);
        }
        break;
      case 'comm_msg':
        if (String(content.comm_id).startsWith(`${TARGET}.`)) {
          this.onCommMessage(content.comm_id as string, content.data);
        }
        break;
      case 'comm_close':
        if (content.comm_id === this.comm) {
          this.comm = null;
        }
        break;
      default:
        this.handler.onPublished({ type, content, request: parent?.msg_id, isOwn });
    }
  }

  private onCommMessage(comm: string, data: unknown): void {
    // Each message names its notebook, because two notebooks may share a kernel.
    if (!isObject(data) || data.path !== this.context.localPath) {
      return;
    }

    if (!this.comm) {
      // The kernel knew this path before the page loaded.
      this.follow(comm);
    } else if (comm !== this.comm) {
      void this.checkComm();
    } else if (data.v !== PROTOCOL) {
      this.send({ type: 'nack', seq: seqOf(data), why: 'protocol' });
    } else {
      this.handler.onMessage(data);
    }
  }

  // --- messages to the kernel ---

  /** On the control channel: a message on shell waits until the running cell has ended. */
  send(data: OutgoingMessage): void {
    const { kernel, comm } = this;
    if (!kernel || kernel.isDisposed || !comm) {
      return;
    }

    const content = { comm_id: comm, data: { v: PROTOCOL, page: this.page, ...data } };
    try {
      const message = makeControlMessage(kernel, 'comm_msg', content);
      kernel.sendControlMessage(message, false, true).done.catch(() => undefined);
    } catch {
      // The kernel is dead.
    }
  }

  private kernel: Kernel.IKernelConnection | null = null;
  /** The id of the kernel's comm. */
  private comm: string | null = null;
  private isChecking = false;
}

/** A message for the control channel, which JupyterLab's types do not know for comms. */
function makeControlMessage(
  kernel: Kernel.IKernelConnection,
  type: string,
  content: JsonObject
): ControlMessage {
  const message: unknown = {
    channel: 'control',
    header: {
      msg_id: UUID.uuid4(),
      msg_type: type,
      session: kernel.clientId,
      username: kernel.username,
      date: new Date().toISOString(),
      version: '5.3'
    },
    parent_header: {},
    metadata: {},
    content,
    buffers: []
  };
  return message as ControlMessage;
}
