// The tokens (o200k_base) that a model pays: for every tool of the catalogue by surface, as hosts pass it on (name, description,
// input schema) and with title, output schema and hints; for the listing of a devnet, all and core; and for ten usual answers, light
// and whole. Run: node tokens.mjs <file with the listing> <svc program>
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { encode } from "gpt-tokenizer/encoding/o200k_base";

const tokens = (value) => encode(typeof value === "string" ? value : JSON.stringify(value)).length;
const passedOn = ({ name, description, inputSchema }) => tokens({ name, description, inputSchema });
const sum = (list, of) => list.reduce((total, one) => total + of(one), 0);
const row = (...cells) => console.log(`| ${cells.join(" | ")} |`);

function catalogue(tools) {
  row("surface", "tools", "tokens as passed on", "a tool", "with output schema and hints");
  row("---", "---", "---", "---", "---");
  const surfaces = Map.groupBy(tools, (tool) => tool.name.split(".")[1]);
  for (const [name, some] of [...surfaces, ["all", tools]]) {
    row(name, some.length, sum(some, passedOn), Math.round(sum(some, passedOn) / some.length), sum(some, tokens));
  }
}

const [listing, program] = process.argv.slice(2);
catalogue(JSON.parse(readFileSync(listing, "utf8")));

const free = ["rpc", "indexer", "mcp", "services", "agent-admin", "agent-public"].flatMap((part) => [`--${part}-port`, "0"]);
const devnet = spawn(program, ["devnet", "--scenario", "marketplace", "--block-time", "200ms", "--json", ...free], { stdio: ["ignore", "pipe", "ignore"] });
const [line] = await new Promise((resolve) => createInterface(devnet.stdout).once("line", (text) => resolve([text])));
const net = JSON.parse(line);
const headers = { Authorization: `Bearer ${net.bearer}` };
const client = new Client({ name: "svc-tokens", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL(net.mcp), { requestInit: { headers } }));

async function listed(name, own) {
  const { tools } = await own.listTools();
  row(name, tools.length, sum(tools, passedOn));
}

console.log();
row("listing of the devnet (marketplace)", "tools", "tokens");
row("---", "---", "---");
await listed("all", client);
const core = new Client({ name: "svc-tokens", version: "1.0.0" });
const env = {
  MCP_TRANSPORT: "stdio",
  MCP_SVC_MNEMONIC: "legal winner thank year wave sausage worth useful legal winner thank yellow",
  SVC_CORPORATION: String(net.corporation_id),
  SVC_RPC: net.rpc,
  SVC_INDEXER: net.indexer,
  SVC_TOOLSETS: "core",
  SVC_LOG_LEVEL: "error",
};
await core.connect(new StdioClientTransport({ command: program, args: ["serve"], env }));
await listed("core", core);
await core.close();

const document = { language: "en", doc_url: "https://tokens.example/framework.pdf", doc_digest_sri: "sha384-AAEC" };
const create = { did: "did:web:tokens.example", ...document };
const usual = [
  ["svc.ledger.es.createEcosystem", create, { ...create, did: "did:web:tokens2.example", include_events: true }],
  ["svc.ledger.di.storeDigest", { digest: "sha256-tokens" }, { digest: "sha256-tokens2", include_events: true }],
  ...["es.listEcosystems", "cs.listCredentialSchemas", "pp.listParticipants", "co.listCorporations", "de.listOperatorAuthorizations", "indexer.listEvents"].map(
    (read) => [`svc.idx.${read}`, {}, { raw: true }],
  ),
  ["svc.idx.pp.listParticipants", { fields: ["id", "role", "did"] }, { raw: true }],
  ["svc.wallet.getStatus", {}, {}],
];
console.log();
row("answer", "light", "whole");
row("---", "---", "---");
for (const [name, light, whole] of usual) {
  const answer = async (args) => {
    const { content, isError } = await client.callTool({ name, arguments: args });
    if (isError) throw new Error(`${name}: ${content[0].text}`);
    return tokens(content.at(-1).text);
  };
  row(`${name}${light.fields ? " with fields" : ""}`, await answer(light), await answer(whole));
}
await client.close();
devnet.kill("SIGTERM");
