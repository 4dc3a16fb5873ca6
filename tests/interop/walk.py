"""The acceptance walk, with the official Python client and with fastmcp: every read that is listed, and every ledger tool with the
read that verifies it. A tool without a row here fails the walk. walk.mjs goes on with the calls this one writes down.

`walk.py scenario FILE` prints the scenario the walk needs; without arguments it walks over a devnet that runs it.
"""

import asyncio
import base64
import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import re
import sys
import tomllib
import urllib.request
import uuid

import fastmcp
import httpx2
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

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
    "svc.idx.vt.": "the devnet's indexer answers no trust reads",
    "svc.idx.trqp.": "the devnet's indexer answers no trust reads",
    "svc.wallet.findTools": "tools/list is complete, there is nothing more to find",
}
# Answers without any row, and why.
EMPTY = {
    "svc.cosmos.authz.listGrants": "x/authz is empty on a devnet",
    "svc.wallet.listVSAgents": "the registry corporation has no agents",
    "svc.idx.indexer.listChanges": "it tells of the newest block, which is mostly empty",
}
# Reads that need no arguments.
PLAIN = [
    "svc.wallet.getAddress", "svc.wallet.getCorporation", "svc.wallet.getStatus", "svc.wallet.listAuthorizations",
    "svc.wallet.listVSAgents", "svc.cosmos.authz.listGrants", "svc.cosmos.tendermint.getStatus",
    "svc.idx.co.getCorporationParams", "svc.idx.cs.getCredentialSchemaParams", "svc.idx.es.getEcosystemParams",
    "svc.idx.indexer.getStatus", "svc.idx.indexer.getVersion", "svc.idx.indexer.listChanges",
    "svc.idx.pp.getParticipantParams", "svc.idx.td.getTrustDepositParams",
]
LEDGER_TOOLS = 27
# Who writes besides the registry's operator, for which corporation.
SEATS = {
    "member": "registry_id",
    "grantor_operator": "grantor_id",
    "issuer_operator": "issuer_id",
    "verifier_operator": "verifier_id",
    "issuing_service": "issuer_id",
}
DIGEST = "sha384-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v"
FRAMEWORK = {"language": "en", "doc_url": "https://walk.example/framework.pdf", "doc_digest_sri": DIGEST}
PERIODS = [f"{role}_validation_validity_period" for role in ("issuer_grantor", "verifier_grantor", "issuer", "verifier", "holder")]


class Broken(Exception):
    """What the walk has found to be wrong."""


def require(condition, *told) -> None:
    if not condition:
        raise Broken(" ".join(one if isinstance(one, str) else json.dumps(one, indent=1, default=str) for one in told))


def control(order: str = "", body: dict | None = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{os.environ['SVC_CONTROL']}{order}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def later(seconds: int) -> str:
    """An instant after the newest block, as the indexer writes it."""
    instant = datetime.datetime.fromisoformat(control()["time"]) + datetime.timedelta(seconds=seconds)
    return instant.strftime("%Y-%m-%dT%H:%M:%S.000Z")


class Session:
    """A client, and the tools it was told of."""

    def __init__(self, name: str, client: Client):
        self.name, self.client, self.tools = name, client, {}

    async def list_tools(self) -> None:
        cursor, found = None, []
        while not found or cursor:
            page = await self.client.list_tools(cursor=cursor, cache_mode="bypass")
            found, cursor = found + page.tools, page.next_cursor
        self.tools = {tool.name: tool for tool in found}
        require(len(self.tools) == len(found), f"{self.name}: tools/list repeats tools")

    async def call(self, name: str, arguments: dict):
        require(name in self.tools, f"{self.name}: {name} is not listed")
        return await self.client.call_tool(name, arguments)

    async def ask(self, name: str, arguments: dict | None = None) -> dict:
        """An answer that is no error and keeps the schema it is announced with."""
        answer = await self.call(name, arguments or {})
        what = f"{self.name}: {name} {json.dumps(arguments)}"
        require(not answer.is_error, f"{what} failed:", answer.structured_content)
        validator = Draft202012Validator(self.tools[name].output_schema)
        for error in validator.iter_errors(answer.structured_content):
            raise Broken(f"{what}: {error.json_path} of the answer breaks the output schema: {error.message}")
        return answer.structured_content


@contextlib.asynccontextmanager
async def over_http(mode: str):
    headers = {"Authorization": "Bearer " + os.environ["MCP_BEARER_TOKEN"]}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(os.environ["SVC_MCP_URL"], http_client=http)
        async with Client(transport, mode=mode) as client:
            session = Session(f"http {mode}", client)
            await session.list_tools()
            yield session


@contextlib.asynccontextmanager
async def over_stdio(account: str, corporation: str):
    """A tool server of its own for another party of the marketplace."""
    accounts = tomllib.loads(pathlib.Path(os.environ["SVC_SCENARIO"]).read_text())["account"]
    environment = {name: os.environ[name] for name in ("SVC_RPC", "SVC_INDEXER")} | {
        "MCP_SVC_MNEMONIC": next(one["mnemonic"] for one in accounts if one["name"] == account),
        "SVC_CORPORATION": corporation,
        "MCP_TRANSPORT": "stdio",
        "SVC_LOG_LEVEL": "error",
    }
    server = StdioServerParameters(command=os.environ["SVC_BINARY"], args=["serve"], env=environment)
    async with Client(server) as client:
        session = Session(account, client)
        await session.list_tools()
        yield session


async def find_live(session: Session) -> dict:
    """Ids, addresses and hashes of what the marketplace holds."""
    corporation = await session.ask("svc.wallet.getCorporation")
    events = (await session.ask("svc.idx.indexer.listEvents", {"limit": 500}))["events"]
    entity = {event["event_type"]: event["payload"]["entity_id"] for event in events}
    schemas = [event["payload"]["entity_id"] for event in events if event["event_type"] == "CreateNewCredentialSchema"]
    active = {"participant_state": "ACTIVE", "schema_id": schemas[0]}
    issuers = await session.ask("svc.idx.pp.listParticipants", active | {"role": "ISSUER"})
    verifiers = await session.ask("svc.idx.pp.listParticipants", active | {"role": "VERIFIER"})
    ecosystem = corporation["ecosystems"][0]
    versions = await session.ask("svc.idx.gf.listGovernanceFrameworkVersions", {"ecosystem_id": ecosystem["id"]})
    proposals = await session.ask("svc.idx.gr.listProposals", {"status": "SUBMITTED"})
    status = await session.ask("svc.cosmos.tendermint.getStatus")
    return {
        "corporation": corporation["id"],
        "policy": corporation["policy_address"],
        "did": corporation["did"],
        "ecosystem": ecosystem["id"],
        "ecosystem_did": ecosystem["did"],
        "schema": schemas[0],
        "issuer": issuers["participants"][0],
        "verifier": verifiers["participants"][0],
        "version": versions["versions"][0]["id"],
        "session": entity["CreateOrUpdateParticipantSession"],
        "digest": entity["StoreDigest"],
        "proposal": proposals["proposals"][0],
        "rate": entity["CreateExchangeRate"],
        "authorization": (await session.ask("svc.wallet.listAuthorizations"))["authorizations"][0],
        "vs_authorization": (await session.ask("svc.idx.de.listVSOperatorAuthorizations"))["authorizations"][0]["id"],
        "operator": (await session.ask("svc.wallet.getAddress"))["address"],
        "tx": events[-1]["tx_hash"],
        "height": events[-1]["block_height"],
        "first_day": status["sync_info"]["earliest_block_time"][:10] + "T00:00:00Z",
    }


def reads(live: dict) -> dict[str, dict]:
    """Arguments of every read. Those that take a height are asked at `live["height"]` too."""
    own, ecosystem, schema = {"id": live["corporation"]}, {"id": live["ecosystem"]}, {"id": live["schema"]}
    of_corporation = {"corporation_id": live["corporation"]}
    issuer, verifier = live["issuer"]["id"], live["verifier"]["id"]
    proposal, denom = live["proposal"]["id"], os.environ["SVC_DENOM"]
    member = live["proposal"]["proposers"][0]
    day = {"entity_type": "GLOBAL", "granularity": "DAY", "timestamp": live["first_day"]}
    days = {"timestamp_from": live["first_day"], "timestamp_until": later(86400)[:10] + "T00:00:00Z"}
    price = {"base_asset_type": "TU", "base_asset": "tu", "quote_asset_type": "COIN", "quote_asset": denom, "amount": "7"}
    return dict.fromkeys(PLAIN, {}) | {
        "svc.cosmos.auth.getAccount": {"address": live["operator"]},
        "svc.cosmos.bank.getAllBalances": {"address": live["policy"]},
        "svc.cosmos.bank.getBalance": {"address": live["policy"], "denom": denom},
        "svc.cosmos.feegrant.listAllowances": {"granter": live["policy"]},
        "svc.cosmos.group.getProposal": {"proposal_id": proposal},
        "svc.cosmos.group.listProposals": {"policy_address": live["proposal"]["group_policy_address"]},
        "svc.cosmos.group.listVotes": {"proposal_id": proposal},
        "svc.cosmos.tendermint.getBlock": {"height": live["height"]},
        "svc.cosmos.tx.getTx": {"hash": live["tx"]},
        "svc.idx.co.getCorporation": own | {"gf_data": "all", "trust_data": "full"},
        "svc.idx.co.getCorporationHistory": own,
        "svc.idx.co.listCorporations": {"did": live["did"]},
        "svc.idx.cs.getCredentialSchema": schema,
        "svc.idx.cs.getCredentialSchemaHistory": schema,
        "svc.idx.cs.getJsonSchema": schema,
        "svc.idx.cs.listCredentialSchemas": {"ecosystem_id": live["ecosystem"], "min_participants": 1, "limit": 2},
        "svc.idx.de.getOperatorAuthorization": {"id": live["authorization"]["id"]},
        "svc.idx.de.getVSOperatorAuthorization": {"id": live["vs_authorization"]},
        "svc.idx.de.listFeeGrants": {"grantor_corporation_id": live["corporation"]},
        "svc.idx.de.listOperatorAuthorizations": {"msg_type": live["authorization"]["msg_types"][0]},
        "svc.idx.de.listVSOperatorAuthorizations": {"participant_id": issuer},
        "svc.idx.di.getDigest": {"digest": live["digest"]},
        "svc.idx.es.getEcosystem": ecosystem | {"gf_data": "only_active", "preferred_language": "es"},
        "svc.idx.es.getEcosystemHistory": ecosystem,
        "svc.idx.es.listEcosystems": of_corporation | {"trust_data": "summary"},
        "svc.idx.gf.getGovernanceFrameworkVersion": {"id": live["version"]},
        "svc.idx.gf.listGovernanceFrameworkVersions": {"ecosystem_id": live["ecosystem"]},
        "svc.idx.gr.getCorporationGroup": of_corporation,
        "svc.idx.gr.getProposal": {"id": proposal},
        "svc.idx.gr.listCorporationsByMember": {"account": member},
        "svc.idx.gr.listProposals": {"pending_voter": live["operator"]},
        "svc.idx.gr.listVotes": {"voter": member},
        "svc.idx.indexer.getBlockHeight": {"min_height": live["height"]},
        "svc.idx.indexer.getSnapshot": {"did": live["ecosystem_did"]},
        "svc.idx.indexer.listEvents": {"dids": [live["ecosystem_did"]], "limit": 5},
        "svc.idx.pp.findBeneficiaries": {"issuer_participant_id": issuer, "verifier_participant_id": verifier},
        "svc.idx.pp.getParticipant": {"id": issuer, "trust_data": "summary"},
        "svc.idx.pp.getParticipantHistory": {"id": issuer},
        "svc.idx.pp.getParticipantSession": {"id": live["session"]},
        "svc.idx.pp.getParticipantSessionHistory": {"id": live["session"]},
        "svc.idx.pp.listParticipants": {"ecosystem_id": live["ecosystem"], "role": "ISSUER", "sort": "id"},
        "svc.idx.pp.pendingFlat": of_corporation,
        "svc.idx.stats.countParticipants": {"entity_kind": 1, "entity_id": live["ecosystem"], "role_type": 3},
        "svc.idx.stats.getStats": day,
        "svc.idx.stats.getStatsRange": days | {"entity_type": "ECOSYSTEM", "entity_ids": [live["ecosystem"]]},
        "svc.idx.stats.getStatsSnapshot": {"entity_type": "CREDENTIAL_SCHEMA", "entity_id": live["schema"]},
        "svc.idx.td.getTrustDeposit": of_corporation,
        "svc.idx.td.getTrustDepositHistory": of_corporation,
        "svc.idx.xr.getExchangeRate": {"id": live["rate"]},
        "svc.idx.xr.getPrice": price,
        "svc.idx.xr.listExchangeRates": {"state": True},
    }


def rows(answer: dict) -> list[dict]:
    """What an answer is about: its one entity, or those of its list."""
    members = [value if isinstance(value, list) else [value] for value in answer.values() if isinstance(value, dict | list)]
    return [row for member in members for row in member]


async def walk_reads(session: Session, live: dict, past: dict) -> list[dict]:
    """Asks all reads; yields the calls, for a client in another language. `past` keeps what was told of a height: it never changes."""
    table, calls = reads(live), []
    listed = {name for name, tool in session.tools.items() if tool.annotations.read_only_hint}
    for name in listed:
        why = [reason for prefix, reason in ABSENT.items() if name.startswith(prefix)]
        require(not why, f"{name} is listed although {why}: give it a row")
    require(listed == set(table), f"reads listed without a row: {listed - set(table)}; rows not listed: {set(table) - listed}")
    for name, arguments in table.items():
        tool = session.tools[name]
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator.check_schema(tool.output_schema)
        forms = [arguments]
        if "at_block_height" in tool.input_schema["properties"]:
            forms.append(arguments | {"at_block_height": live["height"]})
        answers = [await session.ask(name, form) for form in forms]
        is_list = any(isinstance(value, list) for value in answers[0].values())
        is_told = any(rows(answer) for answer in answers) or not is_list
        require(is_told or name in EMPTY, f"{name} {json.dumps(arguments)} has no row")
        is_kept = len(forms) == 1 or past.setdefault(name, answers[1]) == answers[1]
        require(is_kept, f"{name}: the answer at height {live['height']} was", past.get(name), "and is", answers[-1])
        calls += [{"tool": name, "arguments": form} for form in forms]
    print(f"python {session.name}: protocol {session.client.protocol_version}, {len(table)} reads in {len(calls)} calls")
    return calls


class Ledger:
    """Writes of several parties, each verified by the read its tool names."""

    def __init__(self, parties: dict[str, Session]):
        self.parties, self.done = parties, set()

    async def write(self, party: str, verb: str, arguments: dict, reading, expected: dict | None) -> dict:
        """Dry run, write, read. After the write's block there is a row with what is `expected` (None: there is no row any
        more), and there was none after the block before. `reading`: the read's arguments, or makes them of the receipt."""
        session, name = self.parties[party], f"svc.ledger.{verb}"
        sequence = await self.sequence(session)
        dry = await session.ask(name, arguments | {"dry_run": True})
        is_dry = dry["dry_run"] is True and dry["gas_used"] > 0 and int(dry["fee"]["amount"]) > 0 and dry["message"]["@type"]
        require(is_dry, f"{name}: not the answer of a dry run:", dry)
        receipt = await session.ask(name, arguments)
        is_done = receipt["code"] == 0 and receipt["indexer_synced"] and receipt["events"] and "dry_run" not in receipt
        require(is_done, f"{name}: not done:", receipt)
        require(await self.sequence(session) == sequence + 1, f"{name}: the account sent more than one transaction")
        named = re.findall(r"Verify with (svc(?:\.\w+)+)", session.tools[name].description)
        require(len(named) == 1, f"{name} must name one read that verifies it: {named}")
        [reader], told = named, reading(receipt) if callable(reading) else reading
        after = rows(await session.ask(reader, told))
        require(shows(after, expected), f"{name} {json.dumps(arguments)}: {reader} {json.dumps(told)} does not show", expected, "but", after)
        if "at_block_height" in session.tools[reader].input_schema["properties"]:
            before = await session.call(reader, told | {"at_block_height": receipt["block_height"] - 1})
            was = [] if before.is_error else rows(before.structured_content)
            require(not shows(was, expected), f"{name}: {reader} showed it before the write:", expected)
        self.done.add(name)
        return receipt["response"]

    async def sequence(self, session: Session) -> int:
        own = await session.ask("svc.wallet.getAddress")
        account = await session.ask("svc.cosmos.auth.getAccount", {"address": own["address"]})
        return int(account["account"]["sequence"])

    async def let_pass(self, seconds: int) -> None:
        """Moves the chain's clock, and waits until everyone's reads have come along."""
        control("/clock", {"seconds": seconds})
        height = control("/blocks", {"count": 1})["height"]
        for session in self.parties.values():
            await session.ask("svc.idx.indexer.getBlockHeight", {"min_height": height})

    async def becomes_listed(self, party: str, tool: str, is_listed: bool) -> None:
        session = self.parties[party]
        for _ in range(100):
            await session.list_tools()
            if (tool in session.tools) == is_listed:
                return
            await asyncio.sleep(0.1)
        raise Broken(f"{party}: {tool} must become listed: {is_listed}")


def shows(found: list[dict], expected: dict | None) -> bool:
    if expected is None:
        return not found

    def fits(row: dict, key: str, value) -> bool:
        return bool(value(row.get(key))) if callable(value) else str(row.get(key)) == str(value)

    return any(all(fits(row, key, value) for key, value in expected.items()) for row in found)


def is_set(value) -> bool:
    return value is not None


def response_id(field: str):
    """Reads what the write has made."""
    return lambda receipt: {"id": receipt["response"][field]}


def since_block_before(receipt: dict) -> dict:
    return {"after_block_height": receipt["block_height"] - 1}


async def walk_ledger(ledger: Ledger, live: dict, values: dict) -> None:
    write, here = ledger.write, control()["height"]  # names with the height: the walk can be repeated on one chain
    did = f"did:web:walk-{here}.example"
    own = {"id": live["corporation"]}
    policy = {"@type": "/cosmos.group.v1.ThresholdDecisionPolicy", "threshold": "1"}
    policy["windows"] = {"voting_period": "86400s", "min_execution_period": "0s"}
    members = [{"address": values["member"], "weight": "1"}]
    arguments = {"members": members, "did": did, "decision_policy": policy, **FRAMEWORK}
    # Anyone's, and not at the corporation's cost: by an account that has coins and no authorization.
    listed = [name for name in ledger.parties["member"].tools if ".ledger." in name]
    require(listed == ["svc.ledger.co.createCorporation"], "an account without authorization is offered", listed)
    await write("member", "co.createCorporation", arguments, response_id("corporation_id"), {"did": did})
    await write("registry", "co.updateCorporation", {"did": did + ":registry"}, own, {"did": did + ":registry"})

    made = await write("registry", "es.createEcosystem", {"did": did, **FRAMEWORK}, response_id("ecosystem_id"), {"did": did})
    ecosystem = {"id": made["ecosystem_id"]}
    await write("registry", "es.updateEcosystem", ecosystem | {"did": did + ":moved"}, ecosystem, {"did": did + ":moved"})

    of_ecosystem = {"ecosystem_id": ecosystem["id"]}
    document = {"version": 2, "doc_language": "en", "doc_url": "https://walk.example/2.pdf", "doc_digest_sri": DIGEST}
    expected = {"version": 2, "active_since": None, "documents": lambda found: found[0]["url"] == document["doc_url"]}
    await write("registry", "gf.addGovernanceFrameworkDocument", of_ecosystem | document, of_ecosystem, expected)
    expected = {"version": 2, "active_since": is_set}
    await write("registry", "gf.increaseActiveGovernanceFrameworkVersion", of_ecosystem, of_ecosystem, expected)

    json_schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"Walk {here}", "description": "Of a walk"}
    json_schema |= {"type": "object", "properties": {"credentialSubject": {"type": "object"}}}
    modes = {"issuer_onboarding_mode": "ECOSYSTEM_ONBOARDING_PROCESS", "verifier_onboarding_mode": "OPEN"}
    modes |= {"holder_onboarding_mode": "PERMISSIONLESS", "pricing_asset_type": "COIN", "pricing_asset": os.environ["SVC_DENOM"]}
    modes |= {"digest_algorithm": "sha384"}
    arguments = of_ecosystem | modes | dict.fromkeys(PERIODS, 365) | {"json_schema": json.dumps(json_schema)}
    expected = modes | {"title": json_schema["title"], PERIODS[0]: 365}
    made = await write("registry", "cs.createCredentialSchema", arguments, response_id("id"), expected)
    schema = {"id": made["id"]}
    await write("registry", "cs.updateCredentialSchema", schema | dict.fromkeys(PERIODS, 30), schema, dict.fromkeys(PERIODS, 30))

    # Onboarding: the issuer applies to the registry's root participant, renews, withdraws, is slashed and repays.
    fees = {"validation_fees": 10_000_000, "issuance_fees": 1_000_000, "verification_fees": 500_000}
    arguments = {"schema_id": made["id"], "did": did, "effective_from": later(60), "effective_until": later(86400 * 90), **fees}
    expected = fees | {"role": "ECOSYSTEM", "participant_state": "FUTURE"}
    root = (await write("registry", "pp.createRootParticipant", arguments, response_id("id"), expected))["id"]
    await ledger.let_pass(120)
    arguments = {"role": "ISSUER", "validator_participant_id": root, "did": "did:web:issuer.devnet.example"}
    # A fifth of the fees is staked: the chain's trust_deposit_rate.
    expected = {"role": "ISSUER", "op_state": "PENDING", "op_current_fees": 10_000_000, "op_current_deposit": 2_000_000}
    made = await write("issuer_operator", "pp.startParticipantOp", arguments, response_id("participant_id"), expected)
    one = {"id": made["participant_id"]}
    expected = {"op_state": "VALIDATED", "participant_state": "ACTIVE", "validation_fees": 7, "op_current_fees": 0}
    await write("registry", "pp.setParticipantOpToValidated", one | {"validation_fees": 7}, one, expected)
    await write("issuer_operator", "pp.renewParticipantOp", one, one, {"op_state": "PENDING", "op_current_fees": 10_000_000})
    await write("issuer_operator", "pp.cancelParticipantOpLastRequest", one, one, {"op_state": "VALIDATED", "op_current_fees": 0})
    end = {"effective_until": later(86400 * 10)}
    await write("registry", "pp.setParticipantEffectiveUntil", one | end, one, end | {"adjusted": is_set})
    expected = {"event_type": "TriggerResolver", "payload": lambda payload: payload["entity_id"] == str(one["id"])}
    await write("registry", "pp.triggerResolver", one, since_block_before, expected)
    expected = {"participant_state": "SLASHED", "slashed_deposit": 500_000}
    await write("registry", "pp.slashParticipantTrustDeposit", one | {"amount": 500_000, "reason": "walk"}, one, expected)
    expected = {"participant_state": "REPAID", "repaid_deposit": 500_000}
    await write("issuer_operator", "pp.repayParticipantSlashedTrustDeposit", one, one, expected)

    # The schema is open to verifiers.
    arguments = {"role": "VERIFIER", "validator_participant_id": root, "did": "did:web:verifier.devnet.example"}
    arguments |= {"effective_from": later(60), "effective_until": later(86400)}
    expected = {"role": "VERIFIER", "participant_state": "FUTURE", "validator_participant_id": root}
    made = await write("verifier_operator", "pp.selfCreateParticipant", arguments, response_id("id"), expected)
    await ledger.let_pass(120)
    one = {"id": made["id"]}
    await write("verifier_operator", "pp.revokeParticipant", one, one, {"participant_state": "REVOKED", "revoked": is_set})

    # Governance has slashed the grantor: nothing can be staked for it, and no yield be had, until it repays.
    of_grantor = {"corporation_id": values["grantor_id"]}
    deposit = (await ledger.parties["grantor_operator"].ask("svc.idx.td.getTrustDeposit", of_grantor))["trust_deposit"]
    owed = deposit["slashed_deposit"] - deposit["repaid_deposit"]
    expected = {"repaid_deposit": deposit["slashed_deposit"], "last_repaid": is_set}
    await write("grantor_operator", "td.repaySlashedTrustDeposit", {"deposit": owed}, of_grantor, expected)
    await write("grantor_operator", "td.reclaimTrustDepositYield", {}, of_grantor, {"claimable": 0})

    # A service issues for the issuer.
    arguments = {"id": str(uuid.uuid4()), "issuer_participant_id": live["issuer"]["id"], "agent_participant_id": values["badge_issuer"]}
    expected = {"vs_operator": values["issuing_service"], "corporation_id": values["issuer_id"]}
    expected |= {"session_records": lambda records: records[0]["issuer_participant_id"] == live["issuer"]["id"]}
    await write("issuing_service", "pp.createOrUpdateParticipantSession", arguments, response_id("id"), expected)

    digest = {"digest": "sha256-" + base64.b64encode(hashlib.sha256(did.encode()).digest()).decode()}
    await write("registry", "di.storeDigest", digest, digest, digest)

    # An authorization comes and goes, and what its holder is offered follows.
    types_granted = [name for name in live["authorization"]["msg_types"] if name.endswith("MsgStoreDigest")]
    arguments = {"grantee": values["member"], "msg_types": types_granted, "expiration": later(86400), "with_feegrant": True}
    of_member = {"corporation_id": live["corporation"], "operator": values["member"]}
    await write("registry", "de.grantOperatorAuthorization", arguments, of_member, {"msg_types": types_granted, "expiration": arguments["expiration"]})
    await ledger.becomes_listed("member", "svc.ledger.di.storeDigest", True)
    await write("registry", "de.revokeOperatorAuthorization", {"grantee": values["member"]}, of_member, None)
    await ledger.becomes_listed("member", "svc.ledger.di.storeDigest", False)

    await write("registry", "cs.archiveCredentialSchema", schema | {"archive": True}, schema, {"archived": is_set})
    await write("registry", "es.archiveEcosystem", ecosystem | {"archive": True}, ecosystem, {"archived": is_set})

    listed = {name for party in ledger.parties.values() for name in party.tools if ".ledger." in name}
    require(listed == ledger.done, f"ledger tools that were not written with: {listed - ledger.done}")
    require(len(ledger.done) == LEDGER_TOOLS, f"{len(ledger.done)} ledger tools, not {LEDGER_TOOLS}")
    print(f"python ledger: {len(ledger.done)} tools as {len(ledger.parties)} parties, each dry, written and verified")


async def walk_fastmcp(live: dict) -> None:
    steps = []

    async def on_log(message) -> None:
        steps.append(message.data["step"])

    url, bearer = os.environ["SVC_MCP_URL"], os.environ["MCP_BEARER_TOKEN"]
    async with fastmcp.Client(url, auth=bearer, log_handler=on_log, timeout=60) as client:
        listed, table = {tool.name for tool in await client.list_tools()}, reads(live)
        require(set(table) <= listed, f"fastmcp does not list {set(table) - listed}")
        for name in ("wallet.getStatus", "cosmos.bank.getBalance", "idx.es.getEcosystem", "idx.pp.listParticipants", "idx.xr.getPrice"):
            answer = await client.call_tool(f"svc.{name}", table[f"svc.{name}"])
            require(answer.structured_content, f"fastmcp: {name} answered nothing")
        digest = {"digest": f"sha256-fastmcp{control()['height']}"}
        receipt = (await client.call_tool("svc.ledger.di.storeDigest", digest)).structured_content
        stored = (await client.call_tool("svc.idx.di.getDigest", digest)).structured_content
        require(stored["digest"]["digest"] == digest["digest"], "fastmcp: not stored:", receipt)
        require(steps and steps[-1] == "done", f"fastmcp: the write logged {steps}")
    print(f"fastmcp {fastmcp.__version__}: {len(listed)} tools listed, 5 reads, a digest in block {receipt['block_height']}")


async def walk() -> None:
    values, past = json.loads(os.environ["SVC_VALUES"]), {}
    print("python: not listed here:", "; ".join(f"{prefix}* ({reason})" for prefix, reason in ABSENT.items()))
    async with contextlib.AsyncExitStack() as seats:
        registry = await seats.enter_async_context(over_http("auto"))
        live = await find_live(registry)
        calls = await walk_reads(registry, live, past)
        pathlib.Path(os.environ["SVC_READS"]).write_text(json.dumps(calls))
        parties = {name: await seats.enter_async_context(over_stdio(name, values[id])) for name, id in SEATS.items()}
        await walk_ledger(Ledger(parties | {"registry": registry}), live, values)
    async with over_http("legacy") as session:
        await walk_reads(session, live, past)
    await walk_fastmcp(live)


def scenario(file: str) -> str:
    steps = pathlib.Path(file).read_text().split("[[step]]\n")
    kept = [step for step in steps if not any(step.startswith(f'name = "{name}"\n') for name in LEFT_TO_THE_WALK)]
    require(len(steps) - len(kept) == len(LEFT_TO_THE_WALK), f"{file} lacks one of the steps {LEFT_TO_THE_WALK}")
    return "[[step]]\n".join(kept) + OPEN_PROPOSAL


def main() -> None:
    if sys.argv[1:2] == ["scenario"]:
        print(scenario(sys.argv[2]))
        return
    try:
        asyncio.run(walk())
    # Clients run in task groups, which wrap what is raised in them.
    except* Broken as broken:
        found = broken
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        print(f"the walk ends here: {found}", file=sys.stderr)
        sys.exit(1)


main()
