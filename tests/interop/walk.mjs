// The acceptance walk with the official TypeScript client, in both protocol eras: every read that walk.py wrote down, writes with
// their progress, a confirmation that is declined and given, every prompt and resource, completion.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

const { env } = process;
const calls = JSON.parse(readFileSync(env.SVC_READS, "utf8"));
const values = JSON.parse(env.SVC_VALUES);
// Identifiers may be numbers or texts.
const ajv = new Ajv2020({ allowUnionTypes: true });
addFormats(ajv);

const DIGEST = "sha384-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v";
const STEPS = ["simulating and signing", "submitted, waiting for a block", "in a block, waiting for the indexer", "done"];
// Named in prompts, and not listed to the registry's operator: no graph, no agents, no session without a record.
const NOT_LISTED = /^svc\.(graph|vsa|ledger\.pp\.createOrUpdateParticipantSession)/;
const RESOURCES = {
  "svc://own/operator": ["address", "account_number", "sequence", "public_key", "chain_id"],
  "svc://own/corporation": ["id", "policy_address", "did", "active_version", "language", "modified", "ecosystems"],
  "svc://own/authorizations": ["0"],
  "svc://own/fee-grant": [],
  "svc://own/vs-agents": [],
  "svc://own/transactions": ["transactions"],
  "svc://own/audit": ["records"],
  "svc://own/approvals": ["approvals"],
  "svc://own/status": ["journal", "endpoints", "bootstrap_complete", "rpc_ws", "indexer_ws", "graph_ws", "build_version", "actors"],
};
const PROMPT_ARGUMENTS = {
  action: "ISSUE",
  after_block_height: "1",
  agent_did: "did:web:agent.example",
  change: "validity periods",
  corporation_id: values.registry_id,
  did: "did:web:walk.example",
  doc_digest_sri: DIGEST,
  doc_language: "en",
  doc_url: "https://walk.example/framework.pdf",
  ecosystem_id: values.education,
  effective_from: "2030-01-01T00:00:00Z",
  effective_until: "2031-01-01T00:00:00Z",
  error_code: "TX_FAILED",
  expiration: "2030-01-01T00:00:00Z",
  grantee: values.oracle,
  intent: "store a digest",
  json_schema: "{}",
  language: "en",
  members: values.member,
  msg_types: "/svc.di.v1.MsgStoreDigest",
  new_did: "did:web:new.example",
  old_did: "did:web:old.example",
  participant_id: values.diploma_issuer,
  question: "who issues diplomas?",
  role: "ISSUER",
  schema_id: values.diploma,
  spend_limit: "1000",
  timeout_height: "100",
  tool: "svc.ledger.di.storeDigest",
  tx_hash: "A".repeat(64),
  validator_participant_id: values.diploma_root,
  vs_operator: values.issuing_service,
};

async function connect(mode, answer) {
  const capabilities = answer === undefined ? {} : { elicitation: {} };
  const client = new Client({ name: "svc-walk", version: "1.0.0" }, { capabilities, versionNegotiation: { mode } });
  const asked = [];
  if (answer !== undefined) {
    client.setRequestHandler("elicitation/create", ({ params }) => {
      asked.push(params);
      return answer;
    });
  }
  const headers = { Authorization: `Bearer ${env.MCP_BEARER_TOKEN}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(env.SVC_MCP_URL), { requestInit: { headers } }));
  return { client, asked };
}

async function done(client, tool, args, options) {
  const answer = await client.callTool({ name: tool, arguments: args }, options);
  const told = answer.structuredContent;
  assert(!answer.isError, `${tool} ${JSON.stringify(args)} failed: ${JSON.stringify(answer.content, null, 1)}`);
  return told;
}

async function reads(client, tools) {
  const schemas = new Map(tools.map((tool) => [tool.name, ajv.compile(tool.outputSchema)]));
  tools.forEach((tool) => ajv.compile(tool.inputSchema));
  const readOnly = tools.filter((tool) => tool.annotations.readOnlyHint).map((tool) => tool.name);
  const unread = readOnly.filter((name) => !calls.some((call) => call.tool === name));
  assert.deepEqual(unread, [], "reads that are listed and not in the table of walk.py");
  for (const { tool, arguments: args } of calls) {
    const validate = schemas.get(tool);
    const told = await done(client, tool, args);
    assert(validate(told), `${tool} ${JSON.stringify(args)} breaks its output schema: ${ajv.errorsText(validate.errors)}`);
  }
  return readOnly.length;
}

/// Three writes; each tells its steps while it goes on.
async function writes(client, mode) {
  const progress = async (tool, args) => {
    const steps = [];
    const receipt = await done(client, tool, args, { onprogress: (step) => steps.push(step) });
    assert.deepEqual(steps.map((step) => step.message), STEPS, `progress of ${tool}`);
    assert.deepEqual(steps.map((step) => [step.progress, step.total]), [[1, 4], [2, 4], [3, 4], [4, 4]]);
    return receipt.response;
  };
  const did = `did:web:walk-${mode}.example`;
  const framework = { language: "en", doc_url: "https://walk.example/framework.pdf", doc_digest_sri: DIGEST };
  const { ecosystem_id: id } = await progress("svc.ledger.es.createEcosystem", { did, ...framework });
  await progress("svc.ledger.es.updateEcosystem", { id, did: `${did}:moved` });
  await progress("svc.ledger.di.storeDigest", { digest: `sha256-${mode}` });
  const { ecosystem } = await done(client, "svc.idx.es.getEcosystem", { id });
  assert.equal(ecosystem.did, `${did}:moved`);
  return id;
}

/// A person is asked before an ecosystem is archived, declines, closes the question, leaves the box empty, and at last confirms.
async function confirmation(mode, id) {
  const refusals = [
    { action: "decline" },
    { action: "cancel" },
    { action: "accept", content: { confirm: false } },
  ];
  for (const answer of [...refusals, { action: "accept", content: { confirm: true } }]) {
    const { client, asked } = await connect(mode, answer);
    const result = await client.callTool({ name: "svc.ledger.es.archiveEcosystem", arguments: { id, archive: true } });
    assert.equal(asked.length, 1, `${mode}: one question, asked ${asked.length}`);
    assert.equal(asked[0].requestedSchema.properties.confirm.type, "boolean");
    assert(asked[0].message.includes("MsgArchiveEcosystem"), `the question shows the message: ${asked[0].message}`);
    const { ecosystem } = await done(client, "svc.idx.es.getEcosystem", { id });
    const isConfirmed = answer.content?.confirm === true;
    assert.equal(ecosystem.archived !== null, isConfirmed, `${mode}, ${JSON.stringify(answer)}: archived ${ecosystem.archived}`);
    const { code } = JSON.parse(result.content.at(-1).text);
    assert.equal(code, isConfirmed ? 0 : "AUTHZ_PRECONDITION_FAILED", JSON.stringify(result.content));
    await client.close();
  }
}

/// Every prompt with what it requires, and with all it takes; the tools it names exist.
async function prompts(client, names) {
  const { prompts: plans } = await client.listPrompts();
  assert.equal(plans.length, 15);
  for (const plan of plans) {
    const required = plan.arguments.filter((argument) => argument.required);
    for (const given of [required, plan.arguments]) {
      const unknown = given.filter(({ name }) => PROMPT_ARGUMENTS[name] === undefined);
      assert.deepEqual(unknown, [], `${plan.name} takes arguments the walk has no value for`);
      const args = Object.fromEntries(given.map(({ name }) => [name, PROMPT_ARGUMENTS[name]]));
      const { messages } = await client.getPrompt({ name: plan.name, arguments: args });
      const text = messages.map((message) => message.content.text).join("\n");
      assert(!/\{\{|\{%|undefined/.test(text), `${plan.name} is not filled in`);
      for (const { name } of required) {
        assert(text.includes(args[name]), `${plan.name} leaves out its argument ${name}`);
      }
      const named = text.match(/svc\.(ledger|idx|graph|vsa|cosmos|wallet)(\.\w+)+/g) ?? [];
      const missing = named.filter((name) => !names.has(name) && !NOT_LISTED.test(name));
      assert.deepEqual(missing, [], `${plan.name} names tools that do not exist`);
      assert(named.length > 0, `${plan.name} names no tool`);
    }
  }
  return plans.length;
}

async function resources(client) {
  const { resources: listed } = await client.listResources();
  assert.deepEqual(listed.map(({ uri }) => uri).sort(), Object.keys(RESOURCES).sort());
  for (const [uri, keys] of Object.entries(RESOURCES)) {
    const { contents } = await client.readResource({ uri });
    const content = JSON.parse(contents[0].text);
    assert.equal(contents[0].mimeType, "application/json");
    for (const key of keys) assert(key in content, `${uri} lacks ${key}: ${contents[0].text}`);
  }
  return listed.length;
}

async function completions(client) {
  const complete = async (name, argument, value) => {
    const { completion } = await client.complete({ ref: { type: "ref/prompt", name }, argument: { name: argument, value } });
    return completion.values;
  };
  const ofPrompt = await complete("manage-credential-schema", "schema_id", "");
  assert(ofPrompt.includes(values.diploma), `schema_id of a prompt completes to ${ofPrompt}`);
  const ofTool = await complete("svc.ledger.cs.createCredentialSchema", "ecosystem_id", values.education);
  assert(ofTool.includes(values.education), `ecosystem_id of a tool completes to ${ofTool}`);
  const hashes = await complete("reconcile-transaction", "tx_hash", "");
  const { state } = await done(client, "svc.cosmos.tx.getTx", { hash: hashes[0] });
  assert.equal(state, "included", "a completed hash is one of a transaction");
}

for (const mode of ["legacy", "auto"]) {
  const { client } = await connect(mode);
  const { tools } = await client.listTools();
  const names = new Set(tools.map((tool) => tool.name));
  const count = await reads(client, tools);
  const version = client.getNegotiatedProtocolVersion();
  console.log(`typescript ${mode}: protocol ${version}, ${tools.length} tools listed, ${count} reads in ${calls.length} calls`);
  const id = await writes(client, mode);
  console.log(`typescript ${mode}: 3 writes told their progress, ecosystem ${id}`);
  await confirmation(mode, id);
  console.log(`typescript ${mode}: a person declined, closed, left empty, confirmed`);
  const planned = await prompts(client, names);
  const read = await resources(client);
  await completions(client);
  console.log(`typescript ${mode}: ${planned} prompts, ${read} resources, completion from live data`);
  await client.close();
}
