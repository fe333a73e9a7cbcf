"""Uses libsql through the gateway, at a URL of the server's own listener."""

import os

import libsql

connection = libsql.connect(os.environ["DEPLOYMENT_URL"], auth_token=os.environ["DEPLOYMENT_TOKEN"])
connection.execute("create table many(id integer primary key)")
connection.execute("insert into many with recursive c(n) as (select 1 union all select n + 1 from c limit 20000) select n from c")
connection.commit()
rows = connection.execute("select id from many order by id").fetchall()
assert [row[0] for row in rows] == list(range(1, 20001)), len(rows)
