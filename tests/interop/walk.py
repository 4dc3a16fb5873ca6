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

from walk_rows import ABSENT, EMPTY, find_live, reads, scenario

# Who writes besides the registry's operator, for which corporation.
SEATS = {
    "member": "registry_id",
    "grantor_operator": "grantor_id",
    "issuer_operator": "issuer_id",
    "verifier_operator": "verifier_id",
    "issuing_service": "issuer_id",
}
LEDGER_TOOLS = 27
DAY = 24 * 60 * 60
DIGEST = "sha384-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v"
FRAMEWORK = {"language": "en", "doc_url": "https://walk.example/framework.pdf", "doc_digest_sri": DIGEST}
PERIODS = [f"{role}_validation_validity_period" for role in ("issuer_grantor", "verifier_grantor", "issuer", "verifier", "holder")]


class Broken(Exception):
    """What the walk has found to be wrong."""


def require(holds, *told) -> None:
    if not holds:
        raise Broken(" ".join(one if isinstance(one, str) else json.dumps(one, indent=1, default=str) for one in told))


def control(order: str = "", body: dict | None = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["SVC_CONTROL"] + order, data, {"content-type": "application/json"})
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
        what, told = f"{self.name}: {name} {json.dumps(arguments)}", answer.structured_content
        require(not answer.is_error, f"{what} failed:", [block.text for block in answer.content])
        for error in Draft202012Validator(self.tools[name].output_schema).iter_errors(told):
            raise Broken(f"{what}: {error.json_path} of the answer breaks the output schema: {error.message}")
        return told

    async def sequence(self) -> int:
        own = await self.ask("svc.wallet.getAddress")
        account = await self.ask("svc.cosmos.auth.getAccount", {"address": own["address"]})
        return int(account["account"]["sequence"])


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


def rows(answer: dict) -> list[dict]:
    """What an answer is about: its one entity, or those of its list."""
    members = [value if isinstance(value, list) else [value] for value in answer.values() if isinstance(value, dict | list)]
    return [row for member in members for row in member]


async def walk_reads(session: Session, live: dict, past: dict) -> list[dict]:
    """Asks all reads, and yields the calls. `past` keeps what was told of a height: it never changes."""
    table, calls = reads(live, later(DAY)), []
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
        # Where the next change is may be told only once there is one.
        told = {key: value for key, value in answers[-1].items() if key != "next_change_at"}
        is_kept = len(forms) == 1 or past.setdefault(name, told) == told
        require(is_kept, f"{name}: the answer at height {live['height']} was", past.get(name), "and is", told)
        calls += [{"tool": name, "arguments": form} for form in forms]
    print(f"python {session.name}: protocol {session.client.protocol_version}, {len(table)} reads in {len(calls)} calls")
    return calls


def shows(found: list[dict], expected: dict | None) -> bool:
    """Whether a row has all that is expected, values or tests of values; None expects that there is no row."""
    if expected is None:
        return not found

    def fits(value, wanted) -> bool:
        return wanted(value) if callable(wanted) else str(value) == str(wanted)

    return any(all(fits(row.get(key), wanted) for key, wanted in expected.items()) for row in found)


def is_set(value) -> bool:
    return value is not None


def response_id(field: str):
    """Reads what the write has made."""
    return lambda receipt: {"id": receipt["response"][field]}


class Ledger:
    """Writes of several parties, each verified by the read its tool names."""

    def __init__(self, parties: dict[str, Session]):
        self.parties, self.done = parties, set()

    async def write(self, party: str, verb: str, arguments: dict, reading, expected: dict | None) -> dict:
        """Dry run, write, read: the read shows what is expected after the write's block, and not yet after the block before.
        `reading` are the read's arguments, or makes them of the receipt."""
        session, name = self.parties[party], f"svc.ledger.{verb}"
        sequence = await session.sequence()
        dry = await session.ask(name, arguments | {"dry_run": True})
        is_dry = dry["dry_run"] is True and dry["gas_used"] > 0 and int(dry["fee"]["amount"]) > 0 and "@type" in dry["message"]
        require(is_dry, f"{name}: not the answer of a dry run:", dry)
        receipt = await session.ask(name, arguments)
        is_done = receipt["code"] == 0 and receipt["indexer_synced"] and receipt["registry_events"] and "dry_run" not in receipt
        require(is_done, f"{name}: not done:", receipt)
        require(await session.sequence() == sequence + 1, f"{name}: the account sent more than one transaction")

        named = re.findall(r"Verify with (svc(?:\.\w+)+)", session.tools[name].description)
        require(len(named) == 1, f"{name} must name one read that verifies it: {named}")
        [reader], asked = named, reading(receipt) if callable(reading) else reading
        after = rows(await session.ask(reader, asked))
        require(shows(after, expected), f"{name} {arguments}: {reader} {asked} does not show", expected, "but", after)
        if "at_block_height" in session.tools[reader].input_schema["properties"]:
            before = await session.call(reader, asked | {"at_block_height": receipt["block_height"] - 1})
            was = [] if before.is_error else rows(before.structured_content)
            require(not shows(was, expected), f"{name}: {reader} showed it before the write:", expected)
        self.done.add(name)
        return receipt["response"]

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
        raise Broken(f"{party}: {tool} must {'become' if is_listed else 'cease to be'} listed")


async def walk_ledger(ledger: Ledger, live: dict) -> None:
    write, own = ledger.write, {"id": live["registry_id"]}
    did, moved = "did:web:walk.example", {"did": "did:web:walk.example:moved"}

    # Anyone may create a corporation, at its own cost: an account that has coins and no authorization.
    listed = [name for name in ledger.parties["member"].tools if ".ledger." in name]
    require(listed == ["svc.ledger.co.createCorporation"], "an account without authorization is offered", listed)
    windows = {"voting_period": "86400s", "min_execution_period": "0s"}
    policy = {"@type": "/cosmos.group.v1.ThresholdDecisionPolicy", "threshold": "1", "windows": windows}
    arguments = FRAMEWORK | {"did": did, "members": [{"address": live["member"], "weight": "1"}], "decision_policy": policy}
    await write("member", "co.createCorporation", arguments, response_id("corporation_id"), {"did": did})
    await write("registry", "co.updateCorporation", moved, own, moved)

    made = await write("registry", "es.createEcosystem", FRAMEWORK | {"did": did}, response_id("ecosystem_id"), {"did": did})
    ecosystem, of_ecosystem = {"id": made["ecosystem_id"]}, {"ecosystem_id": made["ecosystem_id"]}
    await write("registry", "es.updateEcosystem", ecosystem | moved, ecosystem, moved)
    document = {"doc_url": "https://walk.example/2.pdf", "doc_digest_sri": DIGEST, "doc_language": "en", "version": 2}
    expected = {"version": 2, "active_since": None, "documents": lambda found: found[0]["url"] == document["doc_url"]}
    await write("registry", "gf.addGovernanceFrameworkDocument", of_ecosystem | document, of_ecosystem, expected)
    expected = {"version": 2, "active_since": is_set}
    await write("registry", "gf.increaseActiveGovernanceFrameworkVersion", of_ecosystem, of_ecosystem, expected)

    json_schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": did, "description": "Of a walk"}
    json_schema |= {"type": "object", "properties": {"credentialSubject": {"type": "object"}}}
    modes = {"issuer_onboarding_mode": "ECOSYSTEM_ONBOARDING_PROCESS", "verifier_onboarding_mode": "OPEN"}
    modes |= {"holder_onboarding_mode": "PERMISSIONLESS", "pricing_asset_type": "COIN", "pricing_asset": os.environ["SVC_DENOM"]}
    arguments = of_ecosystem | modes | dict.fromkeys(PERIODS, 365)
    arguments |= {"json_schema": json.dumps(json_schema), "digest_algorithm": "sha384"}
    made = await write("registry", "cs.createCredentialSchema", arguments, response_id("id"), modes | {"title": did})
    schema, periods = {"id": made["id"]}, dict.fromkeys(PERIODS, 30)
    await write("registry", "cs.updateCredentialSchema", schema | periods, schema, periods)

    # Onboarding: the issuer applies to the registry's root participant, renews, withdraws, is slashed and repays.
    fees = {"validation_fees": 10_000_000, "issuance_fees": 1_000_000, "verification_fees": 500_000}
    arguments = fees | {"schema_id": made["id"], "did": did, "effective_from": later(60), "effective_until": later(90 * DAY)}
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
    end = {"effective_until": later(10 * DAY)}
    await write("registry", "pp.setParticipantEffectiveUntil", one | end, one, end | {"adjusted": is_set})
    expected = {"event_type": "TriggerResolver", "payload": lambda payload: payload["entity_id"] == str(one["id"])}
    await write("registry", "pp.triggerResolver", one, lambda told: {"after_block_height": told["block_height"] - 1}, expected)
    expected = {"participant_state": "SLASHED", "slashed_deposit": 500_000}
    await write("registry", "pp.slashParticipantTrustDeposit", one | {"amount": 500_000, "reason": "walk"}, one, expected)
    expected = {"participant_state": "REPAID", "repaid_deposit": 500_000}
    await write("issuer_operator", "pp.repayParticipantSlashedTrustDeposit", one, one, expected)

    # The schema is open to verifiers.
    arguments = {"role": "VERIFIER", "validator_participant_id": root, "did": "did:web:verifier.devnet.example"}
    arguments |= {"effective_from": later(60), "effective_until": later(DAY)}
    expected = {"role": "VERIFIER", "participant_state": "FUTURE", "validator_participant_id": root}
    one = {"id": (await write("verifier_operator", "pp.selfCreateParticipant", arguments, response_id("id"), expected))["id"]}
    await ledger.let_pass(120)
    await write("verifier_operator", "pp.revokeParticipant", one, one, {"participant_state": "REVOKED", "revoked": is_set})

    # Governance has slashed the grantor: nothing can be staked for it, and no yield be had, until it repays.
    of_grantor = {"corporation_id": live["grantor_id"]}
    deposit = (await ledger.parties["grantor_operator"].ask("svc.idx.td.getTrustDeposit", of_grantor))["trust_deposit"]
    owed = {"deposit": deposit["slashed_deposit"] - deposit["repaid_deposit"]}
    expected = {"repaid_deposit": deposit["slashed_deposit"], "last_repaid": is_set}
    await write("grantor_operator", "td.repaySlashedTrustDeposit", owed, of_grantor, expected)
    await write("grantor_operator", "td.reclaimTrustDepositYield", {}, of_grantor, {"claimable": 0})

    # A service issues for the issuer, through the badge issuer as the user's agent.
    issuing = {"issuer_participant_id": live["diploma_issuer"], "agent_participant_id": live["badge_issuer"]}
    expected = {"vs_operator": live["issuing_service"], "session_records": lambda found: shows(found, issuing)}
    issuing_now = issuing | {"id": str(uuid.uuid4())}
    await write("issuing_service", "pp.createOrUpdateParticipantSession", issuing_now, response_id("id"), expected)
    digest = {"digest": "sha256-" + base64.b64encode(hashlib.sha256(did.encode()).digest()).decode()}
    await write("registry", "di.storeDigest", digest, digest, digest)

    # An authorization comes and goes, and what its holder is offered follows.
    grant = {"msg_types": [name for name in live["authorization"]["msg_types"] if name.endswith("MsgStoreDigest")]}
    grant |= {"expiration": later(DAY)}
    of_member = {"corporation_id": live["registry_id"], "operator": live["member"]}
    member = {"grantee": live["member"]}
    await write("registry", "de.grantOperatorAuthorization", member | grant | {"with_feegrant": True}, of_member, grant)
    await ledger.becomes_listed("member", "svc.ledger.di.storeDigest", True)
    await write("registry", "de.revokeOperatorAuthorization", member, of_member, None)
    await ledger.becomes_listed("member", "svc.ledger.di.storeDigest", False)

    await write("registry", "cs.archiveCredentialSchema", schema | {"archive": True}, schema, {"archived": is_set})
    await write("registry", "es.archiveEcosystem", ecosystem | {"archive": True}, ecosystem, {"archived": is_set})

    listed = {name for party in ledger.parties.values() for name in party.tools if ".ledger." in name}
    require(listed == ledger.done, f"ledger tools nobody wrote with: {listed - ledger.done}")
    require(len(ledger.done) == LEDGER_TOOLS, f"{len(ledger.done)} ledger tools, not {LEDGER_TOOLS}")
    print(f"python ledger: {len(ledger.done)} tools as {len(ledger.parties)} parties, each dry, written and verified")


async def walk_fastmcp(live: dict) -> None:
    steps = []

    async def on_log(message) -> None:
        steps.append(message.data["step"])

    url, bearer = os.environ["SVC_MCP_URL"], os.environ["MCP_BEARER_TOKEN"]
    async with fastmcp.Client(url, auth=bearer, log_handler=on_log, timeout=60) as client:
        listed, table = {tool.name for tool in await client.list_tools()}, reads(live, later(DAY))
        require(set(table) <= listed, f"fastmcp does not list {set(table) - listed}")
        for verb in ("wallet.getStatus", "cosmos.bank.getBalance", "idx.es.getEcosystem", "idx.pp.pendingFlat", "idx.xr.getPrice"):
            name = f"svc.{verb}"
            answer = await client.call_tool(name, table[name])
            require(answer.structured_content, f"fastmcp: {name} answered nothing")
        digest = {"digest": "sha256-fastmcp"}
        receipt = (await client.call_tool("svc.ledger.di.storeDigest", digest)).structured_content
        stored = (await client.call_tool("svc.idx.di.getDigest", digest)).structured_content
        require(stored["digest"]["digest"] == digest["digest"], "fastmcp: not stored:", receipt)
        require(steps and steps[-1] == "done", f"fastmcp: the write logged {steps}")
    print(f"fastmcp {fastmcp.__version__}: {len(listed)} tools listed, 5 reads, a digest in block {receipt['block_height']}")


async def walk() -> None:
    past = {}
    print("python: not listed here:", "; ".join(f"{prefix}* ({reason})" for prefix, reason in ABSENT.items()))
    async with contextlib.AsyncExitStack() as seats:
        registry = await seats.enter_async_context(over_http("auto"))
        live = await find_live(registry)
        calls = await walk_reads(registry, live, past)
        pathlib.Path(os.environ["SVC_READS"]).write_text(json.dumps(calls))
        parties = {"registry": registry}
        for account, corporation in SEATS.items():
            parties[account] = await seats.enter_async_context(over_stdio(account, live[corporation]))
        await walk_ledger(Ledger(parties), live)
    async with over_http("legacy") as session:
        await walk_reads(session, live, past)
    await walk_fastmcp(live)


def main() -> None:
    try:
        if sys.argv[1:2] == ["scenario"]:
            print(scenario(sys.argv[2]))
        else:
            asyncio.run(walk())
    # Clients run in task groups, which wrap what is raised in them.
    except* Broken as broken:
        while isinstance(broken, BaseExceptionGroup):
            broken = broken.exceptions[0]
        print(f"the walk ends here: {broken}", file=sys.stderr)
        sys.exit(1)


main()
