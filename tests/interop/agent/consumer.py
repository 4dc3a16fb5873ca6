"""A webhook consumer: verifies each signature with standardwebhooks, also in another language, and fails every second attempt."""

import http.server
import json
import subprocess
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

secret, node, script, expected = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
other = subprocess.Popen([node, script, secret], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
webhook = Webhook(secret.split(" ")[0])
bodies = []
attempts = 0


class Consumer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        global attempts
        attempts += 1
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            webhook.verify(body, headers)
        except WebhookVerificationError as problem:
            sys.exit(f"a signature of the agent does not verify: {problem}")
        try:
            webhook.verify(body.replace("vpr", "vpx"), headers)
            sys.exit("a changed body was accepted")
        except WebhookVerificationError:
            pass
        other.stdin.write(json.dumps({"body": body, "headers": headers}) + "\n")
        other.stdin.flush()
        if other.stdout.readline() != "verified\n":
            sys.exit("the other library refuses the signature")
        fails = attempts % 2 == 1
        if not fails:
            bodies.append(json.loads(body))
        self.send_response(500 if fails else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Consumer)
print(server.server_port, flush=True)
while len(bodies) < expected:
    server.handle_request()
positions = [(body["data"]["blockHeight"], body["data"]["payload"]["txIndex"], body["data"]["payload"]["messageIndex"]) for body in bodies]
assert positions == sorted(positions), positions
assert len({body["id"] for body in bodies}) == len(bodies)
print(f"standardwebhooks of two languages: {attempts} signatures verify, {len(bodies)} events in order")
