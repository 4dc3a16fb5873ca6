// A2A agent. Arguments: PORT ISSUER AUDIENCE JWKS_URI REVOKED_URI [0.3]
import { randomUUID } from 'node:crypto'
import { AgentCard, Task } from '@a2a-js/sdk'
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server'
import { agentCardHandler, jsonRpcHandler } from '@a2a-js/sdk/server/express'
import express from 'express'
import { tokenCheck } from './token_check.mjs'

const [port, issuer, audience, jwksUri, revokedUri, mode] = process.argv.slice(2)
const old = mode === '0.3'
const check = tokenCheck(issuer, audience, jwksUri, revokedUri)

const card = (protocolVersion) =>
  AgentCard.fromJSON({
    name: 'greeter',
    description: 'Greets',
    version: '1.0.0',
    supportedInterfaces: [{ url: `http://127.0.0.1:${port}/a2a`, protocolBinding: 'JSONRPC', protocolVersion }],
    capabilities: { streaming: false, pushNotifications: false },
    securitySchemes: { token: { httpAuthSecurityScheme: { scheme: 'Bearer', bearerFormat: 'JWT' } } },
    securityRequirements: [{ schemes: { token: { list: [] } } }],
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [{ id: 'greet', name: 'greet', description: 'Says hello', tags: ['greeting'] }],
  })

const greeter = {
  async execute({ taskId, contextId, userMessage }, bus) {
    const text = userMessage.parts.map(({ content }) => (content?.$case === 'text' ? content.value : '')).join('')
    const task = Task.fromJSON({
      id: taskId,
      contextId,
      status: { state: 'TASK_STATE_COMPLETED', timestamp: new Date().toISOString() },
      artifacts: [{ artifactId: randomUUID(), parts: [{ text: `hello ${text}` }] }],
    })
    bus.publish(AgentEvent.task({ ...task, history: [userMessage] }))
    bus.finished()
  },
  async cancelTask() {
    throw new Error('a greeting is over at once')
  },
}

// The SDK compares the version of a request with the card's as a string. An old request has no
// version header and counts as 0.3, so the handler's card says 0.3 where the public one says 0.3.0.
const requestHandler = new DefaultRequestHandler(card(old ? '0.3' : '1.0'), new InMemoryTaskStore(), greeter)
const publicCard = card(old ? '0.3.0' : '1.0')
const legacyCompat = { enabled: old }

const app = express()
app.use(
  '/a2a/.well-known/agent-card.json',
  // agentCardHandler writes what it gets with JSON.stringify; the compat layer wants the SDK's own form
  agentCardHandler({ agentCardProvider: async () => (old ? publicCard : AgentCard.toJSON(publicCard)), legacyCompat }),
)
app.use(
  '/a2a',
  async (req, res, next) => {
    req.verified = await check(req, res)
    if (req.verified) next()
  },
  jsonRpcHandler({
    requestHandler,
    userBuilder: async (req) => ({ isAuthenticated: true, userName: req.verified.claims.sub }),
    legacyCompat,
  }),
)
app.listen(Number(port), '127.0.0.1', () => console.log('listening'))
