// The official TypeScript client of the generation before, as many hosts have it: the main job, and every error whole. The first
// argument is the package: the newest version of that generation, or the one that a host pins.
import assert from "node:assert/strict";

const [name, part] = process.argv.slice(2);
const { Client } = await import(`${name}/client/index.js`);
const { StreamableHTTPClientTransport } = await import(`${name}/client/streamableHttp.js`);
const { env } = process;

async function connect() {
  const client = new Client({ name: "svc-interop", version: "1.0.0" });
  const headers = { Authorization: `Bearer ${env.MCP_BEARER_TOKEN}` };
  const broken = [];
  client.onerror = (error) => broken.push(error);
  await client.connect(new StreamableHTTPClientTransport(new URL(env.SVC_MCP_URL), { requestInit: { headers } }));
  return { client, broken };
}

function envelope(result) {
  assert.equal(result.isError, true);
  assert.equal(result.structuredContent, undefined);
  const [line, data] = result.content.map((block) => block.text);
  const error = JSON.parse(data);
  assert.deepEqual(Object.keys(error), ["stage", "code", "message", "hint", "retryable", "details"]);
  assert(line.startsWith(`${error.code}: ${error.message}`), line);
  return error;
}

/** The client learns the output schemas from the list, and checks every structured result against them from then on. */
async function mainJob() {
  const { client, broken } = await connect();
  const { tools, nextCursor } = await client.listTools();
  assert.equal(nextCursor, undefined, "one page has every tool");
  assert(tools.some((tool) => tool.name === "svc.wallet.getStatus"));
  const unique = name.replaceAll(/[^a-z0-9]/g, "");
  const document = { language: "en", doc_url: "https://v1.example/framework.pdf", doc_digest_sri: "sha384-AAEC" };
  const written = await client.callTool({ name: "svc.ledger.es.createEcosystem", arguments: { did: `did:web:${unique}.example`, ...document } });
  assert.equal(Object.keys(written.structuredContent)[0], "response");
  const id = written.structuredContent.response.ecosystem_id;
  const read = await client.callTool({ name: "svc.idx.es.getEcosystem", arguments: { id } });
  assert.equal(read.structuredContent.ecosystem.did, `did:web:${unique}.example`);
  const listed = await client.callTool({ name: "svc.idx.es.listEcosystems", arguments: { corporation_id: null } });
  assert(listed.structuredContent.ecosystems.length > 0);
  const missing = await client.callTool({ name: "svc.idx.es.getEcosystem", arguments: { id: 999999999 } });
  assert.equal(envelope(missing).code, "NOT_FOUND");
  assert.equal(envelope(await client.callTool({ name: "svc.idx.es.getEcosystem", arguments: {} })).code, "INPUT_INVALID");
  await client.close();
  assert.deepEqual(broken.filter((error) => error instanceof SyntaxError), [], "an event that is no JSON");
  console.log(`${name}: ${tools.length} tools in one page, ecosystem ${id}`);
}

/** Every code of an envelope, from a tool whose output schema fits none. */
async function everyCode() {
  const { client } = await connect();
  const { tools } = await client.listTools();
  const { code } = tools.find((tool) => tool.name === "svc_test_envelope").inputSchema.properties;
  for (const wanted of code.enum) {
    const error = envelope(await client.callTool({ name: "svc_test_envelope", arguments: { code: wanted } }));
    assert.equal(error.code, wanted);
    assert.deepEqual(error.details, { tx_hash: "AB", timeout_height: 7 });
    assert.equal(error.hint, "do not repeat");
  }
  await client.close();
  console.log(`${name}: ${code.enum.length} codes arrive whole`);
}

await (part === "codes" ? everyCode : mainJob)();
