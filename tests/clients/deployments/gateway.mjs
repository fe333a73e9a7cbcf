// Uses @libsql/client through the gateway, at a URL of the server's own listener.
import assert from "node:assert/strict";
import { createClient } from "@libsql/client";

const url = process.env.DEPLOYMENT_URL;
const client = createClient({ url, authToken: process.env.DEPLOYMENT_TOKEN });
await client.batch(
  ["create table gate(id integer primary key, v text)", { sql: "insert into gate (v) values (?)", args: ["a"] }],
  "write",
);
const kept = await client.transaction("write");
await kept.execute({ sql: "insert into gate (v) values (:v)", args: { v: "b" } });
await kept.commit();
const dropped = await client.transaction("write");
await dropped.execute("insert into gate (v) values ('c')");
await dropped.rollback();
await client.executeMultiple("insert into gate (v) values ('d'); select dolt_commit('-A', '-m', 'gate')");
const found = await client.execute("select group_concat(v, '') as v from gate");
assert.equal(found.rows[0].v, "abd");
const intruder = createClient({ url, authToken: "nonsense" });
await assert.rejects(intruder.execute("select 1"), (error) => error.code === "UNAUTHENTICATED" || /401/.test(error.message));
