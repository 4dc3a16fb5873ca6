// A peer for `make bench`: CosmJS writes ecosystems of one corporation with one operator key, straight at the node's RPC.
// Modes:
//   sequential  signAndBroadcast as it is used normally: simulated gas, one call awaited after the other, default polling
//   handkept    the sequence kept by hand: every transaction signed and broadcast at once, then looked up until it is in a block
// Run: node cosmjs_writes.mjs <mode> <rpc url> <mnemonic> <policy address> <count> <label, new for every run>
// Prints one JSON object: seconds from the first call until CosmJS knows of the last inclusion; `first_height` is the height at
// the beginning, `last_height` that of the last inclusion. What failed is told on standard error.
// Needs, beside this file: @cosmjs/proto-signing, @cosmjs/stargate, protobufjs. The .proto files are those of the repository
// this file is two folders deep in, as it is in benches/peers and in target/interop.
import { createRequire } from "node:module";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DirectSecp256k1HdWallet, Registry } from "@cosmjs/proto-signing";
import { GasPrice, SigningStargateClient, calculateFee } from "@cosmjs/stargate";
import protobuf from "protobufjs";

const NAMESPACE = "svc";
const CREATE = `/${NAMESPACE}.ec.v1.MsgCreateEcosystem`;
/// CosmJS cannot simulate with a fee: what the fee grant costs, more than the message, is not in what it finds.
const GAS_MULTIPLIER = 3;
const POLL_MS = 200;
const TIMEOUT_MS = 60_000;

const [mode, rpc, mnemonic, corporation, countText, label] = process.argv.slice(2);
const modes = { sequential, handkept };
const count = Number(countText);
if (!Object.hasOwn(modes, mode) || !(count > 0) || label === undefined) {
  console.error("usage: node cosmjs_writes.mjs sequential|handkept <rpc url> <mnemonic> <policy address> <count> <label>");
  process.exit(2);
}

const require = createRequire(import.meta.url);
const root = new protobuf.Root();
root.resolvePath = (_, target) =>
  target.startsWith("google/") ? require.resolve(`protobufjs/${target}`) : path.join(import.meta.dirname, "../../wire/proto", target);
await root.load([`${NAMESPACE}/ec/v1/tx.proto`, "cosmos/tx/v1beta1/tx.proto"]);
const TxRaw = root.lookupType("cosmos.tx.v1beta1.TxRaw");
const registry = new Registry([[CREATE, root.lookupType(CREATE.slice(1))]]);

const wallet = await DirectSecp256k1HdWallet.fromMnemonic(mnemonic, { prefix: NAMESPACE });
const [{ address: operator }] = await wallet.getAccounts();
const client = await SigningStargateClient.connectWithSigner(rpc, wallet, { registry });
// The corporation holds nothing but the fee denom.
const [{ denom }] = await client.getAllBalances(corporation);
const gasPrice = GasPrice.fromString(`0.025${denom}`);

function messages(n) {
  const name = `${label}-${n}.example`;
  const doc = { docUrl: `https://${name}/f.pdf`, docDigestSri: "sha256-AAEC" };
  return [{ typeUrl: CREATE, value: { corporation, operator, did: `did:web:${name}`, language: "en", ...doc } }];
}

/// What signAndBroadcast does itself for a fee of "auto", which cannot name a granter. The operator has no coins: the
/// corporation pays.
async function simulatedFee(n) {
  const gas = await client.simulate(operator, messages(n), "");
  return { ...calculateFee(Math.ceil(gas * GAS_MULTIPLIER), gasPrice), granter: corporation };
}

const begun = { height: await client.getHeight(), time: performance.now() };
const last = { height: 0, time: 0 };
let failed = 0;

function fail(n, reason) {
  failed += 1;
  console.error(`${label}-${n}: ${reason}`);
}

/// Takes note of a transaction in a block, where it may have failed.
function included(n, { code, height, rawLog }) {
  if (height > last.height) Object.assign(last, { height, time: performance.now() });
  if (code !== 0) fail(n, `code ${code}: ${rawLog}`);
}

async function sequential() {
  for (let n = 0; n < count; n += 1) {
    try {
      included(n, await client.signAndBroadcast(operator, messages(n), await simulatedFee(n)));
    } catch (error) {
      fail(n, error.message);
    }
  }
}

async function handkept() {
  const { accountNumber, sequence } = await client.getSequence(operator);
  const signerData = { accountNumber, sequence, chainId: await client.getChainId() };
  const fee = await simulatedFee(0);
  const sent = [];
  for (let n = 0; n < count; n += 1) {
    const signed = await client.sign(operator, messages(n), fee, "", signerData);
    try {
      sent.push({ n, hash: await client.broadcastTxSync(TxRaw.encode(signed).finish()) });
      signerData.sequence += 1;
    } catch (error) {
      fail(n, error.message);
    }
  }
  // Those of one key get into blocks in the order of their sequences: with the last one in, all are.
  const deadline = performance.now() + TIMEOUT_MS;
  for (const { n, hash } of sent.reverse()) {
    let found = await client.getTx(hash);
    while (!found && performance.now() < deadline) {
      await sleep(POLL_MS);
      found = await client.getTx(hash);
    }
    if (found) included(n, found);
    else fail(n, `${hash} is in no block`);
  }
}

await modes[mode]();
client.disconnect();
if (last.height === 0) throw new Error("nothing got into a block");
const seconds = Math.round(last.time - begun.time) / 1000;
const heights = { blocks: last.height - begun.height, first_height: begun.height, last_height: last.height };
console.log(JSON.stringify({ mode, count, seconds, ...heights, failed }));
