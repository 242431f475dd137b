/** The plugins of aids in the page. Each needs the notebooks only, and can be disabled alone. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IEditorExtensionRegistry, IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { IMainMenu } from '@jupyterlab/mainmenu';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { DOMAIN, readLanguage } from '../translation';
import { AnswerButtons, selectCell } from './answers';
import { ErrorButton } from './errors';
import { insertBelow } from './insertion';
import type { INotebookOf } from './mentions';
import { MentionProvider } from './mentions';
import { makeProseExtension } from './prose_editor';
import { addToRenderer } from './renderers';
import { RunOrders } from './run_order';
import { IPageSettings, PageSettings } from './settings';
import { ConversationPanel } from './side_panel';

const settings: JupyterFrontEndPlugin<IPageSettings> = {
  id: 'jp-nb:page',
  description: "The user's settings of jp_nb in the page.",
  autoStart: true,
  provides: IPageSettings,
  optional: [ISettingRegistry],
  activate: (_: JupyterFrontEnd, registry: ISettingRegistry | null): IPageSettings => {
    const made = new PageSettings();
    registry
      ?.load('jp-nb:page')
      .then(loaded => made.follow(loaded))
      .catch((reason: unknown) => {
        console.warn('jp_nb: The settings were not read; the defaults apply.', reason);
      });
    return made;
  }
};

const answers: JupyterFrontEndPlugin<void> = {
  id: 'jp-nb:answers',
  description: 'Buttons on the code blocks of answers.',
  autoStart: true,
  requires: [IPageSettings, IRenderMimeRegistry],
  optional: [ITranslator],
  activate: (
    _: JupyterFrontEnd,
    pageSettings: IPageSettings,
    rendermime: IRenderMimeRegistry,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    addToRenderer(rendermime, { mimeType: 'text/markdown' }, view => {
      new AnswerButtons(view, pageSettings, trans);
    });
  }
};

/** The command that opens the list of completions in the current notebook. */
const COMPLETE = 'completer:invoke-notebook';

const prose: JupyterFrontEndPlugin<void> = {
  id: 'jp-nb:prose',
  description: 'Cells with requests are Markdown, and complete names after "@".',
  autoStart: true,
  requires: [IPageSettings, IEditorExtensionRegistry, IEditorLanguageRegistry],
  optional: [ICompletionProviderManager, INotebookTracker],
  activate: (
    { commands }: JupyterFrontEnd,
    pageSettings: IPageSettings,
    extensions: IEditorExtensionRegistry,
    languages: IEditorLanguageRegistry,
    completions: ICompletionProviderManager | null,
    tracker: INotebookTracker | null
  ): void => {
    const complete = () => {
      if (commands.hasCommand(COMPLETE)) {
        void commands.execute(COMPLETE);
      }
    };
    extensions.addExtension(makeProseExtension(pageSettings, languages, complete));

    const notebookOf: INotebookOf = ({ widget }) =>
      tracker?.find(panel => panel.id === widget.id || panel.contains(widget));
    completions?.registerProvider(new MentionProvider(notebookOf));
  }
};

/** JupyterLab shows the text of an error, which is the second type of each error. */
const ERROR = {
  mimeType: 'application/vnd.jupyter.error',
  otherwise: { mimeType: 'application/vnd.jupyter.stderr', rank: 100 }
};

const errors: JupyterFrontEndPlugin<void> = {
  id: 'jp-nb:errors',
  description: 'A button below the traceback of a failed cell.',
  autoStart: true,
  requires: [IPageSettings, IRenderMimeRegistry, INotebookTracker],
  optional: [ITranslator],
  activate: (
    _: JupyterFrontEnd,
    pageSettings: IPageSettings,
    rendermime: IRenderMimeRegistry,
    tracker: INotebookTracker,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const orders = new RunOrders(tracker);
    addToRenderer(rendermime, ERROR, view => {
      new ErrorButton(view, pageSettings, trans, tracker, orders);
    });
  }
};

const SHOW_CONVERSATIONS = 'jp-nb:show-conversations';
const NEW_REQUEST = 'jp-nb:new-request';
const CATEGORY = 'jp_nb';

/** The rank of the panel in the right side bar, below the panels of JupyterLab. */
const PANEL_RANK = 900;

const conversations: JupyterFrontEndPlugin<void> = {
  id: 'jp-nb:conversations',
  description: 'A side panel with the conversations of the notebook, and commands.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ITranslator, ICommandPalette, IMainMenu, ILayoutRestorer],
  activate: (
    { commands, shell }: JupyterFrontEnd,
    tracker: INotebookTracker,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    menu: IMainMenu | null,
    restorer: ILayoutRestorer | null
  ): void => {
    const used = translator ?? nullTranslator;
    const language = readLanguage(used);
    const { trans } = language;
    const panel = new ConversationPanel(tracker, used, language);
    shell.add(panel, 'right', { rank: PANEL_RANK });
    restorer?.add(panel, panel.id);

    commands.addCommand(SHOW_CONVERSATIONS, {
      label: trans.__('Show Conversations of the Notebook'),
      execute: () => shell.activateById(panel.id)
    });
    commands.addCommand(NEW_REQUEST, {
      label: trans.__('Insert Request Cell Below'),
      isEnabled: () => Boolean(tracker.activeCell) && !tracker.currentWidget?.model?.readOnly,
      execute: async () => {
        const notebook = tracker.currentWidget?.content;
        const id = notebook?.activeCell?.model.id;
        const index = notebook?.model && id ? insertBelow(notebook.model, id, '%%jp\n') : -1;
        if (notebook && index >= 0) {
          selectCell(notebook, index);
          const cell = notebook.activeCell;
          await cell?.ready;
          notebook.mode = 'edit';
          cell?.editor?.setCursorPosition({ line: 1, column: 0 });
        }
      }
    });
    // Menus and toolbars ask again if the command is enabled.
    const notify = () => commands.notifyCommandChanged(NEW_REQUEST);
    tracker.activeCellChanged.connect(notify);
    tracker.currentChanged.connect(notify);

    for (const command of [SHOW_CONVERSATIONS, NEW_REQUEST]) {
      palette?.addItem({ command, category: CATEGORY });
    }
    menu?.viewMenu.addGroup([{ command: SHOW_CONVERSATIONS }], PANEL_RANK);
    menu?.editMenu.addGroup([{ command: NEW_REQUEST }], PANEL_RANK);
  }
};

export const pagePlugins: JupyterFrontEndPlugin<unknown>[] = [
  settings,
  answers,
  prose,
  errors,
  conversations
];
