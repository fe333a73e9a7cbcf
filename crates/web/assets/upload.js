
// Uploads a file in parts, with a progress bar. Without JavaScript the form uploads the file.
const importForm = document.getElementById("import-form");
if (importForm) {
  const form = importForm;
  const input = document.getElementById("file");
  const zone = document.getElementById("drop-zone");
  const bar = document.getElementById("upload-bar");
  const text = document.getElementById("upload-text");
  const fault = document.getElementById("upload-error");
  const stop = document.getElementById("stop-upload");
  let running = null;

  for (const hint of document.querySelectorAll("[data-without-script]")) hint.hidden = true;
  for (const hint of document.querySelectorAll("[data-with-script]")) hint.hidden = false;

  const put = (address, bytes, told) => new Promise((done, failed) => {
    const request = running = new XMLHttpRequest();
    request.open("PUT", address);
    request.setRequestHeader("x-csrf-token", form.dataset.token);
    request.upload.addEventListener("progress", (event) => told(event.loaded));
    request.addEventListener("load", () => request.status === 204 ? done() : failed(new Error(
      request.status === 403 ? "This page is out of date. Reload it and try again." : `Upload failed (HTTP ${request.status}).`)));
    request.addEventListener("error", () => failed(new Error("Connection lost. Try again.")));
    request.addEventListener("abort", () => failed(new Error("Upload stopped. Nothing was changed.")));
    request.send(bytes);
  });

  const show = (sent, size) => {
    bar.value = sent / size;
    text.textContent = `Uploading: ${Math.floor(100 * sent / size)}%`;
  };

  const send = async (file) => {
    const asked = new URLSearchParams({ csrf: form.dataset.token, name: file.name, size: file.size, file_type: form.elements.file_type.value });
    const answer = await fetch(form.dataset.open, { method: "POST", body: asked });
    if (!answer.headers.get("content-type")?.startsWith("application/json")) throw new Error("This page is out of date. Reload it and try again.");
    const session = await answer.json();
    if (!answer.ok) throw new Error(session.error);
    const length = Math.ceil(file.size / session.parts.length);
    for (const [index, address] of session.parts.entries()) {
      const begin = index * length;
      await put(address, file.slice(begin, begin + length), (sent) => show(begin + sent, file.size));
    }
    text.textContent = "Preparing the preview…";
    bar.removeAttribute("value");
    location.assign(session.next);
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [file] = input.files;
    if (!file || running) return;
    fault.hidden = true;
    stop.hidden = document.getElementById("upload-progress").hidden = false;
    document.getElementById("send-file").disabled = true;
    show(0, 1);
    try {
      await send(file);
    } catch (error) {
      fault.textContent = error.message;
      fault.hidden = false;
      stop.hidden = document.getElementById("upload-progress").hidden = true;
      document.getElementById("send-file").disabled = false;
    }
    running = null;
  });
  stop.addEventListener("click", () => running?.abort());

  for (const name of ["dragenter", "dragover"]) {
    zone.addEventListener(name, (event) => { event.preventDefault(); zone.classList.add("over"); });
  }
  for (const name of ["dragleave", "drop"]) zone.addEventListener(name, () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    if (!event.dataTransfer.files.length) return;
    input.files = event.dataTransfer.files;
    form.requestSubmit();
  });
}
