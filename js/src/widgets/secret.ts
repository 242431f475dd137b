/** A password field. No widget has its text: the form sends it with a click. */

import { identify, shareInPage, type IView } from './anymodel';

interface ISecretState {
  hint: string;
  layout: object | undefined;
}

// The typed texts, by layout model. A page may draw a field again, with another `model` object.
const texts = shareInPage('jp_nb.secrets', () => new WeakMap<object, string>());

function render({ model, el }: IView<ISecretState>): () => void {
  const field = document.createElement('input');
  field.type = 'password';
  field.autocomplete = 'off';
  field.className = 'jp-nb-secret';

  const identity = identify(model);
  field.value = texts.get(identity) ?? '';
  field.addEventListener('input', () => texts.set(identity, field.value));

  const showHint = () => {
    field.placeholder = model.get('hint');
  };
  showHint();
  model.on('change:hint', showHint);

  el.append(field);
  return () => model.off('change:hint', showHint);
}

export default { render };
