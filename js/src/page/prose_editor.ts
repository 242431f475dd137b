/** The editor of a cell with `%%jp`: Markdown, lines that wrap, quotes that stay single. */

import type { Extension } from '@codemirror/state';
import { Compartment, EditorState, Prec } from '@codemirror/state';
import type { PluginValue, ViewUpdate } from '@codemirror/view';
import { EditorView, ViewPlugin } from '@codemirror/view';
import type { IEditorExtensionFactory, IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { EditorExtensionRegistry } from '@jupyterlab/codemirror';

import { findMention, isProse, startOf } from './prose';
import type { IPageSettings } from './settings';

const MARKDOWN = 'text/x-ipythongfm';

/** The pairs that are still closed: `{{name}}` needs one. */
const BRACKETS = ['(', '[', '{'];

/** The class of an editor with prose. */
const PROSE_CLASS = 'jp-nb-prose';

/** The class that JupyterLab gives to an editor while its list of completions is open. */
const LIST_IS_OPEN = 'jp-mod-completer-active';

/**
 * The extension of editors of cells.
 *
 * `complete` opens the list of completions at the cursor. It is called after the user typed "@".
 */
export function makeProseExtension(
  settings: IPageSettings,
  languages: IEditorLanguageRegistry,
  complete: () => void
): IEditorExtensionFactory {
  return {
    name: 'jp-nb-prose',
    factory: ({ inline }) =>
      inline
        ? EditorExtensionRegistry.createImmutableExtension(forEditor(settings, languages, complete))
        : null
  };
}

function forEditor(
  settings: IPageSettings,
  languages: IEditorLanguageRegistry,
  complete: () => void
): Extension {
  const compartment = new Compartment();
  const plugin = ViewPlugin.define(
    view => new ProseEditor(view, compartment, settings, languages, complete)
  );
  // The first language wins, so the one of the notebook stays untouched below.
  return [Prec.highest(compartment.of([])), plugin];
}

class ProseEditor implements PluginValue {
  constructor(
    private readonly view: EditorView,
    private readonly compartment: Compartment,
    private readonly settings: IPageSettings,
    private readonly languages: IEditorLanguageRegistry,
    private readonly complete: () => void
  ) {
    settings.changed.connect(this.look, this);
    this.look();
  }

  update(update: ViewUpdate): void {
    if (!update.docChanged) {
      return;
    }
    this.look();
    const isTyped = update.transactions.some(each => each.isUserEvent('input.type'));
    if (isTyped && this.isProse && this.settings.isOn('mentions')) {
      this.offer();
    }
  }

  destroy(): void {
    this.isDestroyed = true;
    this.settings.changed.disconnect(this.look, this);
  }

  /** Look whether the text is prose. The editor cannot change while it updates. */
  private look(): void {
    const isProseNow = this.settings.isOn('prose') && isProse(startOf(this.view.state.doc));
    if (isProseNow !== this.isProse) {
      this.isProse = isProseNow;
      void this.apply(isProseNow);
    }
  }

  private async apply(isProseNow: boolean): Promise<void> {
    const language = isProseNow ? await this.languages.getLanguage(MARKDOWN) : null;
    await Promise.resolve();
    if (this.isDestroyed || isProseNow !== this.isProse) {
      return;
    }
    const extensions = isProseNow
      ? [
          EditorView.editorAttributes.of({ class: PROSE_CLASS }),
          EditorView.lineWrapping,
          EditorState.languageData.of(() => [{ closeBrackets: { brackets: BRACKETS } }]),
          language?.support ?? []
        ]
      : [];
    this.view.dispatch({ effects: this.compartment.reconfigure(extensions) });
  }

  /**
   * Open the list of names while the user types one after "@".
   *
   * The answer to a request is lost if the user types on meanwhile, so each key asks again until
   * the list was seen. A list that the user has closed stays closed.
   */
  private offer(): void {
    const { doc, selection } = this.view.state;
    const { head } = selection.main;
    const line = doc.lineAt(head);
    const mention = line.text.includes('@') ? findMention(doc.toString(), head) : null;
    if (!mention) {
      return;
    }
    if (!mention.name) {
      this.seen = -1;
    }
    if (this.view.dom.closest(`.${LIST_IS_OPEN}`)) {
      this.seen = mention.start;
    } else if (this.seen !== mention.start) {
      window.setTimeout(() => {
        if (!this.isDestroyed && this.view.hasFocus) {
          this.complete();
        }
      });
    }
  }

  /** The place of the "@" whose list was seen. */
  private seen = -1;
  private isProse = false;
  private isDestroyed = false;
}
