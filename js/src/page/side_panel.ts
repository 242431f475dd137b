/** The side panel with the conversations of the current notebook. Its content is loaded when it is shown. */

import { Notification } from '@jupyterlab/apputils';
import type { INotebookModel, INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { ITranslator } from '@jupyterlab/translation';
import { LabIcon, SidePanel } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { AccordionPanel, Widget } from '@lumino/widgets';

import { KEY } from '../record';
import type { ILanguage } from '../translation';
import { selectCell } from './answers';
import { insertBelow } from './insertion';

const ICON = new LabIcon({
  name: 'jp-nb:conversations',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" width="16">' +
    '<path class="jp-icon3" fill="#616161" d="M4 3h16a1 1 0 0 1 1 1v12a1 1 0 0 1-1 1h-9l-5 4v-4H4' +
    'a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1zm2 4v2h12V7zm0 4v2h8v-2z"/></svg>'
});

/** The time between a change of the notebook and the next drawing. */
const DRAW_MS = 500;

/** The time between two drawings, as a multiple of the last one: a long record costs a tenth. */
const REST = 10;

/** The heights of the parts, in proportion: question, turns, conversations. */
const SIZES = [2, 5, 3];

/** The parts of the panel, which `overview_view.ts` fills. */
export interface ISections {
  question: Widget;
  turns: Widget;
  conversations: Widget;
}

/** What the view may do with the notebook. */
export interface IActions {
  /** Insert a command into a cell below the active one. It does not run. */
  type(command: string): void;
  /** Scroll to a cell. */
  show(index: number): void;
}

export class ConversationPanel extends SidePanel {
  constructor(
    private readonly tracker: INotebookTracker,
    translator: ITranslator,
    private readonly language: ILanguage
  ) {
    super({ translator });
    this.trans = language.trans;
    this.id = 'jp-nb-conversations';
    this.addClass('jp-nb-panel');
    this.title.icon = ICON;
    this.title.caption = this.trans.__('Conversations of the notebook (jp_nb)');
    const labels = {
      question: this.trans.__('Open question'),
      turns: this.trans.__('Turns'),
      conversations: this.trans.__('Conversations')
    };
    for (const [name, label] of Object.entries(labels)) {
      const section = this.sections[name as keyof ISections];
      section.title.label = label;
      section.addClass('jp-nb-section');
      this.addWidget(section);
    }
    // Screen readers read that a question is open, and that it no longer is.
    this.sections.question.node.setAttribute('role', 'status');
    if (this.content instanceof AccordionPanel) {
      this.content.setRelativeSizes(SIZES);
    }
    tracker.currentChanged.connect(this.follow, this);
  }

  protected override onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this.follow();
  }

  protected override onAfterHide(msg: Message): void {
    super.onAfterHide(msg);
    this.watch(null);
  }

  private follow(): void {
    if (this.isVisible) {
      this.watch(this.tracker.currentWidget);
      this.onRecord();
    }
  }

  private watch(panel: NotebookPanel | null): void {
    const model = panel?.content.model ?? null;
    if (model === this.model) {
      return;
    }
    this.model?.metadataChanged.disconnect(this.onMetadata, this);
    this.model?.contentChanged.disconnect(this.drawSoon, this);
    // A model that is disposed has no cells.
    this.model?.cells?.changed.disconnect(this.onRecord, this);
    this.model = model;
    model?.metadataChanged.connect(this.onMetadata, this);
    // A shared document that arrives brings its metadata without a signal.
    model?.cells.changed.connect(this.onRecord, this);
    model?.contentChanged.connect(this.drawSoon, this);
  }

  private onMetadata(_: unknown, { key }: { key: string }): void {
    if (key === KEY || key.startsWith(`${KEY}.`)) {
      this.onRecord();
    }
  }

  /** The record may have changed. JupyterLab copies all of it to read it. */
  private onRecord(): void {
    this.isRecordNew = true;
    this.drawSoon();
  }

  /** Content changes with each key that the user types: it has the open question, and no record. */
  private drawSoon(): void {
    this.timer ??= window.setTimeout(
      () => {
        this.timer = undefined;
        if (this.isVisible && !this.isDisposed) {
          void this.draw();
        }
      },
      Math.max(DRAW_MS, REST * this.drawnInMs)
    );
  }

  private async draw(): Promise<void> {
    const { drawOpenQuestion, drawRecord } = await import('./overview_view');
    const began = performance.now();
    drawOpenQuestion(this.sections, this.model, this.actions, this.language);
    if (this.isRecordNew) {
      this.isRecordNew = false;
      drawRecord(this.sections, this.model, this.actions, this.language);
    }
    this.drawnInMs = performance.now() - began;
  }

  private readonly actions: IActions = {
    type: command => {
      const notebook = this.tracker.currentWidget?.content;
      const active = notebook?.activeCell;
      if (notebook?.model && notebook.model === this.model && active) {
        const index = insertBelow(notebook.model, active.model.id, command);
        if (index >= 0) {
          selectCell(notebook, index);
        } else {
          Notification.warning(this.trans.__('The notebook is read-only.'));
        }
      }
    },
    show: index => {
      const notebook = this.tracker.currentWidget?.content;
      if (notebook && notebook.model === this.model) {
        void notebook.scrollToItem(index, 'center');
      }
    }
  };

  private readonly trans;
  private readonly sections: ISections = {
    question: new Widget(),
    turns: new Widget(),
    conversations: new Widget()
  };
  private model: INotebookModel | null = null;
  private isRecordNew = false;
  private drawnInMs = 0;
  private timer: number | undefined;
}
