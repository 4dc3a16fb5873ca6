// The check of bearer tokens of the Node servers.
import { createRemoteJWKSet, jwtVerify } from 'jose'

export function tokenCheck(issuer, audience, jwksUri, revokedUri) {
  const keys = createRemoteJWKSet(new URL(jwksUri))

  async function verify(authorization = '') {
    const [scheme, token] = authorization.split(' ')
    if (scheme.toLowerCase() !== 'bearer') throw new Error('no bearer token')
    const { payload, protectedHeader } = await jwtVerify(token, keys, {
      algorithms: ['EdDSA'],
      issuer,
      audience,
      requiredClaims: ['sub', 'iat', 'exp', 'jti'],
    })
    // jose's own option typ also takes application/at+jwt, and audience a list
    if (protectedHeader.typ !== 'at+jwt') throw new Error('not an access token')
    if (payload.aud !== audience) throw new Error('not the audience')
    const answer = await fetch(revokedUri)
    if (!answer.ok) throw new Error('no list of revoked tokens')
    const listed = await answer.json()
    if (listed.revoked.some((entry) => entry.jti === payload.jti)) throw new Error('revoked')
    if (!(payload.iat >= listed.valid_from)) throw new Error('issued before valid_from')
    return { token, claims: payload }
  }

  // Answers the token and its claims; or refuses and answers undefined.
  return async (req, res) => {
    try {
      return await verify(req.headers.authorization)
    } catch {
      res.writeHead(401, { 'WWW-Authenticate': 'Bearer error="invalid_token"' }).end()
    }
  }
}

// The shape in which both MCP SDKs hand a verified token to a tool.
export function authInfo({ token, claims }) {
  return {
    token,
    clientId: claims.client_id ?? claims.sub,
    scopes: [],
    expiresAt: claims.exp,
    extra: { sub: claims.sub },
  }
}
