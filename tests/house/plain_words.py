#!/usr/bin/env python3
"""Refuses indefinite words in the comments of Rust code. Run from the root of the repository.

    python3 tests/house/plain_words.py [--docs] [--count] [--names] [--self-test]

The rule. No comment of a line (`//`, `///`, `//!`, and behind code) holds a word of `indefinite_words.txt`, in either case:
a sentence names the thing that it is about. Product code, tests, benches and fuzz targets are read; `--docs` adds README.md,
CHANGELOG.md and docs/*.md. Code is no prose: text in backticks, fenced blocks and addresses are skipped.

`--count` adds how many of 1,000 words are refused ones. `--names` adds the names of types in product code: how many are one
word, how many of these end in -ed or -ing, and which.

Limits. Block comments are not read. A backtick without a partner in its paragraph hides nothing.
"""

import argparse
import os
import re
import sys
from pathlib import Path

WORDS_FILE = Path(__file__).with_name("indefinite_words.txt")
SKIPPED_FOLDERS = {"target", "node_modules"}
NOT_PRODUCT = {"tests", "test", "benches", "fuzz", "examples"}
# Comments, and the literals and block comments in which `//` is no comment.
RUST = re.compile(
    r"""(?P<line>//+!?(?P<prose>[^\n]*))
    | /\*.*?\*/ | r(?P<hashes>\#*)".*?"(?P=hashes) | "(?:\\.|[^"\\])*" | '(?:\\.[^'\n]*|[^\\'])'""",
    re.VERBOSE | re.DOTALL,
)
CODE_SPAN = re.compile(r"(`+)(?!`)((?:(?!\n\s*\n).)+?)(?<!`)\1(?!`)", re.DOTALL)
ADDRESS = re.compile(r"https?://\S+")
TYPE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type|union) ([A-Z]\w*)", re.MULTILINE)
TEST_MODULE = re.compile(r"\n#\[cfg\(test\)\]\n(pub(\(crate\))? )?mod \w+ \{")


def prose(text):
    """A text in Markdown with its code and its addresses blanked; its lines stay where they are."""
    lines, fence = [], ""
    for line in text.split("\n"):
        mark = re.match(r"\s*(`{3,}|~{3,})(.*)", line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = ""
        elif not fence:
            lines.append(line)
            continue
        lines.append("")
    text = CODE_SPAN.sub(lambda span: re.sub(r"[^\n]", " ", span[0]), "\n".join(lines))
    return ADDRESS.sub(" ", text)


def comments(text):
    """The comments of Rust code as (number of the first line, prose), one for each run of lines."""
    runs, next_line = [], 0
    number, at = 1, 0
    for found in RUST.finditer(text):
        number, at = number + text.count("\n", at, found.start()), found.start()
        if found["line"] is None:
            continue
        is_trailing = bool(text[text.rfind("\n", 0, at) + 1 : at].strip())
        if number == next_line and not is_trailing:
            runs[-1][1].append(found["prose"])
        else:
            runs.append((number, [found["prose"]]))
        next_line = 0 if is_trailing else number + 1
    return [(first, prose("\n".join(lines))) for first, lines in runs]


def refused_words(path, text, pattern):
    """The refused words of a file as (line, word), and the number of words it has in all."""
    runs = comments(text) if path.suffix == ".rs" else [(1, prose(text))]
    lines = [(first + offset, line) for first, run in runs for offset, line in enumerate(run.split("\n"))]
    found = [(number, word) for number, line in lines for word in pattern.findall(line)]
    return found, sum(len(line.split()) for _, line in lines)


def read_pattern():
    """A pattern of the words in the list."""
    lines = (line.partition("#")[0].strip() for line in WORDS_FILE.read_text().splitlines())
    return re.compile(rf"\b({'|'.join(re.escape(word) for word in lines if word)})\b", re.IGNORECASE)


def rust_files():
    """All Rust code below the current folder."""
    for folder, folders, files in os.walk("."):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".rs"))


def describe_names(files):
    """The types of product code by their names."""
    types = []
    for path in files:
        is_test = path.name in ("tests.rs", "test.rs") or path.name.endswith(("_test.rs", "_tests.rs"))
        if not is_test and not NOT_PRODUCT & set(path.parts[:-1]):
            text = path.read_text()
            types += TYPE.findall(text[: cut.start()] if (cut := TEST_MODULE.search(text)) else text)
    one_word = [name for name in types if re.fullmatch(r"[A-Z][a-z0-9]*", name)]
    participles = [name for name in one_word if name.endswith(("ed", "ing"))]
    all_types = max(1, len(types))
    return (
        f"types {len(types)}, one word {100 * len(one_word) / all_types:.0f} %, "
        f"-ed/-ing {1000 * len(participles) / all_types:.0f} per 1,000\n"
        f"one word: {' '.join(sorted(set(one_word)))}\n-ed/-ing: {' '.join(sorted(set(participles)))}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--docs", action="store_true", help="read README.md, CHANGELOG.md and docs/*.md too")
    parser.add_argument("--count", action="store_true", help="print refused words per 1,000 words")
    parser.add_argument("--names", action="store_true", help="print shares of one-word and -ed/-ing names of types")
    parser.add_argument("--self-test", action="store_true", help="check this script on a small text")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    pattern, files = read_pattern(), list(rust_files())
    documents = [Path("README.md"), Path("CHANGELOG.md"), *sorted(Path("docs").glob("*.md"))] if options.docs else []
    refused, total = 0, 0
    for path in files + [path for path in documents if path.exists()]:
        text = path.read_text()
        found, words = refused_words(path, text, pattern)
        lines = text.split("\n")
        for number, word in found:
            print(f"{path}:{number}: {word}: {lines[number - 1].strip()}")
        refused, total = refused + len(found), total + words
    if options.count:
        print(f"indefinite words: {refused} of {total} words, {1000 * refused / max(1, total):.1f} per 1,000")
    if options.names:
        print(describe_names(files))
    return 1 if refused else 0


def self_test():
    """Compares the refused words of a small text with the known ones."""
    rust = r'''//! Who calls? `who` and ``told ` who`` do not, nor does
//! https://example.org/what.
/// Told once, and `code over
/// what` two lines; whatsoever stays, a ` alone

/// hides no nobody: what's that?
/// ```
/// let told = who; // what
/// ```
fn f<'a>() { let _ = "// who \" // who"; let _ = r#"" // told"#; let _ = '"'; } // Besides.
//// WHO
let x = 1; // a ` opened
// anew` is another comment
/* who */ let url = 'x'; let y = b'\''; // somebody'''
    markdown = "# What\n`who`\n```rust\ntold\n```\n~~~\nwho\n```\nwho\n~~~\nanew\n"
    found, words = refused_words(Path("a.rs"), rust, read_pattern())
    found += refused_words(Path("a.md"), markdown, read_pattern())[0]
    lines = [f"{number} {word.lower()}" for number, word in found]
    expected = ["1 who", "3 told", "6 nobody", "6 what", "10 besides", "11 who", "13 anew", "14 somebody", "1 what", "11 anew"]
    wrong = [] if lines == expected else [f"expected {expected}", f"found {lines}"]
    wrong += [] if words == 32 else [f"{words} words"]
    print("\n".join(wrong) or "plain words: the self-test passes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
