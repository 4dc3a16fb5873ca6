"""The test programs of the workspace, as cargo builds them.

    python3 tests/gate/programs.py             builds them and the benches, and lists them in target/gate/programs.json
    python3 tests/gate/programs.py PACKAGE     prints the path of the unit tests of a package's library
"""

import json
import os
import pathlib
import subprocess
import sys
from dataclasses import asdict, dataclass

ROOT = pathlib.Path(__file__).parent.parent.parent
LIST = ROOT / "target" / "gate" / "programs.json"
BUILD = ["cargo", "test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]
# The gate runs none of them, and they must compile.
BENCHES = ["cargo", "test", "--package", "svc", "--bench", "*", "--no-run"]


@dataclass(frozen=True)
class Program:
    """A test program: its package and target, and the folder in which cargo would run it."""

    package: str
    target: str
    path: str
    folder: str

    @property
    def name(self):
        return self.package if self.target == self.package.replace("-", "_") else f"{self.package}/{self.target}"


def build():
    """Builds all test programs, and with them the binary and the examples. Fails as cargo does."""
    LIST.parent.mkdir(parents=True, exist_ok=True)
    built = subprocess.run(BUILD, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        sys.exit(built.returncode)
    messages = map(json.loads, built.stdout.splitlines())
    tests = [message for message in messages if message.get("executable") and message["profile"]["test"]]
    programs = []
    for message in tests:
        folder = str(pathlib.Path(message["manifest_path"]).parent)
        package = message["package_id"].rsplit("#", 1)[0].rsplit("/", 1)[1]
        named = message["package_id"].rsplit("#", 1)[1]
        package = named.split("@")[0] if "@" in named else package
        programs.append(Program(package, message["target"]["name"], message["executable"], folder))
    written = LIST.with_suffix(".new")
    written.write_text(json.dumps([asdict(program) for program in programs], indent=1))
    written.replace(LIST)
    return programs


def programs():
    """The programs: those of the list that the gate has just built, otherwise built now."""
    if os.environ.get("SVC_TEST_PROGRAMS_ARE_BUILT"):
        return [Program(**entry) for entry in json.loads(LIST.read_text())]
    return build()


def main():
    if len(sys.argv) == 1:
        for program in sorted(build(), key=lambda program: program.name):
            print(program.name, program.path)
        sys.exit(subprocess.run(BENCHES, cwd=ROOT).returncode)
    wanted = sys.argv[1]
    found = [program for program in programs() if program.package == wanted and program.name == wanted]
    if not found:
        sys.exit(f"{wanted} has no unit tests")
    print(found[0].path)


if __name__ == "__main__":
    main()
