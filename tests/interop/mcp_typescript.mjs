// The official TypeScript MCP client: the main job over HTTP and over stdio.
import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const { env } = process;

async function mainJob(name, transport) {
  const client = new Client({ name: "svc-interop", version: "1.0.0" });
  await client.connect(transport);
  const { tools } = await client.listTools();
  assert(tools.some((tool) => tool.name === "svc.ledger.es.createEcosystem"));
  const did = `did:web:${name}.example`;
  const written = await client.callTool({
    name: "svc.ledger.es.createEcosystem",
    arguments: { did, language: "en", doc_url: `https://${name}.example/framework.pdf`, doc_digest_sri: "sha384-AAEC" },
  });
  const receipt = written.structuredContent;
  assert(!written.isError, JSON.stringify(receipt));
  assert.equal(receipt.indexer_synced, true);
  const id = receipt.response.ecosystem_id;
  const read = await client.callTool({ name: "svc.idx.es.getEcosystem", arguments: { id } });
  assert.equal(read.structuredContent.ecosystem.did, did);
  const refused = await client.callTool({ name: "svc.ledger.es.createEcosystem", arguments: { did: "broken" } });
  assert.equal(refused.structuredContent, undefined);
  assert.equal(JSON.parse(refused.content.at(-1).text).code, "INPUT_INVALID");
  const { contents } = await client.readResource({ uri: "svc://own/operator" });
  assert(contents[0].text.includes(env.SVC_OPERATOR));
  console.log(`typescript ${name}: ecosystem ${id}, block ${receipt.block_height}`);
  await client.close();
}

const headers = { Authorization: `Bearer ${env.MCP_BEARER_TOKEN}` };
await mainJob("typescript-http", new StreamableHTTPClientTransport(new URL(env.SVC_MCP_URL), { requestInit: { headers } }));
const { MCP_SVC_MNEMONIC, SVC_CORPORATION, SVC_RPC, SVC_INDEXER } = env;
await mainJob(
  "typescript-stdio",
  new StdioClientTransport({
    command: env.SVC_BINARY,
    args: ["serve"],
    env: { MCP_SVC_MNEMONIC, SVC_CORPORATION, SVC_RPC, SVC_INDEXER, MCP_TRANSPORT: "stdio", SVC_LOG_LEVEL: "error" },
  }),
);
