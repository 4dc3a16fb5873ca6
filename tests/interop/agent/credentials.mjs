// Verifies the presentations and credentials of the agents of a devnet with node's own crypto and a canonical form of JSON: proofs of
// eddsa-jcs-2022, holders, subjects, times, schemas, and digests of the chain. Each copy with one member changed or absent is refused.

import { execFile } from "node:child_process";
import { createHash, createPublicKey, verify } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import canonicalize from "canonicalize";

const { SVC_BINARY, SVC_HOME, SVC_INDEXER: indexer } = process.env;
const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const SPKI = Buffer.from("302a300506032b6570032100", "hex");
const CREDENTIALS_V2 = "https://www.w3.org/ns/credentials/v2";
const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const DAY = 86_400_000;

export const check = (holds, message) => {
  if (!holds) throw new Error(message);
};
const hash = (algorithm, bytes) => createHash(algorithm).update(bytes).digest();
export const list = (value) => [value ?? []].flat();

const get = async (url, kind) => {
  const answer = await fetch(url, { redirect: "error" });
  check(answer.ok, `${url} answers ${answer.status}`);
  const found = answer.headers.get("content-type");
  check(!kind || found === kind, `${url} has the type ${found} instead of ${kind}`);
  return answer.text();
};
export const getJson = async (url, kind) => JSON.parse(await get(url, kind));

// Asks until an answer holds; fails with the last error, or this message, behind the time.
export const until = async (seconds, message, ask) => {
  const end = Date.now() + seconds * 1_000;
  for (;;) {
    const found = await Promise.resolve().then(ask).catch((error) => error);
    if (found && !(found instanceof Error)) return found;
    if (Date.now() > end) throw new Error(message, { cause: found });
    await setTimeout(200);
  }
};

// Multibase, base58btc.
export const decode = (text) => {
  check(/^z[1-9A-HJ-NP-Za-km-z]+$/.test(text), `${text} is not base58btc`);
  let number = 0n;
  for (const letter of text.slice(1)) number = number * 58n + BigInt(ALPHABET.indexOf(letter));
  const zeros = /^z(1*)/.exec(text)[1].length;
  const digits = number === 0n ? "" : number.toString(16);
  return Buffer.concat([Buffer.alloc(zeros), Buffer.from(digits.padStart(digits.length + (digits.length % 2), "0"), "hex")]);
};

// The files of a DID, over http: the DIDs of a devnet name ports of this machine.
const place = (did) => {
  const parts = did.split(":");
  check(["web", "webvh"].includes(parts[1]), `the method of ${did}`);
  const [host, ...path] = parts.slice(parts[1] === "webvh" ? 3 : 2).map(decodeURIComponent);
  return `http://${host}/${path.length ? path.join("/") : ".well-known"}`;
};

const readLog = async (did) => (await get(`${place(did)}/did.jsonl`)).trim().split("\n").map((line) => JSON.parse(line));

export const resolve = async (did) => {
  const isLogged = did.startsWith("did:webvh:");
  const document = isLogged ? (await readLog(did)).at(-1).state : await getJson(`${place(did)}/did.json`);
  check(document.id === did, `the document of ${did} is of ${document.id}`);
  return document;
};

const keyOf = (document, id, purpose) => {
  check(list(document[purpose]).includes(id), `${id} is not in ${purpose}`);
  const method = list(document.verificationMethod).find((one) => one.id === id);
  check(method?.type === "Multikey" && method.controller === document.id, `${id} is no Multikey of its document`);
  const bytes = decode(method.publicKeyMultibase);
  check(bytes.length === 34 && bytes[0] === 0xed && bytes[1] === 0x01, `${id} is no Ed25519 key`);
  return createPublicKey({ key: Buffer.concat([SPKI, bytes.subarray(2)]), format: "der", type: "spki" });
};

// https://www.w3.org/TR/vc-di-eddsa/#eddsa-jcs-2022
export const verifyProof = (secured, purpose, signer) => {
  const { proof, ...document } = secured;
  const { proofValue, ...options } = proof ?? {};
  check(options.type === "DataIntegrityProof" && options.cryptosuite === "eddsa-jcs-2022", "another suite");
  check(options.proofPurpose === purpose, `the purpose is ${options.proofPurpose}`);
  check(Date.parse(options.created) <= Date.now() + 5_000, `created at ${options.created}`);
  if (options["@context"]) {
    const begin = list(document["@context"]).slice(0, list(options["@context"]).length);
    check(canonicalize(begin) === canonicalize(list(options["@context"])), "the contexts are not those of the proof");
    document["@context"] = options["@context"];
  }
  const data = Buffer.concat([hash("sha256", canonicalize(options)), hash("sha256", canonicalize(document))]);
  const signature = decode(proofValue);
  check(signature.length === 64, `a signature of ${signature.length} bytes`);
  check(verify(null, data, keyOf(signer, options.verificationMethod, purpose), signature), "the signature does not match");
};

const members = (value, path = []) =>
  value !== null && typeof value === "object"
    ? Object.entries(value).flatMap(([name, one]) => [[...path, name], ...members(one, [...path, name])])
    : [];

const isRefused = (...proof) => {
  try {
    verifyProof(...proof);
    return false;
  } catch {
    return true;
  }
};

// Returns the number of copies.
const verifyAndRefuseCopies = (secured, purpose, signer) => {
  verifyProof(secured, purpose, signer);
  const other = purpose === "authentication" ? "assertionMethod" : "authentication";
  check(isRefused(secured, other, signer), `the proof has the purpose ${other} too`);
  let copies = 0;
  const refuse = (path, change) => {
    const copy = structuredClone(secured);
    change(path.slice(0, -1).reduce((whole, name) => whole[name], copy), path.at(-1));
    check(isRefused(copy, purpose, signer), `a copy with another ${path.join(".")} verifies`);
    copies += 1;
  };
  for (const path of members(secured)) {
    refuse(path, (whole, name) => {
      const value = whole[name];
      whole[name] = typeof value === "string" ? `${value}1` : typeof value === "number" ? value + 1 : { other: value };
    });
    refuse(path, (whole, name) => (Array.isArray(whole) ? whole.splice(Number(name), 1) : delete whole[name]));
  }
  refuse(["added"], (whole, name) => (whole[name] = "added"));
  return copies;
};

const schemaOf = async ({ id, type, digestSRI }) => {
  check(type === "JsonSchemaCredential", `credentialSchema has the type ${type}`);
  const text = await get(id);
  const digest = `sha384-${hash("sha384", text).toString("base64")}`;
  check(digest === digestSRI, `${id} has the digest ${digest} instead of ${digestSRI}`);
  const credential = JSON.parse(text);
  verifyProof(credential, "assertionMethod", await resolve(credential.issuer));
  const { credentialSubject: subject } = credential;
  check(credential.id === id && subject.id === subject.jsonSchema.$ref, `${id} is another credential`);
  const schemaId = /^vpr:[a-z0-9-]+:[\w-]+:cs:(\d+)$/.exec(subject.jsonSchema.$ref)?.[1];
  check(schemaId, `${id} names the schema ${subject.jsonSchema.$ref}`);
  const { schema } = await getJson(`${indexer}/v4/credential-schema/get/${schemaId}`);
  const integrity = `sha384-${hash("sha384", schema.json_schema).toString("base64")}`;
  check(subject.digestSRI === integrity, `the schema on the chain has the digest ${integrity} instead of ${subject.digestSRI}`);
  return schema;
};

// The digest of the canonical form of a whole credential, its proof included, as the chain has it.
const verifyDigest = async (credential, algorithm) => {
  const at = (document) => {
    const digest = `${algorithm}-${hash(algorithm, canonicalize(document)).toString("base64")}`;
    return fetch(`${indexer}/v4/di/get/${encodeURIComponent(digest)}`);
  };
  // The indexer may be a block behind the node.
  const anchored = await until(5, `the digest of ${credential.id} is not anchored`, async () => {
    const answer = await at(credential);
    return answer.ok && answer;
  });
  for (const copy of [{ ...credential, added: 1 }, { ...credential, proof: undefined }]) {
    check((await at(copy)).status === 404, `the digest of another form of ${credential.id} is anchored`);
  }
  return Date.parse((await anchored.json()).digest.created);
};

// The devnet's agents trust their sockets alone.
export const command = async ({ name }, ...words) => {
  const env = { ...process.env, SVC_AGENT_SOCKET: `${SVC_HOME}/${name}.sock` };
  const { stdout } = await promisify(execFile)(SVC_BINARY, ["agent", ...words, "--json"], { env });
  return JSON.parse(stdout);
};

const participants = async (did, role, schemaId) => {
  const query = new URLSearchParams({ did, role, schema_id: schemaId });
  const found = (await getJson(`${indexer}/v4/participant/list?${query}`)).participants;
  return found.filter((one) => one.participant_state === "ACTIVE");
};

// The session of a credential is that of the flow that has issued it, or has the credential's own id.
const sessionOf = async (credential, uuid) => {
  const issuer = agents.find((agent) => agent.did === credential.issuer);
  const flows = await command(issuer, "flows", "list", "--role", "validator");
  return flows.find((flow) => flow.credentialId === credential.id)?.participantSessionId ?? uuid;
};

// A credential that an agent has issued: its session, and the earliest of the ends that it has to respect.
const verifyIssuance = async (credential, schema) => {
  const { id, issuer, validFrom, validUntil, credentialSubject } = credential;
  const [did, uuid] = id.split("#");
  check(did === issuer && UUID_V4.test(uuid), `the id is ${id}`);
  check(list(credential.type).join() === "VerifiableCredential,VerifiableTrustCredential", `the types are ${credential.type}`);
  const { session } = await getJson(`${indexer}/v4/participant/participant-session/${await sessionOf(credential, uuid)}`);
  check(session.session_records.length === 1, `${session.session_records.length} records in the session of ${id}`);
  const [own] = (await participants(issuer, "ISSUER", schema.id)).filter((one) => one.id === session.session_records[0].issuer_participant_id);
  check(own, `the session of ${id} is of another participant than the issuer's`);
  const [holder] = (await participants(credentialSubject.id, "HOLDER", schema.id)).filter((one) => one.validator_participant_id === own.id);
  check(holder || credentialSubject.id === issuer, `${credentialSubject.id} is no holder`);
  const ends = [own.effective_until, holder?.effective_until].filter(Boolean).map((end) => Date.parse(end));
  const expected = Math.min(Date.parse(validFrom) + 365 * DAY, ...ends);
  check(Math.floor(expected / 1_000) === Date.parse(validUntil) / 1_000, `${id} ends at ${validUntil} instead of ${new Date(expected).toISOString()}`);
};

// The credential of a schema of the agent's own ecosystem is the file at its id.
const verifySchemaCredential = async (credential, state) => {
  check(credential.issuer === state.id, `${credential.id} is of ${credential.issuer}`);
  check(canonicalize(await getJson(credential.id)) === canonicalize(credential), `${credential.id} is another file`);
  return verifyAndRefuseCopies(credential, "assertionMethod", state);
};

// Verifies a document and its presentations; returns the document, the credentials, and the number of refused copies. While credentials
// are being replaced, one file may have the old ones and the next one the new ones.
export const verifyAgent = async ({ did, public: base }, isChanging = false) => {
  const state = await resolve(did);
  const parallel = await getJson(`${place(did)}/did.json`, "application/did+json");
  const rewritten = JSON.parse(JSON.stringify(state).replaceAll(`did:webvh:${did.split(":")[2]}:`, "did:web:"));
  for (const member of ["id", "@context", "verificationMethod", "authentication", "assertionMethod", "keyAgreement"]) {
    check(canonicalize(parallel[member]) === canonicalize(rewritten[member]), `${member} of the parallel document differs`);
  }
  check(list(parallel.alsoKnownAs).includes(did), "the parallel document does not name the DID");
  const implicit = list(parallel.service).filter((one) => !rewritten.service.some((own) => canonicalize(own) === canonicalize(one)));
  check(implicit.map((one) => one.id).join() === `${parallel.id}#files,${parallel.id}#whois`, `the parallel document has ${JSON.stringify(implicit)}`);
  check(parallel.service.length === state.service.length + 2, "the parallel document lacks services");

  const credentials = new Map();
  let copies = 0;
  const linked = state.service.filter((one) => one.type === "LinkedVerifiablePresentation");
  for (const { id, serviceEndpoint } of [...linked, implicit[1]]) {
    const isWhois = id.endsWith("#whois");
    const [, name, kind] = isWhois ? [] : (/#vpr-schemas-(service|org|persona|\d+)-(vtc|vtjsc)-vp$/.exec(id) ?? []);
    check(isWhois || name, `the fragment of ${id}`);
    check(serviceEndpoint === (isWhois ? `${base}/whois.vp` : `${base}/vt/${name}-${kind}-vp.json`), `${id} is at ${serviceEndpoint}`);
    const presentation = await getJson(serviceEndpoint, "application/json");
    check(list(presentation["@context"])[0] === CREDENTIALS_V2 && list(presentation.type).includes("VerifiablePresentation"), `the form of ${id}`);
    check(presentation.holder === did, `${id} is of ${presentation.holder}`);
    copies += verifyAndRefuseCopies(presentation, "authentication", state);
    const shown = list(presentation.verifiableCredential);
    if (isWhois) {
      const ids = (all) => all.map((one) => one.id).sort().join();
      check(isChanging || ids(shown) === ids([...credentials.values()]), "whois.vp presents other credentials than the entries");
    }
    check(isWhois || shown.length === 1, `${shown.length} credentials in ${id}`);
    for (const credential of shown) {
      if (kind === "vtjsc") {
        copies += await verifySchemaCredential(credential, state);
        continue;
      }
      const known = credentials.get(credential.id);
      check(!known || canonicalize(known) === canonicalize(credential), `${credential.id} has two forms`);
      if (known) continue;
      credentials.set(credential.id, credential);
      copies += await verifyCredential(credential, did);
    }
  }
  return { state, credentials: [...credentials.values()], copies };
};

const agents = JSON.parse(process.env.SVC_AGENTS ?? "[]");

const verifyCredential = async (credential, holder) => {
  const { id, issuer, type, credentialSubject, credentialSchema, validFrom, validUntil } = credential;
  check(list(credential["@context"])[0] === CREDENTIALS_V2 && list(type).includes("VerifiableCredential"), `the form of ${id}`);
  check(credentialSubject.id === holder, `${id} is about ${credentialSubject.id}`);
  const ended = validUntil !== undefined && !(Date.now() < Date.parse(validUntil));
  check(Date.parse(validFrom) <= Date.now() && !ended, `${id} is valid from ${validFrom} until ${validUntil}`);
  const copies = verifyAndRefuseCopies(credential, "assertionMethod", await resolve(issuer));
  const schema = await schemaOf(credentialSchema);
  const anchoredAt = await verifyDigest(credential, schema.digest_algorithm);
  check(anchoredAt + 1_000 > Date.parse(credential.proof.created), `${id} was anchored before it was signed`);
  if (agents.some((agent) => agent.did === issuer)) await verifyIssuance(credential, schema);
  return copies;
};

export const verdict = async ({ did }) => {
  const body = JSON.stringify({ did });
  return (await fetch(`${indexer}/v4/verifiable-trust/resolve`, { method: "POST", headers: { "content-type": "application/json" }, body })).json();
};

export const isTrusted = async (agent) => {
  const found = await verdict(agent);
  check(found.trusted, `${agent.name} is not trusted: ${JSON.stringify(found.reasons)}`);
  return true;
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const agent of agents) {
    await until(60, `${agent.name} is not trusted`, () => isTrusted(agent));
    const { credentials, copies } = await verifyAgent(agent);
    check(credentials.length > 0, `${agent.name} presents nothing`);
    console.log(`node's crypto: ${credentials.length} credentials of ${agent.name} and their presentations verify; ${copies} changed copies do not`);
  }
}
