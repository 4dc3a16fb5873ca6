#!/usr/bin/env python3
"""Keeps the structure of the code from growing worse. Run from the root of the repository.

    python3 tests/house/structure.py [--list] [--self-test]

The measures, over the product code that import_circles.py reads:

- Knots. A room of a crate is the first part of a file's path below `src`: a folder, or a file; `lib`, `main` and `mod` are none. A knot
  is a strongly connected component of the rooms, by the imports of their files.
- Long functions. The lines of code from `fn` to the closing brace, without comments and blank lines.
- `Result<Result<`: an outcome of two kinds that has no name. An error enum names both, or an outcome is an enum; `CallError` of the kit is
  that of a question which an actor may refuse.
- Import rules of docs/architecture.md. The table of crates equals the dependencies of the Cargo.toml files, each row uses only rows below
  it, and operator, indexer and agent do not reach each other. Every actor stands in a tree of the page.
- Files of an actor. The folder of an actor has `actor.rs`, `mod.rs`, and `core` and `tests` as a file or a folder, or docs/architecture.md
  says which it lacks; a row that is not true any more leaves the page.
- Names of messages. `impl_actor_message!` alone implements `ActorMessage`: it derives the label of a message from its variant.
- Walks of docs/architecture.md. The files of a walk exist, stand there once, and are numbered.

Limits.
- A function in the body of a macro counts with the macro's lines, and one whose name a macro makes does not.
- An alias of `Result` is not followed.
- Optional dependencies count; those of tests and of `fuzz`, which is a workspace of its own, do not.
"""

import argparse
import re
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

from import_circles import NO_CODE, Crate, code, components, load, workspace

# Ceilings. A ceiling only goes down: a change that cuts a knot, a function or a walk lowers the number here.
# Rooms of the largest knot of a crate. A crate that is not named has no knot, which is 1.
KNOTS = {}
# Lines of a function, and the functions that are longer. A function that is not any more leaves the list.
MAX_LINES = 100
LONG_FUNCTIONS = set()
# `Result<Result<` of the workspace.
NESTED_RESULTS = 0
# Files of each walk.
WALKS = {"The walk of one write": 46, "The walk of a message between agents": 56}

PAGE = Path("docs/architecture.md")
ROOTS = {"lib", "main", "mod"}
# They meet over HTTP and WebSocket.
APART = {"svc-operator", "svc-indexer", "svc-agent"}
FUNCTION = re.compile(r"\bfn\s+(\w+)")
BRACKET = re.compile(r"[(\[{}\]);]")
NESTED_RESULT = re.compile(r"\bResult<\s*(?:\w+::)*Result<")
CRATE = re.compile(r"`(svc(?:-\w+)*)`")
USES = re.compile(r"^\| (`svc[^|]*) \| ([^|]*) \|$", re.MULTILINE)
STEPS = re.compile(r"^\| (\d+)(?:–(\d+))? \| ([^|]*) \|", re.MULTILINE)
ACTOR = re.compile(r'^\s*const KIND: &\'static str = "(\w+)";', re.MULTILINE)
SHELL = re.compile(r"^impl(?:<[^{]*>)? ActorBehaviour for \w+", re.MULTILINE)
MESSAGE = re.compile(r"^[ \t]*impl\b[^;{]*\bActorMessage\s+for\s+(?:\w+::)*(\w+)", re.MULTILINE)
LACKS = re.compile(r"^\| `(actors/[^`]*)` \| ((?:core|tests)(?:, (?:core|tests))?) \| \S", re.MULTILINE)
TREE = re.compile(r"^```\n([a-z]+ \(one-for-one.*?)^```$", re.MULTILINE | re.DOTALL)


def package(crate):
    """The name of a crate in its Cargo.toml."""
    return crate.name.replace("_", "-")


def room_of(file):
    """The room of a file of a crate."""
    return file.removeprefix("src/").partition("/")[0].removesuffix(".rs")


def knots(crate):
    """The knots of a crate, the biggest first, and the imports between its rooms: {room: {room: (file, file)}}."""
    rooms = defaultdict(dict)
    for file, targets in sorted(crate.imports().items()):
        for target in sorted(targets):
            ends = room_of(file), room_of(target)
            if ends[0] != ends[1] and not ROOTS & {*ends}:
                rooms[ends[0]].setdefault(ends[1], (file, target))
                rooms[ends[1]]
    return [knot for knot in components(rooms) if len(knot) > 1], rooms


def lines_of_code(text):
    """Rust code as `code` gives it, whose lines stay lines: those of a comment are blank, those of a string are not."""

    def blank(found):
        if found["kept"] or found["path"]:
            return found[0]
        if found[0].startswith(("//", "/*")):
            return "\n" * found[0].count("\n") or " "
        return re.sub(r"[^\n]*\S[^\n]*", "0", found[0])

    return code(NO_CODE.sub(blank, text))


def functions(text):
    """The functions of `lines_of_code`, each as (name, lines)."""
    for head in FUNCTION.finditer(text):
        depth = 0
        for mark in BRACKET.finditer(text, head.end()):
            depth += (mark[0] in "([{") - (mark[0] in ")]}")
            if depth == 0 and mark[0] in "};":
                break
        else:
            continue
        if mark[0] == "}":
            body = text[text.rfind("\n", 0, head.start()) + 1 : mark.end()]
            yield head[1], sum(bool(line.strip()) for line in body.split("\n"))


def used_crates(manifest):
    """The crates of ours that a Cargo.toml names for more than tests."""
    tables = [manifest, *manifest.get("target", {}).values()]
    names = {name for table in tables for kind in ("dependencies", "build-dependencies") for name in table.get(kind, ())}
    return {name for name in names if name == "svc" or name.startswith("svc-")}


def side_of(name):
    """The one of `APART` that a crate is, or is a part of."""
    return next((side for side in APART if name == side or name.startswith(f"{side}-")), None)


def import_problems(page, manifests):
    """Where the table of crates is untrue. `manifests` has the Cargo.toml of each crate by its name."""
    rows = [(CRATE.findall(names), set(CRATE.findall(uses))) for names, uses in USES.findall(page)]
    listed = [name for names, _ in rows for name in names]
    for name in sorted({*listed, *manifests}):
        if listed.count(name) != (name in manifests):
            yield f"{PAGE}: {name} has {listed.count(name)} rows in the table of crates, and the workspace {int(name in manifests)} such crates"
    uses = {name: used_crates(manifest) for name, manifest in manifests.items()}
    for at, (names, shown) in enumerate(rows):
        below = {name for row, _ in rows[at + 1 :] for name in row}
        for name in names:
            for other in sorted(shown ^ uses.get(name, shown)):
                where = ("the table", "Cargo.toml") if other in shown else ("Cargo.toml", "the table")
                yield f"{PAGE}: {name} uses {other} in {where[0]} and not in {where[1]}"
        for other in sorted(shown - below):
            yield f"{PAGE}: {', '.join(names)} uses {other}, whose row is not below: the arrow points back"
    for name in sorted(name for name in uses if side_of(name)):
        reached, fresh = set(), {name}
        while fresh:
            fresh = {other for one in fresh for other in uses.get(one, ())} - reached
            reached |= fresh
        others = sorted(other for other in reached if side_of(other) not in {None, side_of(name)})
        yield from (f"{name} reaches {other}: they meet over HTTP and WebSocket" for other in others)


def actor_problems(page, sources):
    """The actors that stand in no tree of the page. `sources` has the texts of the crates by their paths."""
    known = set(re.findall(r"\w+", " ".join(TREE.findall(page))))
    for path, text in sources.items():
        for kind in ACTOR.findall(text):
            if kind not in known:
                yield f"{PAGE}: no tree has the actor {kind} ({path})"


def actor_file_problems(page, sources):
    """The actors without the files that the page promises, and the rows of the page that are not true. `sources` as above."""
    folders = {}
    for path, text in sources.items():
        if SHELL.search(text) and not {"tests", "tests.rs"} & {*Path(path).parts}:
            folder, name = path.rsplit("/", 1)
            if name != "actor.rs":
                yield f"{path}: the shell of an actor stands in actor.rs"
            folders[folder] = [part for part in ("core", "tests") if not {f"{folder}/{part}.rs", f"{folder}/{part}/mod.rs"} & sources.keys()]
            if f"{folder}/mod.rs" not in sources:
                yield f"{folder}: the actor has no mod.rs"
    known = {folder: lacks.split(", ") for folder, lacks in LACKS.findall(page)}
    for folder in sorted({*folders, *known}):
        shown, lacks = known.get(folder, []), folders.get(folder)
        if lacks is None:
            yield f"{PAGE}: {folder} is the folder of no actor"
        elif shown != lacks:
            yield f"{PAGE}: {folder} lacks {', '.join(lacks) or 'nothing'}, and the page says {', '.join(shown) or 'nothing'}"


def message_problems(sources):
    """Messages with labels by hand. `sources` has the texts of all Rust files by their paths."""
    for path, text in sources.items():
        for name in MESSAGE.findall(text):
            yield f"{path}: impl_actor_message! names the messages of {name} after their variants; write no ActorMessage by hand"


def walk(page, title):
    """The rows of a walk, each as (first number, last number, paths)."""
    section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = STEPS.findall(section)
    return [(int(first), int(last or first), re.findall(r"`([^`]+)`", paths)) for first, last, paths in rows]


def walk_problems(page, title, exists):
    """Where the table of a walk is untrue."""
    seen = []
    for first, last, paths in walk(page, title):
        if (first, last) != (len(seen) + 1, len(seen) + len(paths)):
            yield f"{PAGE}: {title}: the row {first} has the numbers {len(seen) + 1} to {len(seen) + len(paths)}"
        for path in paths:
            if path in seen:
                yield f"{PAGE}: {title}: {path} stands there twice"
            elif not exists(path):
                yield f"{PAGE}: {title}: {path} does not exist"
        seen += paths
    if not seen:
        yield f"{PAGE}: there is no table below {title!r}"


def function_problems(lengths, listed=LONG_FUNCTIONS):
    """The long functions that are not on the list, and those of the list that are not long. `lengths` has "path name": lines."""
    for name, lines in sorted(lengths.items()):
        if lines > MAX_LINES and name not in listed:
            yield f"{name} has {lines} lines of code; a function has at most {MAX_LINES}"
    for name in sorted(listed):
        if lengths.get(name, 0) <= MAX_LINES:
            yield f"{name} has {lengths.get(name, 0)} lines of code: remove it from the list in {Path(__file__).name}"


class Measures:
    """Problems, and ceilings that can be lowered."""

    def __init__(self):
        self.problems, self.notes, self.values = [], [], []

    def compare(self, name, value, ceiling, detail=""):
        """Compares a value with its ceiling."""
        self.values.append(f"{name} {value}")
        if value > ceiling:
            self.problems.append(f"{name}: {value}, and the ceiling is {ceiling}{detail}")
        elif value < ceiling:
            self.notes.append(f"{name}: {value}, and the ceiling is {ceiling}; lower it")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="print every knot with its imports, long function, nested result and walk")
    parser.add_argument("--self-test", action="store_true", help="check this script on small texts")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    crates = [(folder, load(folder)) for folder in workspace()]
    page, measures, listing = PAGE.read_text(), Measures(), []
    for folder, crate in crates:
        found, rooms = knots(crate)
        biggest = found[0] if found else [""]
        measures.compare(f"knot of {package(crate)}", len(biggest), KNOTS.get(package(crate), 1), f": {' '.join(biggest)}")
        for knot in found:
            listing.append(f"{package(crate)}: {len(knot)} rooms import each other: {' '.join(knot)}")
            inside = [(room, target, *files) for room in knot for target, files in sorted(rooms[room].items()) if target in knot]
            listing += [f"  {room} -> {target} ({file} -> {other})" for room, target, file, other in inside]
    texts = {
        (folder / file).as_posix(): lines_of_code(crate.sources[file]) for folder, crate in crates for file in sorted(crate.files)
    }
    lengths = {}
    for path, text in texts.items():
        for name, lines in functions(text):
            lengths[f"{path} {name}"] = max(lines, lengths.get(f"{path} {name}", 0))
    measures.problems += function_problems(lengths)
    listing += [f"{lines} lines: {name}" for name, lines in sorted(lengths.items()) if lines > MAX_LINES]
    nested = {path: len(NESTED_RESULT.findall(text)) for path, text in texts.items()}
    places = ", ".join(path for path, count in nested.items() if count)
    measures.compare("Result<Result<", sum(nested.values()), NESTED_RESULTS, f": name the outcome in {places}")
    listing += [f"{count} Result<Result<: {path}" for path, count in nested.items() if count]
    manifests = {package(crate): tomllib.loads((folder / "Cargo.toml").read_text()) for folder, crate in crates}
    measures.problems += import_problems(page, manifests)
    sources = {(folder / file).as_posix(): text for folder, crate in crates for file, text in crate.sources.items()}
    actors = {path: text for path, text in sources.items() if path.startswith("actors/")}
    measures.problems += actor_problems(page, actors)
    # Files of tests are no product code: `load` leaves them out.
    tests = {path.as_posix(): "" for path in Path("actors").rglob("tests*") if "target" not in path.parts for path in (path, path / "mod.rs")}
    measures.problems += actor_file_problems(page, {**{path: "" for path in tests if Path(path).is_file()}, **actors})
    # Tests too: an actor of a test is the example for the next one.
    measures.problems += message_problems({path.as_posix(): path.read_text() for path in sorted(Path("actors").rglob("*.rs")) if "target" not in path.parts})
    for title, ceiling in WALKS.items():
        measures.problems += walk_problems(page, title, lambda path: Path(path).is_file())
        files = [path for _, _, paths in walk(page, title) for path in paths]
        measures.compare(title, len(files), ceiling)
        listing += [f"{title}: {len(files)} files", *(f"  {path}" for path in files)]
    lines = [*(listing if options.list else []), *measures.notes, *measures.problems]
    print("\n".join(lines), end="\n" if lines else "")
    long = sum(lines > MAX_LINES for lines in lengths.values())
    values = [value for value in measures.values if not re.fullmatch(r"knot of .* 1", value)]
    print(f"structure: {len(crates)} crates, {len(lengths)} functions; {', '.join(values)}, functions over {MAX_LINES} lines {long}")
    return 1 if measures.problems else 0


def self_test():
    """Compares what the script finds in small texts with what is known."""
    sources = {
        "lib": "mod a; mod b; mod c; mod d; mod e; pub struct Root;",
        # Two rooms in a circle through a third file, and tests that import from a room that is in none.
        "a/mod": "mod part; pub struct A; #[cfg(test)] use crate::d::D;",
        "a/part": "use crate::b::B; use crate::Root;",
        "b": "pub struct B; use crate::c::C;",
        "c": "pub struct C; use crate::a::A;",
        "d": "pub struct D; use crate::a::A;",
        # Its two files import each other, and no other room.
        "e/mod": "mod one; mod two; pub struct E;",
        "e/one": "pub struct One; use super::two::Two;",
        "e/two": "pub struct Two; use super::one::One;",
    }
    crate = Crate({f"src/{name}.rs": text for name, text in sources.items()}, ["src/lib.rs"], "small")
    found, rooms = knots(crate)
    text = """fn one() -> [u8; 2] { // of two lines, with a comment
        /* a comment
           of two lines */

        let a = "a text { of
            two lines"; }
        impl X { fn two<'a>(x: &'a str) -> std::io::Result<Result<(), ()>> where X: Y { '{' } fn three(); }
        #[cfg(test)] mod tests { fn four() -> Result<Result<u8, u8>, u8> {} }
        // fn five() -> Result<Result<u8, u8>, u8> {}
        fn six() -> Result<
            fmt::Result<u8>, u8> { fn seven() {} r#"Result<Result<"# }"""
    text = lines_of_code(text)
    page = """# Page
| Crate | Uses |
|---|---|
| `svc-a` (src) | `svc-b`, `svc-c` |
| `svc-b` | `svc-a` (optional) |
| `svc-operator` | none |
| `svc-agent` | none |
| `svc-d` | none |
| `svc-agent-core` | none |

```
agent (one-for-one)
├── known   it
```

## One
| | Files | Step |
| 1 | `a.rs` | `other.rs` |
| 2–3 | `b.rs`, `a.rs` | x |
| 5 | `none.rs` | x |
## Two
"""
    manifests = {
        "svc-a": {"dependencies": {"svc-b": {"optional": True}, "serde": "1"}, "dev-dependencies": {"svc-d": {}}},
        "svc-b": {"target": {"cfg(unix)": {"build-dependencies": {"svc-c": {}}}}},
        "svc-c": {},
        "svc-operator": {"dependencies": {"svc-c": {}}},
        "svc-agent": {"dependencies": {"svc-operator": {}}},
        # A part of the agent.
        "svc-agent-core": {"dependencies": {"svc-operator": {}}},
    }
    actors = [("", "known"), ("    ", "odd"), ("//!     ", "shown")]
    shell = "impl ActorBehaviour for Shell {"
    lacking = "| `actors/x/a` | tests | reason |\n| `actors/x/c` | core | reason |\n| `actors/x/gone` | core | reason |\n"
    files = {
        "actors/x/a/actor.rs": "impl<T: Topic> ActorBehaviour for Shell<T> {",
        **dict.fromkeys(["actors/x/a/mod.rs", "actors/x/a/core/mod.rs"], ""),
        "actors/x/b/shell.rs": shell,
        "actors/x/c/actor.rs": shell,
        **dict.fromkeys(["actors/x/c/mod.rs", "actors/x/c/core.rs", "actors/x/c/tests/mod.rs"], ""),
        "actors/x/c/tests.rs": shell,
    }
    by_hand = """//! impl ActorMessage for Told {
fn open<M: ActorMessage>() {}
impl<M: ActorMessage> ActorContext<M> { fn four() {} }
    impl ActorMessage for One {
impl<T: Topic> svc_kit::ActorMessage for part::Two<T> {
impl$(<$parameter: $bound>)? $crate::ActorMessage for $message"""
    measures = Measures()
    measures.compare("low", 1, 2)
    measures.compare("even", 2, 2)
    measures.compare("high", 3, 2, ": x")
    lengths = {"b.rs long": MAX_LINES + 1, "b.rs shorter": MAX_LINES, "a.rs long": MAX_LINES + 1, "a.rs short": MAX_LINES}
    cases = [
        (found, [["a", "b", "c"]]),
        (rooms["a"], {"b": ("src/a/part.rs", "src/b.rs")}),
        (sorted(functions(text)), [("one", 3), ("seven", 1), ("six", 2), ("two", 1)]),
        (len(NESTED_RESULT.findall(text)), 2),
        (
            [problem.removeprefix(f"{PAGE}: ") for problem in import_problems(page, manifests)],
            [
                "svc-c has 0 rows in the table of crates, and the workspace 1 such crates",
                "svc-d has 1 rows in the table of crates, and the workspace 0 such crates",
                "svc-a uses svc-c in the table and not in Cargo.toml",
                "svc-a uses svc-c, whose row is not below: the arrow points back",
                "svc-b uses svc-a in the table and not in Cargo.toml",
                "svc-b uses svc-c in Cargo.toml and not in the table",
                "svc-b uses svc-a, whose row is not below: the arrow points back",
                "svc-operator uses svc-c in Cargo.toml and not in the table",
                "svc-agent uses svc-operator in Cargo.toml and not in the table",
                "svc-agent-core uses svc-operator in Cargo.toml and not in the table",
                "svc-agent reaches svc-operator: they meet over HTTP and WebSocket",
                "svc-agent-core reaches svc-operator: they meet over HTTP and WebSocket",
            ],
        ),
        (
            list(actor_problems(page, {"x.rs": "\n".join(mark + f"const KIND: &'static str = \"{name}\";" for mark, name in actors)})),
            [f"{PAGE}: no tree has the actor odd (x.rs)"],
        ),
        (
            [problem.removeprefix(f"{PAGE}: ") for problem in actor_file_problems(lacking, files)],
            [
                "actors/x/b/shell.rs: the shell of an actor stands in actor.rs",
                "actors/x/b: the actor has no mod.rs",
                "actors/x/b lacks core, tests, and the page says nothing",
                "actors/x/c lacks nothing, and the page says core",
                "actors/x/gone is the folder of no actor",
            ],
        ),
        (
            [problem.removeprefix(f"{PAGE}: One: ") for problem in walk_problems(page, "One", lambda path: path != "none.rs")],
            ["a.rs stands there twice", "the row 5 has the numbers 4 to 4", "none.rs does not exist"],
        ),
        (list(walk_problems(page, "Two", bool)), [f"{PAGE}: there is no table below 'Two'"]),
        ([problem.split(" after ")[0] for problem in message_problems({"x.rs": by_hand})], ["x.rs: impl_actor_message! names the messages of " + name for name in ("One", "Two")]),
        (list(function_problems({"b.rs long": MAX_LINES + 1}, {"b.rs long"})), []),
        (
            list(function_problems(lengths, {"b.rs long", "b.rs shorter"})),
            [
                f"a.rs long has {MAX_LINES + 1} lines of code; a function has at most {MAX_LINES}",
                f"b.rs shorter has {MAX_LINES} lines of code: remove it from the list in structure.py",
            ],
        ),
        (measures.problems, ["high: 3, and the ceiling is 2: x"]),
        (measures.notes, ["low: 1, and the ceiling is 2; lower it"]),
    ]
    wrong = [f"expected {expected}\nfound    {seen}" for seen, expected in cases if seen != expected]
    print("\n".join(wrong) or "structure: the self-test passes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
