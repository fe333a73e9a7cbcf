"""Uses a deployment through the libsql package, as the documentation of the package shows."""

import os
import signal
import time

import libsql

URL, TOKEN = os.environ["DEPLOYMENT_URL"], os.environ["DEPLOYMENT_TOKEN"]

for url in (URL, URL + "/"):
    connection = libsql.connect(url, auth_token=TOKEN)
    assert connection.execute("select 1").fetchone() == (1,)

connection.executescript("create table p (id integer primary key, name text, x real, b blob); create table q (a);")
connection.execute("insert into p (name, x, b) values (?, ?, ?)", ("first", 0.1, b"\x00\xff"))
connection.commit()
assert connection.execute("select name, x, b from p").fetchone() == ("first", 0.1, b"\x00\xff")

connection.executemany("insert into p (name) values (?)", [("second",), ("third",)])
connection.commit()
connection.execute("insert into p (name) values ('dropped')")
connection.rollback()
assert connection.execute("select count(*) from p").fetchone() == (3,)
assert connection.execute("select 9223372036854775807, -9223372036854775808").fetchone() == (2**63 - 1, -(2**63))

connection.execute(
    "insert into q with recursive c(n) as (select 1 union all select n + 1 from c limit 100000) select n from c"
)
connection.commit()
rows = connection.execute("select a from q order by a").fetchall()
assert len(rows) == 100_000 and rows[-1] == (100_000,)

work = libsql.connect(URL + "/db/gauges/branch/work", auth_token=TOKEN)
assert work.execute("select active_branch()").fetchone() == ("work",)

try:
    libsql.connect(URL, auth_token=os.environ["DEPLOYMENT_READER"]).execute("insert into q values (0)")
except Exception as error:
    assert "READONLY" in str(error) or "readonly" in str(error), error
else:
    raise AssertionError("a reader wrote")

# The connection works again after its stream has expired, and after a crash.
time.sleep(2)
assert connection.execute("select count(*) from p").fetchone() == (3,)
connection.commit()
os.kill(int(os.environ["DEPLOYMENT_PROCESS"]), signal.SIGKILL)
deadline = time.monotonic() + 5
while True:
    try:
        assert connection.execute("select count(*) from p").fetchone() == (3,)
        break
    except ValueError as error:
        assert "STREAM_EXPIRED" not in str(error) and time.monotonic() < deadline, error
        time.sleep(0.05)
