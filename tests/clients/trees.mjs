// Writes, reads, forks, merges, imports and downloads, with only `fetch`.

import assert from "node:assert/strict";

const { BRANCHYARD_URL: url, BRANCHYARD_TOKEN: token, BRANCHYARD_USER: user } = process.env;
const api = `${url}/api/v1alpha1`;

async function call(method, path, body) {
  const headers = { authorization: `token ${token}` };
  const form = body instanceof FormData;
  if (body !== undefined && !form) headers["content-type"] = "application/json";
  const response = await fetch(`${api}${path}`, {
    method,
    headers,
    body: body === undefined || form ? body : JSON.stringify(body),
  });
  return { status: response.status, answer: await response.json() };
}

async function wait(path, name) {
  for (let tries = 0; tries < 600; tries += 1) {
    const { status, answer } = await call("GET", `${path}?operationName=${encodeURIComponent(name)}`);
    assert.equal(status, 200, JSON.stringify(answer));
    if (answer.done) return answer;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("never done");
}

async function write(database, from, to, query) {
  const path = `/${user}/${database}/write/${encodeURIComponent(from)}/${encodeURIComponent(to)}`;
  const { status, answer } = await call("POST", path, { query });
  assert.equal(status, 200, JSON.stringify(answer));
  const done = await wait(`/${user}/${database}/write`, answer.operation_name);
  assert.equal(done.res_details.query_execution_status, "Success", JSON.stringify(done));
}

async function read(database, ref, query) {
  const { answer } = await call("GET", `/${user}/${database}/${ref}?q=${encodeURIComponent(query)}`);
  assert.equal(answer.query_execution_status, "Success", JSON.stringify(answer));
  return answer.rows;
}

async function writePollRead() {
  const made = await call("POST", "/database", { ownerName: user, repoName: "js_trees", visibility: "private" });
  assert.equal(made.status, 200, JSON.stringify(made.answer));
  await write("js_trees", "main", "main", "CREATE TABLE tree (name TEXT, id INTEGER PRIMARY KEY)");
  await write("js_trees", "main", "main", "INSERT INTO tree VALUES ('oak', 7);");
  assert.deepEqual(await read("js_trees", "main", "SELECT id, name FROM tree"), [{ id: "7", name: "oak" }]);
}

async function forkPullMerge() {
  const group = process.env.BRANCHYARD_GROUP;
  const fork = { parentOwnerName: user, parentDatabaseName: "js_trees", ownerName: group };
  const started = await call("POST", "/fork", fork);
  assert.equal(started.status, 200, JSON.stringify(started.answer));
  const forked = await wait("/fork", started.answer.operation_name);
  assert.deepEqual([forked.status, forked.owner_name, forked.database_name], ["Success", group, "js_trees"]);
  const path = `/${group}/js_trees/write/main/fix-7`;
  const written = await call("POST", path, { query: "UPDATE tree SET name = 'elm' WHERE id = 7" });
  await wait(`/${group}/js_trees/write`, written.answer.operation_name);
  const { answer: pull } = await call("POST", `/${user}/js_trees/pulls`, {
    title: "Rename",
    fromBranchOwnerName: group,
    fromBranchRepoName: "js_trees",
    fromBranchName: "fix-7",
    toBranchName: "main",
  });
  const merge = `/${user}/js_trees/pulls/${pull.pull_id}/merge`;
  const { answer: merging } = await call("POST", merge);
  assert.equal((await wait(merge, merging.operation_name)).job_status, "Completed");
  const { answer: list } = await call("GET", `/${user}/js_trees/pulls`);
  assert.equal(list.pulls[0].state, "Merged");
  assert.deepEqual(await read("js_trees", "main", "SELECT name FROM tree"), [{ name: "elm" }]);
}

async function uploadPollMerge() {
  const form = new FormData();
  const params = { tableName: "plot", fileName: "plots.csv", branchName: "main", fileType: "Csv", importOp: "Create" };
  form.append("params", JSON.stringify({ ...params, primaryKeys: ["id"] }));
  form.append("file", new Blob(["id,area\n1,2.5\n2,\n"]), "plots.csv");
  const { status, answer } = await call("POST", `/${user}/js_trees/upload`, form);
  assert.equal(status, 200, JSON.stringify(answer));
  const done = await wait(`/${user}/js_trees/upload`, answer.operation_name);
  assert.equal(done.job_status, "Completed", JSON.stringify(done));
  const merge = `/${user}/js_trees/pulls/${done.pull_id}/merge`;
  const { answer: merging } = await call("POST", merge);
  assert.equal((await wait(merge, merging.operation_name)).job_status, "Completed");
}

async function download() {
  const response = await fetch(`${url}/csv/${user}/js_trees/main/plot`, { headers: { authorization: `token ${token}` } });
  assert.equal(response.status, 200);
  assert.equal(await response.text(), "id,area\n1,2.5\n2,\n");
}

await writePollRead();
await forkPullMerge();
await uploadPollMerge();
await download();
