// MCP server of the older protocol generation, with sessions.
// Arguments: PORT ISSUER AUDIENCE JWKS_URI REVOKED_URI
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { McpServer } from 'mcp-sdk-v1/server/mcp.js'
import { StreamableHTTPServerTransport } from 'mcp-sdk-v1/server/streamableHttp.js'
import * as z from 'zod'
import { authInfo, tokenCheck } from './token_check.mjs'

const [port, ...settings] = process.argv.slice(2)
const check = tokenCheck(...settings)
const sessions = new Map()
const text = (value) => ({ content: [{ type: 'text', text: value }] })

function greeter() {
  const server = new McpServer({ name: 'greeter', version: '1.0.0' })
  server.registerTool(
    'greet',
    { description: 'Greets by a name.', inputSchema: { name: z.string() } },
    ({ name }) => text(`hello ${name}`),
  )
  server.registerTool(
    'caller',
    { description: "Answers the subject of the caller's token." },
    (extra) => text(extra.authInfo.extra.sub),
  )
  return server
}

async function open() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, transport),
  })
  transport.onclose = () => sessions.delete(transport.sessionId)
  await greeter().connect(transport)
  return transport
}

createServer(async (req, res) => {
  if (new URL(req.url, 'http://localhost').pathname !== '/mcp') return res.writeHead(404).end()
  const verified = await check(req, res)
  if (!verified) return
  req.auth = authInfo(verified)
  const id = req.headers['mcp-session-id']
  if (id && !sessions.has(id)) return res.writeHead(404).end()
  const transport = sessions.get(id) ?? (await open())
  await transport.handleRequest(req, res)
  // a first request that is no initialize opened no session
  if (!transport.sessionId) await transport.close()
}).listen(Number(port), '127.0.0.1', () => console.log('listening'))
