/** The plugins of aids in the page. Each needs the notebooks only, and can be disabled alone. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IEditorExtensionRegistry, IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { makeAnswerFactory } from './answers';
import { makeErrorFactory } from './errors';
import type { INotebookOf } from './mentions';
import { MentionProvider } from './mentions';
import { makeProseExtension } from './prose_editor';
import { IPageSettings, PageSettings } from './settings';

/** The domain of the translations. */
const DOMAIN = 'jp_nb';

/** The rank of Markdown among the types of one output, as JupyterLab has it. */
const MARKDOWN_RANK = 60;

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
    rendermime.addFactory(makeAnswerFactory(pageSettings, trans), MARKDOWN_RANK);
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

/** Before the text of an error, which every error output also has. */
const ERROR_RANK = 100;

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
    rendermime.addFactory(makeErrorFactory(pageSettings, trans, tracker), ERROR_RANK);
  }
};

export const pagePlugins: JupyterFrontEndPlugin<unknown>[] = [settings, answers, prose, errors];
