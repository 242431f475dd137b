// src/widgets/anymodel.ts
function identify(model) {
  return model.get("layout") ?? model;
}
function shareInPage(name, make) {
  const page = globalThis;
  return page[Symbol.for(name)] ??= make();
}

// src/widgets/secret.ts
var texts = shareInPage("jp_nb.secrets", () => /* @__PURE__ */ new WeakMap());
function render({ model, el }) {
  const field = document.createElement("input");
  field.type = "password";
  field.autocomplete = "off";
  field.className = "jp-nb-secret";
  const identity = identify(model);
  field.value = texts.get(identity) ?? "";
  field.addEventListener("input", () => texts.set(identity, field.value));
  const showHint = () => {
    field.placeholder = model.get("hint");
  };
  showHint();
  model.on("change:hint", showHint);
  el.append(field);
  return () => model.off("change:hint", showHint);
}
var secret_default = { render };
export {
  secret_default as default
};
