// Makes elements: element("button", { type: "button" }, "Undo"). Names with a dash are attributes.
const element = (name, properties = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (key.includes("-") || key === "role" || key === "for" || key === "list") made.setAttribute(key, value); else made[key] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};

const counted = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

// Shows a value so that NULL and empty text are told apart.
const paintValue = (cell, value) => {
  const isEmpty = value === "";
  cell.textContent = isEmpty ? "empty" : shownValue(value);
  cell.classList.toggle("null", value === null);
  cell.classList.toggle("empty-text", isEmpty);
  cell.classList.toggle("blob", value !== null && typeof value === "object" && isFixed(value));
  return cell;
};
