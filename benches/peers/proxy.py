"""A peer for `make bench`: an MCP server built with the official Python SDK that proxies one read of the indexer.

Streamable HTTP on loopback, JSON answers: clients of 2025-11-25 and earlier get sessions, those of 2026-07-28 none.
Run: python proxy.py <port, 0 for a free one> <indexer origin>
Needs: mcp (brings uvicorn and httpx2), uvloop, httptools
"""

import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import httpx2
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

PORT, ORIGIN = int(sys.argv[1]), sys.argv[2]


class Ecosystem(BaseModel):
    model_config = ConfigDict(extra="allow")

    id: int
    did: str
    corporation_id: int
    language: str


class Answer(BaseModel):
    model_config = ConfigDict(extra="allow")

    ecosystem: Ecosystem


@asynccontextmanager
async def indexer_client(_: MCPServer) -> AsyncIterator[httpx2.AsyncClient]:
    limits = httpx2.Limits(max_connections=64, max_keepalive_connections=64)
    async with httpx2.AsyncClient(base_url=ORIGIN, limits=limits) as indexer:
        yield indexer


server = MCPServer("python-proxy", version="1.0.0", lifespan=indexer_client, log_level="WARNING")


@server.tool(
    name="getEcosystem",
    title="Get an ecosystem",
    description="Reads one ecosystem from the indexer.",
    annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
)
async def get_ecosystem(
    id: Annotated[int, Field(gt=0, description="Id of the ecosystem")], ctx: Context[httpx2.AsyncClient]
) -> Annotated[CallToolResult, Answer]:
    response = await ctx.request_context.lifespan_context.get(f"/v4/ecosystem/get/{id}")
    if response.status_code != 200:
        message = f"HTTP {response.status_code}: {response.text}"
        return CallToolResult(is_error=True, content=[TextContent(text=message)])
    return CallToolResult(content=[TextContent(text=response.text)], structured_content=json.loads(response.content))


def main() -> None:
    listener = socket.create_server(("127.0.0.1", PORT), backlog=1024)
    app = server.streamable_http_app(json_response=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False, loop="uvloop", http="httptools", backlog=1024)
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
