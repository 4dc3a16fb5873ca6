"""Walks every route of the admin API with the client that openapi-python-client has generated."""

import sys

from admin_api_of_a_service_agent_client import Client
from admin_api_of_a_service_agent_client.api.agent import get_agent_info, get_liveness, get_readiness
from admin_api_of_a_service_agent_client.api.auth import challenge, token
from admin_api_of_a_service_agent_client.api.events import (
    list_dead_letters,
    list_gaps,
    refill_gaps,
    remove_dead_letter,
    retry_dead_letter,
)
from admin_api_of_a_service_agent_client.api.service_endpoints import (
    add_service_endpoint,
    delete_service_endpoint,
    list_service_endpoints,
    update_service_endpoint,
)
from admin_api_of_a_service_agent_client.models import (
    ChallengeRequest,
    NewServiceEndpoint,
    ServiceEndpointChange,
    TokenRequest,
)

client = Client(base_url=sys.argv[1])
walked = 0


def expect(answer, status, code=None):
    global walked
    found = (answer.status_code.value, None if answer.status_code < 400 else answer.parsed.error.code)
    if found != (status, code):
        sys.exit(f"{found} instead of {(status, code)}: {answer.content!r}")
    walked += 1
    return answer.parsed


expect(get_liveness.sync_detailed(client=client), 200)
expect(get_readiness.sync_detailed(client=client), 200)
info = expect(get_agent_info.sync_detailed(client=client), 200)
new = NewServiceEndpoint(id="python", type_="MCP", service_endpoint="https://example.com/python")
added = expect(add_service_endpoint.sync_detailed(client=client, body=new), 200)
assert added.id == f"{info.did}#python", added
changed = ServiceEndpointChange(service_endpoint="https://example.com/changed")
path = "python"
updated = expect(update_service_endpoint.sync_detailed(path, client=client, body=changed), 200)
assert updated.service_endpoint == "https://example.com/changed", updated
page = expect(list_service_endpoints.sync_detailed(client=client, limit=500), 200)
assert added.id in [entry.id for entry in page.items], page
expect(delete_service_endpoint.sync_detailed(path, client=client), 200)
expect(delete_service_endpoint.sync_detailed(path, client=client), 404, "UNKNOWN_ID")
assert expect(list_dead_letters.sync_detailed(client=client), 200).items == []
assert expect(list_gaps.sync_detailed(client=client), 200).items == []
expect(retry_dead_letter.sync_detailed("none", client=client), 404, "UNKNOWN_ID")
expect(remove_dead_letter.sync_detailed("none", client=client), 404, "UNKNOWN_ID")
expect(refill_gaps.sync_detailed(client=client), 200)
expect(challenge.sync_detailed(client=client, body=ChallengeRequest(account="svc1a")), 404, "UNKNOWN_ID")
proof = TokenRequest(account="svc1a", pub_key="a", signature="a", nonce="a")
expect(token.sync_detailed(client=client, body=proof), 404, "UNKNOWN_ID")
print(f"openapi-python-client: {walked} requests, every route")
