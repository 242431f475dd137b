// A password field. No widget has its text. The form sends it with a click.

// The typed texts, by layout model. A page may draw a field again, with another `model` object.
const texts = (globalThis[Symbol.for("jp_nb.secrets")] ??= new WeakMap());

function render({ model, el }) {
  const field = document.createElement("input");
  field.type = "password";
  field.autocomplete = "off";
  field.className = "jp-nb-secret";
  const hint = () => (field.placeholder = model.get("hint"));
  hint();
  const identity = model.get("layout") ?? model;
  field.value = texts.get(identity) ?? "";
  field.addEventListener("input", () => texts.set(identity, field.value));
  el.append(field);
  model.on("change:hint", hint);
  return () => model.off("change:hint", hint);
}

export default { render };
