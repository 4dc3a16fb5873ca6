"""Walks every route of the admin API with the client that openapi-python-client has generated."""

import sys

from admin_api_of_a_service_agent_client import Client
from admin_api_of_a_service_agent_client.api.agent import (
    export_store,
    get_agent_info,
    get_liveness,
    get_readiness,
    get_setup,
    rotate_keys,
)
from admin_api_of_a_service_agent_client.api.auth import challenge, token
from admin_api_of_a_service_agent_client.api.credentials import (
    add_linked_credential,
    issue_credential,
    list_issued_credentials,
    list_linked_credentials,
    list_schema_credentials,
    remove_linked_credential,
)
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
    KeyRotation,
    NewHeldCredential,
    NewHeldCredentialCredential,
    NewIssuedCredential,
    NewIssuedCredentialClaims,
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
setup = expect(get_setup.sync_detailed(client=client, days=30), 200)
assert not setup.complete and "holder" in [step.id for step in setup.steps], setup
for lists in (list_linked_credentials, list_issued_credentials, list_schema_credentials):
    assert expect(lists.sync_detailed(client=client), 200).items == []
stranger = NewHeldCredential(credential=NewHeldCredentialCredential.from_dict({"id": "urn:none"}))
expect(add_linked_credential.sync_detailed(client=client, body=stranger), 400, "INVALID_INPUT")
expect(remove_linked_credential.sync_detailed("none", client=client), 404, "UNKNOWN_ID")
claims = NewIssuedCredentialClaims.from_dict({"name": "none"})
issued = NewIssuedCredential(did="did:web:none.example", schema_id="999999", claims=claims)
expect(issue_credential.sync_detailed(client=client, body=issued), 400, "INVALID_INPUT")
assert expect(rotate_keys.sync_detailed(client=client, body=KeyRotation(kind="update")), 200).version_id
assert export_store.sync_detailed(client=client).content.startswith(b'{"format"')
walked += 1
expect(challenge.sync_detailed(client=client, body=ChallengeRequest(account="svc1a")), 404, "UNKNOWN_ID")
proof = TokenRequest(account="svc1a", pub_key="a", signature="a", nonce="a")
expect(token.sync_detailed(client=client, body=proof), 404, "UNKNOWN_ID")
print(f"openapi-python-client: {walked} requests, every route")
