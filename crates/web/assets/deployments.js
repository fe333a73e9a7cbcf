
// Live prices: <form data-priced>. Submitting its button with the value "price" returns new contents of #price and #sizes.
for (const form of document.querySelectorAll("form[data-priced]")) {
  const button = form.querySelector("button[value=price]");
  button.hidden = true;
  let waiting = null;
  let asked = 0;
  const refresh = async () => {
    const turn = ++asked;
    const fields = new URLSearchParams(new FormData(form));
    fields.set(button.name, button.value);
    let answer;
    try {
      answer = await fetch(form.action, { method: "POST", body: fields, headers: { accept: "text/html" } });
    } catch {
      button.hidden = false;
      return;
    }
    if (!answer.ok || turn !== asked) { button.hidden = answer.ok; return; }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const focused = document.activeElement?.id;
    for (const id of ["sizes", "price"]) {
      const [old, next] = [document.getElementById(id), fresh.getElementById(id)];
      // Keeps a number field that has the focus, so that typing is not interrupted.
      if (old && next && !(id === "sizes" && old.contains(document.activeElement) && document.activeElement.type === "number")) old.replaceWith(next);
    }
    if (focused && document.activeElement === document.body) document.getElementById(focused)?.focus();
  };
  form.addEventListener("input", (event) => {
    if (!event.target.closest("[data-prices]")) return;
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 250);
  });
}
