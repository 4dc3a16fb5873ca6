"""Generated and mutated input against a running tool server, as raw HTTP: a client library would not let most of it out.

SVC_MCP_URL and MCP_BEARER_TOKEN name the server, best one of a devnet whose blocks come by themselves. SVC_FUZZ_SEED and
SVC_FUZZ_EXAMPLES (a tool) vary the run. A property that is violated is told with the smallest example hypothesis finds.
It is one long file because generators and properties share what was learnt of the server at the start.
"""

import copy
import json
import os
import pathlib
import re
import socket
import sys
import time
import warnings
from base64 import b64encode
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx2
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema
from jsonschema import Draft202012Validator, FormatChecker

URL, TOKEN = os.environ["SVC_MCP_URL"], os.environ["MCP_BEARER_TOKEN"]
SEED, EXAMPLES = os.environ.get("SVC_FUZZ_SEED", "1"), int(os.environ.get("SVC_FUZZ_EXAMPLES", "12"))
PLACE, ORIGIN = urlsplit(URL), URL.removesuffix("/mcp")
PATIENCE, MAX_BODY, MAX_U64 = 5, 1024 * 1024, 2**64 - 1
STAGES = {
    "validation": "INPUT_INVALID INPUT_OUT_OF_SCOPE TOOL_UNKNOWN",
    "authorization": "AUTHZ_NOT_GRANTED AUTHZ_EXPIRED AUTHZ_REVOKED AUTHZ_PRECONDITION_FAILED VSA_NOT_AUTHORIZED VSA_AUTH_FAILED",
    "broadcast": "SIMULATION_FAILED INSUFFICIENT_FEES SEQUENCE_MISMATCH BCAST_REJECTED",
    "confirmation": "BCAST_TIMEOUT TX_FAILED TX_EXPIRED WRITE_ABANDONED",
    "indexer": "INDEXER_BEHIND HEIGHT_NOT_INDEXED",
    "upstream": "NOT_FOUND UPSTREAM_UNREACHABLE UPSTREAM_HTTP_ERROR UPSTREAM_PROTOCOL_ERROR STATE_PRUNED CHAIN_CHANGED VSA_ADMIN_URL_NOT_FOUND "
    "VSA_DID_RESOLUTION_FAILED NOT_READY OVERLOADED RESTARTING",
}
STAGE_OF = {code: stage for stage, codes in STAGES.items() for code in codes.split()}
# How a call may fail whose arguments keep the schema. Anything else is a fault of a server, not of the caller.
# A generated DID is no agent of the corporation.
READ_FAILURES = {"HEIGHT_NOT_INDEXED", "INPUT_INVALID", "NOT_FOUND", "STATE_PRUNED", "UPSTREAM_HTTP_ERROR", "VSA_NOT_AUTHORIZED"}
DRY_RUN_FAILURES = {"INPUT_INVALID", "INPUT_OUT_OF_SCOPE", "SIMULATION_FAILED", "INSUFFICIENT_FEES"}
CHAIN_FAULTS = {1, 111222}  # With these the SDK reports an error that has no code, and a panic.
CLIENT = {"name": "fuzz", "version": "1"}
META = {"protocolVersion": "2026-07-28", "clientInfo": CLIENT, "clientCapabilities": {}}
META = {f"io.modelcontextprotocol/{name}": value for name, value in META.items()}
HTTP = httpx2.Client(timeout=PATIENCE, trust_env=False, headers={"Accept-Encoding": "identity"})
# Three words of a mnemonic in a row are no accident, whatever stands between them.
PHRASES = [os.environ[name].split() for name in ("MCP_SVC_MNEMONIC", "SVC_MEMBER_MNEMONIC") if name in os.environ]
TRIPLES = {r"\W+".join(words[at : at + 3]) for words in PHRASES for at in range(len(words) - 2)}
SECRETS = re.compile("|".join([re.escape(TOKEN), *sorted(TRIPLES)]), re.IGNORECASE)
GOOD_ACCEPT = "application/json, text/event-stream"
COUNT, KINDS = {"requests": 0, "violations": 0}, {}


class Violation(Exception):
    """A property does not hold."""


def need(holds, kind, *evidence):
    if not holds:
        told = "".join(f"\n    {one if isinstance(one, str) else ascii(one):.2500}" for one in evidence)
        # A class a kind: by it hypothesis tells failures apart, and shrinks each.
        raise KINDS.setdefault(kind, type("Violation", (Violation,), {}))(kind + told)


def check(name, prove, strategy=None, examples=EXAMPLES):
    """Proves a property, for generated values where there is a strategy, and tells where it does not hold."""
    run = prove
    if strategy is not None:
        quiet = {"database": None, "deadline": None, "print_blob": False, "suppress_health_check": list(HealthCheck)}
        options = settings(max_examples=examples, phases=(Phase.generate, Phase.shrink), **quiet)
        run = seed(f"{SEED} {name}")(options(given(strategy)(lambda drawn: prove(drawn))))
    try:
        run()
    except (Violation, ExceptionGroup) as error:
        # A group: several kinds, or one that did not come again.
        for one in error.exceptions if isinstance(error, ExceptionGroup) else [error]:
            COUNT["violations"] += 1
            print(f"VIOLATED {name}: {one if isinstance(one, Violation) else repr(one)}", flush=True)


def part(name, run):
    started, before = time.monotonic(), dict(COUNT)
    run()
    check(f"after {name}", prove_alive)
    done = ", ".join(f"{COUNT[what] - before[what]} {what}" for what in COUNT)
    print(f"{name}: {done}, {time.monotonic() - started:.1f} s", flush=True)


def message_in(text):
    """The JSON-RPC message a text is, or nothing."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and found.get("jsonrpc") == "2.0" else {}


def request_in(body):
    """The request, where JSON-RPC obliges the server to answer, or nothing."""
    found = message_in(body)
    is_id = isinstance(found.get("id"), str) or (type(found.get("id")) is int and abs(found["id"]) < 2**63)
    return found if is_id and isinstance(found.get("method"), str) else {}


def read(response, until_first):
    """The text and its JSON-RPC message. A stream is read up to the response; notifications come before it, or instead where a
    client listens."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        text = response.read().decode(errors="replace")
        return text, message_in(text)
    rest, ends = b"", time.monotonic() + PATIENCE
    for chunk in response.iter_raw() if response.request.method != "GET" else []:
        *lines, rest = (rest + chunk).split(b"\n")
        for text in (line.removeprefix(b"data: ").decode() for line in lines):
            message = message_in(text)
            if message and (until_first or "result" in message or "error" in message):
                return text, message
        if time.monotonic() > ends:
            raise httpx2.ReadTimeout("no response in the stream")
    return "", {}


def send(body, unusual, method="POST"):
    """Sends anything, and proves what holds for every answer. `unusual`: headers a good client would not send, or not so."""
    COUNT["requests"] += 1
    usual = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json", "accept": GOOD_ACCEPT}
    asked, request = f"{method} {unusual} {len(body)} bytes: {body[:1200]!r}", request_in(body)
    listens = request.get("method") == "subscriptions/listen"
    try:
        with HTTP.stream(method, URL, content=body, headers=usual | unusual) as response:
            status, headers, (text, message) = response.status_code, response.headers, read(response, until_first=listens)
    except httpx2.TimeoutException as error:
        need(False, f"no answer in {PATIENCE} s", asked, repr(error))
    except httpx2.TransportError as error:
        need(False, "the connection broke without an answer", asked, repr(error))
    told = f"answer: {status} {headers.get('content-type', '')} {text}"
    need(not SECRETS.search(f"{headers} {text}"), "a secret is told", asked, told)
    need(status < 500 or (status == 503 and "retry-after" in headers), f"status {status}", asked, told)
    if message:
        error = message.get("error")
        is_ours = not request or listens or message.get("id") == request["id"]
        need(("result" in message) != ("error" in message) or listens, "no JSON-RPC response", asked, told)
        need(is_ours or (status in (400, 413, 503) and message["id"] is None), "the response to another request", asked, told)
        code, is_told = (error.get("code"), isinstance(error.get("message"), str)) if isinstance(error, dict) else (None, False)
        need("error" not in message or (type(code) is int and is_told), "no JSON-RPC error", asked, told)
        need(code != -32603, "an internal error", asked, told)
    else:
        # An answer that is no JSON-RPC has its reason in HTTP: in a header or in the method.
        reasons = {
            200: method == "GET" and headers.get("content-type", "").startswith("text/event-stream"),
            202: text == "" and not request,
            204: method == "DELETE",
            400: text.startswith("Bad Request") or method == "HEAD" or bool({"host", "origin"} & set(unusual)),
            401: "authorization" in unusual and headers.get("www-authenticate") == "Bearer",
            403: bool({"host", "origin"} & set(unusual)),
            404: "mcp-session-id" in unusual and (text == "Not Found: Session not found" or method == "HEAD"),
            405: method != "POST",
            406: "accept" in unusual,
            415: "content-type" in unusual,
        }
        need(reasons.get(status), f"status {status} without JSON-RPC, and without a reason in HTTP", asked, told)
    return SimpleNamespace(status=status, headers=headers, message=message, told=told)


def rpc_text(method, params, **members):
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params} | members, allow_nan=False).encode()


def opened(version="2025-11-25", is_initialized=True):
    """The header of a new session."""
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
    session = {"mcp-session-id": send(rpc_text("initialize", params, id=0), {}).headers["mcp-session-id"]}
    if is_initialized:
        send(rpc_text("notifications/initialized", {}), session)
    return session


def rpc(method, params, session=None):
    """A good request: in a session, or of the generation without them."""
    if session:
        return send(rpc_text(method, params, id="f"), session)
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    name = params.get({"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(method))
    if isinstance(name, str):
        is_plain = re.fullmatch(r"[!-~]+", name) and not name.startswith("=?")
        headers["mcp-name"] = name if is_plain else f"=?base64?{b64encode(name.encode()).decode()}?="
    return send(rpc_text(method, params | {"_meta": META}, id="f"), headers)


def listed(method, member):
    found, cursor = [], {}
    while cursor is not None:
        result = rpc(method, cursor).message["result"]
        found, cursor = found + result[member], {"cursor": result["nextCursor"]} if "nextCursor" in result else None
    return found


def restarts():
    return re.findall("^svc_actor_restarts_total.*", HTTP.get(ORIGIN + "/metrics").text, re.MULTILINE)


def prove_alive():
    health = HTTP.get(ORIGIN + "/healthz")
    need(health.status_code == 200 and health.json() == {"status": "ok"}, "not healthy", health.text)
    need(restarts() == RESTARTS, "an actor was restarted", restarts())
    for session in (None, SESSION):
        answer = rpc("tools/list", {}, session)
        need(answer.message and answer.message["result"]["tools"], "tools are no longer listed", answer.told)


# ---- Hardly JSON-RPC -------------------------------------------------------------------------------------------------------

METHODS = """initialize ping server/discover tools/list tools/call prompts/list prompts/get resources/list resources/read
    resources/templates/list resources/subscribe resources/unsubscribe subscriptions/listen completion/complete logging/setLevel
    tasks/list tasks/get sampling/createMessage elicitation/create roots/list notifications/initialized notifications/cancelled
    notifications/progress notifications/roots/list_changed rpc.discover""".split()
NUMBERS = [-1, 0, 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63, MAX_U64, 2**64, -(2**63), 1.0, 1.5, 1e308, -1e308, 5e-324]
TEXTS = ["", " ", "\0", "\x1b[0m", "a\nb", "\u202e", "\ufeff", "𝕏" * 9, "x" * 3000, "..", "%00", "{{7*7}}", "did:web:x\n", "01"]
LONG = ["x" * 70_000, "é" * 5000, "9" * 2000]  # A URL has an end before a body has.
JSON = st.recursive(
    st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.sampled_from(TEXTS) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PARAMS = "arguments cursor level ref argument requestId capabilities clientInfo notifications _meta requestState task".split()
PARAMS = {name: JSON for name in PARAMS} | {
    "name": st.sampled_from(["svc.wallet.getStatus", "diagnose-server", "x"]),
    "uri": st.sampled_from(["svc://own/status", "x"]),
    "protocolVersion": st.sampled_from(["2025-11-25", "2026-07-28", "1999-01-01", ""]),
}
PARAMS = st.fixed_dictionaries({}, optional=PARAMS)
HEADERS = {
    "accept": ["", "*/*", "application/json", "text/event-stream;q=0, application/json", '"', ",;,;="],
    "content-type": ["", "text/plain", "application/json; charset=utf-16", "application/jsonx", ";"],
    "mcp-protocol-version": ["", "2025-11-25", "2026-07-28", "2024-11-05", "1999-01-01", "9999-12-31", "x"],
    "mcp-session-id": ["", "x", "00000000-0000-0000-0000-000000000000", "y" * 7000],
    "mcp-method": ["", "tools/list", "initialize", "x"],
    "mcp-name": ["", "svc.wallet.getStatus", "x", "=?base64?eA==?=", "=?base64?!?="],
    "last-event-id": ["", "0", "-1", "18446744073709551616", "a/b", "0_0"],
    "origin": ["", "null", "https://evil.example", "http://localhost:1", "http://", "http://[::1]:x"],
    "host": ["", "evil.example", "localhost", "127.0.0.1:99999", "[::1", "a b", "@", "localhost@evil.example"],
    "authorization": ["", "Bearer", "Basic eDp4", "Bearer " + "x" * 32],
    "traceparent": ["", "00-zz", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ff-" + "a" * 9000],
}
# All an HTTP client lets into a header: no control characters, no space at the ends.
LATIN = st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=20)
LITERALS = [b"1e999", b"9" * 400, b"01", b"NaN", b"-", rb'"\ud800"', rb'"\u0000"', rb'"\q"', b'"\x01"', b'"\xff"']
LITERALS += [b"[" * 500_000, *(b"[" * deep + b"]" * deep for deep in (100, 128, 100_000))]
LITERALS += [b'{"a":' * deep + b"1" + b"}" * deep for deep in (100, 9000)]
LITERALS += [b'"' + b"x" * size + b'"' for size in (900_000, MAX_BODY - 200, MAX_BODY + 1, 3 * MAX_BODY)]


@st.composite
def requests(draw):
    """HTTP method, headers and body: of either generation, each a little or wholly wrong."""
    method, headers = draw(st.sampled_from(METHODS)), {}
    members = {"jsonrpc": "2.0", "id": draw(st.integers(0, 9) | st.text(max_size=3)), "method": method, "params": draw(PARAMS)}
    if draw(st.booleans()):
        members["params"]["_meta"], headers = META, {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    elif draw(st.booleans()):
        headers = dict(SESSION)
    for member in draw(st.lists(st.sampled_from(sorted(members)), max_size=2, unique=True)):
        members[member] = draw(JSON)
        if draw(st.booleans()):
            del members[member]
    raw, at = json.dumps(members).encode(), draw(st.integers(0, 60))
    member = draw(st.sampled_from([b"jsonrpc", b"id", b"method", b"params", b"other"]))
    how = draw(st.sampled_from("whole whole cut patched twice spliced spliced noise list".split()))
    body = {
        "whole": raw,
        "cut": raw[:at],
        "patched": raw[:at] + draw(st.binary(max_size=4)) + raw[at + draw(st.integers(0, 4)) :],
        "twice": b'{"%s":%s,%s' % (member, json.dumps(draw(JSON)).encode(), raw[1:]),
        "spliced": b'%s,"%s":%s}' % (raw[:-1], member, draw(st.sampled_from(LITERALS))),
        "noise": draw(st.binary(max_size=40)),
        "list": b"[" + b",".join([raw] * draw(st.integers(0, 3))) + b"]",
    }[how]
    for name in draw(st.just([]) | st.lists(st.sampled_from(sorted(HEADERS)), max_size=2, unique=True)):
        headers[name] = draw(st.sampled_from(HEADERS[name]) | LATIN.map(lambda text: text.encode("latin-1")))
    verb = draw(st.sampled_from(["POST"] * 8 + ["GET", "DELETE", "PUT", "HEAD"]))
    if verb == "DELETE" and headers.get("mcp-session-id") in SESSION.values():
        del headers["mcp-session-id"]  # It is needed later.
    return verb, headers, body if verb == "POST" else b""


def prove_request(drawn):
    verb, headers, body = drawn
    answer = send(body, headers, verb)
    need(len(body) <= MAX_BODY or answer.status in (401, 413), "too long a body is taken", headers, answer.told)
    if "mcp-session-id" in answer.headers:
        send(b"", {"mcp-session-id": answer.headers["mcp-session-id"]}, "DELETE")


def prove_dialogue(drawn):
    """Messages in any order, also before the session is initialised: each is answered, and the session outlives them."""
    version, is_initialized, messages = drawn
    session = opened(version, is_initialized)
    try:
        for method, params, number in messages:
            send(rpc_text(method, params, **({} if method.startswith("notifications/") else {"id": number})), session)
        send(b"", session, "GET")
    finally:
        need(send(b"", session, "DELETE").status in (200, 202, 204), "a session cannot be ended", drawn)
    need(send(rpc_text("ping", {}, id=1), session).status == 404, "a session that was ended still answers", drawn)


# Beneath what an HTTP library lets out: what follows the usual head, and the statuses it may have.
RAW = {
    b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n": "400",
    b"Content-Length: 9\r\n\r\nabc": "400",
    b"Content-Length: 99999999999999999999\r\n\r\n": "400 413",
    b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}": "400",
    b"X: \0\r\n\r\n": "400",
    b"Y: 1\r\n" * 500 + b"\r\n": "400 431",
    b"Host: evil.example\r\nContent-Length: 0\r\n\r\n": "400 403",
}


def prove_raw(tail):
    head = f"POST {PLACE.path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((PLACE.hostname, PLACE.port), PATIENCE) as connection:
        connection.sendall(f"{head}Accept: {GOOD_ACCEPT}\r\n".encode() + tail)
        if not tail.endswith(b"\r\n\r\n"):
            connection.shutdown(socket.SHUT_WR)  # The body ends where it should not.
        answer = connection.recv(65_536)
    need(answer[9:12].decode() in RAW[tail].split(), "broken HTTP is not answered as such", tail, answer)


def entry():
    check("any request", prove_request, requests(), 40 * EXAMPLES)
    messages = st.lists(st.tuples(st.sampled_from(METHODS), PARAMS, st.integers(0, 2)), max_size=4)
    versions = st.sampled_from(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "x"])
    check("any dialogue", prove_dialogue, st.tuples(versions, st.booleans(), messages), 3 * EXAMPLES)
    for tail in RAW:
        check("raw HTTP", lambda tail=tail: prove_raw(tail))


# ---- Tools -----------------------------------------------------------------------------------------------------------------

FORMATS = FormatChecker(formats=("date-time", "uuid"))
assert "date-time" in FORMATS.checkers, "needs rfc3339-validator"


def validator(schema):
    """Of a schema whose patterns end where they end in ECMAScript: `$` of Python also stands before a last line feed."""
    schema = json.loads(json.dumps(schema).replace('$"', r'\\Z"'))
    return Draft202012Validator(schema, format_checker=FORMATS)


def pointers(error):
    """Where a violation is to be named: a missing or unexpected member by the pointer it would have."""
    names = [None]
    if error.validator == "required":
        names = [name for name in error.validator_value if name not in error.instance]
    if error.validator == "additionalProperties":
        names = [name for name in error.instance if name not in error.schema["properties"]]
    for name in names:
        steps = [str(step) for step in error.absolute_path] + [name] * (name is not None)
        yield "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def note_texts(value, into):
    """Notes the texts of an answer by member: what exists is read deeper than what is made up."""
    for name, one in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(one, (dict, list)):
            note_texts(one, into)
        elif isinstance(one, str) and one:
            into.setdefault(name, set()).add(one)


class Tool:
    def __init__(self, listing):
        self.name, self.is_ledger = listing["name"], listing["name"].startswith("svc.ledger.")
        self.is_write = not listing["annotations"]["readOnlyHint"]
        # The listed schema has what converters take; the server checks this one.
        self.input, self.output = validator(STRICT[self.name]), validator(listing["outputSchema"])
        self.schema = self.input.schema
        members = {name: self.values(name, schema) for name, schema in self.schema["properties"].items()}
        needed = sorted({*self.schema.get("required", []), *(["dry_run"] if self.is_ledger else [])})
        others = sorted(set(members) - set(needed))
        some = st.lists(st.sampled_from(others), unique=True, max_size=6) if others else st.just([])
        of = lambda names: st.fixed_dictionaries({name: members[name] for name in needed + sorted(names)})  # noqa: E731
        self.arguments = some.flatmap(of)

    def values(self, name, schema):
        if name == "min_height":
            return st.integers(1, HEIGHT)  # With one that is far away the call waits for it, as it should.
        if name == "dry_run":
            return st.just(True)
        known = [*schema.get("examples", []), *KNOWN.get(name, [])]
        known += range(1, 19) if name.endswith("id") else []
        known += [1, HEIGHT // 2, HEIGHT] if name.endswith("height") else []
        known += KNOWN["address"] if name in ("address", "grantee", "granter", "operator", "vs_operator") else []
        whole = schema | {"$defs": self.schema.get("$defs", {})}
        generated = from_schema(whole, custom_formats={"uuid": st.uuids().map(str)})
        for some in (known, NUMBERS + TEXTS + LONG):
            some = [one for one in some if Draft202012Validator(whole, format_checker=FORMATS).is_valid(one)]
            generated = st.sampled_from(some) | generated if some else generated
        return generated

    def call(self, arguments, session=None):
        """The code of the error, if it is one, the content, and the call for the record; proves what holds for every call."""
        asked = f"{self.name} {json.dumps(arguments)}"
        answer = rpc("tools/call", {"name": self.name, "arguments": arguments}, session)
        result = answer.message.get("result")
        need(answer.status == 200 and isinstance(result, dict), "a call without a result", asked, answer.told)
        content = json.loads(result["content"][-1]["text"])
        need(result.get("structuredContent") == (None if result["isError"] else content), "no text is the content", asked, answer.told)
        if not result["isError"]:
            wrong = [f"{error.json_path}: {error.message}" for error in self.output.iter_errors(content)]
            need(not wrong, "a success that the output schema does not allow", asked, wrong, content)
            return None, content, asked
        types = {"stage": str, "code": str, "message": str, "details": dict, "retryable": bool, "hint": str}
        is_envelope = {name: type(one) for name, one in content.items()} == types and content["message"] and content["hint"]
        need(is_envelope and STAGE_OF.get(content["code"]) == content["stage"], "not the envelope of an error", asked, content)
        return content["code"], content, asked


@st.composite
def mutated(draw, tool):
    arguments = copy.deepcopy(draw(tool.arguments))
    for _ in range(draw(st.integers(1, 3))):
        # One of the objects and lists in the arguments; the arguments are the first.
        holders = [arguments]
        for holder in holders:
            members = holder.values() if isinstance(holder, dict) else holder
            holders += [one for one in members if isinstance(one, (dict, list))]
        holder = draw(st.sampled_from(holders[:20]))
        how = draw(st.sampled_from("add remove replace replace lengthen respell".split()))
        keys = sorted(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = draw(st.sampled_from(keys)) if keys else None
        if isinstance(holder, list) and (how == "add" or not keys):
            holder.append(draw(JSON))
        elif how == "add" or not keys:
            names = st.sampled_from(["a/b", "c~d", "", "corporation", "operator", "signer", *tool.schema["properties"]])
            holder[draw(names | st.text(max_size=5))] = draw(JSON)
        elif how == "remove":
            del holder[key]
        elif how == "respell":
            holder[key] = float(holder[key]) if type(holder[key]) is int and abs(holder[key]) < 2**53 else holder[key]
        else:
            holder[key] = draw(st.sampled_from(LONG) if how == "lengthen" else JSON)
    return arguments


def numbers_in(value):
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from numbers_in(one)
    if type(value) in (int, float):
        yield value


def without_fractions(value):
    """The same with whole numbers written as such."""
    if isinstance(value, dict):
        return {name: without_fractions(one) for name, one in value.items()}
    if isinstance(value, list):
        return [without_fractions(one) for one in value]
    return int(value) if type(value) is float and value.is_integer() and abs(value) < 2**53 else value


def is_shown(asked, shown):
    """Whether a decoded message has what was asked for, however it is spelt."""
    if isinstance(asked, dict) and isinstance(shown, dict):
        return all(is_shown(one, shown.get(name)) for name, one in asked.items())
    if isinstance(asked, list) and isinstance(shown, list):
        return len(asked) == len(shown) and all(map(is_shown, asked, shown))
    if isinstance(shown, dict):
        return is_shown(asked, shown.get("value"))
    if isinstance(asked, bool) or isinstance(shown, bool):
        return asked is shown
    if isinstance(asked, str) and not re.fullmatch("[0-9]+", asked):
        # Enums are shown by their full name, instants and durations in their normal form.
        return str(shown).endswith(asked) or bool(re.match(r"-?[0-9]", asked))
    return shown == asked or (str(shown).isdigit() and int(shown) == int(asked))


def allows(schema, kind):
    kinds = schema.get("type")
    return "enum" not in schema if kinds is None else kind in ([kinds] if isinstance(kinds, str) else kinds)


def normal(schema, arguments, is_read, definitions=None):
    """Arguments as the server is to understand them: null, and in a read an empty text or list that is refused, are absence."""
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    kept = {}
    for name, value in arguments.items():
        one = schema.get("properties", {}).get(name)
        one = one and definitions.get(one.get("$ref", "").removeprefix("#/$defs/"), one)
        if one is None or name in schema.get("required", []):
            kept[name] = value if one is None else normal_value(one, value, is_read, definitions)
            continue
        takes_empty = allows(one, "string") and not {"pattern", "format", "enum"} & set(one) and not one.get("minLength")
        is_absent = value is None and not allows(one, "null")
        is_absent |= is_read and ((value == "" and not takes_empty) or (value == [] and one.get("minItems", 0) > 0))
        if not is_absent:
            kept[name] = normal_value(one, value, is_read, definitions)
    return kept


def normal_value(schema, value, is_read, definitions):
    if isinstance(value, str):
        value = read_text(schema, value)
    if isinstance(value, dict) and "properties" in schema:
        return normal(schema, value, is_read, definitions)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        items = definitions.get(schema["items"].get("$ref", "").removeprefix("#/$defs/"), schema["items"])
        return [normal_value(items, one, is_read, definitions) for one in value]
    return value


def read_text(schema, value):
    text, is_text = value.strip(" \t\n\r\x0c"), allows(schema, "string")
    if "type" not in schema:
        return value
    if allows(schema, "integer") and not is_text and re.fullmatch(r"\+?[0-9]+", text) and int(text) < 2**53:
        return int(text)
    if allows(schema, "boolean") and not is_text and text in ("true", "false"):
        return text == "true"
    try:
        nested = json.loads(text)
    except (ValueError, RecursionError):
        return value
    is_allowed = (isinstance(nested, dict) and allows(schema, "object")) or (isinstance(nested, list) and allows(schema, "array"))
    return nested if is_allowed else value


def prove_call(tool, arguments, session=None):
    given, arguments = arguments, normal(tool.schema, arguments, not tool.is_write)
    wrong = list(tool.input.iter_errors(arguments))
    if not wrong:
        given = given | ({"dry_run": True} if tool.is_ledger else {})  # A mutation must not make it a write.
        given = {name: one for name, one in given.items() if name != "min_height" or arguments.get(name, 0) <= HEIGHT}
        arguments = normal(tool.schema, given, not tool.is_write)
    code, content, asked = tool.call(given, session)
    if wrong:
        need(code == "INPUT_INVALID", "wrong arguments are taken", asked, [error.message for error in wrong], content)
        named = {one["pointer"] for one in content["details"]["violations"]}
        expected = {pointer for error in wrong for pointer in pointers(error)}
        # A rule over several members is not in the schema that clients get, nor is that of a path's segment.
        violations = content["details"]["violations"]
        over_members = re.compile("is no name$|excludes |Give |[a-z_]+ is required unless ")
        is_beyond = lambda one: over_members.match(one["reason"])  # noqa: E731
        beyond = {""} | {one["pointer"] for one in violations if is_beyond(one)}
        need(named - beyond <= expected <= named, "not the violations of the schema", asked, f"named {named}, expected {expected}", content)
        return
    if code:
        details = content["details"]
        need(code in (DRY_RUN_FAILURES if tool.is_ledger else READ_FAILURES), f"right arguments give {code}", asked, content)
        is_fault = details.get("status", 400) // 100 != 4 or details.get("code") in CHAIN_FAULTS
        need(not is_fault, "a fault upstream", asked, content)
        need("NotFoundError" not in str(details.get("body")), "a read asks a route that is not there", asked, content)
        told = details.get("violations", [{"pointer": "", "reason": "-"}])
        is_whole = told and all(set(one) == {"pointer", "reason"} and one["reason"] for one in told)
        need(is_whole, "no reason is told", asked, content)
    # Nothing in a message, no height and no id is beyond 64 bits: what cannot be sent or asked must not become another number.
    huge = [name for name, one in arguments.items() if any(number > MAX_U64 for number in numbers_in(one))]
    is_refused = code == "INPUT_INVALID" if tool.is_ledger else code or not any(name.endswith(("height", "id")) for name in huge)
    need(not huge or is_refused, "a number that cannot be is taken", asked, content)
    if tool.is_ledger and not code:
        control = ("dry_run", "idempotency_key", "include_events")
        shown = content["message"] | {name: arguments[name] for name in control if name in arguments}
        lost = [name for name, one in arguments.items() if not is_shown(one, shown.get(name))]
        need(not lost, "another message than was asked for", asked, lost, content["message"])
    if json.dumps(without_fractions(arguments)) != json.dumps(arguments):
        # In JSON Schema 1.0 is an integer. What is pinned to a block must be the same, anything else may have moved on.
        other, instead, _ = tool.call(without_fractions(arguments), session)
        is_same = {"at_block_height", "height"}.isdisjoint(arguments) or bool(code) or content == instead
        need(code == other and is_same, "1.0 is not 1", asked, content, instead)


def tools():
    for tool in TOOLS:
        check(f"{tool.name}, right", lambda drawn, tool=tool: prove_call(tool, drawn), tool.arguments)
        drawn = st.tuples(mutated(tool), st.sampled_from([None, SESSION]))
        check(f"{tool.name}, mutated", lambda drawn, tool=tool: prove_call(tool, *drawn), drawn)
        needed = tool.schema.get("required", [])
        if len(needed) == 1 and not {"pattern", "format", "enum"} & set(tool.schema["properties"][needed[0]]):
            # All of these are allowed there, so each is tried.
            odd = st.sampled_from(TEXTS + LONG)
            check(f"{tool.name}, odd", lambda text, tool=tool, name=needed[0]: prove_call(tool, {name: text}), odd, 40)
    check("writes", prove_writes)


def content_of(name, arguments):
    return json.loads(rpc("tools/call", {"name": name, "arguments": arguments}).message["result"]["content"][-1]["text"])


def sequence():
    """Of the operator's account, as the chain has it."""
    address = content_of("svc.wallet.getAddress", {})["address"]
    return int(content_of("svc.cosmos.auth.getAccount", {"address": address})["account"]["sequence"])


def prove_writes():
    """Nothing was written so far; then the same path to its real end, with names no run has used."""
    need(sequence() == SEQUENCE, "dry runs or refused calls used the sequence", f"{SEQUENCE} became {sequence()}")
    now, made, by_name = time.time_ns(), {}, {tool.name: tool for tool in TOOLS}
    terms = {"language": "en", "doc_url": "https://f.example", "doc_digest_sri": "sha384-AAEC"}
    steps = [
        ("svc.ledger.es.createEcosystem", lambda: {"did": f"did:web:f{now}.example"} | terms),
        ("svc.ledger.es.updateEcosystem", lambda: {"id": made["ecosystem_id"], "did": f"did:web:g{now}.example"}),
        ("svc.ledger.es.archiveEcosystem", lambda: {"id": str(made["ecosystem_id"]), "archive": True}),
        ("svc.ledger.di.storeDigest", lambda: {"digest": f"sha256-{now}AAA="}),
    ]
    for name, arguments in steps:
        code, content, asked = by_name[name].call(arguments())
        need(not code and content["code"] == 0 and content["indexer_synced"], "a write fails", asked, content)
        made |= content["response"]
    need(sequence() == SEQUENCE + len(steps), "writes and sequences differ", f"{SEQUENCE} became {sequence()}")


# ---- The rest of the protocol ----------------------------------------------------------------------------------------------


def prove_method(drawn):
    method, params, session = drawn
    answer, asked = rpc(method, params, session), f"{method} {json.dumps(params)}"
    need(answer.message and answer.status in (200, 400, 404), "neither a result nor an error", asked, answer.told)
    # In sessions all of these exist, whatever their parameters are.
    is_missing = session and answer.message.get("error", {}).get("code") == -32601
    need(not is_missing, "a method that exists is not found", asked, answer.told)


def others():
    prompts = listed("prompts/list", "prompts")
    prompts = {prompt["name"]: [one["name"] for one in prompt.get("arguments", [])] for prompt in prompts}
    arguments = sorted({name for names in prompts.values() for name in names} | {"id", "did", "msg_types"})
    keys = st.sampled_from(arguments) | st.text(max_size=5)
    values = st.sampled_from([*TEXTS, "x" * 9000, "{% for i in range(999999999) %}{% endfor %}"]) | st.text(max_size=30) | JSON
    names = st.sampled_from(sorted(prompts)) | st.sampled_from([tool.name for tool in TOOLS]) | st.text(max_size=5)
    uris = st.sampled_from([one["uri"] for one in listed("resources/list", "resources")])
    uris = uris | st.tuples(uris, st.text(max_size=4)).map("".join) | values
    filled = {name: st.fixed_dictionaries(dict.fromkeys(of, values)) for name, of in prompts.items()}
    whole = [{"name": st.just(name), "arguments": arguments} for name, arguments in filled.items()]
    whole.append({"name": names, "arguments": st.dictionaries(keys, values, max_size=3) | JSON})
    kinds = st.sampled_from(["ref/prompt", "ref/prompt", "ref/resource", "x"])
    ref = st.fixed_dictionaries({"type": kinds, "name": names, "uri": uris}) | JSON
    argument = st.fixed_dictionaries({"name": keys | values, "value": values})
    context = st.fixed_dictionaries({}, optional={"arguments": st.dictionaries(keys, st.text(max_size=9), max_size=2) | JSON})
    methods = {
        "prompts/get": st.sampled_from(whole).flatmap(st.fixed_dictionaries),
        "completion/complete": st.fixed_dictionaries({"ref": ref, "argument": argument, "context": context}),
        "resources/read": st.fixed_dictionaries({"uri": uris}),
        "resources/subscribe": st.fixed_dictionaries({"uri": uris}),
        "resources/unsubscribe": st.fixed_dictionaries({"uri": uris}),
        "logging/setLevel": st.fixed_dictionaries({"level": st.sampled_from(["debug", "info", "emergency", "DEBUG"]) | values}),
        "tools/list": st.fixed_dictionaries({"cursor": values}),
        "tools/call": st.fixed_dictionaries({"name": values, "arguments": JSON}),
    }
    for method, params in methods.items():
        check(method, prove_method, st.tuples(st.just(method), params, st.sampled_from([None, SESSION])), 4 * EXAMPLES)


warnings.simplefilter("ignore")  # Of hypothesis, about the length of what it is given to tell.
LISTING, KNOWN, RESTARTS = listed("tools/list", "tools"), {}, restarts()
STRICT = json.loads(pathlib.Path(os.environ["SVC_STRICT_SCHEMAS"]).read_text())
HEIGHT = int(content_of("svc.cosmos.tendermint.getStatus", {})["sync_info"]["latest_block_height"])
for one in LISTING:
    if not one["inputSchema"].get("required") and not one["name"].startswith("svc.ledger."):
        note_texts(content_of(one["name"], {}), KNOWN)
KNOWN = {name: sorted(texts)[:12] for name, texts in KNOWN.items()}
TEXTS_KNOWN = {text for texts in KNOWN.values() for text in texts}
KNOWN["address"] = sorted(text for text in TEXTS_KNOWN if re.fullmatch("[a-z]+1[02-9ac-hj-np-z]{38,58}", text))
TOOLS, SESSION, SEQUENCE = [Tool(one) for one in LISTING], opened(), sequence()
print(f"{len(TOOLS)} tools, seed {SEED}, {EXAMPLES} examples a tool", flush=True)
part("entry", entry)
part("tools", tools)
part("others", others)
sys.exit(1 if COUNT["violations"] else 0)
