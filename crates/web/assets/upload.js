
// Uploads a file in parts, with a progress bar: <form data-open="address that opens the upload">. Without JavaScript the form uploads the
// file. data-proposes is the id of a field that takes its text from the name of the file; such a form is not sent by a drop.
const importForm = document.querySelector("form[data-open]");
if (importForm) {
  const form = importForm;
  const input = document.getElementById("file");
  const zone = document.getElementById("drop-zone");
  const bar = document.getElementById("upload-bar");
  const text = document.getElementById("upload-text");
  const fault = document.getElementById("upload-error");
  const stop = document.getElementById("stop-upload");
  let running = null;

  const proposes = document.getElementById(form.dataset.proposes ?? "");
  let proposed = "";
  const propose = () => {
    const [file] = input.files;
    if (!proposes || !file || proposes.value !== proposed) return;
    const stem = file.name.replace(/\.[^.]*$/, "").toLowerCase();
    proposes.value = proposed = stem.replace(/[^a-z0-9_]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60);
  };
  input.addEventListener("change", propose);

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

  // The database of the file, if it was created for it.
  let created = null;

  // Starts the import of an uploaded file. Returns the page to go on with.
  const startImport = async (address, file) => {
    const answer = await fetch(address, { method: "POST", body: new URLSearchParams({ csrf: form.dataset.token, file_name: file.name }) });
    if (!answer.ok) throw new Error(`The import did not start (HTTP ${answer.status}).`);
    return (await answer.json()).next;
  };

  const send = async (file) => {
    const asked = new URLSearchParams([...new FormData(form)].filter(([, value]) => typeof value === "string"));
    asked.set("csrf", form.dataset.token);
    asked.set("file_name", file.name);
    asked.set("file_size", file.size);
    const answer = await fetch(form.dataset.open, { method: "POST", body: asked });
    if (!answer.headers.get("content-type")?.startsWith("application/json")) throw new Error("This page is out of date. Reload it and try again.");
    const session = await answer.json();
    created = session.created ?? created;
    if (!answer.ok) throw new Error(session.error);
    const length = Math.ceil(file.size / session.parts.length);
    for (const [index, address] of session.parts.entries()) {
      const begin = index * length;
      await put(address, file.slice(begin, begin + length), (sent) => show(begin + sent, file.size));
    }
    text.textContent = session.start ? "Preparing the import…" : "Preparing the preview…";
    bar.removeAttribute("value");
    location.assign(session.start ? await startImport(session.start, file) : session.next);
  };

  form.addEventListener("submit", async (event) => {
    const [file] = input.files;
    if (!file) return;
    event.preventDefault();
    if (running) return;
    fault.hidden = true;
    stop.hidden = document.getElementById("upload-progress").hidden = false;
    document.getElementById("send-file").disabled = true;
    show(0, 1);
    try {
      await send(file);
    } catch (error) {
      fault.textContent = error.message;
      if (created) {
        const link = document.createElement("a");
        link.href = `${created}/imports/new`;
        link.textContent = "The database was created: import the file there.";
        fault.append(" ", link);
      }
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
    if (!proposes) return form.requestSubmit();
    propose();
  });
}
