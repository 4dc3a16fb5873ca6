"""A did:webvh log by did-webvh: verifies the given one, and refuses it with another letter in its middle; makes one of its own where
a second file is named."""

import asyncio
import json
import pathlib
import sys
import tempfile

from did_webvh.const import DOCUMENT_FILENAME, HISTORY_FILENAME
from did_webvh.domain_path import DomainPath
from did_webvh.provision import auto_provision_did
from did_webvh.resolver import resolve
from did_webvh.update import auto_update_did
from multiformats import multihash

# The library forgets a hash function that nobody holds, between the question whether it knows it and the use, and then does not know it.
HELD = multihash.get("sha2-256")


async def main():
    given = pathlib.Path(sys.argv[1])
    lines = given.read_text().splitlines()
    last = json.loads(lines[-1])
    did = last["state"]["id"]
    if ":localhost%3A" in did:
        # The library wants a dot in the name of a host, and a devnet has none. Nothing else of the log is exempt.
        DomainPath.validate = lambda _path: None
    found = await resolve(did, local_history=given)
    if (found.get("didDocumentMetadata") or {}).get("versionId") != last["versionId"]:
        sys.exit(f"not resolved: {json.dumps(found)[:1000]}")
    # The letter behind the prefix of a key, in the document of the entry in the middle.
    middle = json.loads(lines[len(lines) // 2])
    method = middle["state"]["verificationMethod"][0]
    key = method["publicKeyMultibase"]
    method["publicKeyMultibase"] = key[:4] + ("b" if key[4] == "a" else "a") + key[5:]
    damaged = given.with_suffix(".damaged.jsonl")
    damaged.write_text("\n".join([*lines[: len(lines) // 2], json.dumps(middle), *lines[len(lines) // 2 + 1 :]]))
    refused = await resolve(did, local_history=damaged)
    if (refused.get("didDocumentMetadata") or {}).get("versionId") == last["versionId"]:
        sys.exit("a damaged log was accepted")
    made = await make_log(pathlib.Path(sys.argv[2])) if len(sys.argv) > 2 else ""
    print(f"did-webvh: {len(lines)} entries verify, a damaged log does not{made}")


async def make_log(own):
    with tempfile.TemporaryDirectory() as directory:
        place, state, _key = await auto_provision_did(
            "other.example.com", "ed25519", "passkey", target_dir=directory
        )
        for number in range(2):
            document = state.document_copy()
            document["service"] = [{"id": f"{state.document_id}#a{number}", "type": "MCP", "serviceEndpoint": "https://example.com"}]
            pathlib.Path(place, DOCUMENT_FILENAME).write_text(json.dumps(document))
            # An entry has a time of its own, in whole seconds.
            await asyncio.sleep(1.1)
            state = await auto_update_did(place, "passkey")
        own.write_text(pathlib.Path(place, HISTORY_FILENAME).read_text())
    return "; 3 entries of its own"


asyncio.run(main())
