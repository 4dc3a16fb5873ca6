// A peer of an agent, by the library `didcomm-node`: authcrypt both ways over POST and WebSocket, a rotation
// by its from_prior, and anoncrypt to the agent.
//
//     node didcomm.mjs ADMIN PUBLIC
import assert from "node:assert/strict";
import { createHash, generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import didcomm from "didcomm-node";
import WebSocket from "ws";

const [ADMIN, PUBLIC] = process.argv.slice(2);
const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const ANONYMOUS = { forward: false, enc_alg_anon: "A256cbcHs512EcdhEsA256kw" };

function base58(bytes) {
  let number = BigInt("0x" + (Buffer.from(bytes).toString("hex") || "0"));
  let text = "";
  for (; number > 0n; number /= 58n) text = ALPHABET[Number(number % 58n)] + text;
  for (const byte of bytes) {
    if (byte !== 0) break;
    text = "1" + text;
  }
  return text;
}

function fromBase58(text) {
  let number = 0n;
  for (const character of text) number = number * 58n + BigInt(ALPHABET.indexOf(character));
  return Buffer.from(number.toString(16).padStart(68, "0"), "hex");
}

const multikey = (prefix, jwk) => "z" + base58([...prefix, ...Buffer.from(jwk.x, "base64url")]);
const admin = async (method, path, body) => {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(ADMIN + path, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${await answer.clone().text()}`);
  return answer.json();
};

const arrived = [];
let wake;
const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  arrived.push(Buffer.concat(chunks).toString());
  response.writeHead(202).end();
  wake?.();
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const uri = `http://127.0.0.1:${server.address().port}/`;
const documents = {};
const known = {};

// A DID of the peer, which holds its own document.
function makeDid() {
  const signing = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const agreement = generateKeyPairSync("x25519").privateKey.export({ format: "jwk" });
  const input = {
    verificationMethod: [
      { id: "#key-1", type: "Multikey", publicKeyMultibase: multikey([0xed, 1], signing) },
      { id: "#key-2", type: "Multikey", publicKeyMultibase: multikey([0xec, 1], agreement) },
    ],
    authentication: ["#key-1"],
    keyAgreement: ["#key-2"],
    service: [{ id: "#a", type: "DIDCommMessaging", serviceEndpoint: { uri, accept: ["didcomm/v2"] } }],
  };
  const encoded = "z" + base58(Buffer.concat([Buffer.from([0x80, 0x04]), Buffer.from(JSON.stringify(input))]));
  const hash = "z" + base58(Buffer.concat([Buffer.from([0x12, 0x20]), createHash("sha256").update(encoded).digest()]));
  const did = `did:peer:4${hash}:${encoded}`;
  const methods = [[`${did}#key-1`, signing], [`${did}#key-2`, agreement]];
  documents[did] = {
    id: did,
    authentication: [methods[0][0]],
    keyAgreement: [methods[1][0]],
    verificationMethod: methods.map(([id, { d, ...publicKeyJwk }]) => ({ id, type: "JsonWebKey2020", controller: did, publicKeyJwk })),
    service: [],
  };
  for (const [id, privateKeyJwk] of methods) known[id] = { id, type: "JsonWebKey2020", privateKeyJwk };
  return did;
}

const did = makeDid();
const log = await (await fetch(`${PUBLIC}/.well-known/did.jsonl`)).text();
const { state } = JSON.parse(log.trim().split("\n").at(-1));
const agentKid = state.keyAgreement[0];
const agentKey = state.verificationMethod.find((method) => method.id === agentKid).publicKeyMultibase;
const jwk = { kty: "OKP", crv: "X25519", x: fromBase58(agentKey.slice(1)).subarray(2).toString("base64url") };
const endpoint = (scheme) => state.service.find((one) => one.serviceEndpoint.uri?.startsWith(scheme)).serviceEndpoint.uri;
documents[state.id] = {
  id: state.id,
  keyAgreement: [agentKid],
  authentication: [],
  verificationMethod: [{ id: agentKid, type: "JsonWebKey2020", controller: state.id, publicKeyJwk: jwk }],
  service: [],
};
const resolver = { resolve: async (asked) => documents[asked] ?? null };
const secrets = {
  get_secret: async (id) => known[id] ?? null,
  find_secrets: async (ids) => ids.filter((id) => id in known),
};

async function pack(members, from = did) {
  const message = new didcomm.Message({
    id: randomUUID(),
    typ: "application/didcomm-plain+json",
    type: "https://didcomm.org/basicmessage/2.0/message",
    to: [state.id],
    ...(from && { from }),
    ...members,
  });
  return (await message.pack_encrypted(state.id, from, null, resolver, secrets, ANONYMOUS))[0];
}

const post = async (envelope) => {
  const headers = { "content-type": "application/didcomm-encrypted+json" };
  return (await fetch(endpoint("http"), { method: "POST", headers, body: envelope })).status;
};
const connection = async () =>
  (await admin("GET", "/v2/didcomm/connections")).items.find((one) => one.theirDid === did);

assert.equal(await post(await pack({ body: { content: "from node" } })), 202);
const socket = new WebSocket(endpoint("ws"));
await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
socket.on("message", () => assert.fail("the agent sent a frame on an accepted socket"));
socket.send(Buffer.from(await pack({ body: { content: "from node, in a frame" } })));
const pong = new Promise((resolve) => socket.once("pong", resolve));
socket.ping();
await pong;
socket.close();
const stored = (await admin("GET", "/v2/didcomm/basic-messages?role=receiver")).items.map((item) => item.content);
for (const content of ["from node", "from node, in a frame"]) assert.ok(stored.includes(content), content);

const { id } = await connection();
await admin("POST", "/v2/didcomm/basic-messages", { connectionId: id, content: "to node" });
if (arrived.length === 0) await new Promise((resolve) => (wake = resolve));
const [message, metadata] = await didcomm.Message.unpack(arrived[0], resolver, secrets, {});
assert.deepEqual(message.as_value().body, { content: "to node" });
assert.ok(metadata.authenticated && metadata.encrypted_from_kid === agentKid, JSON.stringify(metadata));

// The peer goes on under another DID, and stays the peer that it was.
const next = makeDid();
const prior = new didcomm.FromPrior({ iss: did, sub: next, iat: Math.floor(Date.now() / 1000) });
const [fromPrior] = await prior.pack(`${did}#key-1`, resolver, secrets);
assert.equal(await post(await pack({ body: { content: "under another DID" }, from_prior: fromPrior }, next)), 202);
const rotated = (await admin("GET", "/v2/didcomm/connections")).items.find((one) => one.theirDid === next);
assert.deepEqual([rotated?.id, rotated?.peerPublicDid], [id, did]);

// An anonymous text is opened, and refused for what it is.
const anonymous = async () => {
  const lines = (await (await fetch(`${ADMIN}/metrics`)).text()).split("\n");
  const line = lines.find((one) => one.startsWith("svc_agent_peer_refusals_total") && one.includes('reason="anonymous"'));
  return Number(line?.split(" ").at(-1) ?? 0);
};
const before = await anonymous();
assert.equal(await post(await pack({ body: { content: "who?" } }, null)), 400);
assert.equal(await anonymous(), before + 1);
server.close();
console.log("node didcomm: authcrypt both ways over POST and WebSocket, a rotation, anoncrypt opened");
