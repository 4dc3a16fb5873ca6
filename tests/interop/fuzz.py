"""Generated and mutated input against a running tool server, as raw HTTP: a client library would not let most of it out.

SVC_MCP_URL and MCP_BEARER_TOKEN name the server, best of a devnet whose blocks come by themselves; SVC_FUZZ_SEED and
SVC_FUZZ_EXAMPLES (a tool) vary the run. A violated property is told with the smallest example hypothesis finds.
"""

import copy
import json
import os
import re
import socket
import sys
import time
from base64 import b64encode
from urllib.parse import urlsplit

import httpx2
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema
from jsonschema import Draft202012Validator, FormatChecker

URL, TOKEN = os.environ["SVC_MCP_URL"], os.environ["MCP_BEARER_TOKEN"]
SEED, EXAMPLES = os.environ.get("SVC_FUZZ_SEED", "1"), int(os.environ.get("SVC_FUZZ_EXAMPLES", "16"))
HOST, ORIGIN = urlsplit(URL), URL.removesuffix("/mcp")
PATIENCE, MAX_BODY, MAX_U64 = 5, 1024 * 1024, 2**64 - 1
STAGES = {
    "validation": "INPUT_INVALID INPUT_OUT_OF_SCOPE TOOL_UNKNOWN",
    "authorization": "AUTHZ_NOT_GRANTED AUTHZ_EXPIRED AUTHZ_REVOKED AUTHZ_PRECONDITION_FAILED VSA_NOT_AUTHORIZED VSA_AUTH_FAILED",
    "broadcast": "SIMULATION_FAILED INSUFFICIENT_FEES SEQUENCE_MISMATCH BCAST_REJECTED",
    "confirmation": "BCAST_TIMEOUT TX_FAILED TX_EXPIRED",
    "indexer": "INDEXER_BEHIND",
    "upstream": "UPSTREAM_UNREACHABLE UPSTREAM_HTTP_ERROR UPSTREAM_PROTOCOL_ERROR VSA_ADMIN_URL_NOT_FOUND "
    "VSA_DID_RESOLUTION_FAILED NOT_READY OVERLOADED RESTARTING",
}
STAGE_OF = {code: stage for stage, codes in STAGES.items() for code in codes.split()}
# How a call may fail whose arguments keep the schema. Anything else is a fault of a server, not of the caller.
READ_FAILURES = {"INPUT_INVALID", "UPSTREAM_HTTP_ERROR"}
DRY_RUN_FAILURES = {"INPUT_INVALID", "INPUT_OUT_OF_SCOPE", "SIMULATION_FAILED", "INSUFFICIENT_FEES"}
CHAIN_FAULTS = {1, 111222}  # With these the SDK reports an error without a code, and a panic.
CLIENT = {"name": "fuzz", "version": "1"}
META = {f"io.modelcontextprotocol/{name}": value for name, value in
        {"protocolVersion": "2026-07-28", "clientInfo": CLIENT, "clientCapabilities": {}}.items()}  # fmt: skip
HTTP = httpx2.Client(timeout=PATIENCE, trust_env=False, headers={"Accept-Encoding": "identity"})
# Three words of a mnemonic in a row are no accident, whatever stands between them.
PHRASES = [os.environ[name].split() for name in ("MCP_SVC_MNEMONIC", "SVC_MEMBER_MNEMONIC") if name in os.environ]
TRIPLES = {r"\W+".join(words[at : at + 3]) for words in PHRASES for at in range(len(words) - 2)}
SECRETS = re.compile("|".join([re.escape(TOKEN), *sorted(TRIPLES)]), re.IGNORECASE)
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
    options = dict(max_examples=examples, database=None, deadline=None, print_blob=False, suppress_health_check=list(HealthCheck))
    if strategy is not None:
        prove_one = prove
        prove = seed(f"{SEED} {name}")(settings(phases=(Phase.generate, Phase.shrink), **options)(given(strategy)(lambda it: prove_one(it))))
    try:
        prove()
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


class Answer:
    """What came back; `message` is the JSON-RPC message in it."""

    def __init__(self, response, text):
        self.status, self.headers, self.text, self.message = response.status_code, response.headers, text, None
        try:
            found = json.loads(text)
            self.message = found if isinstance(found, dict) and found.get("jsonrpc") == "2.0" else None
        except ValueError:
            pass

    def __repr__(self):
        return f"answer: {self.status} {self.headers.get('content-type', '')} {self.text}"


def read(response, until_first):
    """An event stream is read up to the response; notifications come before it, or instead where a client listens."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        return Answer(response, response.read().decode(errors="replace"))
    rest, ends = b"", time.monotonic() + PATIENCE
    if response.request.method != "GET":
        for chunk in response.iter_raw():
            *lines, rest = (rest + chunk).split(b"\n")
            for answer in (Answer(response, line.removeprefix(b"data: ").decode()) for line in lines):
                if answer.message and (until_first or {"result", "error"} & set(answer.message)):
                    return answer
            if time.monotonic() > ends:
                raise httpx2.ReadTimeout("no response in the stream")
    return Answer(response, "")


def send(body, unusual, method="POST"):
    """Sends anything, and proves what holds for every answer. `unusual`: headers a good client would not send so."""
    COUNT["requests"] += 1
    usual = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json", "accept": "application/json, text/event-stream"}
    asked, request = f"{method} {unusual} {len(body)} bytes: {body[:1200]!r}", request_in(body)
    listens = request.get("method") == "subscriptions/listen"
    try:
        with HTTP.stream(method, URL, content=body, headers=usual | unusual) as response:
            answer = read(response, until_first=listens)
    except httpx2.TimeoutException as error:
        need(False, f"no answer in {PATIENCE} s", asked, repr(error))
    except httpx2.TransportError as error:
        need(False, "the connection broke without an answer", asked, repr(error))
    status, text, message = answer.status, answer.text, answer.message
    need(not SECRETS.search(f"{answer.headers} {text}"), "a secret is told", asked, answer)
    need(status < 500 or (status == 503 and "retry-after" in answer.headers), f"status {status}", asked, answer)
    if message:
        error, is_ours = message.get("error"), not request or listens or message.get("id") == request["id"]
        need(("result" in message) != ("error" in message) or listens, "no JSON-RPC response", asked, answer)
        need(is_ours or (status == 400 and message.get("id") is None), "a response to another request", asked, answer)
        is_told = not error or (type(error["code"]) is int and isinstance(error["message"], str) and error["code"] != -32603)
        need(is_told, "an internal error", asked, answer)
        return answer
    # An answer that is no JSON-RPC has its reason in HTTP: in a header or in the method.
    reasons = {
        200: method == "GET" and "text/event-stream" in answer.headers.get("content-type", ""),
        202: text == "" and not request,
        400: text.startswith("Bad Request"),
        401: "authorization" in unusual and answer.headers.get("www-authenticate") == "Bearer",
        403: bool({"host", "origin"} & set(unusual)),
        404: "mcp-session-id" in unusual and text == "Not Found: Session not found",
        405: method != "POST",
        406: "accept" in unusual,
        415: "content-type" in unusual,
    }
    need(reasons.get(status), f"status {status} without JSON-RPC, and without a reason in HTTP", asked, answer)
    return answer


def request_in(body):
    """The request, where JSON-RPC obliges the server to answer; else nothing."""
    try:
        found = json.loads(body)
        is_id = isinstance(found["id"], str) or (type(found["id"]) is int and abs(found["id"]) < 2**63)
        return found if is_id and found["jsonrpc"] == "2.0" and isinstance(found["method"], str) else {}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def message(method, params, **members):
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params} | members, allow_nan=False).encode()


def opened(version="2025-11-25", is_initialized=True):
    """The header of a new session."""
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
    session = {"mcp-session-id": send(message("initialize", params, id=0), {}).headers["mcp-session-id"]}
    if is_initialized:
        send(message("notifications/initialized", {}), session)
    return session


def rpc(method, params, session=None):
    """A good request: in a session, or of the generation without them."""
    if session:
        return send(message(method, params, id="f"), session)
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    name = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(method)
    if name:
        # Text that no header can hold travels as the protocol says.
        headers["mcp-name"] = "=?base64?" + b64encode(str(params[name]).encode()).decode() + "?="
    return send(message(method, params | {"_meta": META}, id="f"), headers)


def listed(method, member):
    found, cursor = [], {}
    while cursor is not None:
        result = rpc(method, cursor).message["result"]
        found, cursor = found + result[member], {"cursor": result["nextCursor"]} if "nextCursor" in result else None
    return found


def prove_alive():
    health, metrics = HTTP.get(ORIGIN + "/healthz"), HTTP.get(ORIGIN + "/metrics").text
    need(health.status_code == 200 and health.json() == {"status": "ok"}, "not healthy", health.text)
    need(re.findall("^svc_actor_restarts_total.*", metrics, re.MULTILINE) == RESTARTS, "an actor was restarted", metrics)
    for session in (None, SESSION):
        answer = rpc("tools/list", {}, session)
        need(answer.message and answer.message["result"]["tools"], "tools are no longer listed", answer)


# ---- Hardly JSON-RPC -------------------------------------------------------------------------------------------------------

METHODS = """initialize ping server/discover tools/list tools/call prompts/list prompts/get resources/list resources/read
    resources/templates/list resources/subscribe resources/unsubscribe subscriptions/listen completion/complete logging/setLevel
    tasks/list tasks/get sampling/createMessage elicitation/create roots/list notifications/initialized notifications/cancelled
    notifications/progress notifications/roots/list_changed rpc.discover""".split()
NUMBERS = [-1, 0, 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63, MAX_U64, 2**64, -(2**63), 1.0, 1.5, 1e308, -1e308, 5e-324]
TEXTS = ["", " ", "\0", "\x1b[0m", "a\nb", "\u202e", "\ufeff", "𝕏" * 9, "x" * 3000, "..", "%00", "{{7*7}}", "did:web:x\n", "01", "٣"]
JSON = st.recursive(
    st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.sampled_from(TEXTS) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ANY_PARAMS = "arguments cursor level ref argument requestId capabilities clientInfo notifications _meta requestState task".split()
PARAMS = st.fixed_dictionaries({}, optional={name: JSON for name in ANY_PARAMS} | {
    "name": st.sampled_from(["svc.wallet.getStatus", "diagnose-server", "x"]),
    "uri": st.sampled_from(["svc://own/status", "x"]),
    "protocolVersion": st.sampled_from(["2025-11-25", "2026-07-28", "1999-01-01", ""]),
})  # fmt: skip
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
}
# All an HTTP client lets into a header: no control characters, no space at the ends.
LATIN = st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=20)
LITERALS = [b"1e999", b"9" * 400, b"01", b"NaN", b"-", b"1e-9999", rb'"\ud800"', rb'"\udc00\ud800"', rb'"\u0000"', rb'"\q"',
            b'"\x01"', b'"\xff\xfe"', b'"\xc0\x80"', *(b"[" * n + b"]" * n for n in (100, 127, 128, 100_000)),
            *(b'{"a":' * n + b"1" + b"}" * n for n in (100, 128, 9000)), b"[" * 500_000]  # fmt: skip
LITERALS += [b'"' + b"x" * n + b'"' for n in (900_000, MAX_BODY - 200, MAX_BODY + 1, 3 * MAX_BODY)]
MALFORMED = "whole whole cut patched twice spliced spliced noise list".split()


@st.composite
def requests(draw):
    """HTTP method, headers and body: of either generation, each a little or wholly wrong."""
    method, headers = draw(st.sampled_from(METHODS)), {}
    whole = {"jsonrpc": "2.0", "id": draw(st.integers(0, 9) | st.text(max_size=3)), "method": method, "params": draw(PARAMS)}
    if draw(st.booleans()):
        whole["params"]["_meta"], headers = META, {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    elif draw(st.booleans()):
        headers = dict(SESSION)
    for member in draw(st.lists(st.sampled_from(sorted(whole)), max_size=2, unique=True)):
        whole[member] = draw(JSON)
        if draw(st.booleans()):
            del whole[member]
    raw, how = json.dumps(whole).encode(), draw(st.sampled_from(MALFORMED))
    at, member = draw(st.integers(0, len(raw))), draw(st.sampled_from(["jsonrpc", "id", "method", "params", "other"]))
    body = {
        "whole": raw,
        "cut": raw[:at],
        "patched": raw[:at] + draw(st.binary(max_size=4)) + raw[at + draw(st.integers(0, 4)) :],
        "twice": b"{" + json.dumps({member: draw(JSON)}).encode()[1:-1] + b"," + raw[1:],
        "spliced": raw[:-1] + b',"%s":' % member.encode() + draw(st.sampled_from(LITERALS)) + b"}",
        "noise": draw(st.binary(max_size=40)),
        "list": b"[" + b",".join([raw] * draw(st.integers(0, 3))) + b"]",
    }[how]
    for name in draw(st.just([]) | st.lists(st.sampled_from(sorted(HEADERS)), max_size=2, unique=True)):
        headers[name] = draw(st.sampled_from(HEADERS[name]) | LATIN.map(lambda text: text.encode("latin-1")))
    verb = draw(st.sampled_from(["POST"] * 8 + ["GET", "DELETE", "PUT", "HEAD"]))
    return verb, headers, body if verb == "POST" else b""


def prove_request(drawn):
    verb, headers, body = drawn
    if verb == "DELETE" and headers.get("mcp-session-id") in SESSION.values():
        headers = headers | opened()
    answer = send(body, headers, verb)
    need(len(body) <= MAX_BODY or answer.status in (401, 413), "too long a body is taken", headers, answer)
    if "mcp-session-id" in answer.headers:
        send(b"", {"mcp-session-id": answer.headers["mcp-session-id"]}, "DELETE")


def prove_dialogue(drawn):
    """Messages in any order, also before the session is initialised: each is answered, and the session outlives them."""
    version, is_initialized, messages = drawn
    session = opened(version, is_initialized)
    for method, params, number in messages:
        send(message(method, params, **({} if method.startswith("notifications/") else {"id": number})), session)
    if is_initialized:
        send(b"", session, "GET")
    need(send(b"", session, "DELETE").status in (200, 202, 204), "a session cannot be ended", drawn)
    need(send(message("ping", {}, id=1), session).status == 404, "a session that was ended still answers", drawn)


# Beneath what an HTTP library lets out: what follows the usual head, and the statuses it may have.
RAW = {
    b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n": "400",
    b"Content-Length: 9\r\n\r\nabc": "400",
    b"Content-Length: -1\r\n\r\n": "400",
    b"Content-Length: 99999999999999999999\r\n\r\n": "400 413",
    b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}": "400",
    b"X\0: y\r\n\r\n": "400",
    b"X: \0\r\n\r\n": "400",
    b"Y: 1\r\n" * 500 + b"\r\n": "400 431",
    b"Host: evil.example\r\nContent-Length: 0\r\n\r\n": "400 403",
}


def prove_raw(tail):
    head = f"POST {HOST.path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((HOST.hostname, HOST.port), PATIENCE) as connection:
        connection.sendall(head.encode() + b"Accept: application/json, text/event-stream\r\n" + tail)
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

FORMATS = FormatChecker(formats=("date-time", "uuid"))  # "date-time" needs rfc3339-validator.
SPACE = r"\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


def for_python(schema):
    """The schema with patterns that mean in Python what they mean in ECMAScript."""
    if isinstance(schema, dict):
        pattern = re.sub(r"\$$", r"\\Z", str(schema.get("pattern"))).replace(r"\S", f"[^{SPACE}]").replace(r"\s", SPACE)
        return {name: pattern if name == "pattern" and isinstance(one, str) else for_python(one) for name, one in schema.items()}
    return [for_python(one) for one in schema] if isinstance(schema, list) else schema


def pointers(error):
    """Where a violation is to be named: a missing or unexpected member by the pointer it would have."""
    names = {
        "required": lambda: [name for name in error.validator_value if name not in error.instance],
        "additionalProperties": lambda: [name for name in error.instance if name not in error.schema["properties"]],
    }.get(error.validator, lambda: [None])()
    for name in names:
        steps = [str(step) for step in error.absolute_path] + [name] * (name is not None)
        yield "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def texts_in(value, into):
    """Notes the texts of an answer by member: what exists is read deeper than what is made up."""
    for name, one in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(one, (dict, list)):
            texts_in(one, into)
        elif isinstance(one, str) and one:
            into.setdefault(name, set()).add(one)


class Tool:
    def __init__(self, listing):
        self.name, self.schema = listing["name"], for_python(listing["inputSchema"])
        self.is_ledger = self.name.startswith("svc.ledger.")
        self.input = Draft202012Validator(self.schema, format_checker=FORMATS)
        self.output = Draft202012Validator(for_python(listing["outputSchema"]), format_checker=FORMATS)
        definitions = {"$defs": self.schema.get("$defs", {})}
        members = {name: self.values(name, schema | definitions) for name, schema in self.schema["properties"].items()}
        needed = sorted({*self.schema.get("required", []), *(["dry_run"] if self.is_ledger else [])})
        others = sorted(set(members) - set(needed))
        some = st.lists(st.sampled_from(others), unique=True, max_size=6) if others else st.just([])
        self.arguments = some.flatmap(lambda names: st.fixed_dictionaries({name: members[name] for name in needed + sorted(names)}))

    def values(self, name, schema):
        if name == "min_height":
            return st.integers(1, HEIGHT)  # With one that is far away the call waits for it, as it should.
        if name == "dry_run":
            return st.just(True)
        known = [*schema.get("examples", []), *KNOWN.get(name, [])]
        known += range(1, 19) if name.endswith("id") else []
        known += [1, HEIGHT // 2, HEIGHT] if name.endswith("height") else []
        known += KNOWN["address"] if name in ("address", "grantee", "granter", "operator", "vs_operator") else []
        known = [one for one in known if Draft202012Validator(schema).is_valid(one)]
        return st.sampled_from(known) | from_schema(schema) if known else from_schema(schema)

    def call(self, arguments, session=None):
        """The code of the error, if it is one, and the content; proves what holds for every call."""
        answer, asked = rpc("tools/call", {"name": self.name, "arguments": arguments}, session), f"{self.name} {json.dumps(arguments)}"
        result = (answer.message or {}).get("result")
        need(answer.status == 200 and isinstance(result, dict), "a call without a result", asked, answer)
        content, texts = result["structuredContent"], [block["text"] for block in result["content"]]
        need(any(text[:1] == "{" and json.loads(text) == content for text in texts), "no text is the content", asked, answer)
        if not result["isError"]:
            wrong = [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in self.output.iter_errors(content)]
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
            holders += [one for one in (holder.values() if isinstance(holder, dict) else holder) if isinstance(one, (dict, list))]
        holder, how = draw(st.sampled_from(holders[:20])), draw(st.sampled_from("add remove replace replace lengthen respell".split()))
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
            # JSON Schema knows no difference between 1 and 1.0.
            holder[key] = float(holder[key]) if type(holder[key]) is int and abs(holder[key]) < 2**53 else holder[key]
        else:
            holder[key] = draw(st.sampled_from(["x" * 70_000, "é" * 5000, "9" * 2000]) if how == "lengthen" else JSON)
    return arguments


def whole(arguments):
    """The arguments with whole numbers written without a fraction."""
    return {name: int(one) if type(one) is float and one.is_integer() and abs(one) < 2**53 else one for name, one in arguments.items()}


def is_shown(asked, shown):
    """Whether a decoded message has what was asked for, however it is spelt."""
    if isinstance(asked, dict) and isinstance(shown, dict):
        return all(is_shown(one, shown.get(name)) for name, one in asked.items())
    if isinstance(asked, list) and isinstance(shown, list):
        return len(asked) == len(shown) and all(map(is_shown, asked, shown))
    if isinstance(shown, dict):
        return is_shown(asked, shown.get("value"))
    if isinstance(asked, str) and not re.fullmatch("[0-9]+", asked):
        # Enums are shown by their full name, instants and durations in their normal form.
        return str(shown).endswith(asked) or bool(re.match(r"-?[0-9]", asked))
    return type(asked) is bool and asked is shown or str(shown).isdigit() and int(shown) == int(asked)


def prove_call(tool, arguments, session=None):
    wrong = list(tool.input.iter_errors(arguments))
    if not wrong:
        arguments = arguments | ({"dry_run": True} if tool.is_ledger else {})  # A mutation must not make it a write.
        arguments = {name: one for name, one in arguments.items() if name != "min_height" or one <= HEIGHT}
    code, content, asked = tool.call(arguments, session)
    if wrong:
        need(code == "INPUT_INVALID", "wrong arguments are taken", asked, [error.message for error in wrong], content)
        named = {one["pointer"] for one in content["details"]["violations"]}
        expected = {pointer for error in wrong for pointer in pointers(error)}
        need(named == expected, "not the violations of the schema", asked, f"named {named}, expected {expected}", content)
        return
    if code:
        details = content["details"]
        need(code in (DRY_RUN_FAILURES if tool.is_ledger else READ_FAILURES), f"right arguments give {code}", asked, content)
        is_fault = details.get("status", 400) // 100 != 4 or details.get("code") in CHAIN_FAULTS or "NotFoundError" in str(details)
        need(not is_fault, "a fault upstream, or a route that is not there", asked, content)
        told = details.get("violations", [{"pointer": "", "reason": "-"}])
        need(told and all(set(one) == {"pointer", "reason"} and one["reason"] for one in told), "no reason is told", asked, content)
    is_huge = any(type(one) in (int, float) and one > MAX_U64 for one in arguments.values())
    need(not is_huge or code == "INPUT_INVALID" or (code and not tool.is_ledger), "a number that cannot be is taken", asked, content)
    if tool.is_ledger and not code:
        given = {name: one for name, one in arguments.items() if name != "dry_run"}
        lost = [name for name, one in given.items() if not is_shown(one, content["message"].get(name))]
        need(not lost, "another message than was asked for", asked, lost, content["message"])
    if json.dumps(whole(arguments)) != json.dumps(arguments):
        # In JSON Schema 1.0 is an integer. What is pinned to a block must be the same, what is not may have moved on.
        other, instead, _ = tool.call(whole(arguments), session)
        is_same = {"at_block_height", "height"}.isdisjoint(arguments) or bool(code) or content == instead
        need(code == other and is_same, "1.0 is not 1", asked, content, instead)


def tools():
    for tool in TOOLS:
        check(f"{tool.name}, right", lambda it, tool=tool: prove_call(tool, it), tool.arguments)
        drawn = st.tuples(mutated(tool), st.sampled_from([None, SESSION]))
        check(f"{tool.name}, mutated", lambda it, tool=tool: prove_call(tool, *it), drawn)
    check("writes", prove_writes)


def sequence():
    """Of the operator's account, as the chain has it."""
    structured = lambda name, arguments: rpc("tools/call", {"name": name, "arguments": arguments}).message["result"]["structuredContent"]  # noqa: E731
    address = structured("svc.wallet.getAddress", {})["address"]
    return int(structured("svc.cosmos.auth.getAccount", {"address": address})["account"]["sequence"])


def prove_writes():
    """The same path to its real end, with names no run has used."""
    need(sequence() == SEQUENCE, "dry runs or refused calls used the sequence", f"{SEQUENCE} became {sequence()}")
    now, by_name = time.time_ns(), {tool.name: tool for tool in TOOLS}
    steps = {
        "svc.ledger.es.createEcosystem": {"did": f"did:web:f{now}.example", "language": "en", "doc_url": "https://f.example",
                                          "doc_digest_sri": "sha384-AAEC"},
        "svc.ledger.es.updateEcosystem": {"did": f"did:web:g{now}.example"},
        "svc.ledger.es.archiveEcosystem": {"archive": True},
        "svc.ledger.di.storeDigest": {"digest": f"sha256-{now}AAA="},
    }  # fmt: skip
    for name, arguments in steps.items():
        code, content, asked = by_name[name].call(arguments)
        need(not code and content["code"] == 0 and content["indexer_synced"], "a write fails", asked, content)
        if "ecosystem_id" in content["response"]:
            for later in ("updateEcosystem", "archiveEcosystem"):
                steps[f"svc.ledger.es.{later}"]["id"] = content["response"]["ecosystem_id"]
    need(sequence() == SEQUENCE + len(steps), "writes and sequences differ", f"{SEQUENCE} became {sequence()}")


# ---- The rest of the protocol ----------------------------------------------------------------------------------------------


def prove_method(drawn):
    answer = rpc(*drawn)
    need(answer.message and answer.status in (200, 400, 404), "neither a result nor an error", drawn, answer)


def others():
    prompts = {prompt["name"]: [one["name"] for one in prompt.get("arguments", [])] for prompt in listed("prompts/list", "prompts")}
    names = st.sampled_from(sorted(prompts)) | st.sampled_from([tool.name for tool in TOOLS]) | st.text(max_size=5)
    values = st.sampled_from([*TEXTS, "x" * 9000, "{% for i in range(999999999) %}{% endfor %}"]) | st.text(max_size=30) | JSON
    keys = st.sampled_from(sorted({key for known in prompts.values() for key in known} | {"id", "did", "msg_types"})) | st.text(max_size=5)
    uris = st.sampled_from([one["uri"] for one in listed("resources/list", "resources")])
    uri = uris | st.tuples(uris, st.text(max_size=4)).map("".join) | values
    good = st.sampled_from(sorted(prompts)).flatmap(
        lambda name: st.fixed_dictionaries({"name": st.just(name), "arguments": st.fixed_dictionaries({key: values for key in prompts[name]})})
    )
    ref = st.fixed_dictionaries({"type": st.sampled_from(["ref/prompt", "ref/prompt", "ref/resource", "x"]), "name": names, "uri": uri})
    methods = {
        "prompts/get": good | st.fixed_dictionaries({"name": names, "arguments": st.dictionaries(keys, values, max_size=3) | JSON}),
        "completion/complete": st.fixed_dictionaries(
            {"ref": ref | JSON, "argument": st.fixed_dictionaries({"name": keys | values, "value": values})},
            optional={"context": st.fixed_dictionaries({"arguments": st.dictionaries(keys, values, max_size=2)})},
        ),
        "resources/read": st.fixed_dictionaries({"uri": uri}),
        "resources/subscribe": st.fixed_dictionaries({"uri": uri}),
        "resources/unsubscribe": st.fixed_dictionaries({"uri": uri}),
        "logging/setLevel": st.fixed_dictionaries({"level": st.sampled_from(["debug", "info", "emergency", "DEBUG"]) | values}),
        "tools/list": st.fixed_dictionaries({"cursor": values}),
    }
    for method, params in methods.items():
        check(method, prove_method, st.tuples(st.just(method), params, st.sampled_from([None, SESSION])), 4 * EXAMPLES)


RESTARTS = re.findall("^svc_actor_restarts_total.*", HTTP.get(ORIGIN + "/metrics").text, re.MULTILINE)
LISTING, KNOWN = listed("tools/list", "tools"), {}
for one in LISTING:
    if not one["inputSchema"].get("required") and not one["name"].startswith("svc.ledger."):
        result = rpc("tools/call", {"name": one["name"], "arguments": {}}).message["result"]
        texts_in(result["structuredContent"], KNOWN)
        if one["name"] == "svc.cosmos.tendermint.getStatus":
            HEIGHT = int(result["structuredContent"]["sync_info"]["latest_block_height"])
KNOWN = {name: sorted(texts)[:12] for name, texts in KNOWN.items()}
KNOWN["address"] = sorted({text for texts in KNOWN.values() for text in texts if re.fullmatch("[a-z]+1[02-9ac-hj-np-z]{38,58}", text)})
TOOLS, SESSION, SEQUENCE = [Tool(one) for one in LISTING], opened(), sequence()
print(f"{len(TOOLS)} tools, seed {SEED}, {EXAMPLES} examples a tool", flush=True)
part("entry", entry)
part("tools", tools)
part("others", others)
sys.exit(1 if COUNT["violations"] else 0)
