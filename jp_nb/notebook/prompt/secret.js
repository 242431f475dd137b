// A password field. Its text is in no widget's state; the form sends it with a click.

// The typed text, kept here because a page may redraw the field, and each view has its own `model`.
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
