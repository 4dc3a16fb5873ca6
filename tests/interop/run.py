"""Runs software nobody here wrote against devnets: MCP clients in Python and TypeScript, the MCP conformance suite, fuzzers of JSON
Schemas and of OpenAPI, generated clients, libraries of did:webvh, of DIDComm, of canonical JSON and of Standard Webhooks, CosmJS, and the
clients of the Cosmos SDK and of CometBFT.

    python3 tests/interop/run.py [PART ...]

The binary, the conformance server and the packages must be there (`make interop` sees to it). Each part has devnets and a folder of its own.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request

from install import FRAMEWORKS, HERE, ROOT, WORK, run
from servers import (
    AGENT_ALONE,
    BINARY,
    MEMBER,
    NODE,
    OPERATOR,
    Agent,
    Devnet,
    Part,
    Server,
    free_port,
    node,
    out,
    rotate_store_key,
    start,
)

CONFORMANCE = ROOT / "target" / "debug" / "examples" / "conformance"
GO_CLIENT = WORK / "go_client"
PYTHON = WORK / "venv" / "bin" / "python"
# The newest client of the generation before, and the one that Gemini CLI 0.61 pins.
SDKS_V1 = ["mcp-sdk-v1", "mcp-sdk-gemini"]


def clients():
    with Devnet("--block-time", "200ms", "--scenario", "marketplace", "--no-agents", "--rest-port", "0", "--grpc-port", "0") as told:
        run([PYTHON, HERE / "node_grpc.py", told["rpc"], told["rest"], told["grpc"]])
        sender = [told["rpc"], told["grpc"], told["chain_id"], told["namespace"], told["denom"], MEMBER, told["operator"]]
        run([GO_CLIENT, *sender])
    with Devnet("--block-time", "200ms", "--rest-port", "0") as told:
        environment = os.environ | {
            "SVC_REST": told["rest"],
            "SVC_MCP_URL": told["mcp"],
            "MCP_BEARER_TOKEN": told["bearer"],
            "SVC_RPC": told["rpc"],
            "SVC_INDEXER": told["indexer"],
            "SVC_CORPORATION": str(told["corporation_id"]),
            "SVC_OPERATOR": told["operator"],
            "SVC_MEMBER": told["member"],
            "SVC_PREFIX": told["namespace"],
            "SVC_CHAIN_ID": told["chain_id"],
            "SVC_DENOM": told["denom"],
            "SVC_MEMBER_MNEMONIC": MEMBER,
            "MCP_SVC_MNEMONIC": OPERATOR,
            "SVC_BINARY": str(BINARY),
        }
        run([PYTHON, HERE / "mcp_python.py"], env=environment)
        node("mcp_typescript.mjs", env=environment)
        for package in SDKS_V1:
            node("mcp_typescript_v1.mjs", package, env=environment)
        node("cosmjs.mjs", env=environment)


def converters():
    """The recorded listing, which a test compares with the served one, through the converters of agent frameworks."""
    program, listing = WORK / "converters" / "bin" / "python", ROOT / "tests" / "fixtures" / "tools.json"
    run([program, HERE / "converters.py", listing, *(framework[0] for framework in FRAMEWORKS)])


def scenario():
    """The devnet runs the marketplace; CosmJS runs it on a second chain; both end in the same application hash. Meanwhile a
    subscriber hears what CosmJS does. It is the file alone: the shipped scenario of that name brings services too, whose
    DIDs name a port."""
    order = ["--block-time", "order", "--control-port", "0"]
    file = ROOT / "devnet" / "scenarios" / "marketplace.toml"
    with Devnet("--scenario", file, *order) as told:
        with urllib.request.urlopen(told["control"]) as answer:
            expected = json.load(answer)
        values = told["values"]
    text = file.read_text()
    accounts_alone = text[: text.index("[seat]")]
    out("accounts.toml").write_text(accounts_alone)
    proto = ROOT / "wire" / "proto"
    files = sorted(str(file.relative_to(proto)) for file in proto.rglob("*.proto"))
    with Devnet("--scenario", out("accounts.toml"), *order) as told:
        environment = os.environ | {
            "SVC_RPC": told["rpc"],
            "SVC_INDEXER": told["indexer"],
            "SVC_CONTROL": told["control"],
            "SVC_PREFIX": told["namespace"],
            "SVC_DENOM": told["denom"],
            "SVC_GOV": told["values"]["gov"],
            "SVC_PROTO": str(proto),
            "SVC_PROTO_FILES": "\n".join(files),
            "SVC_DELEGABLE": " ".join(told["delegable"]),
            "SVC_VALUES": json.dumps(values),
            "SVC_EXPECTED_HASH": expected["app_hash"],
            "SVC_EXPECTED_HEIGHT": str(expected["height"]),
        }
        subscriber = start([NODE, "subscription.mjs"], env=environment, stdout=subprocess.PIPE)
        if "subscribed" not in subscriber.stdout.readline():
            sys.exit("the subscriber did not subscribe")
        node("scenario.mjs", file, env=environment)
        print(subscriber.communicate(timeout=120)[0], end="", flush=True)
        if subscriber.returncode != 0:
            sys.exit("the subscriber heard something else")


def walk():
    """Every listed tool, prompt and resource with the official clients; every write verified by the read its description names."""
    file = out("walk.toml")
    with open(file, "w") as written:
        run([PYTHON, HERE / "walk.py", "scenario", ROOT / "devnet" / "scenarios" / "marketplace.toml"], stdout=written)
    with Devnet("--scenario", file, "--block-time", "200ms", "--control-port", "0") as told:
        environment = os.environ | {
            "SVC_MCP_URL": told["mcp"],
            "MCP_BEARER_TOKEN": told["bearer"],
            "SVC_RPC": told["rpc"],
            "SVC_INDEXER": told["indexer"],
            "SVC_DENOM": told["denom"],
            "SVC_CHAIN_ID": told["chain_id"],
            "SVC_CONTROL": told["control"],
            "SVC_VALUES": json.dumps(told["values"]),
            "SVC_SCENARIO": str(file),
            "SVC_BINARY": str(BINARY),
            "SVC_READS": str(out("reads.json")),
        }
        run([PYTHON, HERE / "walk.py"], env=environment)
        node("walk.mjs", env=environment)


def fuzz():
    """Generated and mutated input at the JSON-RPC entry and at every tool."""
    with Devnet("--scenario", "marketplace", "--block-time", "200ms") as told:
        environment = os.environ | {
            "SVC_MCP_URL": told["mcp"],
            "MCP_BEARER_TOKEN": told["bearer"],
            "SVC_MEMBER_MNEMONIC": MEMBER,
            "MCP_SVC_MNEMONIC": OPERATOR,
            "SVC_STRICT_SCHEMAS": str(ROOT / "tests" / "fixtures" / "strict_schemas.json"),
        }
        run([PYTHON, HERE / "fuzz.py"], env=environment)


def agent():
    """The admin API by a fuzzer and by generated clients, its webhooks by the libraries of Standard Webhooks, and its log by two
    implementations of did:webvh."""
    with Devnet("--scenario", ROOT / "devnet" / "scenarios" / "marketplace.toml", "--block-time", "200ms") as told:
        events = f"{told['indexer']}/v4/indexer/events?corporation_id={told['values']['registry_id']}&after_block_height=0&limit=500"
        with urllib.request.urlopen(events) as answer:
            expected = len(json.load(answer)["events"])
        command = [PYTHON, HERE / "agent" / "consumer.py", Agent.SECRET, NODE, "verify.mjs", str(expected)]
        consumer = start(command, stdout=subprocess.PIPE)
        webhook = f"http://127.0.0.1:{consumer.stdout.readline().strip()}/"
        receiver = {"EVENTS_WEBHOOK_URL": webhook, "EVENTS_WEBHOOK_SECRET": Agent.SECRET, "EVENTS_WEBHOOK_MIN_BACKOFF_MS": "20"}
        with Agent(told, **receiver) as running:
            url = running.url
            print(consumer.communicate(timeout=120)[0], end="", flush=True)
            if consumer.returncode != 0:
                sys.exit("the webhooks are not as the libraries expect them")
            description = f"{url}/openapi.json"
            tools = os.environ | {"PATH": f"{PYTHON.parent}:{os.environ['PATH']}"}
            client = out("agent_client_python")
            run(["openapi-python-client", "generate", "--url", description, "--output-path", client, "--overwrite"], env=tools)
            run([PYTHON, HERE / "agent" / "client.py", url], env=tools | {"PYTHONPATH": str(client)})
            generator = WORK / "node_modules" / "@hey-api" / "openapi-ts" / "bin" / "run.js"
            run([NODE, generator, "-i", description, "-o", out("agent_client")], cwd=Part.folder)
            compiled = out("agent_client_compiled")
            compiled.mkdir(exist_ok=True)
            (compiled / "package.json").write_text('{"type": "commonjs"}')
            compiler = [NODE, WORK / "node_modules" / "typescript" / "bin" / "tsc", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "commonjs"]
            run([*compiler, "--outDir", compiled, "agent_client/index.ts", "agent_client/client.gen.ts"], cwd=Part.folder)
            node("client.mjs", url)
            config = HERE / "agent" / "schemathesis.toml"
            run(["schemathesis", "--config-file", config, "run", description, "--checks", "all", "--max-examples", "30", "--seed", "1"], env=tools)
    long, reader = out("long.jsonl"), "log::tests::a_log_of_another_implementation"
    listed = subprocess.run([sys.executable, ROOT / "tests" / "gate" / "programs.py", "svc-agent-identity"], check=True, stdout=subprocess.PIPE, text=True)
    program = listed.stdout.strip()

    def run_test(name, **files):
        # A test that has another name now would not run, and nothing would fail.
        assert name in subprocess.run([program, "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout, name
        run([program, "--ignored", "--exact", name], cwd=ROOT, env=os.environ | files)

    run_test("log::tests::a_log_for_other_implementations", SVC_WRITE_LOG=str(long))
    for command, own in (([NODE, "logs.mjs"], out("ts.jsonl")), ([PYTHON, HERE / "agent" / "logs.py"], out("py.jsonl"))):
        run([*command, long, own], cwd=Part.folder)
        run_test(reader, SVC_READ_LOG=str(own))


def identity():
    """The presentations and credentials of a devnet's agents by node's own crypto, while their keys are rotated and stolen; the logs,
    one with pre-rotation too, by two implementations of did:webvh."""
    home = out("home")
    # The name of the host has a dot, as one of the implementations wants it. Nothing is asked for there.
    alone = {"AGENT_WEBVH_PRE_ROTATION": "true", "PUBLIC_API_BASE_URL": "https://agent.example.com"}
    alone |= {"SVC_ACCOUNT_MNEMONIC": AGENT_ALONE, "SVC_AUTO_TRIGGER_RESOLVER": "false"}
    with Devnet("--scenario", "marketplace", "--block-time", "200ms", "--home", home) as told, Agent(told, **alone) as rotated:
        environment = os.environ | {
            "SVC_AGENTS": json.dumps(told["agents"]),
            "SVC_PRE_ROTATED": json.dumps({"admin": rotated.url, "public": rotated.files}),
            "SVC_INDEXER": told["indexer"],
            "SVC_SERVICE_SCHEMA": told["values"]["service.schema"],
            "SVC_HOME": str(home),
            "SVC_BINARY": str(BINARY),
        }
        logs = {agent["name"]: agent["public"] for agent in told["agents"]}
        node("credentials.mjs", env=environment)
        node("keys.mjs", "rotate", env=environment)
        rotate_store_key(rotated)
        verify_logs(logs | {"pre-rotated": rotated.files})
        node("keys.mjs", "stolen", env=environment)
        node("credentials.mjs", env=environment)
        verify_logs(logs)
    # An agent with an ecosystem of its own presents the credentials of its schemas too.
    home = out("ecosystem")
    with Devnet("--scenario", "peers", "--block-time", "200ms", "--home", home) as told:
        trusted = json.dumps(told["agents"][:2])
        environment = {"SVC_AGENTS": trusted, "SVC_INDEXER": told["indexer"], "SVC_HOME": str(home), "SVC_BINARY": str(BINARY)}
        node("credentials.mjs", env=os.environ | environment)


def older_credentials():
    """Presentations and credentials in the format of the first generation, of flows and of the agents themselves, by the library of the authors of
    their suite."""
    older = ["--issue-format", "ld-proof", "--published-proofs", "ed25519-2020"]
    with Devnet("--scenario", "peers", "--block-time", "200ms", *older) as told:
        environment = os.environ | {"SVC_AGENTS": json.dumps(told["agents"]), "SVC_INDEXER": told["indexer"]}
        node("older_credentials.mjs", env=environment)


def peers():
    """Messages between an agent and the two libraries of DIDComm v2 that are kept, by POST and WebSocket."""
    with Devnet("--block-time", "200ms") as told:
        registry = told | {"values": {"registry_id": str(told["corporation_id"])}}
        with Agent(registry, DIDCOMM_ACCEPT="any") as running:
            program = WORK / "didcomm" / "bin" / "python"
            run([program, HERE / "agent" / "didcomm_peer.py", running.url, running.files])
            node("didcomm.mjs", running.url, running.files)


CONDITIONS = """
[[endpoint]]
id = "{name}"
material = "bearer"
scopes = ["greet"]
default_scopes = ["greet"]
allow = "*"
"""


def await_trust(told):
    """Waits until the indexer calls the first two agents trusted: their credentials are a few blocks old."""
    for agent in told["agents"][:2]:
        body = json.dumps({"did": agent["did"]}).encode()
        request = urllib.request.Request(f"{told['indexer']}/v4/verifiable-trust/resolve", body, {"content-type": "application/json"})
        for _ in range(300):
            with urllib.request.urlopen(request) as answer:
                if json.load(answer)["trusted"]:
                    break
            time.sleep(0.1)
        else:
            sys.exit(f"{agent['did']} is not trusted")


def endpoints():
    """`svc peer` calls servers of others, each behind a check of the agent's tokens by a library of others; and a backend of a few
    lines answers the requests for access behind an agent."""
    home = out("home")
    servers = {
        "mcp-python": ("MCP", [PYTHON, HERE / "endpoints" / "mcp_server.py"], "/mcp", []),
        "mcp-typescript": ("MCP", [NODE, "mcp_server.mjs"], "/mcp", []),
        "mcp-typescript-v1": ("MCP", [NODE, "mcp_server_v1.mjs"], "/mcp", []),
        "a2a-python": ("A2A", [PYTHON, HERE / "endpoints" / "a2a_server.py"], "/a2a", []),
        "a2a-python-03": ("A2A", [PYTHON, HERE / "endpoints" / "a2a_server.py"], "/a2a", ["0.3"]),
        "a2a-typescript": ("A2A", [NODE, "a2a_server.mjs"], "/a2a", []),
        "a2a-typescript-03": ("A2A", [NODE, "a2a_server.mjs"], "/a2a", ["0.3"]),
    }
    conditions = out("access.toml")
    with open(os.open(conditions, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write("".join(CONDITIONS.format(name=name) for name in servers))
    with Devnet("--scenario", "peers", "--block-time", "200ms", "--home", home, "--access", conditions) as told:
        await_trust(told)
        owner = told["agents"][0]
        files = [f"{owner['public']}/endpoint-access-{file}.json" for file in ("jwks", "revoked")]
        entries = []
        for name, (kind, command, path, mode) in servers.items():
            port = free_port()
            url = f"http://127.0.0.1:{port}{path}"
            arguments = [str(port), owner["did"], url, *files, *mode]
            server = start([*command, *arguments], stdout=subprocess.PIPE)
            if "listening" not in server.stdout.readline():
                sys.exit(f"{name} does not serve")
            entries.append({"name": name, "kind": kind, "url": url})
        environment = os.environ | {
            "SVC_BINARY": str(BINARY),
            "SVC_MCP_URL": told["mcp"],
            "MCP_BEARER_TOKEN": told["bearer"],
            "SVC_OWNER": owner["did"],
            "SVC_CALLER": told["agents"][1]["did"],
            "SVC_ENTRIES": json.dumps(entries),
            "SVC_OWNER_SOCKET": str(home / "agent.sock"),
            "SVC_AGENT_SOCKET": str(home / "branch.sock"),
            "SVC_ALLOW_PRIVATE_HOSTS": "true",
            "SVC_CONDITIONS": f"{owner['public']}/endpoint-access.json",
        }
        run([PYTHON, HERE / "endpoints" / "call.py"], env=environment)
    home = out("backend_home")
    port = free_port()
    webhook = f"http://127.0.0.1:{port}/"
    # It hears the events of the start too: one that came later would be found behind a pause.
    backend = start([PYTHON, HERE / "endpoints" / "backend.py", str(port)], stdin=subprocess.PIPE)
    with Devnet("--scenario", "peers", "--block-time", "200ms", "--home", home, "--access-by-backend", "--agent-webhook", webhook) as told:
        await_trust(told)
        settings = {
            "SVC_BINARY": str(BINARY),
            "SVC_MCP_URL": told["mcp"],
            "MCP_BEARER_TOKEN": told["bearer"],
            "SVC_OWNER": told["agents"][0]["did"],
            "SVC_OWNER_SOCKET": str(home / "agent.sock"),
            "SVC_AGENT_SOCKET": str(home / "branch.sock"),
            "SVC_ALLOW_PRIVATE_HOSTS": "true",
        }
        backend.communicate(json.dumps(settings), timeout=120)
        if backend.returncode != 0:
            sys.exit("the backend has not answered")


def pages():
    """The commands of README and docs, as a visitor types them. They use the default ports, which a network of its own has free."""
    own_network = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*own_network, "true"], capture_output=True).returncode != 0:
        own_network = []
    run([*own_network, PYTHON, HERE / "pages.py", Part.folder], env=os.environ | {"NODE": str(NODE)})


def verify_logs(places):
    for name, place in places.items():
        file = out(f"{name}.jsonl")
        with urllib.request.urlopen(f"{place}/.well-known/did.jsonl") as answer:
            file.write_bytes(answer.read())
        node("logs.mjs", file)
        run([PYTHON, HERE / "agent" / "logs.py", file], cwd=Part.folder)


def conformance():
    """The official conformance suite for every protocol version it knows, and the official inspector, against a tool server that also
    serves what the suite expects."""
    with Server([CONFORMANCE], "conformance") as told:
        run([NODE, HERE / "conformance.mjs", told["mcp"], told["bearer"], WORK])
        environment = os.environ | {"SVC_MCP_URL": told["mcp"], "MCP_BEARER_TOKEN": told["bearer"]}
        for package in SDKS_V1:
            node("mcp_typescript_v1.mjs", package, "codes", env=environment)


PARTS = {
    "converters": converters,
    "clients": clients,
    "walk": walk,
    "fuzz": fuzz,
    "agent": agent,
    "identity": identity,
    "older-credentials": older_credentials,
    "peers": peers,
    "endpoints": endpoints,
    "conformance": conformance,
    "scenario": scenario,
    "pages": pages,
}


def main():
    scripts = [script for folder in (HERE, HERE / "agent", HERE / "endpoints") for script in folder.glob("*.mjs")]
    if sys.argv[1:] == ["--list"]:
        print("\n".join(PARTS))
        return
    for name in sys.argv[1:] or PARTS:
        if name not in PARTS:
            sys.exit(f"{name!r} is none of {', '.join(PARTS)}")
        Part.begin(name, scripts)
        try:
            PARTS[name]()
        finally:
            Part.end()
        print(f"{name}: passed", flush=True)


if __name__ == "__main__":
    main()
