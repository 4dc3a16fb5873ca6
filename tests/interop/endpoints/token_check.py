"""ASGI middleware of the Python servers: it checks the bearer token of each request."""

import anyio
import httpx
import jwt
from starlette.datastructures import Headers
from starlette.responses import Response

REFUSAL = {"WWW-Authenticate": 'Bearer error="invalid_token"'}


class TokenCheck:
    def __init__(self, app, issuer, audience, jwks_uri, revoked_uri, make_user, public=None):
        self.app = app
        self.issuer = issuer
        self.audience = audience
        self.keys = jwt.PyJWKClient(jwks_uri)
        self.revoked_uri = revoked_uri
        self.make_user = make_user
        self.public = public

    def verify(self, token):
        if jwt.get_unverified_header(token).get("typ") != "at+jwt":
            raise jwt.InvalidTokenError("not an access token")
        claims = jwt.decode(
            token,
            self.keys.get_signing_key_from_jwt(token),
            algorithms=["EdDSA"],
            issuer=self.issuer,
            audience=self.audience,
            # strict_aud: aud is one string, no list
            options={"require": ["iss", "aud", "sub", "iat", "exp", "jti"], "strict_aud": True},
        )
        listed = httpx.get(self.revoked_uri).raise_for_status().json()
        if claims["jti"] in {entry["jti"] for entry in listed["revoked"]}:
            raise jwt.InvalidTokenError("revoked")
        if claims["iat"] < listed["valid_from"]:
            raise jwt.InvalidTokenError("issued before valid_from")
        return claims

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["path"] == self.public:
            return await self.app(scope, receive, send)
        scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        try:
            if scheme.lower() != "bearer":
                raise jwt.InvalidTokenError("no bearer token")
            # PyJWKClient and httpx.get block, so they run in a thread
            claims = await anyio.to_thread.run_sync(self.verify, token)
        except Exception:
            # a list of keys or of revoked tokens that can't be read refuses too
            return await Response(status_code=401, headers=REFUSAL)(scope, receive, send)
        scope["user"] = self.make_user(token, claims)
        await self.app(scope, receive, send)
