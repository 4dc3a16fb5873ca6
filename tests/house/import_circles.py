#!/usr/bin/env python3
"""Refuses circles of imports between the files of a crate. Run from the root of the repository.

    python3 tests/house/import_circles.py [--list] [--max N] [--crate NAME] [--self-test]

The rule. File A imports file B if a `use` or a path in A, followed through every re-export, ends at an item that B
defines (struct, enum, union, trait, type, fn, const, static, macro). A `pub use` counts like any other `use`. A path to a
module does not count, only the paths that go through it; `mod x;`, a method call and a field do not count. An import circle
is a strongly connected component of the files of one crate: each of them reaches each other one. A circle of more than four
files is refused.

The product code of every crate of the workspace is read: the module trees of its library and its binaries, without
`tests.rs`, `tests/` and all that is under `#[cfg(test)]`. Code under any other `cfg` counts.

Limits.
- Macros are not expanded. A name that a module of ours lacks is taken to come from a macro in the file of that module; in
  a module with `include!` it comes from outside. The body of a macro is read where the macro is defined.
- A glob gives a name only where nothing else gives it. Visibility and the variants of an enum are not looked at.
- The name of both a module and a function is imported as both, as the compiler does it.
- Strings are not read, except an attribute's argument that is a path (`with = "super::hex"`).
- A path stands in one piece, as rustfmt writes it: no space around `::`.
"""

import argparse
import re
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import NamedTuple

BLOCK_COMMENT = r"/\*(?:(?!/\*|\*/).)*\*/"
for _ in range(3):  # They nest.
    BLOCK_COMMENT = rf"/\*(?:{BLOCK_COMMENT}|(?!/\*|\*/).)*\*/"
# Text that is no code, with two groups that are kept. Each alternative starts with a literal character, for speed.
NO_CODE = re.compile(
    rf"""//[^\n]* | {BLOCK_COMMENT}
    | \#\[path(?P<kept>\s*=\s*"[^"]*"\])
    | =\s*"(?P<path>(?:crate|self|super)(?:::\w+)+)"(?=\s*[,)\]])
    | r(?P<hashes>\#*)".*?"(?P=hashes) | "(?:\\.|[^"\\])*"
    | '(?:\\u\{{[^}}]*\}}|\\x..|\\.|[^\\'])' | '\w+
    | \$(?=crate\b)""",
    re.VERBOSE | re.DOTALL,
)
FOR_TESTS = re.compile(r"#(?P<whole>!?)\[cfg\((?:test|all\((?:[^\]()]*,\s*)?test\b[^\]]*\))\)\]")
ITEM_START = re.compile(
    r"\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?(?P<word>\w*)(?P<function>\s+(?:unsafe\s+|async\s+)*fn\b)?"
)
BOUNDARY = re.compile(r"[(\[{}\]);,]")
GOES_ON = re.compile(r"\s*(?:[.,;?)]|else\b)")
NEEDS_SEMICOLON = {"use", "static", "type", "let", "const"}
KEYWORDS = NEEDS_SEMICOLON | {"fn", "struct", "enum", "union", "trait", "impl", "mod", "unsafe", "async", "extern"}
TYPE_KEYWORDS = {"struct", "enum", "union", "trait", "type"}
# The places at which the reading of a file stops; the last group that matches names the kind.
EVENT = r"""(?P<open>\{) | (?P<close>\})
    | =\s*"(?P<file>[^"]*)"\] | \#\[(?P<export>macro_export)\]
    | \b(?=\w)(?<![\#$])(?:
        (?<![.*<])(?:
            use\s+(?P<tree>[^;]+);
            | mod\s+(?P<module>(?:r\#)?\w+)\s*(?P<body>[;{])
            | macro_rules!\s*(?P<macro>\w+)
            | (?P<impl>(?:unsafe\s+)?impl\b)
            | (?P<keyword>struct|enum|union|trait|type|fn|const|static(?:\s+mut)?)\s+
              (?!(?:fn|unsafe|async|extern|_)\b)(?P<item>\w+))
        | (?<!::)(?<![^.]\.)(?:(?P<path>\w++(?:::\w++)+) | (?P<call>\w++)!(?=\s*(?P<brace>[(\[{]))BARE))"""
EVENTS = re.compile(EVENT.replace("BARE", ""), re.VERBOSE)
EVENTS_WITH_BARE_NAMES = re.compile(EVENT.replace("BARE", r" | (?P<bare>[A-Z]\w*+ | \w++(?=\())"), re.VERBOSE)
GLOB = re.compile(r"::\*|[{,]\s*\*\s*[,}]")


class Definition(NamedTuple):
    """An item, and the file that defines it."""

    space: str
    name: str
    file: str


@dataclass(eq=False)
class Scope:
    """A module or a block: its names, each a definition, a module or an alias, and the globs it imports."""

    parent: "Scope | None" = None
    module: "Module | None" = None
    names: dict = field(default_factory=lambda: defaultdict(list))
    globs: list = field(default_factory=list)


@dataclass(eq=False)
class Alias:
    """An imported name: a path, and the scope it starts from."""

    scope: Scope
    path: tuple


@dataclass(eq=False)
class Module(Scope):
    """A module, in a file of its own or inline. `folder` holds the files of its children."""

    file: str = ""
    folder: str = ""
    above: "Module | None" = None
    has_include: bool = False

    def __post_init__(self):
        self.module = self
        self.root = self.above.root if self.above else self


def code(text):
    """Rust code without comments, strings, characters, lifetimes and items that are only for tests."""
    text = NO_CODE.sub(lambda found: found["kept"] or found["path"] or " ", text)
    kept, at = [], 0
    while found := FOR_TESTS.search(text, at):
        if found["whole"]:
            return ""
        kept.append(text[at : found.start()])
        at = end_of_item(text, found.end())
    return "".join(kept) + text[at:]


def end_of_item(text, start):
    """Where the item, field, arm or statement ends that begins at `start`."""
    head = ITEM_START.match(text, start)
    needs_semicolon = head["word"] in NEEDS_SEMICOLON and not head["function"]
    depth = 0
    for mark in BOUNDARY.finditer(text, head.end("word")):
        if mark[0] in "([{":
            depth += 1
        elif mark[0] in ")]}":
            depth -= 1
            if depth < 0:
                return mark.start()
            if mark[0] == "}" and depth == 0 and not needs_semicolon and not GOES_ON.match(text, mark.end()):
                return mark.end()
        elif depth == 0 and (mark[0] == ";" or head["word"] not in KEYWORDS):
            return mark.end()
    return len(text)


class Crate:
    """The imports of a crate, from its files by their paths and the roots of its module trees, the library first."""

    def __init__(self, sources, roots, name):
        self.sources, self.name = sources, name
        self.files = set()
        self.paths = []  # (scope, path) of every `use` and of every path with a `::`.
        self.bare_names = set()  # (scope, path) of names that a glob may bring in.
        self.macro_calls = set()  # (module, name)
        self.resolved = {}
        self.roots = [Module(file=root, folder=dirname(root)) for root in roots]
        for root in self.roots:
            self.read_file(root)

    def read_file(self, module):
        """Reads names and paths of a module and of the modules below it."""
        self.files.add(module.file)
        text = code(self.sources[module.file])
        # For each open brace its scope and its style: the items of an "impl" are no names of a scope, and every brace
        # within a "macro" shares the scope around it.
        scopes = [(module, "")]
        style, is_exported, path = "", False, ""
        for event in (EVENTS_WITH_BARE_NAMES if GLOB.search(text) else EVENTS).finditer(text):
            scope, around = scopes[-1]
            kind = event.lastgroup
            if kind == "open":
                style = "macro" if around == "macro" else style
                scopes.append((scope if style in ("macro", "call") else Scope(scope, scope.module), style))
                style = ""
            elif kind == "close":
                scopes = scopes[:-1] or scopes
            elif kind == "path":
                self.paths.append((scope, tuple(event["path"].split("::"))))
            elif kind == "bare":
                self.bare_names.add((scope, (event["bare"],)))
            elif kind == "tree":
                self.read_use(scope, re.findall(r"[\w#]+|[{},*]|(?<!\w)::", event["tree"]))
            elif kind == "brace":
                style = "call" if event["brace"] == "{" else style
                scope.module.has_include |= event["call"] == "include"
                self.macro_calls.add((scope.module, event["call"]))
            elif kind == "item":
                if around != "impl":
                    space = "type" if event["keyword"] in TYPE_KEYWORDS else "value"
                    scope.names[event["item"]].append(Definition(space, event["item"], scope.module.file))
                style = "impl" if event["keyword"] == "trait" else style
            elif kind == "impl" and text[max(0, event.start() - 200) : event.start()].rstrip()[-1:] in ("", *"{};]"):
                style = "impl"
            elif kind == "macro":
                owner = scope.module.root if is_exported else scope
                owner.names[event["macro"]].append(Definition("macro", event["macro"], scope.module.file))
                style, is_exported = "macro", False
            elif kind == "body":
                child = self.read_module(scope, event["module"], event["body"] == "{", path)
                scopes += [(child, "")] if event["body"] == "{" else []
                path = ""
            elif kind == "file":
                path = event["file"]
            elif kind == "export":
                is_exported = True

    def read_module(self, scope, name, is_inline, path):
        """Reads the module of a `mod` declaration. One that is left out, as a file of tests is, has no names."""
        above = scope.module
        stem = join(above.folder, name.removeprefix("r#"))
        child = Module(above=above, file=above.file, folder=stem)
        scope.names[name].append(child)
        if not is_inline:
            candidates = [normpath(join(dirname(above.file), path))] if path else [stem + ".rs", join(stem, "mod.rs")]
            child.file = next((file for file in candidates if file in self.sources), "")
            child.folder = dirname(child.file) if path else stem
            if child.file:
                self.read_file(child)
        return child

    def read_use(self, scope, tokens, path=()):
        """Reads one tree of a `use` declaration off the tokens."""
        while tokens and tokens[0] not in ("{", "*", "as", ",", "}"):
            path += (tokens.pop(0),)
        token = tokens.pop(0) if tokens and tokens[0] in ("{", "*", "as") else ""
        if token == "{":
            while tokens and tokens[0] != "}":
                self.read_use(scope, tokens, path)
                del tokens[: tokens[:1] == [","]]
            del tokens[:1]
            return
        self.paths.append((scope, path))
        if token == "*":
            scope.globs.append(Alias(scope, path))
        else:
            name = tokens.pop(0) if token else path[-2] if path[-1] == "self" and len(path) > 1 else path[-1]
            scope.names[name].append(Alias(scope, path))

    def names_in(self, scope, name, busy):
        """The meanings of a name in a scope; the imports in `busy` are being followed already."""
        found = set()
        if entries := [entry for entry in scope.names.get(name, ()) if entry not in busy]:
            for entry in entries:
                is_alias = isinstance(entry, Alias)
                found |= self.resolve(entry.scope, entry.path, busy | {entry}) if is_alias else {entry}
            return found
        for glob in scope.globs:
            for target in () if glob in busy else self.resolve(glob.scope, glob.path, busy | {glob}):
                found |= self.names_in(target, name, busy | {glob}) if isinstance(target, Module) else set()
        return found

    def first_word(self, scope, name, busy):
        """The meanings of the first word of a path."""
        module = scope.module
        if name in ("crate", "self", "super"):
            return {{"crate": module.root, "self": module, "super": module.above}[name]} - {None}
        while scope:
            found = self.names_in(scope, name, busy)
            if found or any(entry not in busy for entry in scope.names.get(name, ())):
                return found
            scope = scope.parent
        return {self.roots[0]} if name == self.name and module.root is not self.roots[0] else set()

    def resolve(self, scope, path, busy=frozenset()):
        """The modules and definitions of this crate that a path means."""
        if not busy and (scope, path) in self.resolved:
            return self.resolved[scope, path]
        found = self.first_word(scope, path[0], busy)
        for name in path[1:]:
            targets, found = found, set()
            for target in targets:
                if isinstance(target, Definition):
                    found |= {target} if target.space == "type" else set()  # A variant, or an associated item.
                elif name in ("self", "super"):
                    found |= {target if name == "self" else target.above} - {None}
                elif name in target.names or target.globs or target.has_include:
                    found |= self.names_in(target, name, busy)
                else:
                    found.add(Definition("type", name, target.file))
        if not busy:
            self.resolved[scope, path] = found
        return found

    def imports(self):
        """The names that each file imports from each other file: {file: {file: {name}}}."""
        edges = {file: defaultdict(set) for file in self.files}
        for scope, path in [*self.paths, *self.bare_names]:
            for target in self.resolve(scope, path):
                if isinstance(target, Definition) and target.file not in (scope.module.file, ""):
                    edges[scope.module.file][target.file].add(target.name + "!" * (target.space == "macro"))
        for module, name in self.macro_calls:  # A macro without a path is known below the module that defines it.
            above = module.above
            while above:
                for entry in above.names.get(name, ()):
                    if isinstance(entry, Definition) and entry.space == "macro" and entry.file != module.file:
                        edges[module.file][entry.file].add(name + "!")
                above = above.above
        return edges


def components(edges):
    """The strongly connected components of a graph, the biggest first (Tarjan)."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for target in sorted(edges[node]):
            if target not in order:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == order[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(edges):
        if node not in order:
            visit(node)
    return sorted(found, key=lambda files: (-len(files), files))


def load(folder):
    """The crate in a folder."""
    manifest = tomllib.loads((folder / "Cargo.toml").read_text())
    files = (file.relative_to(folder) for file in sorted((folder / "src").rglob("*.rs")))
    files = [file.as_posix() for file in files if "tests" not in file.parts and file.name != "tests.rs"]
    library = manifest.get("lib", {})
    roots = [library.get("path", "src/lib.rs"), "src/main.rs"]
    roots += [binary["path"] for binary in manifest.get("bin", ()) if "path" in binary]
    roots += [file for file in files if re.fullmatch(r"src/bin/[^/]+(/main)?\.rs", file)]
    roots = [root for root in dict.fromkeys(roots) if root in files]
    name = library.get("name", manifest["package"]["name"]).replace("-", "_")
    return Crate({file: (folder / file).read_text() for file in files}, roots, name)


def workspace():
    """The folders of the workspace's crates."""
    manifest = tomllib.loads(Path("Cargo.toml").read_text())
    folders = [Path(".")] if "package" in manifest else []
    for member in manifest["workspace"]["members"]:
        folders += sorted(folder for folder in Path(".").glob(member) if (folder / "Cargo.toml").exists())
    return folders


def describe(folder, files, edges):
    """A circle as lines: its files, then the imports inside it."""
    short = {file: file.removeprefix("src/") for file in files}
    lines = [f"{(folder / 'src').as_posix()}: {len(files)} files import each other in a circle"]
    lines += [f"  {short[file]}" for file in files]
    for file in files:
        for target in sorted(edges[file].keys() & short.keys()):
            lines.append(f"    {short[file]} -> {short[target]} ({', '.join(sorted(edges[file][target]))})")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="print every circle of two files or more")
    parser.add_argument("--max", type=int, default=4, metavar="N", help="files that a circle may have (default 4)")
    parser.add_argument("--crate", metavar="NAME", help="only this crate, by its name or its folder")
    parser.add_argument("--self-test", action="store_true", help="check this script on a small crate")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    crates = [(folder, load(folder)) for folder in workspace()]
    if options.crate:
        names = {options.crate.replace("-", "_"), options.crate.strip("/")}
        crates = [(folder, crate) for folder, crate in crates if {crate.name, folder.as_posix()} & names]
    if not crates:
        sys.exit("no such crate in the workspace")
    circles = []
    for folder, crate in crates:
        edges = crate.imports()
        circles += [(folder, files, edges) for files in components(edges)]
    circles.sort(key=lambda circle: -len(circle[1]))
    for folder, files, edges in circles:
        if len(files) > (1 if options.list else options.max):
            print(describe(folder, files, edges), end="\n\n")
    refused = sum(len(files) > options.max for _, files, _ in circles)
    print(
        f"import circles: {len(crates)} crates, {sum(len(crate.files) for _, crate in crates)} files; "
        f"the biggest circle has {len(circles[0][1])} files ({circles[0][0]}), {refused} have more than {options.max}"
    )
    return 1 if refused else 0


def self_test():
    """Reads a small crate and compares its imports and its circles with the known ones."""
    sources = {
        "lib": "mod chain; mod ring; pub mod five; mod odd; mod unused; mod apart; mod tidy;\n"
        "pub use chain::Deep;\nuse crate::unused;",
        # A chain of re-exports, and a module that is also a function.
        "chain/mod": "mod deep; mod query; pub use deep::{Deep, deeper::Deepest as Low}; pub(crate) use query::query;",
        "chain/deep": "pub mod deeper; pub struct Deep; /* /* super::query::query */ use crate::ring::A; */",
        "chain/deep/deeper": "pub enum Deepest { One }",
        "chain/query": "pub fn query() -> &'static str { r#\"crate::ring::A\"# } // crate::ring::A",
        # Three files in a circle: by the path of a module, by a `use` in a body, by a glob. Tests do not count.
        "ring": "pub mod b; mod c; #[cfg(test)] mod model; pub struct A(c::C); pub const N: u8 = 1;\n"
        "#[cfg(test)] #[allow(x)] use crate::five::{a, a::A as F};\n#[cfg(all(test, unix))] mod t { fn f() { crate::Deep } }",
        "ring/b": "use super::super::ring; impl ring::A { fn f(self: super::A) { let c = '{'; } } pub fn g() {} pub struct B;",
        "ring/c": "pub struct C; impl C { type B = u8; fn f() { use super::b::*; use crate::ring::b::g; B::new(0..super::N) } }",
        "ring/model": "use crate::chain::Deep;",
        # Five files in a circle that their parent is no part of.
        "five/mod": "mod a; mod b; mod c; mod d; mod e;",
        "five/a": "pub struct A; fn f() -> super::b::B {} fn _g<'a>(x: &'a crate::Deep) { crate::chain::query() }",
        "five/b": "pub struct B; use super::{c::{self, C as D}, super::Deep}; fn f() { c::C; D; x.super_::e() }",
        "five/c": "pub struct C; pub use super::d::D as Re;",
        "five/d": "pub struct D; use crate::five::e; fn f(x: Vec<e::E>) {}",
        "five/e": "pub enum E { F(u8) } const X: u8 = super::a::A::X; use super::super::chain::Low::{self, One};",
        # Paths of their own, macros, a generated name, names that mean another crate's.
        "odd": '#[path = "far/away.rs"] mod near; macro_rules! make { () => { pub struct Made {} } } make! {} mod user;'
        "#[macro_export] macro_rules! shared { () => {} } mod made { include!(concat!()); } mod probe;",
        "odd/probe": "#![cfg(test)] use crate::Deep;",
        "far/away": '#[serde(with = "crate::odd::user::hex")] pub struct Away; type T = super::Made; type U = super::Grown;',
        "odd/user": "make!(); use super::near::Away as _; use std::fmt as chain; fn f() { chain::Deep } pub mod hex {}",
        "unused": "pub(in crate::chain) struct Unused; fn f() { let chain = crate::odd; chain.ring(); }",
        # Names in an `impl`, a body or a macro, globs, and tests within an item.
        "tidy": "use crate::{chain, five, odd, ring}; trait R { fn chain() { chain::Deep } }\n"
        "impl R { fn five() { five::a::A } }\n"
        "fn f() -> impl R { struct odd; odd::Made } fn g() { crate::shared!(); odd::made::X }\n"
        "fn h() { own! { struct ring; } ring::A }\n"
        "mod t { #[cfg(test)] fn t<A, B>() { crate::ring::A } use crate::chain::*; fn f() { query(u::Low) } fn u() {} }\n"
        "struct S { #[cfg(test)] t: crate::ring::A, u: crate::unused::Unused, #[cfg(test)] v: crate::ring::A }",
        "apart": "macro_rules! own { () => { $crate::unused::Unused } } fn f() { use ::ring::A; A::new() }",
        "main": "fn main() { small::Deep::new() }",
    }
    crate = Crate({f"src/{name}.rs": text for name, text in sources.items()}, ["src/lib.rs", "src/main.rs"], "small")
    edges = crate.imports()
    found = {f"{a[4:-3]} -> {b[4:-3]} {' '.join(sorted(names))}" for a in edges for b, names in edges[a].items()}
    expected = """lib -> chain/deep Deep; main -> chain/deep Deep; apart -> unused Unused; five/b -> chain/deep Deep
        chain/mod -> chain/deep Deep; chain/mod -> chain/deep/deeper Deepest; chain/mod -> chain/query query
        ring -> ring/c C; ring/b -> ring A; ring/c -> ring/b B g; ring/c -> ring N
        five/a -> five/b B; five/a -> chain/deep Deep; five/a -> chain/query query; five/b -> five/c C
        five/c -> five/d D; five/d -> five/e E; five/e -> five/a A; five/e -> chain/deep/deeper Deepest
        far/away -> odd Grown Made; odd/user -> odd make!; odd/user -> far/away Away
        tidy -> chain/deep Deep; tidy -> chain/query query; tidy -> five/a A; tidy -> odd shared!; tidy -> unused Unused"""
    expected = set(re.split(r"\s*[;\n]\s*", expected))
    circles = [" ".join(file[4:-3] for file in files) for files in components(edges) if len(files) > 1]
    wrong = [f"missing: {edge}" for edge in sorted(expected - found)]
    wrong += [f"too many: {edge}" for edge in sorted(found - expected)]
    if circles != ["five/a five/b five/c five/d five/e", "ring ring/b ring/c"]:
        wrong.append(f"circles: {circles}")
    if "src/ring/model.rs" in crate.files:
        wrong.append("a module of tests is read")
    print("\n".join(wrong) or "import circles: the self-test passes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
