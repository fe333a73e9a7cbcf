"""Runs contrib/Caddyfile and contrib/nginx.conf as they are, except for addresses and certificates, in the real proxies in front of a
real server, and uses the server through them.

    proxies.py BRANCHYARD [MEBIBYTES]          size of the uploaded file; default: 64, and 1024 is the largest that the server accepts
"""

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

from client import Api, Server, expect, fail, free_port, need, until

CONTRIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "contrib")
HEADERS = ["x-forwarded-for", "forwarded"]
# One that the server trusts, the proxy's, and two of clients.
PROXY, CLIENT, OTHER = "127.0.0.1", "127.0.0.2", "127.0.0.3"


def replaced(name, pairs):
    """Returns the text of a file of contrib/ with each of these texts replaced."""
    with open(os.path.join(CONTRIB, name)) as file:
        text = file.read()
    for old, new in pairs:
        expect(old in text, f"contrib/{name} has no `{old}` any more, which this check replaces")
        text = text.replace(old, new)
    return text


def certificate(folder):
    """Creates a certificate for `localhost`, and returns its files."""
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )
    return cert, key


class Proxy:
    """A proxy that runs, with its TLS and its plain port."""

    def __init__(self, folder, upstream):
        self.folder = folder
        self.tls, self.plain = free_port(), free_port()
        self.cert, self.key = certificate(folder)
        self.log = os.path.join(folder, "proxy.log")
        command, environment = self.configure(upstream)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        until(f"the start of {self.name}", 20, self.listens)

    def listens(self):
        expect(self.process.poll() is None, f"{self.name} ended: {open(self.log).read()}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.tls), 1):
            return True

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


class Nginx(Proxy):
    name = "nginx"

    def configure(self, upstream):
        site = replaced("nginx.conf", [
            ("127.0.0.1:8080", f"127.0.0.1:{upstream}"), ("listen 80;", f"listen 127.0.0.1:{self.plain};"),
            ("listen 443 ssl http2;", f"listen 127.0.0.1:{self.tls} ssl http2;"),
            ("    listen [::]:80;\n", ""), ("    listen [::]:443 ssl http2;\n", ""), ("yard.example;", "localhost;"),
            ("/etc/ssl/yard.example/fullchain.pem", self.cert), ("/etc/ssl/yard.example/privkey.pem", self.key),
        ])
        with open(os.path.join(self.folder, "site.conf"), "w") as file:
            file.write(site)
        # What a distribution's nginx.conf has around the files of conf.d.
        temporary = "".join(
            f"{kind}_temp_path {self.folder}/{kind}; " for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        )
        main = (
            f"daemon off; pid {self.folder}/pid; error_log stderr; worker_processes 1;\n"
            f"events {{}}\nhttp {{ access_log off; {temporary} include {self.folder}/site.conf; }}\n"
        )
        path = os.path.join(self.folder, "nginx.conf")
        with open(path, "w") as file:
            file.write(main)
        return [need("nginx", "nginx-light"), "-e", "stderr", "-c", path, "-p", self.folder], {}

    def stored(self):
        """Returns the bytes of requests that the proxy holds in files."""
        folder = os.path.join(self.folder, "client_body")
        return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


class Caddy(Proxy):
    name = "caddy"

    def configure(self, upstream):
        site = replaced("Caddyfile", [
            ("127.0.0.1:8080", f"127.0.0.1:{upstream}"),
            ("yard.example {", f"localhost {{\n\tbind 127.0.0.1\n\ttls {self.cert} {self.key}"),
        ])
        options = f"{{\n\tadmin off\n\thttp_port {self.plain}\n\thttps_port {self.tls}\n}}\n"
        path = os.path.join(self.folder, "Caddyfile")
        with open(path, "w") as file:
            file.write(options + site)
        caddy = need("caddy", "caddy")
        environment = {"HOME": self.folder, "XDG_DATA_HOME": self.folder, "XDG_CONFIG_HOME": self.folder}
        subprocess.run([caddy, "validate", "--config", path, "--adapter", "caddyfile"], check=True, capture_output=True,
                       env={**os.environ, **environment})
        return [caddy, "run", "--config", path, "--adapter", "caddyfile"], environment

    def stored(self):
        return 0


class Client(Api):
    """The API through a proxy, from an address of this machine."""

    def __init__(self, proxy, token=None, address=CLIENT):
        super().__init__(f"https://localhost:{proxy.tls}", token)
        self.proxy, self.address = proxy, address
        self.context = ssl.create_default_context(cafile=proxy.cert)

    def connect(self):
        source = (self.address, 0)
        raw = socket.create_connection(("127.0.0.1", self.proxy.tls), 60, source)
        connection = http.client.HTTPSConnection("localhost", self.proxy.tls, timeout=120)
        connection.sock = self.context.wrap_socket(raw, server_hostname="localhost")
        connection.sock.settimeout(120)
        return connection

    def send(self, method, path, body=None, headers=(), connection=None):
        connection = connection or self.connect()
        headers = dict(headers)
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def call(self, method, path, body=None, headers=(), connection=None):
        text = None if body is None else json.dumps(body)
        answer = self.send(method, path, text, {"Content-Type": "application/json", **dict(headers)}, connection)
        return answer.status, json.loads(answer.read())

    def left(self, headers=()):
        """Returns how many requests the server still allows this address."""
        answer = Client(self.proxy, None, self.address).send("GET", "/api/v2/databases/ada/rivers", None, headers)
        answer.read()
        return int(answer.headers["RateLimit"].split("r=")[1].split(";")[0])


def tls(proxy, client):
    for version in [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]:
        context = ssl.create_default_context(cafile=proxy.cert)
        context.minimum_version = context.maximum_version = version
        context.set_alpn_protocols(["h2", "http/1.1"])
        with socket.create_connection(("127.0.0.1", proxy.tls), 10) as raw:
            with context.wrap_socket(raw, server_hostname="localhost") as wrapped:
                expect(wrapped.selected_alpn_protocol() == "h2", f"{proxy.name} offers no HTTP/2")
    curl = ["curl", "--silent", "--http2", "--cacert", proxy.cert, "--output", "/dev/null", "--write-out", "%{http_version} %{http_code}"]
    done = subprocess.run([*curl, f"{client.origin}/api/v2/databases/ada/rivers"], capture_output=True, text=True).stdout
    expect(done == "2 200", f"over HTTP/2, {proxy.name} answered {done}")
    connection = http.client.HTTPConnection("127.0.0.1", proxy.plain, timeout=10)
    connection.request("GET", "/ada/rivers?x=1", headers={"Host": "localhost"})
    answer = connection.getresponse()
    location = answer.headers["Location"]
    expect(answer.status in (301, 308) and location.startswith("https://localhost") and location.endswith("/ada/rivers?x=1"),
           f"plain HTTP was answered {answer.status}, {location}")


def client_address(client, other):
    """A client has its own quota whatever it writes into the headers of proxies."""
    before = client.left()
    forged = {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9", "X-Forwarded-Proto": "http"}
    expect(client.left(forged) == before - 1, "a client has a new quota if it names another address")
    expect(client.left({"Forwarded": 'for="[2001:db8::1]"'}) == before - 2, "a client has a new quota if it names an IPv6 address")
    expect(other.left() > before - 3, "two clients share a quota: the server counts the proxy's address")


def addresses(client):
    """Addresses in answers have the public origin, and encoded slashes stay encoded."""
    branch = {"name": "draft/x", "from": {"branch": "main"}}
    client.expect(201, "POST", "/api/v2/databases/ada/rivers/branches", branch)
    client.expect(200, "GET", "/api/v2/databases/ada/rivers/branches/draft%2Fx")
    upload = client.expect(201, "POST", "/api/v2/databases/ada/rivers/imports/uploads",
                           {"content_length": 4, "num_parts": 1, "file_type": "csv"})
    expect(upload["parts"][0]["url"].startswith(client.origin + "/"), f"an upload goes to {upload['parts'][0]['url']}")
    query = "select+" + "%31" * 9000
    status, _ = client.call("GET", f"/api/v2/databases/ada/rivers/sql?q={query}")
    expect(status == 200, f"a statement of 27 KiB in a URL is answered {status}")


def idle(client):
    """A request after the time for which the server keeps connections is not lost."""
    for wait in [0, 4.6, 5.2]:
        connection = client.connect()
        time.sleep(wait)
        client.expect(200, "POST", "/api/v2/databases/ada/rivers/sql", {"q": "select 1"})
        connection.close()


SLOW = (
    "with recursive n(x) as (select 1 union all select x + 1 from n where x < 3000) select x, printf('%0200d', x), "
    "(with recursive m(y) as (select 1 union all select y + 1 from m where y < 4000) select count(*) from m where y <> n.x) from n"
)


def streamed(client):
    """Returns the seconds until the first and until the last rows of an answer that the server computes slowly."""
    started = time.monotonic()
    body = json.dumps({"q": SLOW})
    headers = {"Content-Type": "application/json", "Accept": "application/x-ndjson", "Accept-Encoding": "identity"}
    answer = client.send("POST", "/api/v2/databases/ada/rivers/sql", body, headers)
    expect(answer.status == 200, f"a streamed read is answered {answer.status}")
    answer.read1(1)
    first = time.monotonic() - started
    rows = answer.read().count(b"\n")
    expect(rows >= 3000, f"a streamed read has {rows} lines")
    return first, time.monotonic() - started


def upload(proxy, client, server, mebibytes):
    """Sends a file in one part, in two halves with a pause, during which the first half has to reach the server."""
    size = mebibytes << 20
    announced = {"content_length": size, "num_parts": 1, "file_type": "csv"}
    url = client.expect(201, "POST", "/api/v2/databases/ada/rivers/imports/uploads", announced)["parts"][0]["url"]
    path = url.removeprefix(client.origin)
    block = os.urandom(1 << 20)
    digest = hashlib.md5()
    connection = client.connect()
    connection.putrequest("PUT", path)
    connection.putheader("Content-Length", str(size))
    connection.endheaders()
    arrived = 0
    for index in range(mebibytes):
        connection.send(block)
        digest.update(block)
        if index == mebibytes // 2:
            half = (index << 20) // 2
            arrived = until("the arrival of the first half of an upload", 20, lambda: held(server) if held(server) >= half else 0)
            expect(proxy.stored() == 0, f"{proxy.name} holds {proxy.stored()} bytes of the upload")
    answer = connection.getresponse()
    answer.read()
    expect(answer.status == 200, f"an upload of {mebibytes} MiB is answered {answer.status}")
    expect(answer.headers["ETag"] == f'"{digest.hexdigest()}"', "the server received another file")
    return arrived


def held(server):
    """Returns the bytes of the server's data folder."""
    total = 0
    for at, _, names in os.walk(server.data):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.path.getsize(os.path.join(at, name))
    return total


def check(kind, header, binary, mebibytes):
    folder = tempfile.mkdtemp(prefix=f"branchyard-{kind.name}.")
    # A worker of a proxy that was started by root has another user.
    os.chmod(folder, 0o755)
    server = proxy = None
    settings = {"BRANCHYARD_HTTP__TRUSTED_PROXIES": PROXY, "BRANCHYARD_HTTP__FORWARDED_HEADER": header}
    try:
        # The server has to know the origin, whose port the proxy takes.
        upstream = free_port()
        proxy = kind(folder, upstream)
        server = Server(binary, folder, f"https://localhost:{proxy.tls}", settings, upstream)
        client = Client(proxy, server.token("ada"))
        client.use("ada")
        tls(proxy, client)
        client_address(client, Client(proxy, None, OTHER))
        addresses(client)
        idle(client)
        first, last = streamed(client)
        expect(first < last / 2, f"the first rows arrived after {first:.2f} s, and the last ones after {last:.2f} s")
        before = held(server)
        arrived = upload(proxy, client, server, mebibytes) - before
        server.stop()
        server = None
        print(f"{kind.name}, {header}: TLS 1.2 and 1.3, HTTP/2, addresses of clients; rows after {first:.2f} of {last:.2f} s; "
              f"{mebibytes} MiB uploaded, {arrived >> 20} MiB of it had arrived halfway")
    finally:
        if proxy:
            proxy.stop()
        if server:
            server.process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    if len(sys.argv) not in (2, 3):
        fail(__doc__)
    binary, mebibytes = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 64
    need("openssl", "openssl")
    need("curl", "curl")
    for kind in (Nginx, Caddy):
        # The second header needs no further upload of that size.
        check(kind, HEADERS[0], binary, mebibytes)
        check(kind, HEADERS[1], binary, 1)


main()
