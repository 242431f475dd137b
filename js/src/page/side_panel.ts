/** The side panel with the conversations of the current notebook. Its content is loaded when it is shown. */

import { Notification } from '@jupyterlab/apputils';
import type { INotebookModel, INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { ITranslator } from '@jupyterlab/translation';
import { LabIcon, SidePanel } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { AccordionPanel, Widget } from '@lumino/widgets';

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
    domain: string
  ) {
    super({ translator });
    this.trans = translator.load(domain);
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
      this.drawSoon();
    }
  }

  private watch(panel: NotebookPanel | null): void {
    const model = panel?.content.model ?? null;
    if (model === this.model) {
      return;
    }
    for (const each of [this.model?.metadataChanged, this.model?.contentChanged]) {
      each?.disconnect(this.drawSoon, this);
    }
    this.model = model;
    for (const each of [model?.metadataChanged, model?.contentChanged]) {
      each?.connect(this.drawSoon, this);
    }
  }

  private drawSoon(): void {
    this.timer ??= window.setTimeout(() => {
      this.timer = undefined;
      if (this.isVisible && !this.isDisposed) {
        void this.draw();
      }
    }, DRAW_MS);
  }

  private async draw(): Promise<void> {
    const { drawOverview } = await import('./overview_view');
    drawOverview(this.sections, this.model, this.actions, this.trans);
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
  private timer: number | undefined;
}
