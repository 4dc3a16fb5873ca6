#!/usr/bin/env python3
"""Checks what pages refer to. Run from the root of the repository.

    python3 tests/house/pages.py [--self-test]

In README.md, CONTRIBUTING.md, CHANGELOG.md, SECURITY.md and all of docs:

- a link to a file or to a heading leads somewhere;
- a path in backticks that begins with a folder of the project exists;
- `make NAME` is a target of the Makefile;
- a setting in capitals stands in the code that reads it.

Pages (not the decisions) begin with a title and a paragraph that says for whom they are, have at most 400 lines, and stand in docs/README.md. Commands of `svc`
are checked by `src/cli/pages.rs`, and executed by the part "pages" of tests/interop.
"""

import pathlib
import re
import sys
import tempfile
import unittest

LONGEST = 400
FRONT = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^(`{3,}).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
SETTING = re.compile(r"\b(?:SVC|MCP|AGENT|ADMIN_API|PUBLIC_API|DIDCOMM|FLOW|EVENTS_WEBHOOK|ENDPOINT_ACCESS|TRUSTED_ECS|ECS_CLAIMS)_[A-Z0-9_]*[A-Z0-9]\b(?![_*…-])")
# Settings of tests and benches, of other agents, and the claims of a schema, which follow from its properties.
NOT_READ = re.compile(r"ECS_CLAIMS_.*|SVC_TEST_.*|SVC_RECORD")
CODE_FOLDERS = ["src", "actors", "peer", "devnet", "otel", "benches", "didcomm", "trust", "wire"]


def slug(heading):
    """The anchor that code hosts give to a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def without_code(text):
    """The page with its fenced blocks blanked; lines stay where they are."""
    return FENCE.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)


def anchors(path):
    return {slug(line.lstrip("#").strip()) for line in without_code(path.read_text()).split("\n") if re.match(r"#{1,6} ", line)}


def line_of(text, at):
    return text.count("\n", 0, at) + 1


class Project:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.folders = {entry.name for entry in self.root.iterdir() if entry.is_dir()}
        self.targets = set(re.findall(r"^([a-z][a-z-]*):", (self.root / "Makefile").read_text(), re.MULTILINE))
        sources = [path for folder in CODE_FOLDERS for path in (self.root / folder).rglob("*.rs")]
        self.code = "\n".join(path.read_text() for path in sources)

    def pages(self):
        found = [self.root / name for name in FRONT] + sorted((self.root / "docs").rglob("*.md"))
        return [page for page in found if page.exists()]

    def problems(self):
        found = []
        for page in self.pages():
            name = page.relative_to(self.root)
            text = page.read_text()
            for at, problem in [*self.references(page, text), *self.form(page, text)]:
                found.append(f"{name}:{line_of(text, at)}: {problem}")
        return found

    def references(self, page, text):
        prose = without_code(text)
        for link in LINK.finditer(prose):
            target, _, anchor = link[1].partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            path = (page.parent / target).resolve() if target else page
            if not path.exists():
                yield link.start(), f"{target} does not exist"
            elif anchor and (path.suffix != ".md" or anchor not in anchors(path)):
                yield link.start(), f"{link[1]} has no such heading"
        for code in CODE.finditer(prose):
            path = code[1]
            if re.fullmatch(r"[\w.-]+(/[\w.-]+)+/?", path) and path.split("/")[0] in self.folders - {"target"} and not (self.root / path).exists():
                # Some pages name files below the folder that they describe.
                yield code.start(), f"{path} does not exist"
        for command in MAKE.finditer("\n".join(CODE.findall(prose)) + "\n" + "\n".join(block[0] for block in FENCE.finditer(text))):
            if command[1] not in self.targets:
                yield text.find(command[0]), f"the Makefile has no target {command[1]}"
        for setting in SETTING.finditer(text):
            if setting[0] not in self.code and not NOT_READ.fullmatch(setting[0]):
                yield setting.start(), f"no code reads {setting[0]}"

    def form(self, page, text):
        if page.parent != self.root / "docs":
            return
        lines = text.rstrip("\n").split("\n")
        if len(lines) > LONGEST:
            yield 0, f"{len(lines)} lines; the longest page may have {LONGEST}"
        if page.name == "README.md":
            return
        if not (lines[0].startswith("# ") and len(lines) > 2 and re.match(r"For .*: ", lines[2])):
            yield 0, 'a page begins with its title and a paragraph "For …: …"'
        if f"({page.name})" not in (page.parent / "README.md").read_text():
            yield 0, "docs/README.md does not list it"


class PagesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("src", "docs"):
            (self.root / name).mkdir()
        (self.root / "Makefile").write_text("demo: ## Show\n\ttrue\n")
        (self.root / "src" / "main.rs").write_text('read("SVC_RPC")')
        (self.root / "docs" / "README.md").write_text("# Pages\n\n[a](a.md)\n")
        (self.root / "docs" / "a.md").write_text("# A\n\nFor readers: read.\n\n## A part, of it\n")

    def problems(self, text):
        (self.root / "README.md").write_text(text)
        return Project(self.root).problems()

    def test_right_references_pass(self):
        text = "[a](docs/a.md#a-part-of-it) `src/main.rs` `make demo` SVC_RPC [web](https://a.example/x#y)\n```sh\nmake demo\n```\n"
        self.assertEqual(self.problems(text), [])

    def test_each_wrong_reference_is_named(self):
        for text, problem in [
            ("[a](docs/b.md)", "docs/b.md does not exist"),
            ("[a](docs/a.md#none)", "docs/a.md#none has no such heading"),
            ("`src/none.rs`", "src/none.rs does not exist"),
            ("`make nothing`", "the Makefile has no target nothing"),
            ("```sh\nmake nothing\n```", "the Makefile has no target nothing"),
            ("SVC_NONE", "no code reads SVC_NONE"),
        ]:
            with self.subTest(text=text):
                self.assertEqual(self.problems(text), [f"README.md:{1 + text.startswith('`' * 3)}: {problem}"])

    def test_the_form_of_pages_is_checked(self):
        (self.root / "docs" / "b.md").write_text("# B\n\nLong.\n" + "\n" * LONGEST + "end\n")
        self.assertEqual(len(self.problems("")), 3)


def main():
    if "--self-test" in sys.argv:
        unittest.main(argv=sys.argv[:1])
    problems = Project(".").problems()
    print("\n".join(problems), file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
