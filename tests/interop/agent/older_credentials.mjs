// Verifies the credentials that an agent has got by flows in the format of the first generation, with the library of the suite's authors:
// JSON-LD, Ed25519Signature2020 and the DID Documents of their issuers. Each changed copy is refused.

import { Ed25519Signature2020, suiteContext } from "@digitalbazaar/ed25519-signature-2020";
import { named } from "@digitalbazaar/credentials-context";
import jsonld from "jsonld-signatures";
import { check, getJson, list, resolve, until } from "./credentials.mjs";

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

const isValid = async (credential) => {
  const purpose = new purposes.AssertionProofPurpose({ controller: await resolve(credential.issuer) });
  const found = await verify(credential, { suite: new Ed25519Signature2020(), purpose, documentLoader });
  return found.verified ? true : Promise.reject(new Error(JSON.stringify(found.error?.errors?.map(String) ?? String(found.error))));
};

const isRefused = (credential) => isValid(credential).then(() => false, () => true);

const presented = async ({ did }) => {
  const linked = (await resolve(did)).service.filter((one) => one.type === "LinkedVerifiablePresentation");
  const shown = await Promise.all(linked.map((one) => getJson(one.serviceEndpoint)));
  return shown.flatMap((one) => list(one.verifiableCredential)).filter((one) => one.proof.type === "Ed25519Signature2020");
};

for (const agent of agents) {
  // The others issue, or have none.
  if (agent.name !== "branch") continue;
  const found = await until(60, `${agent.name} presents no credential of this format`, async () => {
    const all = await presented(agent);
    return all.length > 0 && all;
  });
  for (const credential of found) {
    check(credential.credentialSubject.id === agent.did, `${credential.id} is about ${credential.credentialSubject.id}`);
    await isValid(credential);
    for (const [name, value] of Object.entries(credential.credentialSubject)) {
      const other = typeof value === "number" ? value + 1 : `${value}1`;
      const copy = { ...credential, credentialSubject: { ...credential.credentialSubject, [name]: other } };
      check(await isRefused(copy), `a copy of ${credential.id} with another ${name} verifies`);
    }
    for (const change of [{ issuer: agent.did }, { expirationDate: "2099-01-01T00:00:00Z" }, { id: "did:web:other.example#1" }]) {
      check(await isRefused({ ...credential, ...change }), `a copy of ${credential.id} with ${JSON.stringify(change)} verifies`);
    }
  }
  console.log(`@digitalbazaar/ed25519-signature-2020: ${found.length} credentials of ${agent.name} verify, changed copies do not`);
}
