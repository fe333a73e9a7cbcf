// Shows what the chosen type of a column would do with its values. Without JavaScript the options themselves say it.
for (const types of document.querySelectorAll("[data-types]")) {
  types.addEventListener("change", () => {
    for (const effect of types.parentElement.querySelectorAll("[data-type]")) effect.hidden = effect.dataset.type !== types.value;
  });
}
const delimiter = document.querySelector("#text-options #delimiter");
if (delimiter) {
  const typed = document.getElementById("delimiter_typed").closest(".field");
  const follow = () => { typed.hidden = delimiter.value !== "other"; };
  delimiter.addEventListener("change", follow);
  follow();
}
