/** Keep the form of the open prompt visible in each view of the document, once. */

import type { CodeCell } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';

import { CellInView } from './inview';
import type { JsonObject } from './json';
import { filterKeys } from './json';
import type { IForm, Showing } from './outputs';
import { isCodeCell, isWidget, markOf, placeOf, show, WIDGET_VIEW } from './outputs';
import type { Texts } from './translation';
import type { Views } from './views';
import { isCodeCellView } from './views';

/** The time between two looks at an open form. */
const LOOK_MS = 400;

/** The time after which a screen reader knows a new element. */
const TELL_MS = 100;

/** The time for a form to be drawn; then it is drawn again. */
const DRAW_MS = 1500;

/**
 * Keeps the form of the open prompt visible in each view of the document, once.
 *
 * The form belongs into the output of its cell. A view that cannot show it there, because the cell
 * is deleted or collapsed, shows it above the notebook.
 */
export class FormKeeper {
  constructor(
    private readonly model: INotebookModel,
    private readonly views: Views,
    private readonly trans: Texts
  ) {}

  /** Look at the form of `showing`, now and until its prompt has ended. */
  keep(showing: Showing): void {
    if (!showing.form && !this.timer) {
      return;
    }
    this.showing = showing;
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.look());
    this.timer ??= setInterval(() => this.look(), LOOK_MS);
  }

  stop(): void {
    this.showing = null;
    this.look();
  }

  dispose(): void {
    clearTimeout(this.soon);
    this.stop();
  }

  private look(): void {
    const form = this.showing?.form;
    if (!this.showing || !form) {
      clearInterval(this.timer);
      this.timer = undefined;
      this.undrawn.clear();
    } else {
      if (this.showing.isKeptHere) {
        this.showing.put(form.id);
      }
      if (this.model.collaborative) {
        // Before `dropOthers`, which would make a copy in the cell its text. Afterwards, the cell
        // has one output of the form, in this page as in the shared document.
        this.showing.dropCopies();
      }
      this.dropOthers(form, this.showing.cell);
    }
    for (const panel of this.docks.keys()) {
      if (!form || !this.views.panels.has(panel)) {
        this.undock(panel);
      }
    }
    if (!this.showing || !form) {
      return;
    }
    for (const panel of this.views.panels) {
      this.keepInView(panel, this.showing.cell);
      const why = this.whyNotInCell(panel, form, this.showing.cell);
      if (why) {
        this.dock(panel, form, why);
      } else {
        this.undock(panel);
      }
    }
  }

  /**
   * Keep the cell of the form in view when the form has gone: a tall form leaves a small cell.
   *
   * The form goes in steps, some of them after the prompt has ended. So this ends with the form of
   * another cell only.
   */
  private keepInView(panel: NotebookPanel, id: string): void {
    const { outerNode, widgets } = panel.content;
    const cell = widgets.find(({ model }) => model?.id === id)?.node;
    const kept = this.inView.get(panel);
    if (kept?.cell === cell) {
      return;
    }

    kept?.dispose();
    this.inView.delete(panel);
    if (cell) {
      this.inView.set(panel, new CellInView(cell, outerNode));
    }
  }

  /** Cells that the user pasted or split off may have a second form: it becomes its text. */
  private dropOthers({ id }: IForm, place: string): void {
    let isKept = false;
    for (const cell of this.model.cells) {
      if (!isCodeCell(cell)) {
        continue;
      }
      for (let index = 0; index < cell.outputs.length; index++) {
        const output = cell.outputs.get(index).toJSON();
        if (markOf(output.metadata) !== id || !isWidget(output)) {
          continue;
        }
        if (cell.id === place && !isKept) {
          isKept = true;
        } else {
          cell.outputs.set(index, asText(output));
        }
      }
    }
  }

  /** Why `panel` does not show the form in its cell; "" if it does, or does so on scrolling. */
  private whyNotInCell(panel: NotebookPanel, form: IForm, id: string): string {
    const found = panel.content.widgets.find(({ model }) => model?.id === id);
    if (!found || !isCodeCellView(found)) {
      return this.trans.__('The cell of this question is gone. You can answer here.');
    }
    const place = placeOf(found.model.outputs, form.id);
    const isCut = place >= (found.outputArea?.maxNumberOutputs ?? Infinity);
    if (found.isHidden || found.outputHidden || isCut) {
      return this.trans.__(
        'The cell of this question is collapsed. You can answer here, or expand it.'
      );
    }
    const drawn = `.jp-nb-form-${form.model}[role="group"]`;
    const isDrawn = found.outputArea?.node.querySelector(drawn);
    if (isDrawn || !panel.isVisible || !found.node.isConnected) {
      this.undrawn.delete(panel);
      return '';
    }
    return this.drawAgain(panel, found, place);
  }

  /** A page that loads may draw an output before it knows the widget. */
  private drawAgain(panel: NotebookPanel, cell: CodeCell, place: number): string {
    const now = performance.now();
    const { since, isRedrawn } = this.undrawn.get(panel) ?? { since: now, isRedrawn: false };
    const waited = now - since;
    const again = !isRedrawn && waited > DRAW_MS && place >= 0;
    this.undrawn.set(panel, { since, isRedrawn: isRedrawn || again });
    if (again) {
      const { outputs } = cell.model;
      show(outputs, place, outputs.get(place).toJSON());
    }
    return waited > 2 * DRAW_MS
      ? this.trans.__('The cell of this question does not show it. You can answer here.')
      : '';
  }

  private dock(panel: NotebookPanel, { model }: IForm, why: string): void {
    const dock = this.docks.get(panel);
    if (dock?.model === model) {
      dock.tell(why);
      return;
    }
    this.undock(panel);
    this.docks.set(panel, new Dock(panel, model, why));
  }

  private undock(panel: NotebookPanel): void {
    this.docks.get(panel)?.dispose();
    this.docks.delete(panel);
  }

  /** The outputs of the running cell. */
  private showing: Showing | null = null;
  private readonly docks = new Map<NotebookPanel, Dock>();
  /** By view: its last cell with a form. A closed view takes its listeners along. */
  private readonly inView = new WeakMap<NotebookPanel, CellInView>();
  /** By view: the time since which its form is missing. */
  private readonly undrawn = new Map<NotebookPanel, { since: number; isRedrawn: boolean }>();
  private timer: ReturnType<typeof setInterval> | undefined;
  private soon: ReturnType<typeof setTimeout> | undefined;
}

/** `output`, which shows a widget, as its text. */
export function asText({ output_type, data }: IOutput): IOutput {
  const rest = filterKeys((data ?? {}) as JsonObject, key => key !== WIDGET_VIEW);
  return { output_type, data: rest, metadata: {} } as IOutput;
}

/** A view of a form above the notebook. */
class Dock {
  constructor(
    private readonly panel: NotebookPanel,
    readonly model: string,
    why: string
  ) {
    this.why.setAttribute('role', 'status');
    this.why.style.padding = '0 0 8px';
    this.text = why;
    this.view = panel.content.rendermime.createRenderer(WIDGET_VIEW);
    this.view.addClass('jp-nb-dock');
    Object.assign(this.view.node.style, {
      overflow: 'auto',
      padding: '8px 16px',
      borderBottom: '1px solid var(--jp-border-color1)',
      background: 'var(--jp-layout-color1)'
    });
    panel.contentHeader.addWidget(this.view);
    void this.draw();
  }

  private async draw(): Promise<void> {
    const { view, model } = this;
    const data = { [WIDGET_VIEW]: { version_major: 2, version_minor: 0, model_id: model } };
    await view.renderModel({ trusted: true, data, metadata: {}, setData: () => undefined });
    if (view.isDisposed) {
      return;
    }
    view.node.prepend(this.why);
    // Screen readers read a change of an element that they have met before.
    setTimeout(() => this.tell(this.text), TELL_MS);
    for (const child of view.node.children) {
      this.resized.observe(child);
    }
  }

  tell(why: string): void {
    this.text = why;
    if (this.why.isConnected && this.why.textContent !== why) {
      this.why.textContent = why;
    }
  }

  /** The layout of the panel takes the height from the style. */
  private fit(): void {
    const children = Array.from(this.view.node.children) as HTMLElement[];
    const whole = children.reduce((sum, { offsetHeight }) => sum + offsetHeight, 16);
    const height = Math.min(whole, this.panel.node.offsetHeight / 2);
    this.view.node.style.minHeight = `${Math.ceil(height)}px`;
    this.panel.contentHeader.fit();
  }

  dispose(): void {
    this.resized.disconnect();
    this.view.dispose();
  }

  private readonly why = document.createElement('div');
  private text = '';
  private readonly view: IRenderMime.IRenderer;
  private readonly resized = new ResizeObserver(() => this.fit());
}
