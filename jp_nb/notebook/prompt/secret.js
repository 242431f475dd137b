// A field for a secret: its text is in no widget's state. The form takes it along with a click.

function render({ model, el }) {
  const field = document.createElement("input");
  field.type = "password";
  field.autocomplete = "off";
  field.className = "jp-nb-secret";
  const hint = () => (field.placeholder = model.get("hint"));
  hint();
  el.append(field);
  model.on("change:hint", hint);
  return () => model.off("change:hint", hint);
}

export default { render };
