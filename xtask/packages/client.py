"""A server under test and its API, for the checks of packages. Standard library only."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request


def fail(text):
    sys.exit(f"error: {text}")


def expect(condition, text):
    if not condition:
        fail(text)


def need(program, package):
    """Returns the path of a program, and fails if it is missing: a check that is left out finds nothing."""
    for folder in [*os.environ.get("PATH", "").split(":"), "/usr/sbin", "/sbin"]:
        path = os.path.join(folder, program)
        if os.access(path, os.X_OK):
            return path
    fail(f"{program} is missing\n  fix: install the package {package}, or run `.ci/run`, which does")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(what, seconds, attempt):
    """Calls `attempt` until it returns something that counts as true."""
    end = time.monotonic() + seconds
    while True:
        found = attempt()
        if found:
            return found
        if time.monotonic() > end:
            fail(f"{what} did not happen within {seconds} s")
        time.sleep(0.1)


class Api:
    """The API of a server at `origin`, as the user of `token`. `call` sends a request and may be replaced."""

    def __init__(self, origin, token=None):
        self.origin = origin
        self.token = token

    def call(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.origin + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def expect(self, status, method, path, body=None):
        got, answer = self.call(method, path, body)
        expect(got == status, f"{method} {path} answered {got} and not {status}: {answer}")
        return answer["data"]

    def finish(self, accepted):
        """Waits for an operation to succeed."""
        path = "/api/v2" + accepted["href"].split("/api/v2", 1)[1]

        def ended():
            operation = self.expect(200, "GET", path)
            return operation if operation["status"] in ("succeeded", "failed") else None

        operation = until("the end of an operation", 60, ended)
        expect(operation["status"] == "succeeded", f"an operation failed: {operation}")

    def use(self, owner):
        """Creates a database, writes to it and reads from it."""
        self.expect(201, "POST", "/api/v2/databases", {"owner": owner, "name": "rivers", "visibility": "public"})
        sql = "create table rivers(id integer primary key, name text); insert into rivers values (1, 'Rhine'), (2, 'Loire')"
        write = {"from_branch": "main", "to_branch": "main", "q": sql}
        self.finish(self.expect(202, "POST", f"/api/v2/databases/{owner}/rivers/sql-writes", write))
        self.read(owner)

    def read(self, owner):
        query = {"ref": "main", "q": "select count(*) from rivers"}
        result = self.expect(200, "POST", f"/api/v2/databases/{owner}/rivers/sql", query)
        expect(result["rows"] == [["2"]], f"a read returned {result}")


class Server:
    """A server of its own on a free port of this machine."""

    def __init__(self, binary, folder, public_url=None, settings=None, port=None):
        self.binary, self.data = binary, os.path.join(folder, "data")
        self.port = port or free_port()
        self.origin = f"http://127.0.0.1:{self.port}"
        self.log = os.path.join(folder, "server.log")
        environment = {**os.environ, **(settings or {})}
        args = [binary, "serve", "--data-dir", self.data, "--listen", f"127.0.0.1:{self.port}"]
        if public_url:
            args += ["--public-url", public_url]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(args, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until("the start of the server", 60, self.is_ready)

    def is_ready(self):
        expect(self.process.poll() is None, f"the server ended: {open(self.log).read()}")
        check = [self.binary, "healthcheck", "--url", self.origin]
        return subprocess.run(check, capture_output=True).returncode == 0

    def token(self, user):
        """Creates a user, and returns a token."""
        command = lambda *args: subprocess.run(
            [self.binary, *args, "--data-dir", self.data], check=True, capture_output=True, text=True
        ).stdout.strip()
        command("user", "create", user, "--email", f"{user}@example.test")
        return command("token", "create", "--user", user, "--name", "check", "--expires", "30d")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(45)
        except subprocess.TimeoutExpired:
            self.process.kill()
            fail("the server did not stop within 45 s")
        expect(code == 0, f"the server ended with {code}: {open(self.log).read()}")
