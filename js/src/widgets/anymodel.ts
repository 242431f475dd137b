/**
 * The part of anywidget's interface that the widgets of forms use.
 *
 * Their classes in Python are in `jp_nb/notebook/prompt/answer_widgets.py` and `form_bridge.py`.
 */

/** The model of a widget, whose `State` are the traits that its class in Python synchronizes. */
export interface IAnyModel<State> {
  get<Name extends keyof State & string>(name: Name): State[Name];
  set(changed: Partial<State>): void;
  save_changes(): void;
  send(content: unknown): void;
  on(events: string, call: (content: never) => void): void;
  off(events: string, call: (content: never) => void): void;
}

/** What anywidget passes to `render`. The returned function is called when the view is removed. */
export interface IView<State> {
  model: IAnyModel<State>;
  el: HTMLElement;
}

/**
 * Return the object that identifies the model.
 *
 * anywidget gives each view another `model`. The layout is the model of one widget only.
 */
export function identify(model: IAnyModel<{ layout: object | undefined }>): object {
  return model.get('layout') ?? model;
}

/** Return the value of this page with that name, made on first use: modules load once per widget. */
export function shareInPage<Value>(name: string, make: () => Value): Value {
  const page = globalThis as unknown as Record<symbol, Value | undefined>;
  return (page[Symbol.for(name)] ??= make());
}
