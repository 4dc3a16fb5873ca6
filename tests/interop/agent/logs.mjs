// A did:webvh log by didwebvh-ts: verifies the given one, and refuses it with another letter in its middle; makes one of its own where
// a second file is named.

import { readFileSync, writeFileSync } from "node:fs";
import { createPrivateKey, createPublicKey, generateKeyPairSync, sign, verify } from "node:crypto";
import { AbstractCrypto, createDID, multibaseEncode, MultibaseEncoding, prepareDataForSigning, resolveDIDFromLog, updateDID } from "didwebvh-ts";

const [given, own] = process.argv.slice(2);

const SPKI = Buffer.from("302a300506032b6570032100", "hex");

class Ed25519 extends AbstractCrypto {
  constructor() {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const raw = publicKey.export({ format: "der", type: "spki" }).subarray(SPKI.length);
    const multikey = multibaseEncode(Buffer.concat([Buffer.from([0xed, 0x01]), raw]), MultibaseEncoding.BASE58_BTC);
    super({ verificationMethod: { type: "Multikey", publicKeyMultibase: multikey, purpose: "authentication" } });
    this.key = privateKey;
    this.multikey = multikey;
  }

  async sign({ document, proof }) {
    const signature = sign(null, await prepareDataForSigning(document, proof), this.key);
    return { proofValue: multibaseEncode(signature, MultibaseEncoding.BASE58_BTC) };
  }

  getVerificationMethodId() {
    return `did:key:${this.multikey}#${this.multikey}`;
  }

  async verify(signature, message, publicKey) {
    const key = createPublicKey({ key: Buffer.concat([SPKI, publicKey]), format: "der", type: "spki" });
    return verify(null, message, key, signature);
  }
}

const crypto = new Ed25519();
const lines = (bytes) => bytes.toString().trim().split("\n").map((line) => JSON.parse(line));

const bytes = readFileSync(given);
const found = await resolveDIDFromLog(lines(bytes), { verifier: crypto });
const expected = lines(bytes).at(-1);
if (found.did !== expected.state.id || found.meta.versionId !== expected.versionId) throw new Error(JSON.stringify(found.meta));
if (found.meta.error) throw new Error(`${found.meta.error}: ${JSON.stringify(found.meta.problemDetails)}`);

// The letter behind the prefix of a key, in the document of the entry in the middle.
const damaged = lines(bytes);
const [method] = damaged[Math.floor(damaged.length / 2)].state.verificationMethod;
method.publicKeyMultibase = method.publicKeyMultibase.replace(/^(z6..)(.)/, (_, prefix, letter) => prefix + (letter === "a" ? "b" : "a"));
const refused = await resolveDIDFromLog(damaged, { verifier: crypto }).then(
  (answer) => answer.meta.error ?? answer.meta.versionId !== expected.versionId,
  () => true,
);
if (!refused) throw new Error("a damaged log was accepted");

let made = "";
if (own) {
  const verificationMethods = [{ type: "Multikey", publicKeyMultibase: crypto.multikey, purpose: "authentication" }];
  let log = await createDID({ domain: "other.example.com", signer: crypto, verifier: crypto, updateKeys: [crypto.multikey], verificationMethods, created: "2024-01-01T00:00:00Z" });
  for (const services of [1, 2]) {
    log = await updateDID({ log: log.log, signer: crypto, verifier: crypto, updateKeys: [crypto.multikey], verificationMethods, updated: `2024-01-0${services + 1}T00:00:00Z` });
  }
  writeFileSync(own, log.log.map((entry) => JSON.stringify(entry)).join("\n") + "\n");
  made = `; ${log.log.length} entries of its own`;
}
console.log(`didwebvh-ts: ${lines(bytes).length} entries verify, a damaged log does not${made}`);
