"""Starts a devnet and runs software nobody here wrote against it: MCP clients in Python and TypeScript, and CosmJS."""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
WORK = ROOT / "target" / "interop"
BINARY = ROOT / "target" / "debug" / "svc"
# Public test vectors, the ones a devnet is seeded with.
MEMBER = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about"
OPERATOR = "legal winner thank year wave sausage worth useful legal winner thank yellow"


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
    for name in ("package.json", "mcp_typescript.mjs", "cosmjs.mjs"):
        (WORK / name).write_text((HERE / name).read_text())
    run(["npm", "install", "--no-audit", "--no-fund", "--silent"], cwd=WORK)
    return python


def main():
    python = install()
    ports = ["--rpc-port", "0", "--indexer-port", "0", "--mcp-port", "0"]
    log = open(WORK / "devnet.log", "w")
    devnet = subprocess.Popen(
        [BINARY, "devnet", "--json", "--block-time", "200ms", *ports], stdout=subprocess.PIPE, stderr=log, text=True
    )
    try:
        told = json.loads(devnet.stdout.readline())
        environment = os.environ | {
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
        run(["node", "cosmjs.mjs"], cwd=WORK, env=environment)
    finally:
        devnet.terminate()
        code = devnet.wait(timeout=60)
    if code != 0:
        sys.exit(f"the devnet ended with {code}; see {WORK / 'devnet.log'}")
    print("3 passed, 0 failed")


main()
