"""A backend that knows the messages of endpoint-access/1 and nothing else: it hears requests by webhook, answers by basic message, and
serves the endpoint. Argument: the port of its webhook; its settings come on standard input once the agents run."""

import http.client
import http.server
import json
import os
import secrets
import socket
import subprocess
import sys
import threading

KEY = secrets.token_hex(16)


class LocalConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["SVC_OWNER_SOCKET"])


def answer(request):
    """The grant or the denial for a request."""
    frame = {"svc": "endpoint-access/1", "id": request["id"], "endpoint": request["endpoint"]}
    if not request["endpoint"].endswith("#site"):
        return frame | {"op": "deny", "error": {"code": "not_allowed", "message": "by the backend"}}
    return frame | {"op": "grant", "url": SITE, "material": "key", "scopes": [], "expires_at": None, "header": "X-Api-Key", "value": KEY}


class Backend(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        event = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(204)
        self.end_headers()
        if event["type"] != "didcomm.basic-messages.message-received":
            return
        message = event["data"]
        body = {"connectionId": message["connectionId"], "content": json.dumps(answer(json.loads(message["content"])))}
        connection = LocalConnection("localhost")
        connection.request("POST", "/v2/didcomm/basic-messages", json.dumps(body), {"content-type": "application/json"})
        if connection.getresponse().status != 200:
            os._exit(1)

    def do_GET(self):
        is_known = self.headers.get("X-Api-Key") == KEY
        self.send_response(200 if is_known else 401)
        self.end_headers()
        self.wfile.write(b"hello by key" if is_known else b"")

    def log_message(self, *_):
        pass


def svc(*words, status=0):
    ended = subprocess.run([os.environ["SVC_BINARY"], *words], capture_output=True, text=True, timeout=120)
    if ended.returncode != status:
        sys.exit(f"{words}: {ended.returncode}: {ended.stdout}{ended.stderr}")
    return ended.stdout + ended.stderr


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Backend)
SITE = f"http://127.0.0.1:{server.server_port}/site"
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ.update(json.load(sys.stdin))
OWNER = os.environ["SVC_OWNER"]
for name in ("site", "closed"):
    svc("call", "svc.vsa.se.addServiceEndpoint", json.dumps({"agent_did": OWNER, "id": name, "type": "Website", "serviceEndpoint": SITE}))
if svc("peer", "call", f"{OWNER}#site") != "hello by key\n":
    sys.exit("the material of the backend does not open the site")
denied = svc("peer", "call", f"{OWNER}#closed", status=5)
if "by the backend" not in denied:
    sys.exit(denied)
print("a backend has granted and denied access behind an agent", flush=True)
