#!/usr/bin/env python3
"""Refuses packages that are compiled twice. Run from the root of the repository.

    python3 tests/house/packages.py

Two rules.
- One feature set. What the binary alone compiles (`cargo build`) and what the workspace's tests compile have the same features, package by
  package. A feature that only a test needs stands in the workspace's row of Cargo.toml; otherwise everything above it is compiled again.
- Doubled packages are known. Every package that Cargo.lock has in several versions stands in doubled_packages.toml with its reason, and
  nothing else stands there.
"""

import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

KNOWN = Path("tests/house/doubled_packages.toml")
LINE = re.compile(r"^(\S+) v(\S+)(?: \([^)]*\))* \[(.*?)\]")


def features(*selection):
    """The features with which cargo compiles each package for a selection: once for the target, and once for build scripts and macros."""
    command = ["cargo", "tree", "--locked", *selection, "--prefix", "none", "--format", "{p} [{f}]"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = defaultdict(set)
    for match in filter(None, map(LINE.match, listed.splitlines())):
        name, version, names = match.groups()
        found[name, version].add(frozenset(filter(None, names.split(","))))
    return found


def feature_problems():
    alone = features("--package", "svc", "--edges", "normal,build")
    tests = features("--workspace", "--edges", "normal,build,dev")
    if len(alone) < 100:
        yield f"cargo tree lists only {len(alone)} packages"
    for package, sets in sorted(alone.items()):
        for of_binary in sets - tests[package]:
            more = sorted(set().union(*tests[package]) - of_binary)
            yield f"{package[0]} {package[1]}: only tests enable {', '.join(more)}; enable it in the workspace's row"


def doubled_problems():
    lock = tomllib.loads(Path("Cargo.lock").read_text())
    counts = Counter(package["name"] for package in lock["package"])
    doubled = {name: count for name, count in counts.items() if count > 1}
    known = {}
    for cause in tomllib.loads(KNOWN.read_text())["cause"]:
        known |= cause["packages"]
    for name in sorted(doubled.keys() | known.keys()):
        versions, allowed = doubled.get(name, 1), known.get(name, 1)
        if versions > allowed:
            yield f"{name} has {versions} versions in Cargo.lock; end that, or give the reason in {KNOWN}"
        if versions < allowed:
            yield f"{name} has {versions} versions in Cargo.lock and {allowed} in {KNOWN}; correct the list"


def main():
    problems = [*feature_problems(), *doubled_problems()]
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    print("packages: one feature set; the doubled ones are known")


if __name__ == "__main__":
    main()
