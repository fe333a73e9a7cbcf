// A deployment through @libsql/client, as its documentation shows it.
import assert from "node:assert/strict";
import { createClient } from "@libsql/client";

const { DEPLOYMENT_URL: url, DEPLOYMENT_TOKEN: authToken, DEPLOYMENT_READER: reader } = process.env;
const fails = (promise, code) => assert.rejects(promise, (error) => error.code === code || assert.equal(error.code, code));

const client = createClient({ url: `${url}/`, authToken });
await client.executeMultiple("create table t (id integer primary key, name text, n, b blob); insert into t (name) values ('first');");
const inserted = await client.execute({ sql: "insert into t (name, n, b) values (?, ?, ?)", args: ["second", 2.5, new Uint8Array([0, 255])] });
assert.equal(inserted.rowsAffected, 1);
assert.equal(inserted.lastInsertRowid, 2n);
const named = await client.execute({ sql: "select name, n, b, null as none from t where id = :id", args: { id: 2 } });
assert.deepEqual(named.columns, ["name", "n", "b", "none"]);
assert.deepEqual([named.rows[0].name, named.rows[0].n, named.rows[0].none], ["second", 2.5, null]);
assert.deepEqual(new Uint8Array(named.rows[0].b), new Uint8Array([0, 255]));

const exact = createClient({ url, authToken, intMode: "bigint" });
for (const n of [9223372036854775807n, -9223372036854775808n]) {
  const back = await exact.execute({ sql: "select ? as n", args: [n] });
  assert.equal(back.rows[0].n, n);
}
const x = 5.055133595209083e-274;
assert.equal((await client.execute({ sql: "select ? as x", args: [x] })).rows[0].x, x);

for (const mode of ["write", "deferred"]) {
  const results = await client.batch(["insert into t (name) values ('batch')", "select count(*) as n from t"], mode);
  assert.equal(results.length, 2);
}
const read = await client.batch(["select count(*) as n from t"], "read");
assert.equal(read[0].rows[0].n, 4);
await fails(client.batch(["insert into t (name) values ('no')"], "read"), "SQLITE_READONLY");
await fails(client.batch(["insert into t (id) values (100)", "insert into t (id) values (100)"], "write"), "SQLITE_CONSTRAINT");
assert.equal((await client.execute("select count(*) as n from t where id = 100")).rows[0].n, 0);
await client.migrate(["create table m (a)", "insert into m values (1)"]);

const kept = await client.transaction("write");
await kept.execute("insert into t (id, name) values (50, 'kept')");
await kept.commit();
const dropped = await client.transaction("write");
await dropped.execute("insert into t (id, name) values (51, 'dropped')");
await dropped.rollback();
assert.equal((await client.execute("select count(*) as n from t where id in (50, 51)")).rows[0].n, 1);

// Version control.
await client.execute("select dolt_commit('-A', '-m', 'from javascript')");
const log = await client.execute("select committer, message from dolt_log limit 1");
assert.deepEqual([log.rows[0].committer, log.rows[0].message], ["wes", "from javascript"]);
const work = createClient({ url: `${url}/db/gauges/branch/work/`, authToken });
assert.equal((await work.execute("select active_branch() as b")).rows[0].b, "work");
await work.execute("insert into seen values ('on work')");
await work.execute("select dolt_commit('-am', 'on work')");
await client.execute("select dolt_merge('work')");
assert.equal((await client.execute("select count(*) as n from seen")).rows[0].n, 1);

// Permissions.
const readOnly = createClient({ url: `${url}/`, authToken: reader });
assert.equal((await readOnly.execute("select count(*) as n from seen")).rows[0].n, 1);
await fails(readOnly.execute("insert into seen values ('no')"), "SQLITE_READONLY");
await fails(readOnly.execute("select dolt_commit('-A', '-m', 'no')"), "SQLITE_AUTH");
await fails(client.execute("attach 'x.db' as x"), "SQLITE_AUTH");
await fails(createClient({ url: `${url}/`, authToken: "hsat.v1.garbage" }).execute("select 1"), "UNAUTHENTICATED");
for (const each of [client, exact, work, readOnly]) each.close();
