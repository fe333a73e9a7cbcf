// The field in a cell that is edited, with a button for NULL and, for a column that refers to another table, a list of its rows.
// Calls `finish` once: with null if nothing was typed, otherwise with { value }, and with the step to the next cell, or null where the
// focus is elsewhere already.
const openCellInput = ({ cell, column, label, value, typed, placeholder, known, finish }) => {
  let isNull = value === null && typed === undefined;
  let isTouched = typed !== undefined;
  let isOver = false;
  let options = [];
  let active = -1;
  let timer = null;
  const isLong = column.affinity === "text" && !column.refers;
  const field = element(isLong ? "textarea" : "input", {
    className: "cell-field", id: "cell-field", "aria-label": label, autocomplete: "off", spellcheck: false,
    inputMode: isNumeric(column) ? "decimal" : "text",
  });
  if (isLong) field.rows = Math.min(6, String(value ?? "").split("\n").length);
  field.value = typed ?? value ?? "";
  const tools = element("div", { className: "cell-tools" });
  const nullButton = column.nullable ? element("button", { type: "button", textContent: "NULL", id: "cell-null", tabIndex: -1 }) : null;
  const list = column.refers ? element("ul", { role: "listbox", id: "cell-choices", "aria-label": `Rows of ${column.refers.table}` }) : null;

  const paint = () => {
    field.placeholder = isNull ? "NULL" : placeholder;
    nullButton?.setAttribute("aria-pressed", String(isNull));
  };
  const end = (step, isCanceled = false) => {
    if (isOver) return;
    isOver = true;
    clearTimeout(timer);
    const isPlain = isNumeric(column) || column.affinity === "numeric";
    const isNone = isNull || (field.value === "" && isPlain && column.nullable);
    finish(isTouched && !isCanceled ? { value: isNone ? null : isPlain ? field.value.trim() : field.value } : null, step);
  };
  const choose = (at) => {
    active = at;
    options.forEach((option, place) => option.setAttribute("aria-selected", String(place === at)));
    if (at < 0) { field.removeAttribute("aria-activedescendant"); return; }
    field.setAttribute("aria-activedescendant", options[at].id);
    options[at].scrollIntoView({ block: "nearest" });
  };
  const take = (option) => {
    [field.value, isNull, isTouched] = [option.dataset.value, false, true];
    end([0, 0]);
  };
  const offer = async () => {
    const { values, more } = await known.choices(column.refers.choices, column.refers.column, isTouched ? field.value : "");
    if (isOver) return;
    options = values.map(([text, name], at) => {
      const option = element("li", { role: "option", id: `cell-choice-${at}`, "aria-selected": "false" }, text,
        name ? element("span", { className: "soft" }, ` ${name}`) : null);
      option.dataset.value = text;
      option.addEventListener("pointerdown", (event) => { event.preventDefault(); take(option); });
      return option;
    });
    const rest = { role: "option", "aria-disabled": "true", "aria-selected": "false", className: "soft small" };
    list.replaceChildren(...options, ...(more ? [element("li", rest, "Type to find more.")] : []));
    list.hidden = options.length === 0;
    field.setAttribute("aria-expanded", String(!list.hidden));
    choose(-1);
    tools.scrollIntoView({ block: "nearest" });
  };

  field.addEventListener("input", () => {
    [isNull, isTouched] = [false, true];
    if (isLong) field.rows = Math.min(6, field.value.split("\n").length);
    paint();
    if (list) { clearTimeout(timer); timer = setTimeout(offer, 150); }
  });
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.isComposing) return;
    if (event.key === "Escape") { event.preventDefault(); end([0, 0], true); return; }
    if (list && options.length > 0 && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      choose((Math.max(active, step > 0 ? -1 : 0) + step + options.length) % options.length);
      return;
    }
    if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      if (active >= 0) take(options[active]); else end([1, 0]);
    }
    if (event.key === "Tab") { event.preventDefault(); end([0, event.shiftKey ? -1 : 1]); }
  });
  // A text that is pasted into the field is not a range.
  for (const kind of ["paste", "copy", "cut"]) field.addEventListener(kind, (event) => event.stopPropagation());
  field.addEventListener("blur", () => end(null));
  if (nullButton) {
    nullButton.addEventListener("pointerdown", (event) => event.preventDefault());
    nullButton.addEventListener("click", () => {
      [isNull, isTouched] = [!isNull, true];
      if (isNull) field.value = "";
      paint();
      field.focus();
    });
    tools.append(nullButton);
  }
  if (list) {
    field.setAttribute("role", "combobox");
    field.setAttribute("aria-controls", list.id);
    field.setAttribute("aria-expanded", "false");
    field.setAttribute("aria-autocomplete", "list");
    list.hidden = true;
    tools.append(list);
    offer();
  }
  cell.classList.add("editing");
  // The text stays below the field, so that columns keep their widths and a click meets what it was aimed at.
  cell.replaceChildren(element("span", { className: "held", "aria-hidden": "true" }, cell.textContent), field, ...(tools.childElementCount > 0 ? [tools] : []));
  paint();
  field.focus();
  if (typed === undefined) field.select(); else field.setSelectionRange(field.value.length, field.value.length);
  return { commit: () => end(null) };
};
