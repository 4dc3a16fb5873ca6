"""A2A agent. Arguments: PORT ISSUER AUDIENCE JWKS_URI REVOKED_URI [0.3]"""

import sys

from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette
from starlette.authentication import SimpleUser

from serve import serve
from token_check import TokenCheck

port, issuer, audience, jwks_uri, revoked_uri, *mode = sys.argv[1:]
old = mode == ["0.3"]
CARD_PATH = "/a2a/.well-known/agent-card.json"


class Greeter(AgentExecutor):
    async def execute(self, context, event_queue):
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.add_artifact([new_text_part(f"hello {context.get_user_input()}")])
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


card = AgentCard(
    name="greeter",
    description="Greets",
    version="1.0.0",
    supported_interfaces=[
        AgentInterface(
            url=f"http://127.0.0.1:{port}/a2a",
            protocol_binding="JSONRPC",
            protocol_version="0.3.0" if old else "1.0",
        )
    ],
    capabilities=AgentCapabilities(streaming=False, push_notifications=False),
    security_schemes={"token": {"http_auth_security_scheme": {"scheme": "Bearer", "bearer_format": "JWT"}}},
    security_requirements=[{"schemes": {"token": {}}}],
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[AgentSkill(id="greet", name="greet", description="Says hello", tags=["greeting"])],
)
handler = DefaultRequestHandler(Greeter(), InMemoryTaskStore(), card)
app = Starlette(
    routes=[
        *create_agent_card_routes(card, card_url=CARD_PATH),
        *create_jsonrpc_routes(handler, "/a2a", enable_v0_3_compat=old),
    ]
)
app.add_middleware(
    TokenCheck,
    issuer,
    audience,
    jwks_uri,
    revoked_uri,
    make_user=lambda token, claims: SimpleUser(claims["sub"]),
    public=CARD_PATH,
)
serve(app, port)
