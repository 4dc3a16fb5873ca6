"""Calls each server with `svc peer`: a token is granted over DIDComm, and taken by a library of others. A revoked one is refused there,
and replaced; so is one for another endpoint refused."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

BINARY, OWNER, CALLER = (os.environ[name] for name in ("SVC_BINARY", "SVC_OWNER", "SVC_CALLER"))
ENTRIES = json.loads(os.environ["SVC_ENTRIES"])


def svc(*words, socket_of="SVC_AGENT_SOCKET", status=0):
    environment = os.environ | {"SVC_AGENT_SOCKET": os.environ[socket_of]}
    ended = subprocess.run([BINARY, *words], env=environment, capture_output=True, text=True, timeout=120)
    if ended.returncode != status:
        sys.exit(f"{words}: {ended.returncode}: {ended.stdout}{ended.stderr}")
    return ended.stdout


class LocalConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["SVC_AGENT_SOCKET"])


def token_for(entry):
    """The token that the caller's agent holds."""
    connection = LocalConnection("localhost")
    connection.request("POST", "/v2/vt/access-requests", json.dumps({"endpoint": f"{OWNER}#{entry['name']}"}), {"content-type": "application/json"})
    return json.load(connection.getresponse())["token"]


def post(entry, token):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    request = urllib.request.Request(entry["url"], body, {"content-type": "application/json", "authorization": f"Bearer {token}"})
    request.add_header("accept", "application/json, text/event-stream")
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def call(entry):
    endpoint = f"{OWNER}#{entry['name']}"
    if entry["kind"] == "A2A":
        return svc("peer", "call", endpoint, "peer")
    listed = svc("peer", "call", endpoint, "--list")
    if not all(tool in listed for tool in ("greet", "caller")):
        sys.exit(f"{endpoint} lists {listed}")
    caller = svc("peer", "call", endpoint, "caller")
    if caller != f"{CALLER}\n":
        sys.exit(f"{endpoint} has verified {caller}")
    return svc("peer", "call", endpoint, "greet", '{"name": "peer"}')


for entry in ENTRIES:
    # A tool server of the owner's corporation publishes the entry.
    svc("call", "svc.vsa.se.addServiceEndpoint", json.dumps({"agent_did": OWNER, "id": entry["name"], "type": entry["kind"], "serviceEndpoint": entry["url"]}))
for _ in range(100):
    with urllib.request.urlopen(os.environ["SVC_CONDITIONS"]) as answer:
        if len(json.load(answer)["endpoints"]) == len(ENTRIES):
            break
    time.sleep(0.2)
for entry in ENTRIES:
    if call(entry) != "hello peer\n":
        sys.exit(f"{entry['name']} does not greet")
    token = token_for(entry)
    # Past the check the protocol may refuse the message.
    if post(entry, token) == 401 or post(entry, token[:-4] + "AAAA") != 401:
        sys.exit(f"{entry['name']} takes a changed token, or not the true one")
    other = next(one for one in ENTRIES if one is not entry)
    if post(other, token) != 401:
        sys.exit(f"{other['name']} takes a token for {entry['name']}")
    svc("agent", "access", "revoke", "--endpoint", f"{OWNER}#{entry['name']}", socket_of="SVC_OWNER_SOCKET")
    if post(entry, token) != 401:
        sys.exit(f"{entry['name']} takes a revoked token")
    if call(entry) != "hello peer\n":
        sys.exit(f"{entry['name']} does not greet after a revocation")
    print(f"{entry['name']}: greets, refuses what is changed, foreign or revoked, and takes the next token", flush=True)
svc("peer", "call", f"{OWNER}#{ENTRIES[0]['name']}", "missing", status=7)
svc("peer", "call", f"{OWNER}#{ENTRIES[0]['name']}", "--list", "--scopes", "other", status=5)
