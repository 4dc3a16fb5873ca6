// Runs a scenario with CosmJS: its registry is loaded from our .proto files at run time, it signs and broadcasts every
// message, and parses every result. The node makes blocks on order, so that this run and the devnet's own end in the same
// application hash.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { DirectSecp256k1HdWallet, Registry } from "@cosmjs/proto-signing";
import { SigningStargateClient } from "@cosmjs/stargate";
import protobuf from "protobufjs";
import { parse } from "smol-toml";

const { env } = process;
const [, , file] = process.argv;
const scenario = parse(readFileSync(file, "utf8"));
const denom = env.SVC_DENOM;
const prefix = env.SVC_PREFIX;
const GAS = 3_000_000n;
const FEE = { gas: GAS.toString(), amount: [{ denom, amount: ((GAS * 25_000n) / 1_000_000n).toString() }] };

// Types from the .proto files. Fields keep their names; 64-bit numbers are texts in JSON.
const root = new protobuf.Root();
root.resolvePath = (_, target) =>
  target.startsWith("google/") ? path.join("node_modules", "protobufjs", target) : path.join(env.SVC_PROTO, target);
await root.load(env.SVC_PROTO_FILES.split("\n"), { keepCase: true });
const lookup = (url) => root.lookupType(url.slice(1));
const registry = new Registry();
for (const service of services(root)) {
  if (service.name === "Msg") {
    for (const method of service.methodsArray) {
      const type = service.parent.lookupType(method.requestType);
      registry.register(`/${type.fullName.slice(1)}`, type);
    }
  }
}
function* services(space) {
  for (const nested of space.nestedArray ?? []) {
    if (nested instanceof protobuf.Service) yield nested;
    else yield* services(nested);
  }
}

async function control(method, at, body) {
  const answer = await fetch(`${env.SVC_CONTROL}${at}`, {
    method,
    headers: { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const told = await answer.json();
  assert(answer.ok, JSON.stringify(told));
  return told;
}
const produce = () => control("POST", "/blocks", {});

const clients = {};
const values = { gov: env.SVC_GOV };
for (const account of scenario.account) {
  const wallet = await DirectSecp256k1HdWallet.fromMnemonic(account.mnemonic, { prefix });
  const [{ address }] = await wallet.getAccounts();
  values[account.name] = address;
  clients[account.name] = await SigningStargateClient.connectWithSigner(env.SVC_RPC, wallet, { registry });
}

const typeUrl = (name) => {
  if (name.startsWith("/")) return name;
  const [module, message] = name.split(".");
  return `/${prefix}.${module}.v1.${message}`;
};

async function reference(text) {
  if (text === "FEE") return denom;
  if (text.startsWith("type:")) return typeUrl(text.slice(5));
  const offset = /^now\+(\d+)s$/.exec(text);
  if (offset) {
    const { time } = await control("GET", "/");
    return new Date(Date.parse(time) + Number(offset[1]) * 1000).toISOString();
  }
  assert(text in values, `${text} is not a saved name`);
  return values[text];
}

async function resolve(value) {
  if (typeof value === "string") return value.startsWith("$") ? reference(value.slice(1)) : value;
  if (Array.isArray(value)) {
    if (value[0] === "$delegable") return env.SVC_DELEGABLE.split(" ");
    return Promise.all(value.map(resolve));
  }
  if (value !== null && typeof value === "object") {
    const entries = await Promise.all(Object.entries(value).map(async ([key, item]) => [key, await resolve(item)]));
    return Object.fromEntries(entries);
  }
  return value;
}

const span = (text) => {
  const seconds = Number(text.slice(0, -1));
  return seconds === 0 ? {} : { seconds };
};
const moment = (text) => {
  const milliseconds = Date.parse(text);
  const nanos = (milliseconds % 1000) * 1_000_000;
  return { seconds: Math.floor(milliseconds / 1000), ...(nanos === 0 ? {} : { nanos }) };
};

/// The protobuf JSON mapping, as far as scenarios use it.
function build(type, value) {
  const fields = {};
  for (const [name, item] of Object.entries(value)) {
    const field = type.fields[name];
    assert(field, `${type.fullName} has no field ${name}`);
    // protobufjs writes what is set, also if it is the default; packed messages are kept as they were written.
    if (item === 0 || item === false || item === "" || item === "0") continue;
    field.resolve();
    const one = (single) => {
      if (field.resolvedType instanceof protobuf.Enum) return enumeration(field.resolvedType, single);
      if (!(field.resolvedType instanceof protobuf.Type)) return single;
      switch (field.resolvedType.fullName) {
        case ".google.protobuf.Duration":
          return span(single);
        case ".google.protobuf.Timestamp":
          return moment(single);
        case ".google.protobuf.Any": {
          const { "@type": url, ...rest } = single;
          return pack(url, rest);
        }
        default:
          return build(field.resolvedType, single);
      }
    };
    fields[name] = field.repeated ? item.map(one) : one(item);
  }
  const problem = type.verify(fields);
  // protobufjs wants numbers where the JSON mapping has texts; fromObject converts them.
  assert(problem === null || problem.includes("integer"), problem);
  return type.fromObject(fields);
}

function enumeration(type, value) {
  if (typeof value === "number") return value;
  const full = Object.keys(type.values).find((name) => name === value || name.endsWith(`_${value}`));
  assert(full !== undefined, `${type.fullName} has no value ${value}`);
  return type.values[full];
}

function pack(url, value) {
  const type = lookup(url);
  return { type_url: url, value: type.encode(build(type, value)).finish() };
}

async function send(step, signer, messages, granter) {
  const client = clients[signer];
  const fee = granter === undefined ? FEE : { ...FEE, granter };
  const signed = await client.sign(values[signer], messages, fee, "");
  const raw = { body_bytes: signed.bodyBytes, auth_info_bytes: signed.authInfoBytes, signatures: signed.signatures };
  const hash = await client.broadcastTxSync(lookup("/cosmos.tx.v1beta1.TxRaw").encode(raw).finish());
  const { height } = await produce();
  const found = await client.getTx(hash);
  assert(found, `${step}: ${hash} is not in block ${height}`);
  assert.equal(found.code, 0, `${step}: ${found.rawLog}`);
  assert(found.gasUsed > 0n && found.events.length > 0);
  return found;
}

const attribute = (events, kind, key) =>
  events.find((event) => event.type === kind)?.attributes.find((one) => one.key === key)?.value;

const message = (url, value) => ({ typeUrl: url, value: build(lookup(url), value) });

async function propose(step, inner) {
  const member = values[step.signer];
  const url = "/cosmos.group.v1.MsgSubmitProposal";
  const value = { group_policy_address: values[step.proposal], proposers: [member], exec: "EXEC_TRY", title: step.name, summary: step.name };
  const outer = { typeUrl: url, value: build(lookup(url), value) };
  outer.value.messages = inner;
  const found = await send(step.name, step.signer, [outer]);
  const result = attribute(found.events, "cosmos.group.v1.EventExec", "result");
  assert.equal(result, '"PROPOSAL_EXECUTOR_RESULT_SUCCESS"', step.name);
  return found.events;
}

async function govern(step, inner) {
  const proposer = values[step.signer];
  const deposit = [{ denom, amount: "10000000" }];
  const submit = message("/cosmos.gov.v1.MsgSubmitProposal", { proposer, initial_deposit: deposit, title: step.name, summary: step.name });
  submit.value.messages = inner;
  const submitted = await send(step.name, step.signer, [submit]);
  const id = attribute(submitted.events, "submit_proposal", "proposal_id");
  await send(step.name, step.signer, [message("/cosmos.gov.v1.MsgVote", { proposal_id: id, voter: proposer, option: "VOTE_OPTION_YES" })]);
  await control("POST", "/clock", { seconds: scenario.genesis?.gov_voting_seconds ?? 30 });
  const { height } = await produce();
  const { result } = await (await fetch(`${env.SVC_RPC}/block_results?height=${height}`)).json();
  return result.finalize_block_events;
}

const operations = new Set();
for (const step of scenario.step) {
  if (step.advance) {
    await control("POST", "/clock", { seconds: step.advance });
    await produce();
  }
  if (!step.messages) continue;
  const resolved = [];
  for (const { type, value } of step.messages) {
    operations.add(typeUrl(type));
    resolved.push([typeUrl(type), await resolve(value)]);
  }
  const inner = () => resolved.map(([url, value]) => pack(url, value));
  let events;
  let responses = [];
  if (step.proposal) events = await propose(step, inner());
  else if (step.governance) events = await govern(step, inner());
  else {
    const messages = resolved.map(([url, value]) => message(url, value));
    const found = await send(step.name, step.signer, messages, step.granter && values[step.granter]);
    events = found.events;
    responses = found.msgResponses;
    assert.equal(responses.length, messages.length, step.name);
    // Every response is the message's own type, and decodes.
    responses.forEach((response, index) => {
      assert.equal(response.typeUrl, `${messages[index].typeUrl}Response`);
      lookup(response.typeUrl).decode(response.value);
    });
  }
  for (const [name, source] of Object.entries(step.save ?? {})) {
    const dot = source.lastIndexOf(".");
    if (dot > 0) values[name] = attribute(events, source.slice(0, dot), source.slice(dot + 1));
    else {
      const last = responses.at(-1);
      const type = lookup(last.typeUrl);
      values[name] = type.toObject(type.decode(last.value), { longs: String })[source];
    }
    assert(values[name], `${step.name}: nothing to save as ${source}`);
  }
}
Object.values(clients).forEach((client) => client.disconnect());
const ours = JSON.parse(env.SVC_VALUES);
assert.deepEqual(values, ours, "the same addresses and ids");
const { app_hash, height } = await control("GET", "/");
assert.equal(height, Number(env.SVC_EXPECTED_HEIGHT));
assert.equal(app_hash, env.SVC_EXPECTED_HASH, "the same state");
const registryOperations = [...operations].filter((url) => url.startsWith(`/${prefix}.`) && !/SchemaAuthorizationPolicy|\.xr\.|SlashTrustDeposit/.test(url));
console.log(`cosmjs: ${scenario.step.length} steps, ${registryOperations.length} of 27 operations, application hash ${app_hash.slice(0, 16)}… at height ${height}`);
