"""A did:webvh log by did-webvh: verifies the given one, and refuses it with one flipped bit; makes one of its own."""

import asyncio
import json
import pathlib
import sys
import tempfile

from did_webvh.const import DOCUMENT_FILENAME, HISTORY_FILENAME
from did_webvh.provision import auto_provision_did
from did_webvh.resolver import resolve
from did_webvh.update import auto_update_did


async def main():
    given, own = map(pathlib.Path, sys.argv[1:])
    lines = given.read_text().splitlines()
    last = json.loads(lines[-1])
    did = last["state"]["id"]
    found = await resolve(did, local_history=given)
    if (found.get("didDocumentMetadata") or {}).get("versionId") != last["versionId"]:
        sys.exit(f"not resolved: {json.dumps(found)[:1000]}")
    text = given.read_text()
    middle = text.index("https://example.com/", len(text) // 2)
    damaged = given.with_suffix(".damaged.jsonl")
    damaged.write_text(text[:middle] + "httpt" + text[middle + 5 :])
    refused = await resolve(did, local_history=damaged)
    if (refused.get("didDocumentMetadata") or {}).get("versionId") == last["versionId"]:
        sys.exit("a damaged log was accepted")
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
    print(f"did-webvh: {len(lines)} entries verify, a damaged log does not; 3 entries of its own")


asyncio.run(main())
