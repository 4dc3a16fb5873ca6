"""MCP server. Arguments: PORT ISSUER AUDIENCE JWKS_URI REVOKED_URI"""

import sys

from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware, get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from serve import serve
from token_check import TokenCheck

port, *check = sys.argv[1:]
server = MCPServer("greeter", version="1.0.0", log_level="WARNING")


@server.tool()
def greet(name: str) -> str:
    """Greets by a name."""
    return f"hello {name}"


@server.tool()
def caller() -> str:
    """Answers the subject of the caller's token."""
    return get_access_token().subject


def make_user(token, claims):
    # the SDK binds a session to client_id, iss and sub
    return AuthenticatedUser(
        AccessToken(
            token=token,
            client_id=claims.get("client_id", claims["sub"]),
            scopes=[],
            expires_at=int(claims["exp"]),
            subject=claims["sub"],
            claims=claims,
        )
    )


app = server.streamable_http_app(streamable_http_path="/mcp")
# The SDK's own RequireAuthMiddleware answers 401 with a body, so the check stands before the app.
# The middleware added last runs first.
app.add_middleware(AuthContextMiddleware)
app.add_middleware(TokenCheck, *check, make_user)
serve(app, port)
