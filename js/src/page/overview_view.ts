/** The elements of the side panel. Each text of the record is set as text. */

import type { INotebookModel } from '@jupyterlab/notebook';
import type { Widget } from '@lumino/widgets';

import type { ILanguage, Texts } from '../translation';
import { makeButton } from './answers';
import { findOpenQuestion } from './open_question';
import type { IConversation, IOverview, ITurn } from './overview';
import { readOverview, scaleBars } from './overview';
import type { IActions, ISections } from './side_panel';

/** By section: the index of the cell whose question it shows, or -1. */
const shownQuestions = new WeakMap<Widget, number>();

/** Draw the part that depends on the cells. */
export function drawOpenQuestion(
  sections: ISections,
  model: INotebookModel | null,
  actions: IActions,
  { trans }: ILanguage
): void {
  const open = model ? findOpenQuestion(model) : -1;
  if (open === shownQuestions.get(sections.question)) {
    return; // a new element with the same text would be read aloud again
  }
  shownQuestions.set(sections.question, open);
  replaceContent(sections.question.node, drawQuestion(open, actions, trans));
}

/** Draw the parts that depend on the record. */
export function drawRecord(
  sections: ISections,
  model: INotebookModel | null,
  actions: IActions,
  language: ILanguage
): void {
  const { trans } = language;
  const overview = readOverview(model?.metadata ?? {});
  const state = describeState(overview, model, trans);
  const turns = state ? [line(state)] : drawTurns(overview, actions, language);
  const rows = overview.conversations.map(each => drawConversation(each, actions, trans));

  replaceContent(sections.turns.node, turns);
  replaceContent(sections.conversations.node, rows.length ? [makeList(rows)] : []);
  if (overview.hiddenConversations) {
    const text = trans.__('%1 older conversations: `%jp switch`', overview.hiddenConversations);
    sections.conversations.node.append(line(text));
  }
}

/** Replace the content of a section; keep the focus on the button that has the same name. */
function replaceContent(node: HTMLElement, content: HTMLElement[]): void {
  const active = node.contains(document.activeElement) ? document.activeElement : null;
  const name = active?.getAttribute('aria-label');
  node.replaceChildren(...content);
  if (name) {
    const again = Array.from(node.querySelectorAll('button'));
    again.find(button => button.getAttribute('aria-label') === name)?.focus();
  }
}

function describeState(
  { state, turns }: IOverview,
  model: INotebookModel | null,
  trans: Texts
): string {
  if (!model) {
    return trans.__('No notebook is open.');
  }
  switch (state) {
    case 'damaged':
      return trans.__('The record of this notebook is damaged: `%jp doctor` says where.');
    case 'newer':
      return trans.__('A newer release of jp_nb has written this record.');
    case 'absent':
      return trans.__('This notebook has no conversation yet.');
    default:
      return turns.length ? '' : trans.__('This conversation has no turn yet.');
  }
}

function drawQuestion(open: number, actions: IActions, trans: Texts): HTMLElement[] {
  if (open < 0) {
    return [line(trans.__('No question is open.'))];
  }
  const row = line(trans.__('A question waits in cell %1.', open + 1));
  row.append(action(trans.__('Show'), trans.__('Show the question'), () => actions.show(open)));
  return [row];
}

function drawTurns(
  { turns, hiddenTurns }: IOverview,
  actions: IActions,
  language: ILanguage
): HTMLElement[] {
  const { trans } = language;
  const last = turns.at(-1);
  const rows = turns.map(turn => drawTurn(turn, turn === last, actions, language)).reverse();
  const hidden = hiddenTurns ? [line(trans.__('%1 earlier turns: `%jp log`', hiddenTurns))] : [];
  return [drawChart(turns, language), makeList(rows), ...hidden];
}

/** A list that screen readers announce as one: without markers, Safari would not. */
function makeList(rows: readonly HTMLElement[]): HTMLElement {
  const list = element('ul', 'jp-nb-list');
  list.setAttribute('role', 'list');
  list.append(...rows);
  return list;
}

/** The tokens of each turn, as bars. The rows below have the same numbers as text. */
function drawChart(turns: readonly ITurn[], language: ILanguage): HTMLElement {
  const { trans } = language;
  const chart = element('div', 'jp-nb-chart');
  chart.setAttribute('role', 'img');
  chart.setAttribute('aria-label', trans.__('Tokens of each turn'));
  const heights = scaleBars(turns);
  turns.forEach((turn, index) => {
    const bar = element('div', 'jp-nb-bar');
    bar.style.height = `${Math.round(heights[index] * 100)}%`;
    bar.title = trans.__('Turn %1: %2', turn.number, tokensOf(turn, language));
    chart.append(bar);
  });
  return chart;
}

function tokensOf({ inputTokens, outputTokens }: ITurn, { trans, formatCount }: ILanguage): string {
  return trans.__('%1 tokens in, %2 out', formatCount(inputTokens), formatCount(outputTokens));
}

function drawTurn(
  turn: ITurn,
  isLast: boolean,
  actions: IActions,
  language: ILanguage
): HTMLElement {
  const { trans } = language;
  const row = element('li', 'jp-nb-row');
  row.append(element('h4', 'jp-nb-row-title', `${turn.number}  ${turn.request}`));
  for (const { name, isError } of turn.tools) {
    row.append(line(isError ? trans.__('Tool %1: error', name) : trans.__('Tool %1', name)));
  }
  for (const { text, outcome } of turn.questions) {
    row.append(line(trans.__('Question: %1 (%2)', text, outcome)));
  }
  row.append(line(tokensOf(turn, language)));

  const bar = element('div', 'jp-nb-actions-row');
  const fork = `%jp fork ${turn.number}`;
  bar.append(action(trans.__('Fork'), fork, () => actions.type(fork)));
  if (isLast) {
    bar.append(action(trans.__('Undo'), '%jp undo', () => actions.type('%jp undo')));
  }
  row.append(bar);
  return row;
}

function drawConversation(
  { title, id, isActive, turns }: IConversation,
  actions: IActions,
  trans: Texts
): HTMLElement {
  const row = element('li', 'jp-nb-row');
  row.append(element('h4', 'jp-nb-row-title', title));
  const count = trans._n('%1 turn', '%1 turns', turns);
  row.append(line(isActive ? trans.__('%1, current', count) : count));
  if (!isActive && id) {
    const command = `%jp switch ${id}`;
    row.append(action(trans.__('Switch'), command, () => actions.type(command)));
  }
  return row;
}

/** A button; its name for screen readers and its hint say what it types. */
function action(label: string, name: string, act: () => void): HTMLButtonElement {
  const button = makeButton(label, act);
  button.setAttribute('aria-label', `${label}: ${name}`);
  button.title = name;
  return button;
}

function line(text: string): HTMLElement {
  return element('div', 'jp-nb-line', text);
}

function element(tag: 'div' | 'ul' | 'li' | 'h4', className: string, text = ''): HTMLElement {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}
