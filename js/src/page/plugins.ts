/** The plugins of aids in the page. Each needs the notebooks only, and can be disabled alone. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { makeAnswerFactory } from './answers';
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

export const pagePlugins: JupyterFrontEndPlugin<unknown>[] = [settings, answers];
