# Receives events: SECRET=whsec_… PORT=8099 python3 receiver.py
import base64, hashlib, hmac, json, os, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

if not os.environ.get("SECRET"):
    sys.exit("Set SECRET to the secret of the sender")
key = base64.b64decode(os.environ["SECRET"].removeprefix("whsec_"))
seen = set()  # Keep these in your database, in the transaction that does the work.


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        id, at = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        signed = hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
        expected = "v1," + base64.b64encode(signed).decode()
        given = self.headers.get("webhook-signature", "").split(" ")
        valid = any(hmac.compare_digest(one, expected) for one in given)
        if valid and abs(time.time() - int(at)) <= 300:
            if id not in seen:
                print(json.loads(body)["type"], id, flush=True)
            seen.add(id)
            self.send_response(204)
        else:
            self.send_response(401)
        self.end_headers()


HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8099"))), Receiver).serve_forever()
