"""A receiver of Branchyard's hooks: verifies, drops repeats, answers at once, works afterwards.

Run it with the secret of the hook in HOOK_SECRET and a port in PORT; it listens on 127.0.0.1 and prints what arrives.
"""
import base64, hashlib, hmac, json, os, queue, threading, time, traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LONGEST = 20 << 10  # bytes of a body; Branchyard sends no longer ones


def verified(secret, headers, body):
    """Whether the raw body is signed with the secret (Standard Webhooks v1), and not long ago."""
    sent = headers.get("webhook-timestamp", "")
    if not (sent.isascii() and sent.isdigit()) or abs(time.time() - int(sent)) > 300:
        return False
    signed = headers.get("webhook-id", "").encode() + b"." + sent.encode() + b"." + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mine = b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256))
    return any(hmac.compare_digest(mine, theirs.encode()) for theirs in headers.get("webhook-signature", "").split())


def serve(secret, port, handle):
    work, seen = queue.Queue(), set()  # keep what was seen for four days, in a place that survives a restart

    class Receiver(BaseHTTPRequestHandler):
        timeout = 10  # seconds without a byte

        def do_POST(self):
            length = self.headers.get("content-length", "")
            short = length.isascii() and length.isdigit() and len(length) < 9 and int(length) <= LONGEST
            body = self.rfile.read(int(length)) if short else b""
            good = short and verified(secret, self.headers, body)
            if good and self.headers["webhook-id"] not in seen:
                seen.add(self.headers["webhook-id"])
                work.put(json.loads(body))
            self.send_response(204 if good else 401)
            self.end_headers()

    def go_on():
        while True:
            event = work.get()
            try:
                handle(event)
            except Exception:  # one event that fails does not keep the next ones from being handled
                traceback.print_exc()
                print("not handled:", json.dumps(event), flush=True)

    threading.Thread(target=go_on, daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", port), Receiver).serve_forever()


if __name__ == "__main__":
    serve(os.environ["HOOK_SECRET"], int(os.environ["PORT"]), lambda event: print(json.dumps(event), flush=True))
