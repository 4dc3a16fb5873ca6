// Walks every route of the admin API with the client that @hey-api/openapi-ts has generated.

import { client } from "./agent_client_compiled/client.gen.js";
import * as api from "./agent_client_compiled/sdk.gen.js";

client.setConfig({ baseUrl: process.argv[2] });
let walked = 0;

const expect = async (call, status, code) => {
  const { data, error, response } = await call;
  if (response.status !== status || error?.error?.code !== code) {
    throw new Error(`${response.status} instead of ${status} ${code}: ${JSON.stringify(error ?? data)}`);
  }
  walked += 1;
  return data;
};
const same = (found, expected) => {
  if (found !== expected) throw new Error(`${found} instead of ${expected}`);
};

await expect(api.getLiveness(), 200);
await expect(api.getReadiness(), 200);
const info = await expect(api.getAgentInfo(), 200);
const body = { id: "typescript", type: "MCP", serviceEndpoint: "https://example.com/typescript" };
const added = await expect(api.addServiceEndpoint({ body }), 200);
same(added.id, `${info.did}#typescript`);
const path = { serviceEndpointId: "#typescript" };
const updated = await expect(api.updateServiceEndpoint({ path, body: { serviceEndpoint: { uri: "https://example.com/changed" } } }), 200);
same(updated.serviceEndpoint.uri, "https://example.com/changed");
const page = await expect(api.listServiceEndpoints({ query: { limit: 500 } }), 200);
same(page.items.some((entry) => entry.id === added.id), true);
await expect(api.deleteServiceEndpoint({ path }), 200);
await expect(api.deleteServiceEndpoint({ path }), 404, "UNKNOWN_ID");
same((await expect(api.listDeadLetters(), 200)).items.length, 0);
same((await expect(api.listGaps(), 200)).items.length, 0);
await expect(api.retryDeadLetter({ path: { id: "none" } }), 404, "UNKNOWN_ID");
await expect(api.removeDeadLetter({ path: { id: "none" } }), 404, "UNKNOWN_ID");
await expect(api.refillGaps(), 200);
const setup = await expect(api.getSetup({ query: { days: 30 } }), 200);
same(setup.complete, false);
same(setup.steps.some((step) => step.id === "holder"), true);
for (const lists of [api.listLinkedCredentials, api.listIssuedCredentials, api.listSchemaCredentials]) {
  same((await expect(lists(), 200)).items.length, 0);
}
await expect(api.addLinkedCredential({ body: { credential: { id: "urn:none" } } }), 400, "INVALID_INPUT");
await expect(api.removeLinkedCredential({ path: { credentialId: "none" } }), 404, "UNKNOWN_ID");
const issued = { did: "did:web:none.example", schemaId: "999999", claims: { name: "none" } };
await expect(api.issueCredential({ body: issued }), 400, "INVALID_INPUT");
same(typeof (await expect(api.rotateKeys({ body: { kind: "update" } }), 200)).versionId, "string");
same((await expect(api.exportStore({ parseAs: "text" }), 200)).startsWith('{"format"'), true);
await expect(api.challenge({ body: { account: "svc1a" } }), 404, "UNKNOWN_ID");
await expect(api.token({ body: { account: "svc1a", pubKey: "a", signature: "a", nonce: "a" } }), 404, "UNKNOWN_ID");
console.log(`@hey-api/openapi-ts: ${walked} requests, every route`);
