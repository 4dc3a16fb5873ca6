"""Executes the commands of README and docs as they are written, against devnets at the default ports.

    python3 tests/interop/pages.py FOLDER

Each block of commands is executed below, or NOT_EXECUTED says why not. A block is named by its page and the beginning of its first command. Samples in other
languages must parse. The network of the process should be one of its own (`run.py` sees to it), since another program may have the default ports.
"""

import fcntl
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import tomllib

import yaml

ROOT = pathlib.Path(__file__).parent.parent.parent
FOLDER = pathlib.Path(sys.argv[1])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MANIFEST = "the part of the gate with the same name"
NOT_EXECUTED = {
    ("README.md", "make demo"): MANIFEST,
    ("docs/agent.md", "umask 077"): "values of a live network; the walk below it takes the same steps",
    ("docs/agent.md", "svc agent did"): "of the same agent; the walk has both commands",
    ("docs/agent.md", "svc agent credential import"): "a credential that another corporation issues; `make demo-agent` imports it",
    ("docs/agent.md", "export AGENT_MODE=delegated"): "a second agent; `make demo-agent` takes the same steps",
    ("docs/agent-operating.md", "systemctl stop"): "a service of systemd; the part agent and e2e::agent::credentials::identity rotate the key",
    ("docs/agent-operating.md", "svc agent export"): "a service of systemd and a PostgreSQL server; e2e::agent::processes::store_file moves a store",
    ("docs/access.md", "svc peer trust did:web:peer.example"): "names of another company; the part endpoints makes these calls",
    ("docs/access.md", "cargo run --example peer"): "a server that stays; e2e::agent::endpoints::peer_flow runs the example",
    ("docs/peers.md", "curl"): "a conversation of two agents; e2e::agent::messages::peers makes the same requests",
    ("docs/how-to-add.md", "python3 tests/gate/gate.py --list"): "a part that the reader writes; the gate's self-test runs such parts",
    ("docs/hosts.md", "#!/bin/sh"): "a key store of a desktop",
    ("docs/hosts-terminal.md", "claude mcp add svc http"): "a host that is not installed; docs/hosts.md names the version that was run",
    ("docs/hosts-terminal.md", "claude mcp add svc --scope"): "a host that is not installed; docs/hosts.md names the version that was run",
}


class Book:
    """All blocks of commands, and which of them were executed."""

    def __init__(self):
        self.blocks, self.used = {}, set()
        for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            name = str(page.relative_to(ROOT))
            for language, text in BLOCK.findall(page.read_text()):
                if language == "sh":
                    self.blocks[name, text.split("\n")[0]] = text

    def take(self, page, beginning):
        found = [key for key in self.blocks if key[0] == page and key[1].startswith(beginning)]
        if len(found) != 1:
            sys.exit(f"{page} has {len(found)} blocks that begin with {beginning!r}")
        self.used.add(found[0])
        return self.blocks[found[0]]

    def check_the_rest(self):
        for page, beginning in NOT_EXECUTED:
            found = [key for key in self.blocks if key[0] == page and key[1].startswith(beginning)]
            if not found:
                sys.exit(f"{page} has no block that begins with {beginning!r}")
            self.used.update(found)
        rest = [f"{page}: {first}" for page, first in self.blocks if (page, first) not in self.used]
        if rest:
            sys.exit("nothing executes these blocks, and nothing says why not:\n" + "\n".join(rest))


class Network:
    """A command that keeps running until it is interrupted. Its output is read until it has a text."""

    def __init__(self, command, ready, cwd=ROOT):
        print("+", command, flush=True)
        self.command = command
        self.process = subprocess.Popen(
            ["bash", "-c", command], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.log = []
        reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True)
        reader.start()
        self.output = ""
        timer = threading.Timer(300, self.process.kill)
        timer.start()
        for line in self.process.stdout:
            self.output += line
            if ready in line:
                break
        else:
            sys.exit(f"{command}: it ended before it was ready: {self.output}{''.join(self.log[-20:])}")
        timer.cancel()
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def value(self, name):
        return re.search(rf"^\s*{re.escape(name)}\s+(\S+)", self.output, re.MULTILINE)[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            sys.exit(f"{self.command}: it did not stop")


def shell(text, environment=None, cwd=FOLDER, statuses=(0,)):
    """Executes commands one after the other in one shell, until one fails. Returns the output."""
    print(text.rstrip(), flush=True)
    script = 'set -e\ncurl() { command curl -fsS "$@"; }\n' + text
    environment = os.environ | (environment or {})
    ended = subprocess.run(["bash", "-c", script], cwd=cwd, env=environment, capture_output=True, text=True, timeout=600)
    if ended.returncode not in statuses:
        sys.exit(f"{text}: {ended.returncode}: {ended.stdout}{ended.stderr}")
    return ended.stdout


def replace(text, values):
    for written, value in values.items():
        if written not in text:
            sys.exit(f"no {written!r} in {text}")
        text = text.replace(written, value)
    return text


READY = "svc tools"
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 1, 0x40


def front_page(book):
    """README: the network, the commands of the other terminal, the program in Python."""
    make = re.search(r"`(make devnet)` keeps the network running", (ROOT / "README.md").read_text())[1]
    with Network(make, READY) as network:
        served = {"SVC_MCP_URL": network.value("MCP endpoint"), "MCP_BEARER_TOKEN": network.value("bearer token")}
        values = {"SVC_MCP_URL=… MCP_BEARER_TOKEN=…": " ".join(f"{name}={value}" for name, value in served.items())}
        listed = shell(replace(book.take("README.md", "export SVC_MCP_URL"), values), cwd=ROOT)
        if "svc.ledger.es.createEcosystem" not in listed:
            sys.exit(f"the tools are not listed: {listed}")
        (program,) = [text for language, text in BLOCK.findall((ROOT / "README.md").read_text()) if language == "python"]
        print(program, flush=True)
        ended = subprocess.run([sys.executable, "-c", program], env=os.environ | served, capture_output=True, text=True, timeout=300)
        if ended.returncode != 0 or "did:web:mine.example" not in ended.stdout or "'indexer_synced': True" not in ended.stdout:
            sys.exit(f"the program of README: {ended.stdout}{ended.stderr}")


def devnet(book):
    """docs/devnet.md: each line starts a network, or is a command for the network of the lines before."""
    running = None
    for line in book.take("docs/devnet.md", "svc devnet  ").splitlines():
        command = line.split("#")[0].strip()
        if re.search(r" (save|load|export|reset) ", command):
            if " reset " in command and running:
                running.__exit__()
                running = None
            shell(command)
            continue
        if running:
            running.__exit__()
        has_tools = "--genesis" not in command and "--scenario services" not in command
        running = Network(command, READY if has_tools else "indexer ", cwd=FOLDER)
    running.__exit__()


def walk_of_an_agent(book):
    """docs/agent.md: from nothing to a trusted DID."""
    page = "docs/agent.md"
    with Network(book.take(page, "svc devnet --scenario marketplace --no-agents").split("#")[0].strip(), READY, cwd=FOLDER) as network:
        bearer = network.value("bearer token")
        client = {"SVC_MCP_URL": "http://127.0.0.1:3000/mcp", "MCP_BEARER_TOKEN": bearer}
        found = json.loads(shell("svc call svc.idx.es.getEcosystem id=3 --json", client))
        registrar = found["ecosystem"]["did"]
        setup = book.take(page, "mkdir ~/agent")
        setup = replace(setup, {"MCP_BEARER_TOKEN=…": f"MCP_BEARER_TOKEN={bearer}", "did:webvh:…:registrar": registrar})
        before, init = setup.split("svc agent init")
        # The page says to wait for this line, and that the first run sends nothing: steps are left.
        script = f"""set -e
{before}
trap 'kill $(jobs -p); wait || true' EXIT
until grep -q 'serving the agent' agent.log; do sleep 0.2; done
status=0
svc agent init {init.rstrip().split("#")[0]} || status=$?
[ $status = 3 ]
{book.take(page, "svc agent init --operator $SVC_MCP_URL")}
did=$(svc agent did --json | grep -o 'did:webvh:[^"]*' | head -n 1)
until svc call svc.idx.vt.resolve did=$did --json | grep -q '"trusted": *true'; do sleep 0.5; done
{replace(book.take(page, "svc call svc.idx.vt.resolve"), {"did=did:webvh:…:localhost%3A3004": "did=$did"})}"""
        output = shell(script)
        if not re.search(r"^trusted +true", output, re.MULTILINE):
            sys.exit(f"the walk did not end with a trusted DID: {output}")


def access(book):
    """docs/devnet.md and docs/access.md: an agent with conditions, and the trust that its peer has in it."""
    (conditions,) = [text for language, text in BLOCK.findall((ROOT / "docs/access.md").read_text()) if language == "toml"][:1]
    file = FOLDER / "access.toml"
    file.write_text(conditions)
    (FOLDER / "api.key").write_text("secret")
    for private in (file, FOLDER / "api.key"):
        private.chmod(0o600)
    home = FOLDER / "home"
    start, trust = book.take("docs/devnet.md", "svc devnet --scenario peers").strip().split("\n")
    start = replace(start.split("#")[0].strip(), {"DIR": str(home)})
    with Network(start, READY, cwd=FOLDER) as network:
        did = re.search(r"did:webvh:\S+", network.output)[0]
        shell(replace(trust, {"DIR": str(home), " DID": f" {did}"}), statuses=(0, 3, 4))
        commands = replace(book.take("docs/access.md", "svc agent access list"), {"revoke ID": "revoke --all"})
        shell(commands, {"SVC_AGENT_SOCKET": str(home / "agent.sock")})


def indexer(book):
    """docs/indexer.md: an indexer beside a node, its reads, and TRQP."""
    start, *reads = book.take("docs/indexer.md", "SVC_RPC=").strip().split("\n")
    trqp = book.take("docs/indexer.md", "curl localhost:3001/v4/trqp")
    with Network("svc devnet --block-time 20ms --indexer-port 0", READY, cwd=FOLDER):
        height = "until [ $(curl localhost:3001/v4/indexer/block-height | grep -o '[0-9]*' | head -n 1) -ge 100 ]; do sleep 0.2; done\n"
        serving = "until curl localhost:3001/healthz > health 2>&1; do sleep 0.2; done\n"
        end = "trap 'kill %1; wait' EXIT\n"
        shell(f"{start} 2> indexer.log &\n{end}{serving}{height}" + "\n".join(reads) + "\n" + trqp)


def samples():
    """Samples that are not commands."""
    readers = {
        "json": json.loads,
        "toml": tomllib.loads,
        "yaml": yaml.safe_load,
        "python": lambda text: compile(text, "sample", "exec"),
    }
    count, diagrams = 0, []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for language, text in BLOCK.findall(page.read_text()):
            if language == "mermaid":
                diagrams.append({"place": str(page.relative_to(ROOT)), "text": text})
            if language in readers:
                try:
                    readers[language](text)
                except Exception as error:
                    sys.exit(f"{page.relative_to(ROOT)}: {language}: {error}\n{text}")
                count += 1
    print(f"{count} samples parse", flush=True)
    subprocess.run([os.environ["NODE"], "mermaid.mjs"], cwd=FOLDER, input=json.dumps(diagrams), text=True, check=True)


def prepare():
    """A visitor's machine: svc is installed, and the home is empty but for the compiler."""
    programs = FOLDER / "bin"
    programs.mkdir()
    (programs / "svc").symlink_to(ROOT / "target" / "debug" / "svc")
    home = pathlib.Path.home()
    for variable, folder in (("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")):
        if (home / folder).exists():
            os.environ.setdefault(variable, str(home / folder))
    os.environ |= {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(FOLDER)}
    # In a network of its own the loopback interface is down.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        flags = struct.pack("16sh", b"lo", IFF_UP | IFF_RUNNING)
        try:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, flags)
        except PermissionError:
            print("in the machine's own network", flush=True)


def main():
    prepare()
    started = time.monotonic()
    samples()
    book = Book()
    for session in (front_page, devnet, walk_of_an_agent, access, indexer):
        session(book)
        print(f"{session.__name__}: {time.monotonic() - started:.0f} s", flush=True)
    book.check_the_rest()
    print(f"{len(book.blocks)} blocks of commands: {len(book.blocks) - len(NOT_EXECUTED)} executed, the others have a reason")


if __name__ == "__main__":
    main()
