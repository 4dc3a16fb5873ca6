#!/usr/bin/env python3
"""Refuses settings without a row. Run from the root of the repository.

    python3 tests/house/settings.py [--self-test]

The rows are in src/settings. In the product code of every crate, without `tests.rs`, `tests/` and all that is under `#[cfg(test)]`:

- nothing reads the environment but the files of OTHER_READS;
- a text that names a setting names one of the rows;
- a text of a crate below actors names no setting: an actor says the thing, and the front end adds the name. NAMED_BELOW has the exceptions.

Each exception has its reason, and one that is not needed any more is refused. Limits: a name is found by its beginning, so that a
setting with a new beginning needs a row of BEGINNINGS.
"""

import re
import sys
import unittest
from pathlib import Path

from import_circles import FOR_TESTS, end_of_item

ROWS = Path("src/settings")
FOLDERS = ["src", "actors", "peer", "didcomm", "trust", "wire", "otel", "devnet"]
BEGINNINGS = "SVC|MCP|WS|AGENT|ADMIN_API|PUBLIC_API|DIDCOMM|FLOW|EVENTS_WEBHOOK|ENDPOINT|TRUSTED_ECS|ECS_CLAIMS"
NAME = re.compile(rf"(?<!\{{)\b(?:{BEGINNINGS})_[A-Z0-9_]*[A-Z0-9]|(?<!\{{)\b(?:PUBLISHED_PROOFS|ANCHOR_DIGESTS)\b")
READ = re.compile(r"\benv::vars?(?:_os)?\b|\bvar_os\(|\boption_env!")
ROW = re.compile(r"^ {4}([A-Z][A-Z0-9_]+) = row\(", re.MULTILINE)
FAMILY = re.compile(r'\.family\("([A-Z0-9_]+)\*"\)')
# Comments, which are blanked, and texts.
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/) | (?P<text>r(?P<hashes>\#*)".*?"(?P=hashes) | "(?:\\.|[^"\\])*")
    | '(?:\\u\{[^}]*\}|\\x..|\\.|[^\\'])'""",
    re.VERBOSE | re.DOTALL,
)
# Reads of the environment beside the reader of the rows.
OTHER_READS = {
    "src/config/environment.rs": "the reader of the rows",
    "src/secrets.rs": "the rows that are secret, and the pipe that the program passes to itself",
    "otel/src/exporters.rs": "standard variables of OpenTelemetry, which its library reads too",
    "actors/store/src/lock.rs": "HOSTNAME, the name of the machine in the file of the lock",
}
# Names in texts that look like settings and are none.
NO_SETTINGS = {
    "SVC_SECRETS_FD": "set by the program itself",
    "AGENT_ANSWER": "a code of an error",
    "AGENT_UNREACHABLE": "a code of an error",
    "ENDPOINT_UNAVAILABLE": "a code of an error",
    "ENDPOINT_REFUSED": "a code of an error",
    "ENDPOINT_UNREACHABLE": "a code of an error",
    "ADMIN_API_ENTRY": "a code of an error",
    "DIDCOMM_ENTRY": "a code of an error",
}
# Files of actors whose texts still name settings, and the reason for which the name is hard to move. The list only shrinks.
NAMED_BELOW = {
    "actors/agent/flows/src/flows/steps/issue.rs": "a reason in records and answers of the agent",
    "actors/agent/flows/src/flows/steps/open.rs": "a reason in records and answers of the agent",
    "actors/agent/flows/src/flows/steps/silence.rs": "a reason in records and answers of the agent",
    "actors/agent/identity/src/credential_settings/claims.rs": "the variables of claims are named by their property",
    "actors/agent/identity/src/credentials/import.rs": "a reason in records and answers of the agent",
    "actors/agent/identity/src/registry/missing_schema.rs": "a reason in records and answers of the agent",
    "actors/agent/identity/src/rotation/mod.rs": "a reason in records and answers of the agent",
    "actors/agent/peers/src/access_granter/actor.rs": "a reason in records and answers of the agent",
    "actors/agent/peers/src/access_granter/mod.rs": "a reason in records and answers of the agent",
    "actors/agent/peers/src/delivery/mod.rs": "a reason in records and answers of the agent",
    "actors/agent/peers/src/gate/mod.rs": "a reason in records and answers of the agent",
    "actors/agent/src/boot/error.rs": "a reason in records and answers of the agent",
    "actors/agent/store/src/error.rs": "an error of the store that its command prints",
    "actors/agent/store/src/portable/error.rs": "an error of the store that its command prints",
    "actors/agent/store/src/sealing.rs": "an error of the store that its command prints",
    "actors/indexer/src/ingest/horizon.rs": "the text reaches health, logs and commands through three errors",
    "actors/net/src/host_policy.rs": "the policy is a copied word in five crates, and its refusal is a reason of verdicts",
    "actors/operator/src/agent_session/admin_client.rs": "a reason within the text of a failed login",
}


def product_code(text):
    """Rust code with its comments and its items for tests blanked; texts stay."""
    text = TOKEN.sub(lambda found: " " if found["comment"] else found[0], text)
    # Items for tests are found in code whose texts are blanked, at the same places.
    bare = TOKEN.sub(lambda found: '"' + " " * (len(found[0]) - 2) + '"' if found["text"] else found[0], text)
    kept, at = [], 0
    while found := FOR_TESTS.search(bare, at):
        if found["whole"]:
            return ""
        kept.append(text[at : found.start()])
        at = end_of_item(bare, found.end())
    return "".join(kept) + text[at:]


def names(code):
    """The names of settings in the texts of some code."""
    return [name for text in TOKEN.finditer(code) if text["text"] for name in NAME.findall(text[0])]


def files():
    for folder in FOLDERS:
        for path in sorted(Path(folder).rglob("*.rs")):
            if not {"tests", "target", "benches"} & {*path.parts} and path.name not in ("tests.rs", "build.rs"):
                yield str(path), product_code(path.read_text())


def rows():
    text = "".join(path.read_text() for path in sorted(ROWS.glob("*.rs")))
    return {*ROW.findall(text), *(family.rstrip("_") for family in FAMILY.findall(text))}


def problems(sources, known):
    found, used = [], set()
    for file, code in sources:
        if READ.search(code):
            used.add(file)
            if file not in OTHER_READS:
                found.append(f"{file} reads the environment: add a row in {ROWS}, and read it in src/config")
        for name in names(code):
            used.add(name)
            if name.rstrip("_") not in known and name not in NO_SETTINGS:
                found.append(f"{file} names {name}, which has no row in {ROWS}")
            elif name in known and file.startswith("actors/"):
                used.add(file)
                if file not in NAMED_BELOW:
                    found.append(f"{file} names the setting {name}: the front end knows it, an actor does not")
    for name in [*OTHER_READS, *NO_SETTINGS, *NAMED_BELOW]:
        if name not in used:
            found.append(f"{name} is no exception any more: remove it from tests/house/settings.py")
    return found


class SettingsTest(unittest.TestCase):
    def found(self, file, code, known=("SVC_RPC", "ECS_CLAIMS")):
        return [one for one in problems([(file, product_code(code))], set(known)) if "no exception" not in one]

    def test_reads_outside_the_reader_are_found(self):
        for code in ('std::env::var("X")', "env::var_os(name)", "use std::env::vars;", 'option_env!("X")'):
            self.assertTrue(self.found("src/a.rs", code), code)
            self.assertEqual(self.found("src/config/environment.rs", code), [])
        self.assertEqual(self.found("src/a.rs", '// env::var("X")\n#[cfg(test)]\nmod tests { env::var("X") }'), [])

    def test_names_in_texts_need_a_row(self):
        self.assertTrue(self.found("src/a.rs", 'let a = "set SVC_NEW=1";'))
        self.assertEqual(self.found("src/a.rs", '"SVC_RPC, ECS_CLAIMS_ {SVC_CONST}" SVC_NEW // "SVC_OTHER"'), [])
        self.assertTrue(self.found("src/a.rs", "let quote = '\"'; let a = \"SVC_NEW\";"))

    def test_actors_name_no_setting(self):
        self.assertTrue(self.found("actors/a.rs", '"SVC_RPC"'))
        self.assertEqual(self.found("actors/a.rs", '#[cfg(test)]\nmod tests { "SVC_RPC" }'), [])

    def test_an_exception_that_is_not_needed_is_refused(self):
        self.assertTrue(any("no exception" in one for one in problems([], set())))


def main():
    if "--self-test" in sys.argv[1:]:
        unittest.main(argv=sys.argv[:1])
    found = problems(files(), rows())
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
