"""A receiver of Branchyard's hooks: verifies, drops repeats, answers at once, works afterwards."""
import base64, hashlib, hmac, json, queue, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def verified(secret, headers, body):
    """Whether the raw body is signed with the secret (Standard Webhooks v1), and not long ago."""
    sent = headers.get("webhook-timestamp", "")
    if not sent.isdigit() or abs(time.time() - int(sent)) > 300:
        return False
    signed = headers.get("webhook-id", "").encode() + b"." + sent.encode() + b"." + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mine = b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256))
    return any(hmac.compare_digest(mine, theirs.encode()) for theirs in headers.get("webhook-signature", "").split())


def serve(secret, port, handle):
    work, seen = queue.Queue(), set()  # keep what was seen for four days, in a place that survives a restart

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            good = verified(secret, self.headers, body)
            if good and self.headers["webhook-id"] not in seen:
                seen.add(self.headers["webhook-id"])
                work.put(json.loads(body))
            self.send_response(204 if good else 401)
            self.end_headers()

    threading.Thread(target=lambda: [handle(work.get()) for _ in iter(int, 1)], daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", port), Receiver).serve_forever()
