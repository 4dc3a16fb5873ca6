"""A peer of an agent, by the library `didcomm`: authcrypt both ways over POST and WebSocket, and anoncrypt to the agent.

    didcomm_peer.py ADMIN PUBLIC    (origins of the agent's admin API and of its public files; it takes messages of any peer)
"""

import asyncio
import base64
import http.server
import json
import sys
import threading
import time
import urllib.request
import uuid
import warnings

warnings.filterwarnings("ignore")

import base58
import websockets
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from didcomm.common.algorithms import AnonCryptAlg
from didcomm.common.resolvers import ResolversConfig
from didcomm.common.types import VerificationMaterial, VerificationMaterialFormat, VerificationMethodType
from didcomm.did_doc.did_doc import DIDDoc
from didcomm.did_doc.did_resolver import DIDResolver
from didcomm.message import Message
from didcomm.pack_encrypted import PackEncryptedConfig, pack_encrypted
from didcomm.secrets.secrets_resolver import Secret, SecretsResolver
from didcomm.unpack import unpack

ADMIN, PUBLIC = sys.argv[1:]
BASIC = "https://didcomm.org/basicmessage/2.0/message"
ENDING = "https://didcomm.org/empty/1.0/empty"


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def request(method, url, body=None, content_type="application/json"):
    call = urllib.request.Request(url, body, {"content-type": content_type}, method=method)
    with urllib.request.urlopen(call) as answer:
        return answer.status, answer.read()


def admin(method, path, body=None):
    return json.loads(request(method, ADMIN + path, body and json.dumps(body).encode())[1])


def metric(name, label):
    lines = request("GET", ADMIN + "/metrics")[1].decode().splitlines()
    found = [line for line in lines if line.startswith(name) and label in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)


class Inbox(http.server.BaseHTTPRequestHandler):
    arrived = []
    some = threading.Condition()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        with self.some:
            self.arrived.append((self.headers["content-type"], body.decode()))
            self.some.notify()
        self.send_response(202)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def document(did, agreement):
    """A document as the library reads it: its keys are JWKs."""
    key = {"kty": "OKP", "crv": "X25519", "x": b64(agreement[1])}
    method = {"id": agreement[0], "type": "JsonWebKey2020", "controller": did, "publicKeyJwk": key}
    members = {"@context": ["https://www.w3.org/ns/did/v1"], "id": did, "verificationMethod": [method]}
    return DIDDoc.deserialize(members | {"keyAgreement": [agreement[0]], "authentication": []})


class Documents(DIDResolver):
    def __init__(self, documents):
        self.documents = documents

    async def resolve(self, did):
        return self.documents.get(str(did))


class Keys(SecretsResolver):
    def __init__(self, secrets):
        self.secrets = secrets

    async def get_key(self, kid):
        return self.secrets.get(str(kid))

    async def get_keys(self, kids):
        return [kid for kid in kids if str(kid) in self.secrets]


async def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Inbox)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}/"
    signing, agreement = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
    public = agreement.public_key().public_bytes_raw()
    parts = [
        "V" + "z" + base58.b58encode(b"\xed\x01" + signing.public_key().public_bytes_raw()).decode(),
        "E" + "z" + base58.b58encode(b"\xec\x01" + public).decode(),
        "S" + b64(json.dumps({"t": "dm", "s": {"uri": endpoint, "a": ["didcomm/v2"]}}).encode()),
    ]
    did = "did:peer:2." + ".".join(parts)
    kid = f"{did}#key-2"
    last = request("GET", PUBLIC + "/.well-known/did.jsonl")[1].decode().strip().splitlines()[-1]
    state = json.loads(last)["state"]
    agent, agent_kid = state["id"], state["keyAgreement"][0]
    multikey = next(one for one in state["verificationMethod"] if one["id"] == agent_kid)["publicKeyMultibase"]
    agent_key = base58.b58decode(multikey[1:])[2:]
    services = {one["serviceEndpoint"]["uri"].split(":")[0]: one["serviceEndpoint"]["uri"]
                for one in state["service"] if one["type"] == "DIDCommMessaging"}
    jwk = {"kty": "OKP", "crv": "X25519", "x": b64(public), "d": b64(agreement.private_bytes_raw())}
    material = VerificationMaterial(VerificationMaterialFormat.JWK, json.dumps(jwk))
    secret = Secret(kid, VerificationMethodType.JSON_WEB_KEY_2020, material)
    documents = {did: document(did, (kid, public)), agent: document(agent, (agent_kid, agent_key))}
    resolvers = ResolversConfig(Keys({kid: secret}), Documents(documents))

    async def pack(content, sender=did, **members):
        members = {"type": BASIC, "body": {"content": content}, "to": [agent], "created_time": int(time.time())} | members
        message = Message(id=str(uuid.uuid4()), frm=sender, **members)
        config = PackEncryptedConfig(forward=False, enc_alg_anon=AnonCryptAlg.A256CBC_HS512_ECDH_ES_A256KW)
        packed = await pack_encrypted(resolvers, message, to=agent, frm=sender, pack_config=config)
        return packed.packed_msg

    def received(content):
        for _ in range(100):
            items = admin("GET", "/v2/didcomm/basic-messages?role=receiver")["items"]
            found = [item for item in items if item["content"] == content]
            if found:
                return found[0]
            time.sleep(0.1)
        sys.exit(f"the agent did not store {content!r}")

    status, _ = request("POST", services["http"], (await pack("over POST")).encode(), "application/didcomm-encrypted+json")
    assert status == 202, status
    connection = received("over POST")["connectionId"]
    async with websockets.connect(services["ws"]) as socket:
        await socket.send((await pack("over a WebSocket")).encode())
        await (await socket.ping())
        await socket.send(await pack("in a text frame"))
        await (await socket.ping())
    assert received("over a WebSocket")["connectionId"] == received("in a text frame")["connectionId"] == connection

    admin("POST", "/v2/didcomm/basic-messages", {"connectionId": connection, "content": "to the library"})
    with Inbox.some:
        Inbox.some.wait_for(lambda: Inbox.arrived, 30)
    content_type, packed = Inbox.arrived.pop()
    opened = await unpack(resolvers, packed)
    assert content_type == "application/didcomm-encrypted+json", content_type
    assert opened.metadata.authenticated and opened.metadata.encrypted_from == agent_kid, opened.metadata
    assert opened.message.body == {"content": "to the library"} and opened.message.frm == agent, opened.message

    # An anonymous text is opened, and refused for what it is.
    refused = "svc_agent_peer_refusals_total", 'reason="anonymous"'
    before = metric(*refused)
    try:
        await_status = request("POST", services["http"], (await pack("who?", None)).encode(), "application/didcomm-encrypted+json")
        sys.exit(f"an anonymous text was taken: {await_status}")
    except urllib.error.HTTPError as error:
        assert error.code == 400, error.code
    assert metric(*refused) == before + 1
    print("python didcomm: authcrypt both ways over POST and WebSocket, anoncrypt opened", flush=True)


asyncio.run(main())
