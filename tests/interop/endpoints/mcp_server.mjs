// MCP server of the protocol 2026-07-28, with the stateless fallback for older clients.
// Arguments: PORT ISSUER AUDIENCE JWKS_URI REVOKED_URI
import { createServer } from 'node:http'
import { McpServer, createMcpHandler } from '@modelcontextprotocol/server'
import { localhostHostValidation, localhostOriginValidation, toNodeHandler } from '@modelcontextprotocol/node'
import * as z from 'zod'
import { authInfo, tokenCheck } from './token_check.mjs'

const [port, ...settings] = process.argv.slice(2)
const check = tokenCheck(...settings)
const text = (value) => ({ content: [{ type: 'text', text: value }] })

// called once per request
function greeter() {
  const server = new McpServer({ name: 'greeter', version: '1.0.0' })
  server.registerTool(
    'greet',
    { description: 'Greets by a name.', inputSchema: z.object({ name: z.string() }) },
    ({ name }) => text(`hello ${name}`),
  )
  server.registerTool(
    'caller',
    { description: "Answers the subject of the caller's token." },
    (context) => text(context.http.authInfo.extra.sub),
  )
  return server
}

const handle = toNodeHandler(createMcpHandler(greeter))
const validHost = localhostHostValidation()
const validOrigin = localhostOriginValidation()

createServer(async (req, res) => {
  if (!validHost(req, res) || !validOrigin(req, res)) return
  if (new URL(req.url, 'http://localhost').pathname !== '/mcp') return res.writeHead(404).end()
  const verified = await check(req, res)
  if (!verified) return
  req.auth = authInfo(verified)
  await handle(req, res)
}).listen(Number(port), '127.0.0.1', () => console.log('listening'))
