/**
 * The extension `jp-nb`: one bridge for each open notebook, which all of its views share.
 *
 * `docs/browser.md` says how to work on it, and `docs/protocol.md` has the messages.
 */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { Bridge } from './bridge';
import { pagePlugins } from './page/plugins';
import { ReviewMarks } from './reviewmarks';
import { readLanguage } from './translation';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jp-nb:document',
  description: "Keeps the conversation of jp_nb in the notebook's metadata.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    translator: ITranslator | null
  ): void => {
    const { user } = app.serviceManager;
    const language = readLanguage(translator ?? nullTranslator);
    const bridges = new WeakMap<DocumentRegistry.IContext<INotebookModel>, Bridge>();
    const open = (context: DocumentRegistry.IContext<INotebookModel>): Bridge => {
      const bridge = new Bridge(context, user, language);
      const marks = new ReviewMarks(context.model, bridge.views, language.trans);
      context.disposed.connect(() => marks.dispose());
      bridges.set(context, bridge);
      return bridge;
    };
    const add = (panel: NotebookPanel) => {
      const bridge = bridges.get(panel.context) ?? open(panel.context);
      bridge.views.add(panel);
    };
    tracker.forEach(add);
    tracker.widgetAdded.connect((_, panel) => add(panel));
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [plugin, ...pagePlugins];

export default plugins;
