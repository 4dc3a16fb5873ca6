"""Generated and mutated input against a running tool server, as raw HTTP: what a client library would never send, too.

SVC_MCP_URL and MCP_BEARER_TOKEN name the server; SVC_FUZZ_SEED and SVC_FUZZ_EXAMPLES (per tool) vary the run. The devnet needs
blocks that come by themselves. What is violated is told with the smallest example that hypothesis finds.
"""

import copy
import datetime
import json
import os
import re
import socket
import sys
import time
from urllib.parse import urlsplit

import httpx2
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis_jsonschema import from_schema
from jsonschema import Draft202012Validator, FormatChecker

URL, TOKEN = os.environ["SVC_MCP_URL"], os.environ["MCP_BEARER_TOKEN"]
SEED = os.environ.get("SVC_FUZZ_SEED", "1")
EXAMPLES = int(os.environ.get("SVC_FUZZ_EXAMPLES", "16"))
PATIENCE = 5
MAX_BODY = 1024 * 1024
U64 = 2**64 - 1
STAGES = {
    "validation": "INPUT_INVALID INPUT_OUT_OF_SCOPE TOOL_UNKNOWN",
    "authorization": "AUTHZ_NOT_GRANTED AUTHZ_EXPIRED AUTHZ_REVOKED AUTHZ_PRECONDITION_FAILED VSA_NOT_AUTHORIZED VSA_AUTH_FAILED",
    "broadcast": "SIMULATION_FAILED INSUFFICIENT_FEES SEQUENCE_MISMATCH BCAST_REJECTED",
    "confirmation": "BCAST_TIMEOUT TX_FAILED TX_EXPIRED",
    "indexer": "INDEXER_BEHIND",
    "upstream": "UPSTREAM_UNREACHABLE UPSTREAM_HTTP_ERROR UPSTREAM_PROTOCOL_ERROR VSA_ADMIN_URL_NOT_FOUND"
    " VSA_DID_RESOLUTION_FAILED NOT_READY OVERLOADED RESTARTING",
}
STAGE_OF = {code: stage for stage, codes in STAGES.items() for code in codes.split()}
# How a call may fail whose arguments keep the schema: anything else is a fault of the server.
READ_FAILURES = {"INPUT_INVALID", "UPSTREAM_HTTP_ERROR", "INDEXER_BEHIND"}
DRY_RUN_FAILURES = {"INPUT_INVALID", "INPUT_OUT_OF_SCOPE", "SIMULATION_FAILED", "INSUFFICIENT_FEES"}
# Codes with which the SDK reports a panic or an error without a code.
CHAIN_FAULTS = {("sdk", 111222), ("undefined", 111222), ("sdk", 1), ("undefined", 1)}
IMPLEMENTATION = {"name": "fuzz", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": IMPLEMENTATION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
HTTP = httpx2.Client(timeout=PATIENCE, trust_env=False)
REQUESTS, FINDINGS, KINDS = [0], [], {}


class Finding(Exception):
    """A violated property."""


def need(holds, kind, *evidence):
    """One class a kind: hypothesis tells violations apart, and shrinks them apart, by class."""
    if not holds:
        told = "\n".join("    " + (one if isinstance(one, str) else ascii(one))[:3_000] for one in evidence)
        raise KINDS.setdefault(kind, type("Finding", (Finding,), {}))(f"{kind}\n{told}")


def check(name, strategy, prove, examples):
    """Proves a property for generated values."""

    @seed(f"{SEED} {name}")
    @settings(
        max_examples=examples, database=None, deadline=None, print_blob=False,
        phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def run(value):
        prove(value)

    def tell(error):
        if isinstance(error, BaseExceptionGroup):
            for one in error.exceptions:
                tell(one)
        elif isinstance(error, (Finding, Flaky)):
            FINDINGS.append(name)
            print(f"VIOLATED {name}: {error}", flush=True)
        else:
            raise error

    try:
        run()
    except (Finding, Flaky, BaseExceptionGroup) as error:
        tell(error)


def part(name, run):
    started, requests, findings = time.monotonic(), REQUESTS[0], len(FINDINGS)
    run()
    check(f"{name}: afterwards", st.just(None), lambda _: prove_alive(), 1)
    violated, took = len(FINDINGS) - findings, time.monotonic() - started
    print(f"{name}: {REQUESTS[0] - requests} requests, {violated} violations, {took:.1f} s", flush=True)


# ---- HTTP and JSON-RPC ----------------------------------------------------------------------------------------------------

SECRETS = [re.compile(re.escape(TOKEN))]
for mnemonic in filter(None, map(os.environ.get, ("MCP_SVC_MNEMONIC", "SVC_MEMBER_MNEMONIC"))):
    words = mnemonic.split()
    # Three words in a row are no accident, whatever stands between them.
    SECRETS += [re.compile(r"\W+".join(words[i : i + 3]), re.IGNORECASE) for i in range(len(words) - 2)]


class Answer:
    def __init__(self, status, headers, text, message):
        self.status, self.headers, self.text, self.message = status, headers, text, message

    def __repr__(self):
        return f"answer: {self.status} {self.headers.get('content-type', '')} {self.text}"


def message_of(text):
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("jsonrpc") == "2.0" else None


def read(response, started, first_is_enough):
    """An event stream is read up to the response; notifications come before it."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        text = response.read().decode(errors="replace")
        return Answer(response.status_code, response.headers, text, message_of(text))
    for line in response.iter_lines():
        message = message_of(line.removeprefix("data: "))
        need(time.monotonic() - started < PATIENCE, "no response in time", line)
        if message and (first_is_enough or "result" in message or "error" in message):
            return Answer(response.status_code, response.headers, line, message)
    return Answer(response.status_code, response.headers, "", None)


def send(body, changed, method="POST", first_is_enough=False):
    """Sends anything, and proves what holds for every answer. `changed`: headers unlike those of a good client; None: left out."""
    REQUESTS[0] += 1
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    } | changed
    headers = [(name, value) for name, value in headers.items() if value is not None]
    asked = f"request: {method} {changed} {len(body)} bytes {body[:1_500]!r}"
    started = time.monotonic()
    try:
        with HTTP.stream(method, URL, content=body, headers=headers) as response:
            answer = read(response, started, first_is_enough)
    except httpx2.TimeoutException as error:
        need(False, f"no answer in {PATIENCE} s", asked, repr(error))
    except httpx2.TransportError as error:
        need(False, "connection broken without an answer", asked, repr(error))
    for secret in SECRETS:
        need(not secret.search(f"{answer.text} {answer.headers}"), "a secret in an answer", asked, answer)
    given = {name.lower() for name, value in changed.items()}
    status, text = answer.status, answer.text
    need(status < 500 or (status == 503 and "retry-after" in answer.headers), f"status {status}", asked, answer)
    if answer.message:
        error = answer.message.get("error")
        whole = ("result" in answer.message) != ("error" in answer.message) or first_is_enough
        told = error is None or (type(error["code"]) is int and isinstance(error["message"], str))
        need(whole and told, "a JSON-RPC response of the wrong shape", asked, answer)
        need(error is None or error["code"] != -32603, "an internal error", asked, answer)
        return answer
    # Whatever has no JSON-RPC message has a reason in HTTP itself, so in a header or the method.
    plain = {
        200: method == "GET" and "text/event-stream" in answer.headers.get("content-type", ""),
        202: text == "",
        400: text.startswith("Bad Request") and given & {"mcp-protocol-version", "mcp-session-id", "host"} != set()
        or text == "Bad Request: Session ID is required",
        401: "authorization" in given and answer.headers.get("www-authenticate") == "Bearer",
        403: bool(given & {"host", "origin"}),
        404: "mcp-session-id" in given and "Session not found" in text,
        405: method != "POST",
        406: "accept" in given,
        415: "content-type" in given,
    }
    need(plain.get(status, False), f"status {status} without a JSON-RPC message and without a reason", asked, answer)
    return answer


def is_request(body):
    """Whether JSON-RPC obliges the server to answer."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        return False
    return isinstance(message.get("id"), str) or (type(message.get("id")) is int and abs(message["id"]) < 2**63)


def exchange(body, changed):
    """A POST whose body may be a request: then its own id comes back."""
    asks = is_request(body)
    listens = asks and json.loads(body)["method"] == "subscriptions/listen"
    answer = send(body, changed, first_is_enough=listens)
    opened = answer.headers.get("mcp-session-id")
    if opened:
        send(b"", {"Mcp-Session-Id": opened}, "DELETE")
    if asks and answer.status == 200 and not listens:
        given = json.loads(body)["id"]
        need(answer.message["id"] == given, "the answer has another id", body.decode(), answer)
    need(not asks or answer.status != 202, "a request was taken for a notification", repr(body), answer)
    return answer


def dumps(message):
    return json.dumps(message, allow_nan=False).encode()


def open_session(version="2025-11-25", then_initialized=True):
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": IMPLEMENTATION}
    answer = send(dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}), {})
    session = {"Mcp-Session-Id": answer.headers["mcp-session-id"]}
    if then_initialized:
        send(dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}), session)
    return session


def rpc(method, params, session=None):
    """A good request, in a session or in the generation without them."""
    message = {"jsonrpc": "2.0", "id": "f", "method": method, "params": params}
    if session is not None:
        return exchange(dumps(message), session)
    name = params.get("name", params.get("uri")) if method in ("tools/call", "prompts/get", "resources/read") else None
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
    message["params"] = params | {"_meta": META}
    return exchange(dumps(message), headers)


def listed(method, member):
    found, cursor = [], {}
    while cursor is not None:
        result = rpc(method, cursor).message["result"]
        found += result[member]
        cursor = {"cursor": result["nextCursor"]} if "nextCursor" in result else None
    return found


def restarts():
    metrics = HTTP.get(ORIGIN + "/metrics").text
    return sum(float(line.rsplit(" ", 1)[1]) for line in metrics.splitlines() if line.startswith("svc_actor_restarts_total{"))


def prove_alive():
    health = HTTP.get(ORIGIN + "/healthz")
    need(health.status_code == 200 and health.json() == {"status": "ok"}, "not healthy", health.text)
    need(restarts() == RESTARTS, "an actor was restarted", str(restarts()))
    for session in (None, open_session()):
        answer = rpc("tools/list", {}, session)
        need(answer.status == 200 and answer.message["result"]["tools"], "tools are no longer listed", answer)
        if session:
            send(b"", session, "DELETE")


# ---- Part 1: what is hardly JSON-RPC ---------------------------------------------------------------------------------------

METHODS = """initialize ping server/discover tools/list tools/call prompts/list prompts/get resources/list resources/read
    resources/templates/list resources/subscribe resources/unsubscribe subscriptions/listen completion/complete logging/setLevel
    tasks/list tasks/get sampling/createMessage elicitation/create roots/list notifications/initialized notifications/cancelled
    notifications/progress notifications/roots/list_changed rpc.discover""".split()
NUMBERS = [-1, 0, 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63, U64, 2**64, -(2**63), 1.0, 1.5, -0.0, 1e308, -1e308, 5e-324]
TEXTS = ["", " ", "\0", "\x1b[0m", "a\nb", "\u202e", "\ufeff", "é", "𝕏" * 9, "x" * 3_000, "../..", "%00", "{{7*7}}", "did:web:x\n", "01"]
JSON = st.recursive(
    st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.sampled_from(TEXTS) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PARAMS = st.fixed_dictionaries({}, optional={
    "name": st.sampled_from(["svc.wallet.getStatus", "diagnose-server", "x"]), "arguments": JSON, "cursor": JSON, "level": JSON,
    "uri": st.sampled_from(["svc://own/status", "x"]), "ref": JSON, "argument": JSON, "requestId": JSON, "progressToken": JSON,
    "protocolVersion": st.sampled_from(["2025-11-25", "2026-07-28", "2024-11-05", "1999-01-01", ""]), "capabilities": JSON,
    "clientInfo": JSON, "notifications": JSON, "_meta": JSON, "inputResponses": JSON, "requestState": JSON, "task": JSON,
})  # fmt: skip
HEADERS = {
    "Accept": ["", "*/*", "application/json", "text/event-stream;q=0, application/json", '"', ",;,;="],
    "Content-Type": ["", "text/plain", "application/json; charset=utf-16", "application/jsonx", ";"],
    "MCP-Protocol-Version": ["", "2025-11-25", "2026-07-28", "2024-11-05", "1999-01-01", "9999-12-31", "x"],
    "Mcp-Session-Id": ["", "x", "00000000-0000-0000-0000-000000000000", "y" * 7_000],
    "Mcp-Method": ["", "tools/list", "initialize", "x"],
    "Mcp-Name": ["", "svc.wallet.getStatus", "x", "=?base64?eA==?=", "=?base64?!?="],
    "Last-Event-ID": ["", "0", "-1", "18446744073709551616", "a/b", "0_0"],
    "Origin": ["", "null", "https://evil.example", "http://localhost:1", "http://", "http://[::1]:x"],
    "Host": ["", "evil.example", "localhost", "127.0.0.1:99999", "[::1", "a b", "@", "localhost@evil.example"],
    "Authorization": ["", "Bearer", "Bearer ", "Basic eDp4", "Bearer " + "x" * 32],
}
# What an HTTP client can put into a header: no control characters, no space at the ends.
LATIN = st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=20)
BAD_HEADERS = st.lists(st.sampled_from(sorted(HEADERS)), max_size=2, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({
        name: st.sampled_from(HEADERS[name]) | LATIN.map(lambda text: text.encode("latin-1")) for name in names
    })  # fmt: skip
)


@st.composite
def bodies(draw, is_modern):
    params = draw(PARAMS) | ({"_meta": META} if is_modern and draw(st.booleans()) else {})
    message = {"jsonrpc": "2.0", "id": draw(st.integers(0, 9) | st.text(max_size=3)), "method": draw(st.sampled_from(METHODS))}
    message["params"] = params
    for member in draw(st.lists(st.sampled_from(sorted(message)), max_size=2, unique=True)):
        if draw(st.booleans()):
            del message[member]
        else:
            message[member] = draw(JSON)
    raw = dumps(message)
    at, count = draw(st.integers(0, len(raw))), draw(st.integers(1, 4))
    form = draw(st.sampled_from(["whole", "whole", "cut", "patched", "twice", "deep", "padded", "number", "escape", "noise", "list"]))
    if form == "cut":
        return raw[:at]
    if form == "patched":
        return raw[:at] + draw(st.binary(max_size=4)) + raw[at + count :]
    if form == "twice":
        member = draw(st.sampled_from(["jsonrpc", "id", "method", "params"]))
        return b"{" + dumps(member) + b":" + dumps(draw(JSON)) + b"," + raw[1:]
    if form == "noise":
        return draw(st.binary(max_size=60))
    if form == "list":
        return b"[" + b",".join([raw] * (count - 1)) + b"]"
    filler = {
        "deep": draw(st.sampled_from([(b"[", b"]"), (b'{"a":', b"}")])),
        "number": (draw(st.sampled_from([b"1e999", b"-1e999", b"9" * 400, b"0x1", b"01", b"NaN", b"-", b"1e-9999"])), b""),
        "escape": (draw(st.sampled_from([rb'"\ud800"', rb'"\udc00\ud800"', rb'"\u0000"', rb'"\q"', b'"\x01"', b'"\xff\xfe"', b'"\xc0\x80"'])), b""),
    }  # fmt: skip
    if form in filler:
        (opening, closing), depth = filler[form], draw(st.sampled_from([100, 127, 128, 200, 100_000])) if form == "deep" else 1
        inner = opening * depth + (b"1" if form == "deep" else b"") + closing * (depth if draw(st.booleans()) else 0)
        return raw[:-1] + draw(st.sampled_from([b',"params":{"a":', b',"other":', b',"id":'])) + inner + b"}"
    if form == "padded":
        length = draw(st.sampled_from([900_000, MAX_BODY - 200, MAX_BODY + 1, 3 * MAX_BODY]))
        return raw[:-1] + b',"padding":"' + b"x" * length + b'"}'
    return raw


def prove_body(drawn):
    is_modern, body, headers, session = drawn
    if is_modern:
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method_in(body)} | headers
    elif session:
        headers = SESSION | headers
    answer = exchange(body, headers)
    if len(body) > MAX_BODY and answer.status != 401:
        need(answer.status == 413, "too long a body was taken", repr(body[:300]), answer)


def method_in(body):
    try:
        method = json.loads(body)["method"]
        return method if re.fullmatch(r"[!-~]+", method) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def prove_dialogue(drawn):
    """Messages of a session in any order, also before it is initialised: each is answered, and the session outlives them."""
    version, initialized, messages = drawn
    session = open_session(version, initialized)
    for method, params, number in messages:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        exchange(dumps(message | ({} if method.startswith("notifications/") else {"id": number})), session)
    send(b"", session | {"Accept": "text/event-stream"}, "GET", first_is_enough=True) if initialized and not messages else None
    closed = send(b"", session, "DELETE")
    need(closed.status in (200, 202, 204), "a session cannot be ended", closed)
    gone = exchange(dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}), session)
    need(gone.status == 404, "an ended session still answers", gone)


# Beneath what an HTTP library sends: each must be answered with a status below 500, not with silence.
RAW = [
    b"", b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n", b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
    b"Content-Length: 9\r\n\r\nabc", b"Content-Length: -1\r\n\r\n", b"Content-Length: 99999999999999999999\r\n\r\n",
    b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"X: " + b"y" * 500_000 + b"\r\n\r\n", b"X\0: y\r\n\r\n", b"X : y\r\n\r\n",
    b"X: \0\r\n\r\n", b"Y: 1\r\n" * 500 + b"\r\n", b"Host: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n", b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n",
]  # fmt: skip


def prove_raw(tail):
    REQUESTS[0] += 1
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
    head += "Accept: application/json, text/event-stream\r\n"
    with socket.create_connection((urlsplit(URL).hostname, urlsplit(URL).port), PATIENCE) as connection:
        try:
            connection.sendall(head.encode() + tail)
            # The client has said all it will ever say.
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65_536)
        except OSError as error:
            answer = repr(error).encode()
    # A head that never ends is no request, so there may be silence.
    whole = b"\r\n\r\n" in tail and not tail.startswith((b"Content-Length: 9", b"Expect", b"Transfer-Encoding: chunked\r\n\r\n5"))
    need(re.match(rb"HTTP/1.1 [1-4]", answer) or (not whole and answer == b""), "raw bytes without a good answer", tail, answer)
    status = answer[9:12]
    need(status != b"413", "a broken body is called too long", tail, answer)


def entry():
    drawn = st.booleans().flatmap(
        lambda is_modern: st.tuples(st.just(is_modern), bodies(is_modern), st.just({}) | BAD_HEADERS, st.booleans())
    )
    check("entry: bodies and headers", drawn, prove_body, 40 * EXAMPLES)
    check("entry: GET and DELETE", st.tuples(st.sampled_from(["GET", "DELETE", "PUT", "OPTIONS", "HEAD"]), BAD_HEADERS), prove_other, 4 * EXAMPLES)  # fmt: skip
    messages = st.tuples(st.sampled_from(METHODS), PARAMS, st.integers(0, 2))
    versions = st.sampled_from(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "x"])
    check("entry: dialogues", st.tuples(versions, st.booleans(), st.lists(messages, max_size=4)), prove_dialogue, 2 * EXAMPLES)
    for number, tail in enumerate(RAW):
        check(f"entry: raw {number}", st.just(tail), prove_raw, 1)


def prove_other(drawn):
    method, headers = drawn
    session = open_session()
    send(b"", session | headers, method, first_is_enough=method == "GET")
    send(b"", session, "DELETE")


# ---- Part 2: tools ---------------------------------------------------------------------------------------------------------

SPACE = r"\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
FORMATS = FormatChecker(formats=())


@FORMATS.checks("date-time")
def is_instant(text):
    """RFC 3339; the checkers of libraries take more than that, or need a package to check at all."""
    pattern = r"(\d{4}-\d\d-\d\d)[Tt](\d\d):(\d\d):(\d\d)(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)"
    found = re.fullmatch(pattern, text, re.ASCII) if isinstance(text, str) else None
    if not isinstance(text, str):
        return True
    try:
        # The calendar of the library begins with year 1, and has no leap seconds.
        datetime.date.fromisoformat(found[1].replace("0000-", "2000-"))
        return int(found[2]) < 24 and int(found[3]) < 60 and (int(found[4]) < 60 or is_leap_second(found))
    except (TypeError, ValueError):
        return False


def is_leap_second(found):
    offset = 0 if found[6] in "Zz" else int(found[6][0] + "1") * (int(found[6][1:3]) * 60 + int(found[6][4:6]))
    return int(found[4]) == 60 and (int(found[2]) * 60 + int(found[3]) - offset) % 1440 == 1439


@FORMATS.checks("uuid")
def is_uuid(text):
    return not isinstance(text, str) or re.fullmatch(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", text) is not None


def for_python(schema):
    """The schema with patterns that mean in Python what they mean in ECMAScript."""
    if isinstance(schema, dict):
        changed = {name: for_python(member) for name, member in schema.items()}
        if isinstance(schema.get("pattern"), str):
            text = re.sub(r"\$$", r"\\Z", schema["pattern"])
            changed["pattern"] = text.replace(r"\S", f"[^{SPACE}]").replace(r"\s", SPACE)
        return changed
    return [for_python(member) for member in schema] if isinstance(schema, list) else schema


def pointers(error):
    """Where a violation is to be named: a missing or unexpected member by the pointer it has or would have."""
    place = list(error.absolute_path)
    names = [None]
    if error.validator == "required":
        names = [name for name in error.validator_value if name not in error.instance]
    elif error.validator == "additionalProperties":
        names = [name for name in error.instance if name not in error.schema["properties"]]
    for name in names:
        parts = [str(part) for part in place] + ([] if name is None else [name])
        yield "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def values_in(answer, into):
    """Notes what the network holds, by member: reads of things that exist go deeper than reads of random numbers."""
    for name, member in answer.items() if isinstance(answer, dict) else enumerate(answer):
        if isinstance(member, (dict, list)):
            values_in(member, into)
        elif isinstance(member, str) and member:
            into.setdefault(name, set()).add(member)


class Tool:
    def __init__(self, listed):
        self.name, self.schema, self.output = listed["name"], listed["inputSchema"], listed["outputSchema"]
        self.is_ledger = self.name.startswith("svc.ledger.")
        schema = for_python(self.schema)
        self.input_validator = Draft202012Validator(schema, format_checker=FORMATS)
        self.output_validator = Draft202012Validator(for_python(self.output), format_checker=FORMATS)
        definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
        members = {name: self.values(name, member | definitions) for name, member in schema["properties"].items()}
        required, optional = set(schema.get("required", [])), {}
        if self.is_ledger:
            required.add("dry_run")
        optional = sorted(set(members) - required)
        some = st.lists(st.sampled_from(optional), unique=True, max_size=6) if optional else st.just([])
        self.arguments = some.flatmap(
            lambda names: st.fixed_dictionaries({name: members[name] for name in sorted(required) + sorted(names)})
        )

    def values(self, name, schema):
        if name == "min_height":
            # With a height that is far away the call waits for it, as documented.
            return st.integers(1, HEIGHT)
        if name == "dry_run":
            return st.just(True)
        known = list(schema.get("examples", []))
        if name == "id" or name.endswith("_id"):
            known += range(1, 19)
        if name in ("height", "at_block_height", "after_block_height"):
            known += [1, HEIGHT // 2, HEIGHT]
        known += KNOWN.get(name, []) + (ADDRESSES if name in ("address", "grantee", "granter", "operator", "vs_operator") else [])
        known = [one for one in known if Draft202012Validator(schema).is_valid(one)]
        return st.sampled_from(known) | from_schema(schema) if known else from_schema(schema)


@st.composite
def mutated(draw, tool):
    arguments = copy.deepcopy(draw(tool.arguments))
    for _ in range(draw(st.integers(1, 3))):
        # One of the objects and lists in the arguments, the arguments themselves included.
        holders = [arguments]
        for holder in holders:
            holders += [one for one in (holder.values() if isinstance(holder, dict) else holder) if isinstance(one, (dict, list))]
        holder = draw(st.sampled_from(holders[:20]))
        keys = sorted(holder) if isinstance(holder, dict) else list(range(len(holder)))
        how = draw(st.sampled_from(["remove", "add", "replace", "replace", "respell", "long"]))
        key = draw(st.sampled_from(keys)) if keys else None
        if how == "add" or key is None:
            name = draw(st.text(max_size=5) | st.sampled_from(["a/b", "c~d", "~1", "", "corporation", "operator", "signer", "constructor", *tool.schema["properties"]]))  # fmt: skip
            holder.append(draw(JSON)) if isinstance(holder, list) else holder.__setitem__(name, draw(JSON))
        elif how == "remove":
            del holder[key]
        elif how == "respell":
            numbers = [one for one in keys if type(holder[one]) is int and abs(holder[one]) < 2**53]
            for one in numbers:
                holder[one] = float(holder[one])
        else:
            holder[key] = draw(st.sampled_from(["x" * 70_000, "é" * 5_000, "9" * 2_000])) if how == "long" else draw(JSON)
    return arguments


def called(tool, arguments, session=None):
    answer = rpc("tools/call", {"name": tool.name, "arguments": arguments}, session)
    result = (answer.message or {}).get("result")
    asked = f"{tool.name} {json.dumps(arguments)}"
    need(answer.status == 200 and isinstance(result, dict), "a call without a result", asked, answer)
    content = result.get("structuredContent")
    texts = [block["text"] for block in result["content"] if block["type"] == "text"]
    need(any(text[:1] in "{[" and json.loads(text) == content for text in texts), "the text is not the content", asked, answer)
    if not result.get("isError"):
        wrong = [f"/{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in tool.output_validator.iter_errors(content)]
        need(not wrong, "a success that its output schema does not allow", asked, str(wrong), answer)
        return None, content, asked
    is_envelope = set(content) == {"stage", "code", "message", "details", "retryable", "hint"}
    need(is_envelope and STAGE_OF.get(content["code"]) == content["stage"], "not the envelope of an error", asked, answer)
    types = [type(content[name]) for name in ("message", "details", "retryable", "hint")]
    need(types == [str, dict, bool, str] and content["message"] and content["hint"], "not the envelope of an error", asked, answer)
    return content["code"], content, asked


def plain(value):
    """The same value with whole numbers written as such."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [plain(member) for member in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def prove_call(tool, arguments, session=None):
    wrong = list(tool.input_validator.iter_errors(arguments))
    if tool.is_ledger and not wrong:
        # A mutation must not make it a write.
        arguments = arguments | {"dry_run": True}
    code, content, asked = called(tool, arguments, session)
    if wrong:
        need(code == "INPUT_INVALID", "invalid arguments were taken", asked, [error.message for error in wrong], content)
        named = {violation["pointer"] for violation in content["details"]["violations"]}
        expected = {pointer for error in wrong for pointer in pointers(error)}
        need(named == expected, "violations are not those of the schema", asked, f"named {named}, expected {expected}", content)
        return
    if any(isinstance(one, (int, float)) and abs(one) > U64 for one in arguments.values()):
        need(code is not None, "a number that cannot be was taken", asked, content)
        need(code == "INPUT_INVALID" or not tool.is_ledger, "a number that cannot be reached the chain", asked, content)
    if code:
        allowed = DRY_RUN_FAILURES if tool.is_ledger else READ_FAILURES
        need(code in allowed, f"valid arguments fail with {code}", asked, content)
        details = content["details"]
        need(400 <= details.get("status", 400) < 500, "a status of 500 or more from upstream", asked, content)
        need((details.get("codespace"), details.get("code")) not in CHAIN_FAULTS, "a fault of the chain", asked, content)
        whole = all(set(one) == {"pointer", "reason"} and one["reason"] for one in details.get("violations", [{}]))
        need(code != "INPUT_INVALID" or whole, "violations without a reason", asked, content)
    elif tool.is_ledger:
        shown = content["message"]
        for name, value in arguments.items():
            if isinstance(value, str) and name in shown and "enum" not in tool.schema["properties"][name]:
                is_same = shown[name] == value or (value.isdigit() and shown[name] == str(int(value)))
                is_same |= isinstance(shown[name], (dict, list)) or tool.schema["properties"][name].get("format") == "date-time"
                need(is_same or name.endswith("period"), "another message than was asked for", asked, name, content)
    if plain(arguments) != arguments or repr(plain(arguments)) != repr(arguments):
        # JSON Schema: 1.0 is the integer 1.
        other, instead, _ = called(tool, plain(arguments), session)
        is_pinned = {"at_block_height", "height"} & set(arguments) or "message" in content
        one, two = (found.get("message", found) if is_pinned else None for found in (content, instead))
        need((code, one) == (other, two) or (code and code == other), "1.0 is not 1", asked, content, instead)


def tools():
    for tool in TOOLS:
        check(f"{tool.name}: valid", tool.arguments, lambda arguments, tool=tool: prove_call(tool, arguments), EXAMPLES)
        mutations = st.tuples(mutated(tool), st.booleans())
        run = lambda drawn, tool=tool: prove_call(tool, drawn[0], SESSION if drawn[1] else None)  # noqa: E731
        check(f"{tool.name}: mutated", mutations, run, EXAMPLES)
    check("tools: nothing was written", st.just(None), lambda _: prove_unwritten(), 1)
    check("tools: real writes", st.just(None), lambda _: prove_writes(), 1)


def sequence():
    contents = rpc("resources/read", {"uri": "svc://own/operator"}).message["result"]["contents"]
    return json.loads(contents[0]["text"])["sequence"]


def prove_unwritten():
    need(sequence() == SEQUENCE, "dry runs or refused calls used the sequence", f"{SEQUENCE} before, {sequence()} now")


def prove_writes():
    """The same path with a real end, on names that no run has used."""
    now = time.time_ns()
    by_name = {tool.name: tool for tool in TOOLS}
    made = {"did": f"did:web:f{now}.example", "language": "en", "doc_url": "https://f.example", "doc_digest_sri": "sha384-AAEC"}
    code, content, asked = called(by_name["svc.ledger.es.createEcosystem"], made)
    need(code is None and content["code"] == 0 and content["indexer_synced"], "a write failed", asked, content)
    number = content["response"]["ecosystem_id"]
    for name, arguments in [
        ("svc.ledger.es.updateEcosystem", {"id": number, "did": f"did:web:g{now}.example"}),
        ("svc.ledger.di.storeDigest", {"digest": f"sha256-{now}AAA="}),
        ("svc.ledger.es.archiveEcosystem", {"id": str(number), "archive": True}),
    ]:
        code, content, asked = called(by_name[name], arguments)
        need(code is None and content["code"] == 0, "a write failed", asked, content)
    need(sequence() == SEQUENCE + 4, "four writes did not use four sequences", str(sequence()))


# ---- Part 3: the rest of the protocol --------------------------------------------------------------------------------------


def prove_method(drawn):
    method, params, in_session = drawn
    answer = rpc(method, params, SESSION if in_session else None)
    is_answer = answer.message is not None and answer.status in (200, 400, 404)
    need(is_answer, "neither a result nor an error", f"{method} {json.dumps(params)}", answer)


def others():
    prompts = {prompt["name"]: [one["name"] for one in prompt.get("arguments", [])] for prompt in listed("prompts/list", "prompts")}
    uris = [resource["uri"] for resource in listed("resources/list", "resources")]
    names = st.sampled_from(sorted(prompts) + [tool.name for tool in TOOLS[:40]])
    values = st.text(max_size=30) | st.sampled_from([*TEXTS, "x" * 9_000, "{% for i in range(999999999) %}{% endfor %}"]) | JSON
    keys = st.sampled_from(sorted({name for known in prompts.values() for name in known})) | st.text(max_size=5)
    uri = st.sampled_from(uris) | st.sampled_from(uris).flatmap(lambda one: st.text(max_size=4).map(lambda tail: one + tail)) | values
    prompt = st.sampled_from(sorted(prompts)).flatmap(
        lambda name: st.tuples(st.just(name), st.fixed_dictionaries({key: values for key in prompts[name]}) | st.dictionaries(keys, values, max_size=3))
    )  # fmt: skip
    reference = st.fixed_dictionaries({"type": st.sampled_from(["ref/prompt", "ref/resource", "x"])}, optional={"name": names | values, "uri": uri})
    methods = {
        "prompts/get": prompt.map(lambda drawn: {"name": drawn[0], "arguments": drawn[1]}),
        "completion/complete": st.fixed_dictionaries(
            {"ref": reference, "argument": st.fixed_dictionaries({"name": keys | values, "value": values})},
            optional={"context": st.fixed_dictionaries({"arguments": st.dictionaries(keys, values, max_size=2)})},
        ),
        "resources/read": st.fixed_dictionaries({"uri": uri}),
        "resources/subscribe": st.fixed_dictionaries({"uri": uri}),
        "resources/unsubscribe": st.fixed_dictionaries({"uri": uri}),
        "logging/setLevel": st.fixed_dictionaries({"level": st.sampled_from(["debug", "info", "emergency", "DEBUG"]) | values}),
        "tools/list": st.fixed_dictionaries({"cursor": values}),
    }
    for method, params in methods.items():
        check(method, st.tuples(st.just(method), params, st.booleans()), prove_method, 4 * EXAMPLES)


ORIGIN = f"{urlsplit(URL).scheme}://{urlsplit(URL).netloc}"
RESTARTS, SESSION, SEQUENCE, KNOWN = restarts(), open_session(), sequence(), {}
LISTING = listed("tools/list", "tools")
for one in LISTING:
    if not one["inputSchema"].get("required") and not one["name"].startswith("svc.ledger."):
        result = rpc("tools/call", {"name": one["name"], "arguments": {}}).message["result"]
        values_in(result["structuredContent"], KNOWN)
        if one["name"] == "svc.idx.indexer.getBlockHeight":
            HEIGHT = next(value for value in result["structuredContent"].values() if type(value) is int)
KNOWN = {name: sorted(values)[:12] for name, values in KNOWN.items()}
ADDRESSES = sorted({value for values in KNOWN.values() for value in values if re.fullmatch(r"[a-z]+1[02-9ac-hj-np-z]{38,58}", value)})
TOOLS = [Tool(one) for one in LISTING]
print(f"fuzz: {len(TOOLS)} tools, seed {SEED}, {EXAMPLES} examples a tool, height {HEIGHT}", flush=True)
part("entry", entry)
part("tools", tools)
part("others", others)
sys.exit(f"{len(FINDINGS)} properties violated" if FINDINGS else 0)
