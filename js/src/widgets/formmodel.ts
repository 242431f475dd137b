/** The model of a form, and what its page shows of it. */

import type { IAnyModel } from './anymodel';

export interface IFormState {
  controls: string[];
  screen: string;
  step: number;
  timed: boolean;
  notify: boolean;
  only_buttons: boolean;
  cells: object[];
  layout: object | undefined;
}

/** The model of a control, of any widget. */
export interface IControlModel {
  get(name: string): unknown;
}

export interface IFormModel extends IAnyModel<IFormState> {
  widget_manager: { get_model(id: string): Promise<IControlModel> };
}

/** A message of the kernel. */
export interface IMessage {
  type?: string;
  header?: string;
  tag?: string;
  field?: number;
}

/** A form that the page shows, with the models of the controls of its current step. */
export interface IShown {
  root: HTMLElement;
  step: number;
  controls: (IControlModel | null)[];
}

/** The elements of a form in this page. */
export interface IFormElements {
  /** The form; null until the page has drawn a part of it. */
  readonly root: HTMLElement | null;
  /** The step that the user can answer; null until the page has drawn all of it. */
  readonly shown: IShown | null;
}

/** Text of the answer, but no search. */
export const TEXT_BOX = 'textarea, input:not([type=radio], [type=checkbox], [type=search])';
export const FIELD = `${TEXT_BOX}, select`;

/** Return the element of a control that gets the focus. */
export function firstIn(box: Element | null | undefined): HTMLElement | null {
  return (
    box?.querySelector<HTMLElement>('input:checked') ??
    box?.querySelector<HTMLElement>(`input, ${FIELD}`) ??
    null
  );
}

/** Return the action of a button, from its class `jp-nb-do-…`. */
export function getAction(button: Element | null): string | undefined {
  const name = [...(button?.classList ?? [])].find(each => each.startsWith('jp-nb-do-'));
  return name?.slice('jp-nb-do-'.length);
}
