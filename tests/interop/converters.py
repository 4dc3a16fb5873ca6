"""Converts the whole listing with the converters of agent frameworks, without a network and without a model: every tool must
convert, and keep its arguments. `converters.py <listing> <framework>...`"""

import asyncio
import json
import logging
import sys
import warnings

from mcp import types

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)


def names(schema):
    return set(schema.get("properties", {}))


def google_genai(tools):
    from google.genai import _mcp_utils

    for tool in tools:
        [declaration] = _mcp_utils.mcp_to_gemini_tool(tool).function_declarations
        kept = declaration.parameters.properties if declaration.parameters else None
        yield tool, set(kept or (declaration.parameters_json_schema or {}).get("properties", {}))


class Listing:
    """A session that only lists."""

    def __init__(self, tools):
        self.tools = tools

    async def list_tools(self, *_, **__):
        return types.ListToolsResult(tools=self.tools)


def autogen(tools):
    from autogen_ext.tools.mcp import StreamableHttpMcpToolAdapter, StreamableHttpServerParams

    nowhere = StreamableHttpServerParams(url="http://127.0.0.1:9/")
    for tool in tools:
        adapter = StreamableHttpMcpToolAdapter(nowhere, tool, session=Listing(tools))
        yield tool, names(adapter.schema["parameters"])


def dspy(tools):
    from dspy import Tool

    for tool in tools:
        yield tool, set(Tool.from_mcp_tool(Listing(tools), tool).args)


def semantic_kernel(tools):
    from semantic_kernel import Kernel
    from semantic_kernel.connectors.mcp import MCPStreamableHttpPlugin

    plugin = MCPStreamableHttpPlugin(name="svc", url="http://127.0.0.1:9/", load_prompts=False, session=Listing(tools))
    asyncio.run(plugin.load_tools())
    functions = Kernel().add_plugin(plugin).functions
    for tool in tools:
        yield tool, {one.name for one in functions[tool.name].metadata.parameters}


def langchain(tools):
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool

    for tool in tools:
        converted = convert_mcp_tool_to_langchain_tool(None, tool, connection={"transport": "stdio", "command": "-", "args": []})
        for strict in (False, True):
            shown = convert_to_openai_tool(converted, strict=strict)["function"]["parameters"]
        yield tool, names(shown)


def openai_agents(tools):
    from agents.mcp import MCPServerStdio, MCPUtil

    server = MCPServerStdio(params={"command": "-"})
    for tool in tools:
        converted = MCPUtil.to_function_tool(tool, server, convert_schemas_to_strict=True)
        # The library leaves a tool without arguments as it is: there is nothing to make strict.
        assert converted.strict_json_schema or not names(tool.inputSchema), f"{tool.name} is not strict"
        yield tool, names(converted.params_json_schema)


def main():
    listing = json.load(open(sys.argv[1]))
    for framework in sys.argv[2:]:
        # Dots in names are refused by some: a deployment for them sets SVC_TOOL_NAMES=underscored.
        tools = [types.Tool.model_validate(tool | {"name": tool["name"].replace(".", "_")}) for tool in listing]
        converted = list(globals()[framework](tools))
        assert len(converted) == len(listing), f"{framework}: {len(converted)} of {len(listing)}"
        lost = {tool.name: names(tool.inputSchema) - kept for tool, kept in converted if names(tool.inputSchema) - kept}
        assert not lost, f"{framework} loses arguments: {lost}"
        print(f"{framework}: {len(converted)} tools")


main()
