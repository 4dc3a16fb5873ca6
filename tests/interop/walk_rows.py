"""What the walk knows of its market: the scenario it needs, what lives there, and a row of arguments for every read."""

import json
import os
import pathlib
import sys

# The walk repays and reclaims itself: the marketplace would leave nothing to repay or to reclaim.
LEFT_TO_THE_WALK = ["grantor takes its yield", "grantor repays"]
# The chain prunes a proposal that is executed, and its votes: only an open one can be read from the node.
OPEN_PROPOSAL = """
[[step]]
name = "create corporation council"
signer = "member"
save = { council = "policy_address" }
[[step.messages]]
type = "co.MsgCreateCorporation"
[step.messages.value]
signer = "$member"
members = [{ address = "$member", weight = "1" }, { address = "$operator", weight = "1" }]
did = "did:web:council.devnet.example"
language = "en"
doc_url = "https://council.devnet.example/framework-v1.pdf"
doc_digest_sri = "sha384-AAEC"
[step.messages.value.decision_policy]
"@type" = "/cosmos.group.v1.ThresholdDecisionPolicy"
threshold = "2"
windows = { voting_period = "2592000s", min_execution_period = "0s" }

[[step]]
name = "a member proposes"
signer = "member"
save = { open_proposal = "proposal_id" }
[[step.messages]]
type = "/cosmos.group.v1.MsgSubmitProposal"
[step.messages.value]
group_policy_address = "$council"
proposers = ["$member"]
title = "Move"
summary = "The council moves to another DID"
[[step.messages.value.messages]]
"@type" = "$type:co.MsgUpdateCorporation"
corporation = "$council"
operator = "$council"
did = "did:web:moved.devnet.example"

[[step]]
name = "one of two votes"
signer = "member"
[[step.messages]]
type = "/cosmos.group.v1.MsgVote"
value = { proposal_id = "$open_proposal", voter = "$member", option = "VOTE_OPTION_YES" }
"""

# What this deployment does not list. When one of them is listed, it needs a row.
ABSENT = {
    "svc.graph.": "no graph is configured",
    "svc.vsa.": "the registry corporation has no agents",
    "svc.wallet.findTools": "tools/list is complete",
}
# Lists that may have no row, and why.
EMPTY = {
    "svc.cosmos.authz.listGrants": "x/authz is empty on a devnet",
    "svc.wallet.listVSAgents": "the registry corporation has no agents",
    "svc.idx.indexer.listChanges": "it tells of one block, and most blocks change nothing",
}


def scenario(file: str) -> str:
    steps = pathlib.Path(file).read_text().split("[[step]]\n")
    kept = [step for step in steps if not any(step.startswith(f'name = "{name}"\n') for name in LEFT_TO_THE_WALK)]
    if len(steps) - len(kept) != len(LEFT_TO_THE_WALK):
        sys.exit(f"{file} lacks one of the steps {LEFT_TO_THE_WALK}")
    return "[[step]]\n".join(kept) + OPEN_PROPOSAL


async def find_live(session) -> dict:
    """What the marketplace holds: names its scenario saved, and what only reads can tell."""
    saved = json.loads(os.environ["SVC_VALUES"])
    events = (await session.ask("svc.idx.indexer.listEvents", {"limit": 500}))["events"]
    newest = {event["event_type"]: event["payload"]["entity_id"] for event in events}
    versions = await session.ask("svc.idx.gf.listGovernanceFrameworkVersions", {"ecosystem_id": saved["education"]})
    agents = await session.ask("svc.idx.de.listVSOperatorAuthorizations", {"vs_operator": saved["issuing_service"]})
    status = await session.ask("svc.cosmos.tendermint.getStatus")
    # By then everything is there, and judged.
    indexer = await session.ask("svc.idx.indexer.getStatus")
    return saved | {
        "session": newest["CreateOrUpdateParticipantSession"],
        "digest": newest["StoreDigest"],
        "version": versions["versions"][0]["id"],
        "authorization": (await session.ask("svc.wallet.listAuthorizations"))["authorizations"][0],
        "agent": agents["authorizations"][0]["id"],
        "tx": events[-1]["tx_hash"],
        "height": indexer["trust"]["block_height"],
        "first_day": status["sync_info"]["earliest_block_time"][:10] + "T00:00:00Z",
    }


def reads(live: dict, tomorrow: str) -> dict[str, dict]:
    """Arguments of every read. Those that take a height are asked at `live["height"]` too."""
    registry, of_registry = {"id": live["registry_id"]}, {"corporation_id": live["registry_id"]}
    ecosystem, of_ecosystem = {"id": live["education"]}, {"ecosystem_id": live["education"]}
    schema, issuer, session = {"id": live["diploma"]}, {"id": live["diploma_issuer"]}, {"id": live["session"]}
    days = {"timestamp_from": live["first_day"], "timestamp_until": tomorrow[:10] + "T00:00:00Z"}
    coin = {"quote_asset_type": "COIN", "quote_asset": os.environ["SVC_DENOM"]}
    resource = f"vpr:svc:{os.environ['SVC_CHAIN_ID']}:cs:{live['diploma']}"
    teaches = "did:web:education.devnet.example"
    asks = {"action": "issue", "resource": resource}
    everything = {name: True for name in ("corporation", "ecsCredentials", "services", "participations", "presentations")}
    session_of = {"issuer_participant_id": live["diploma_issuer"], "verifier_participant_id": live["diploma_verifier"]}
    return {
        "svc.wallet.getAddress": {},
        "svc.wallet.getCorporation": {},
        "svc.wallet.getStatus": {},
        "svc.wallet.listAuthorizations": {},
        "svc.wallet.listVSAgents": {},
        "svc.cosmos.auth.getAccount": {"address": live["operator"]},
        "svc.cosmos.authz.listGrants": {"granter": live["registry"], "grantee": live["operator"]},
        "svc.cosmos.bank.getAllBalances": {"address": live["member"]},
        "svc.cosmos.bank.getBalance": {"address": live["registry"], "denom": os.environ["SVC_DENOM"]},
        "svc.cosmos.feegrant.listAllowances": {"granter": live["registry"]},
        "svc.cosmos.group.getProposal": {"proposal_id": live["open_proposal"]},
        "svc.cosmos.group.listProposals": {"policy_address": live["council"]},
        "svc.cosmos.group.listVotes": {"proposal_id": live["open_proposal"]},
        "svc.cosmos.tendermint.getBlock": {"height": live["height"]},
        "svc.cosmos.tendermint.getStatus": {},
        "svc.cosmos.tx.getTx": {"hash": live["tx"]},
        "svc.idx.co.getCorporation": registry | {"gf_data": "all", "trust_data": "full"},
        "svc.idx.co.getCorporationHistory": registry,
        "svc.idx.co.getCorporationParams": {},
        "svc.idx.co.listCorporations": {"policy_address": [live["registry"], live["issuer"]], "gf_data": "none"},
        "svc.idx.cs.getCredentialSchema": schema,
        "svc.idx.cs.getCredentialSchemaHistory": schema,
        "svc.idx.cs.getCredentialSchemaParams": {},
        "svc.idx.cs.getJsonSchema": schema,
        "svc.idx.cs.listCredentialSchemas": of_ecosystem | {"min_participants": 1, "limit": 2},
        "svc.idx.de.getOperatorAuthorization": {"id": live["authorization"]["id"]},
        "svc.idx.de.getVSOperatorAuthorization": {"id": live["agent"]},
        "svc.idx.de.listFeeGrants": {"grantor_corporation_id": live["registry_id"]},
        "svc.idx.de.listOperatorAuthorizations": {"msg_type": live["authorization"]["msg_types"][0]},
        "svc.idx.de.listVSOperatorAuthorizations": {"participant_id": live["diploma_issuer"]},
        "svc.idx.di.getDigest": {"digest": live["digest"]},
        "svc.idx.es.getEcosystem": ecosystem | {"gf_data": "only_active", "preferred_language": "es"},
        "svc.idx.es.getEcosystemHistory": ecosystem,
        "svc.idx.es.getEcosystemParams": {},
        "svc.idx.es.listEcosystems": of_registry | {"trust_data": "summary"},
        "svc.idx.gf.getGovernanceFrameworkVersion": {"id": live["version"]},
        "svc.idx.gf.listGovernanceFrameworkVersions": of_ecosystem,
        "svc.idx.gr.getCorporationGroup": of_registry,
        "svc.idx.gr.getProposal": {"id": live["open_proposal"]},
        "svc.idx.gr.listCorporationsByMember": {"account": live["member"]},
        "svc.idx.gr.listProposals": {"pending_voter": live["operator"]},
        "svc.idx.gr.listVotes": {"voter": live["member"]},
        "svc.idx.indexer.getBlockHeight": {"min_height": live["height"]},
        "svc.idx.indexer.getSnapshot": {"did": "did:web:education.devnet.example"},
        "svc.idx.indexer.getStatus": {},
        "svc.idx.indexer.getVersion": {},
        "svc.idx.indexer.listChanges": {},
        "svc.idx.indexer.listEvents": {"dids": ["did:web:education.devnet.example"], "limit": 5},
        "svc.idx.pp.findBeneficiaries": session_of,
        "svc.idx.pp.getParticipant": issuer | {"trust_data": "summary"},
        "svc.idx.pp.getParticipantHistory": issuer,
        "svc.idx.pp.getParticipantParams": {},
        "svc.idx.pp.getParticipantSession": session,
        "svc.idx.pp.getParticipantSessionHistory": session,
        "svc.idx.pp.listParticipants": of_ecosystem | {"role": "ISSUER", "sort": "id"},
        "svc.idx.pp.pendingFlat": of_registry,
        "svc.idx.stats.countParticipants": {"entity_kind": 1, "entity_id": live["education"], "role_type": 3},
        "svc.idx.stats.getStats": {"entity_type": "GLOBAL", "granularity": "DAY", "timestamp": live["first_day"]},
        "svc.idx.stats.getStatsRange": days | {"entity_type": "ECOSYSTEM", "entity_ids": [live["education"]]},
        "svc.idx.stats.getStatsSnapshot": {"entity_type": "CREDENTIAL_SCHEMA", "entity_id": live["diploma"]},
        "svc.idx.td.getTrustDeposit": of_registry,
        "svc.idx.td.getTrustDepositHistory": of_registry,
        "svc.idx.td.getTrustDepositParams": {},
        "svc.idx.trqp.authorize": asks | {"authority_id": teaches, "entity_id": "did:web:issuer.devnet.example"},
        "svc.idx.trqp.getProfile": {},
        "svc.idx.trqp.recognize": asks | {"authority_id": "did:web:registry.devnet.example", "entity_id": teaches},
        "svc.idx.vt.listChanges": {"fromBlock": 1, "limit": 5, "includeParticipantCounts": True},
        "svc.idx.vt.listIndexedDids": {"corporation_id": live["registry_id"]},
        "svc.idx.vt.resolve": {"did": teaches, "ecosystems": {"credentialSchemas": True}} | everything,
        "svc.idx.xr.getExchangeRate": {"id": live["tu_rate"]},
        "svc.idx.xr.getPrice": coin | {"base_asset_type": "TU", "base_asset": "tu", "amount": "7"},
        "svc.idx.xr.listExchangeRates": {"state": True},
    }
