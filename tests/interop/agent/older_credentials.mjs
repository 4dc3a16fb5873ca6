// Verifies what agents publish for the first generation, with the library of the suite's authors: JSON-LD, Ed25519Signature2020 and the DID
// Documents of holders and issuers. These are the linked presentations, the credentials in them, issued by flows and by the agent itself, and
// the credentials of schemas. Each changed copy is refused.

import { Ed25519Signature2020, suiteContext } from "@digitalbazaar/ed25519-signature-2020";
import { named } from "@digitalbazaar/credentials-context";
import jsonld from "jsonld-signatures";
import { check, getJson, list, resolve, until, verifyProof } from "./credentials.mjs";

const { extendContextLoader, purposes, verify } = jsonld;

const agents = JSON.parse(process.env.SVC_AGENTS);

// Contexts come from their packages, and keys from the DID Documents of their controllers.
const documentLoader = extendContextLoader(async (url) => {
  const known = named.get("v1");
  if (url === known.id) return { documentUrl: url, document: known.context };
  if (url === suiteContext.constants.CONTEXT_URL) return { documentUrl: url, document: suiteContext.contexts.get(url) };
  const [did, fragment] = url.split("#");
  check(did.startsWith("did:"), `${url} is not to be loaded`);
  const state = await resolve(did);
  if (!fragment) return { documentUrl: url, document: state };
  const method = state.verificationMethod.find((one) => one.id === url);
  check(method, `${url} is no key of its document`);
  return { documentUrl: url, document: { "@context": suiteContext.constants.CONTEXT_URL, ...method } };
});

const isValid = async (secured, term, controller) => {
  const purpose = new purposes.ControllerProofPurpose({ term, controller });
  const found = await verify(secured, { suite: new Ed25519Signature2020(), purpose, documentLoader });
  return found.verified ? true : Promise.reject(new Error(JSON.stringify(found.error?.errors?.map(String) ?? String(found.error))));
};

const isRefused = (...secured) => isValid(...secured).then(() => false, () => true);

// Verifies, and returns the number of changed copies, none of which does.
const verifyAndRefuse = async (secured, term, signer, changes) => {
  const name = secured.id ?? secured.holder;
  check(secured["@context"][0] === named.get("v1").id, `the form of ${name}`);
  await isValid(secured, term, signer).catch((cause) => {
    throw new Error(`${name} does not verify`, { cause });
  });
  const other = term === "authentication" ? "assertionMethod" : "authentication";
  check(await isRefused(secured, other, signer), `the proof of ${name} has the purpose ${other} too`);
  for (const change of changes) {
    check(await isRefused({ ...secured, ...change }, term, signer), `a copy of ${name} with ${JSON.stringify(change)} verifies`);
  }
  return changes.length + 1;
};

const isOlder = ({ proof }) => proof.type === "Ed25519Signature2020";

const verifyCredential = async (credential) => {
  const { credentialSubject: subject } = credential;
  const changed = (value) => (typeof value === "number" ? value + 1 : typeof value === "string" ? `${value}1` : { $ref: "vpr:other" });
  const subjects = Object.entries(subject).map(([name, value]) => ({ credentialSubject: { ...subject, [name]: changed(value) } }));
  const dates = { expirationDate: "2099-01-01T00:00:00Z" };
  const changes = [...subjects, dates, { issuer: "did:web:other.example" }, { id: "did:web:other.example#1" }, { type: ["VerifiableCredential"] }];
  return verifyAndRefuse(credential, "assertionMethod", await resolve(credential.issuer), changes);
};

const verifyPresentation = async (presentation, state) => {
  check(presentation.holder === state.id, `a presentation is of ${presentation.holder}`);
  const [credential] = list(presentation.verifiableCredential);
  const { credentialSubject, ...rest } = credential;
  const inside = [{ ...rest, credentialSubject: { ...credentialSubject, added: "1" } }, { ...credential, issuer: "did:web:other.example" }];
  const changes = [...inside.map((verifiableCredential) => ({ verifiableCredential })), { holder: "did:web:other.example" }];
  return verifyAndRefuse(presentation, "authentication", state, changes);
};

// The presentations that a document links to, in the older form, by their kind.
const linked = async ({ did }) => {
  const state = await resolve(did);
  const found = { state, vtc: [], vtjsc: [] };
  for (const { id, serviceEndpoint } of state.service.filter((one) => one.type === "LinkedVerifiablePresentation")) {
    const [, kind] = /#vpr-schemas-(?:service|org|persona|\d+)-(vtc|vtjsc)-vp$/.exec(id) ?? [];
    check(kind, `the fragment of ${id}`);
    const presentation = await getJson(serviceEndpoint);
    if (isOlder(presentation)) found[kind].push(presentation);
  }
  return found;
};

for (const agent of agents.slice(0, 2)) {
  // The first agent has an ecosystem, and issues to itself; the second one has credentials by flows alone.
  const hasSchemas = agent.name === "agent";
  const { state, vtc, vtjsc } = await until(60, `${agent.name} does not present what it should in this form`, async () => {
    const found = await linked(agent);
    return found.vtc.length > 0 && found.vtjsc.length > 0 === hasSchemas && found;
  });
  let copies = 0;
  for (const presentation of [...vtc, ...vtjsc]) copies += await verifyPresentation(presentation, state);
  const held = vtc.flatMap((one) => list(one.verifiableCredential));
  for (const credential of held) {
    check(isOlder(credential), `${credential.id} has another proof than its presentation`);
    check(credential.credentialSubject.id === agent.did, `${credential.id} is about ${credential.credentialSubject.id}`);
    copies += await verifyCredential(credential);
  }
  const schemas = vtjsc.flatMap((one) => list(one.verifiableCredential));
  // The schema of each credential is one of these files, or of another ecosystem.
  const ofHeld = held.map((one) => one.credentialSchema.id).filter((id) => id.startsWith(agents[0].public));
  for (const id of new Set([...schemas.map((one) => one.id), ...ofHeld])) {
    const file = await getJson(id, "application/json");
    check(file.id === id && file.issuer === agents[0].did && /\/schemas-\d+-jsc\.json$/.test(id), `${id} has another name`);
    copies += await verifyCredential(file);
  }
  // The presentation of all credentials has the suite that all of them have. Those of both data models need the newer proof, which node's own
  // crypto verifies.
  const whois = await getJson(`${agent.public}/whois.vp`, "application/json");
  const all = list(whois.verifiableCredential);
  check(isOlder(whois) === all.every(isOlder), "the form of whois.vp is not that of its credentials");
  if (isOlder(whois)) copies += await verifyPresentation(whois, state);
  else verifyProof(whois, "authentication", state);
  const shown = all.filter(isOlder).map((one) => one.id);
  check(held.every((one) => shown.includes(one.id)), "whois.vp lacks credentials of the entries");
  console.log(
    `@digitalbazaar/ed25519-signature-2020: ${vtc.length + vtjsc.length} presentations of ${agent.name}, ${held.length} credentials ` +
      `and ${schemas.length} of schemas verify; ${copies} changed copies do not`,
  );
}
