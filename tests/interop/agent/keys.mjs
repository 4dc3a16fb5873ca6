// Rotates keys of agents. `rotate`: the update key and the document's keys of the agents of a devnet, and of an agent whose log has
// pre-rotation, while their presentations verify and their verdicts stay. `stolen`: the document's keys of one agent, at once; the
// credential that it has issued to the other one loses its proof, and a new one takes its place.

import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { check, command, decode, isTrusted, list, until, verdict, verifyAgent } from "./credentials.mjs";

const { SVC_SERVICE_SCHEMA } = process.env;
const [agent, branch] = JSON.parse(process.env.SVC_AGENTS);
// The three steps of a rotation have 30 seconds between them, and so has the look at retired keys.
const ROTATION_SECONDS = 150;

const keys = (state) => JSON.stringify([state.authentication, state.assertionMethod, state.keyAgreement]);
const proofOf = (credentials, issuer) => credentials.find((one) => one.issuer === issuer).proof.verificationMethod;

// Verifies again and again until the document and the credentials are as wanted. Every look in between has to verify too.
const rotateDocument = async (one, options, isDone) => {
  const before = (await verifyAgent(one)).state;
  await command(one, "rotate", "document", ...options);
  const second = await command(one, "rotate", "document").then(() => "a version", (error) => error.stderr);
  check(/INVALID_STATE/.test(second), `a second rotation has ${second}`);
  const seen = new Set([keys(before)]);
  const end = Date.now() + ROTATION_SECONDS * 1_000;
  for (;;) {
    const { state, credentials } = await verifyAgent(one, true);
    await isTrusted(one);
    seen.add(keys(state));
    if (isDone(before, state, credentials)) break;
    check(Date.now() < end, `the rotation of ${one.name} has not ended: ${keys(state)}`);
    await setTimeout(500);
  }
  check(seen.size >= 4, `the keys of ${one.name} had ${seen.size} states`);
  const { copies } = await verifyAgent(one);
  console.log(`${one.name}: another pair of keys in ${seen.size - 1} steps, trusted all the time; ${copies} changed copies do not verify`);
};

// Each key stands in a document twice: as a Multikey, and in the older form.
const isOneKey = (methods) => methods.length === 2 && methods[1] === `${methods[0]}-2020`;
const isReplaced = (before, state) => !list(state.authentication).includes(before.authentication[0]) && isOneKey(state.authentication);

const updateKeys = (log) => log.reduce((all, { parameters }) => [...all, parameters.updateKeys?.[0] ?? all.at(-1)], []);

const readLog = async (base) => (await (await fetch(`${base}/.well-known/did.jsonl`)).text()).trim().split("\n").map((line) => JSON.parse(line));

const rotateUpdateKey = async (one) => {
  const { versionId } = await command(one, "rotate", "update");
  const log = await readLog(one.public);
  const [used, place] = [updateKeys(log), log.findIndex((entry) => entry.versionId === versionId)];
  check(place > 0 && used[place] !== used[place - 1], `the log has the update keys ${used}`);
  const [, signer] = log[place].proof[0].verificationMethod.split("#");
  check(signer === used[place - 1], "the entry that names the new key is not signed by the old one");
};

// An agent whose caller is trusted on loopback, and which presents nothing.
const rotateWithPreRotation = async ({ admin, public: base }) => {
  const post = async (path, body) => {
    const answer = await fetch(`${admin}${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    check(answer.status === 200, `${path} answers ${answer.status}: ${await answer.clone().text()}`);
    return answer.json();
  };
  const before = (await readLog(base)).at(-1);
  const { versionId } = await post("/v2/agent/keys/rotate", { kind: "update" });
  check((await readLog(base)).at(-1).versionId === versionId, `the log does not end with ${versionId}`);
  await post("/v2/vt/service-endpoints", { type: "MCP", serviceEndpoint: "https://example.com/mcp" });
  await post("/v2/agent/keys/rotate", { kind: "document" });
  const old = before.state.authentication[0];
  const log = await until(ROTATION_SECONDS, "the old key has not left the document", async () => {
    const found = await readLog(base);
    return !JSON.stringify(found.at(-1).state).includes(old) && found;
  });
  const used = updateKeys(log);
  check(new Set(used).size === log.length, `${log.length} entries with the update keys ${used}`);
  for (const [place, { parameters }] of log.entries()) {
    const digest = decode(`z${parameters.nextKeyHashes[0]}`).toString("hex");
    const next = used[place + 1];
    check(!next || digest === `1220${createHash("sha256").update(next).digest("hex")}`, `entry ${place + 2} is signed by a key that was not named`);
  }
  console.log(`with pre-rotation: ${log.length} entries, each signed by a key that the entry before has named`);
};

const steps = {
  async rotate() {
    await rotateUpdateKey(agent);
    const credential = (await verifyAgent(branch)).credentials[0];
    await Promise.all([
      // The retired key stays: it proves the credential of the branch.
      rotateDocument(agent, ["--reissue"], (before, state, credentials) => {
        const hasOld = list(state.assertionMethod).includes(before.authentication[0]);
        check(hasOld, "the key that proves the credential of the branch has left the document");
        return isReplaced(before, state) && state.authentication.includes(proofOf(credentials, agent.did));
      }),
      rotateDocument(branch, [], (before, state) => isReplaced(before, state) && isOneKey(state.assertionMethod)),
      rotateWithPreRotation(JSON.parse(process.env.SVC_PRE_ROTATED)),
    ]);
    const after = (await verifyAgent(branch)).credentials[0];
    check(after.id === credential.id, "the branch presents another credential");
  },

  async stolen() {
    const [{ state: before }, { credentials }] = [await verifyAgent(agent), await verifyAgent(branch)];
    const { lostCredentials } = await command(agent, "rotate", "document", "--compromised");
    check(list(lostCredentials).join() === credentials[0].id, `lost are ${lostCredentials}`);
    // Own credentials are issued again behind the version.
    const { state } = await until(60, "the agent's credentials do not verify", () => verifyAgent(agent));
    check(isOneKey(state.authentication) && isOneKey(state.assertionMethod), `the keys are ${keys(state)}`);
    check(!list(before.assertionMethod).includes(state.assertionMethod[0]), "an old key is left");
    const outcome = await verifyAgent(branch).then(() => "verifies", (error) => error.message);
    check(/is not in assertionMethod/.test(outcome), `the credential of a stolen key ${outcome}`);
    await until(60, "the branch stays trusted", async () => (await verdict(branch)).reasons.some((reason) => reason.code === "key_unknown"));
    const { id, ...claims } = credentials[0].credentialSubject;
    writeFileSync("claims.json", JSON.stringify(claims));
    const issued = await command(agent, "credential", "issue", "--to", id, "--schema", SVC_SERVICE_SCHEMA, "--claims", "claims.json");
    writeFileSync("credential.json", JSON.stringify(issued));
    await command(branch, "credential", "import", "credential.json");
    const { credentials: [imported] } = await verifyAgent(branch);
    check(imported.id === issued.id && imported.id !== credentials[0].id, `the branch presents ${imported.id}`);
    console.log("a stolen key: its credential verifies no more; the new one does");
    for (const one of [agent, branch]) await until(30, `${one.name} is not trusted again`, () => isTrusted(one));
  },
};

await steps[process.argv[2]]();
