"""The official Python MCP client: the main job over HTTP and over stdio, in every protocol generation it speaks."""

import asyncio
import json
import os

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def main_job(name: str, server, mode: str) -> None:
    async with Client(server, mode=mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert "svc.ledger.es.createEcosystem" in tools, tools
        arguments = {
            "did": f"did:web:{name}.example",
            "language": "en",
            "doc_url": f"https://{name}.example/framework.pdf",
            "doc_digest_sri": "sha384-AAEC",
        }
        written = await client.call_tool("svc.ledger.es.createEcosystem", arguments)
        receipt = written.structured_content
        assert not written.is_error, receipt
        assert receipt["indexer_synced"] is True, receipt
        ecosystem_id = receipt["response"]["ecosystem_id"]
        read = await client.call_tool("svc.idx.es.getEcosystem", {"id": ecosystem_id})
        assert read.structured_content["ecosystem"]["did"] == arguments["did"], read
        refused = await client.call_tool("svc.ledger.es.createEcosystem", {"did": "broken"})
        assert refused.is_error and json.loads(refused.content[-1].text)["code"] == "INPUT_INVALID", refused
        resource = await client.read_resource("svc://own/operator")
        assert os.environ["SVC_OPERATOR"] in resource.contents[0].text, resource
        print(f"python {name}: protocol {client.protocol_version}, ecosystem {ecosystem_id}, block {receipt['block_height']}")


async def over_http(mode: str) -> None:
    headers = {"Authorization": "Bearer " + os.environ["MCP_BEARER_TOKEN"]}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        await main_job(f"python-http-{mode}", streamable_http_client(os.environ["SVC_MCP_URL"], http_client=http), mode)


async def over_stdio(mode: str) -> None:
    names = ["MCP_SVC_MNEMONIC", "SVC_CORPORATION", "SVC_RPC", "SVC_INDEXER"]
    environment = {name: os.environ[name] for name in names} | {"MCP_TRANSPORT": "stdio", "SVC_LOG_LEVEL": "error"}
    server = StdioServerParameters(command=os.environ["SVC_BINARY"], args=["serve"], env=environment)
    await main_job(f"python-stdio-{mode}", server, mode)


async def main() -> None:
    for mode in ("auto", "legacy"):
        await over_http(mode)
        await over_stdio(mode)


asyncio.run(main())
