// A peer for `make bench`: an MCP server built with the official TypeScript SDK that proxies one read of the indexer.
// Streamable HTTP on loopback, JSON answers: clients of 2025-11-25 and earlier get sessions, those of 2026-07-28 none.
// Run: node proxy.mjs <port, 0 for a free one> <indexer origin>
// Needs: @modelcontextprotocol/server, @modelcontextprotocol/node, zod, undici
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import {
  NodeStreamableHTTPServerTransport,
  localhostHostValidation,
  localhostOriginValidation,
  toNodeHandler,
  toWebRequest,
} from "@modelcontextprotocol/node";
import { McpServer, createMcpHandler, isLegacyRequest } from "@modelcontextprotocol/server";
import { Pool } from "undici";
import * as z from "zod";

const [port, origin] = process.argv.slice(2);
const indexer = new Pool(origin, { connections: 64 });

const inputSchema = z.strictObject({ id: z.int().positive().describe("Id of the ecosystem") });
const outputSchema = z.looseObject({
  ecosystem: z.looseObject({ id: z.int(), did: z.string(), corporation_id: z.int(), language: z.string() }),
});

async function getEcosystem({ id }) {
  const { statusCode, body } = await indexer.request({ method: "GET", path: `/v4/ecosystem/get/${id}` });
  const text = await body.text();
  if (statusCode !== 200) return { isError: true, content: [{ type: "text", text: `HTTP ${statusCode}: ${text}` }] };
  return { content: [{ type: "text", text }], structuredContent: JSON.parse(text) };
}

function mcpServer() {
  const server = new McpServer({ name: "typescript-proxy", version: "1.0.0" });
  const annotations = { readOnlyHint: true, openWorldHint: false };
  const description = "Reads one ecosystem from the indexer.";
  server.registerTool("getEcosystem", { title: "Get an ecosystem", description, inputSchema, outputSchema, annotations }, getEcosystem);
  return server;
}

const sessions = new Map();
const withoutSessions = toNodeHandler(createMcpHandler(mcpServer, { legacy: "reject" }));

async function newSession() {
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: true,
    onsessioninitialized: (id) => void sessions.set(id, transport),
  });
  transport.onclose = () => sessions.delete(transport.sessionId);
  await mcpServer().connect(transport);
  return transport;
}

async function route(req, res) {
  const id = req.headers["mcp-session-id"];
  if (id !== undefined) return sessions.has(id) ? sessions.get(id).handleRequest(req, res) : refuse(res, 404, "Session not found");
  const request = await toWebRequest(req);
  const body = req.method === "POST" ? await request.json() : undefined;
  if (!(await isLegacyRequest(request, body))) return withoutSessions(req, res, body);
  return (await newSession()).handleRequest(req, res, body);
}

function refuse(res, status, message) {
  const body = JSON.stringify({ jsonrpc: "2.0", error: { code: -32000, message }, id: null });
  if (!res.headersSent) res.writeHead(status, { "content-type": "application/json" }).end(body);
}

const [hostAllowed, originAllowed] = [localhostHostValidation(), localhostOriginValidation()];
const server = createServer((req, res) => {
  if (!hostAllowed(req, res) || !originAllowed(req, res)) return;
  route(req, res).catch((error) => refuse(res, error.status ?? 400, error.message));
});
server.listen({ port: Number(port), host: "127.0.0.1", backlog: 1024 }, () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}/mcp`);
});
