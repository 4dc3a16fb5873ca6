// CosmJS against the devnet node: balances, account, a signed bank send, confirmed.
import assert from "node:assert/strict";
import { Secp256k1HdWallet } from "@cosmjs/amino";
import { DirectSecp256k1HdWallet } from "@cosmjs/proto-signing";
import { GasPrice, SigningStargateClient } from "@cosmjs/stargate";
import { Comet38Client } from "@cosmjs/tendermint-rpc";

const { env } = process;
const denom = env.SVC_DENOM;
const wallet = await DirectSecp256k1HdWallet.fromMnemonic(env.SVC_MEMBER_MNEMONIC, { prefix: env.SVC_PREFIX });
const [{ address }] = await wallet.getAccounts();
assert.equal(address, env.SVC_MEMBER);
const client = await SigningStargateClient.connectWithSigner(env.SVC_RPC, wallet, {
  gasPrice: GasPrice.fromString(`0.025${denom}`),
  broadcastPollIntervalMs: 200,
});
assert.equal(await client.getChainId(), env.SVC_CHAIN_ID);
const before = await client.getAccount(address);
const rich = await client.getBalance(address, denom);
assert(BigInt(rich.amount) > 1_000_000n);
assert.deepEqual(await client.getAllBalances(address), [rich]);

const target = env.SVC_OPERATOR;
const held = BigInt((await client.getBalance(target, denom)).amount);
const gas = await client.simulate(address, [{
  typeUrl: "/cosmos.bank.v1beta1.MsgSend",
  value: { fromAddress: address, toAddress: target, amount: [{ denom, amount: "1000" }] },
}], "");
assert(gas > 10_000, `simulated ${gas}`);
// The library's WebSocket client hears of every block and of the transaction.
const watcher = await Comet38Client.connect(env.SVC_RPC.replace("http", "ws"));
const first = (stream) => new Promise((next, error) => stream.take(1).subscribe({ next, error }));
const heard = Promise.all([first(watcher.subscribeNewBlock()), first(watcher.subscribeTx())]);
const sent = await client.sendTokens(address, target, [{ denom, amount: "1000" }], 1.5, "from CosmJS");
const [newest, told] = await heard;
assert(newest.header.height <= sent.height);
assert.deepEqual([told.height, Buffer.from(told.hash).toString("hex").toUpperCase()], [sent.height, sent.transactionHash]);
watcher.disconnect();
assert.equal(sent.code, 0, sent.rawLog);
assert.equal(BigInt((await client.getBalance(target, denom)).amount) - held, 1000n);
const after = await client.getAccount(address);
assert.equal(after.sequence, before.sequence + 1);
const found = await client.getTx(sent.transactionHash);
assert.equal(found.height, sent.height);
const searched = await client.searchTx([{ key: "transfer.recipient", value: target }]);
assert(searched.some((tx) => tx.hash === sent.transactionHash));
// A transfer of more than there is passes CheckTx and fails in its block.
const fee = { amount: [{ denom, amount: "5000" }], gas: "200000" };
const failed = await client.sendTokens(address, target, [{ denom, amount: "9".repeat(30) }], fee);
assert.equal(failed.code, 5, failed.rawLog);
const block = await client.getBlock(sent.height);
assert.equal(block.txs.length >= 1, true);

// A wallet with a hardware key signs amino JSON.
const amino = await Secp256k1HdWallet.fromMnemonic(env.SVC_MEMBER_MNEMONIC, { prefix: env.SVC_PREFIX });
const hardware = await SigningStargateClient.connectWithSigner(env.SVC_RPC, amino, {
  gasPrice: GasPrice.fromString(`0.025${denom}`),
  broadcastPollIntervalMs: 200,
});
const signed = await hardware.sendTokens(address, target, [{ denom, amount: "7" }], 1.5, "<from a wallet>");
assert.equal(signed.code, 0, signed.rawLog);
hardware.disconnect();

// REST has the account and the transaction too.
const rest = async (path) => (await fetch(`${env.SVC_REST}${path}`)).json();
const account = (await rest(`/cosmos/auth/v1beta1/accounts/${address}`)).account;
assert.equal(account["@type"], "/cosmos.auth.v1beta1.BaseAccount");
assert.equal(account.sequence, String((await client.getAccount(address)).sequence));
const listed = await rest(`/cosmos/tx/v1beta1/txs/${signed.transactionHash}`);
assert.equal(listed.tx_response.height, String(signed.height));
assert.equal(listed.tx.auth_info.signer_infos[0].mode_info.single.mode, "SIGN_MODE_LEGACY_AMINO_JSON");
const balance = await rest(`/cosmos/bank/v1beta1/balances/${target}/by_denom?denom=${denom}`);
assert.deepEqual(balance.balance, await client.getBalance(target, denom));
console.log(`cosmjs: sent in block ${sent.height}, gas ${sent.gasUsed} of ${sent.gasWanted}`);
client.disconnect();
// The closed WebSocket of the library keeps the program alive.
process.exit(0);
