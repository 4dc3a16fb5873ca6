"""The parts of the gate, as data."""

import re
from dataclasses import dataclass

from cores import CORES

# Parts that compile use every core. Three of the others run at a time on two cores: they wait for blocks, sockets and programs too.
ALL = 3 * CORES


@dataclass(frozen=True)
class Part:
    """A command. It starts once the parts in `after` have passed and `slots` are free; 0 slots are for downloads and small checks."""

    name: str
    command: str
    after: tuple = ()
    slots: int = 2
    # A part that takes longer has hung. On a quiet machine each takes a fraction of this.
    minutes: int = 15


INTEROP = {
    "converters": ("converters",),
    "clients": ("python", "npm", "go"),
    "walk": ("python", "npm"),
    "fuzz": ("python",),
    "agent": ("python", "npm"),
    "identity": ("python", "npm"),
    "older-credentials": ("npm",),
    "peers": ("didcomm", "npm"),
    "endpoints": ("python", "npm"),
    "conformance": ("npm",),
    "scenario": ("npm",),
    "pages": ("python", "npm"),
}
SOFTWARE = ("python", "converters", "didcomm", "npm", "go")
DEMOS = ("demo", "demo-agent", "demo-flows", "demo-peers")
BUILT = ("build and lints",)

PARTS = (
    Part("compiler", "sh tests/gate/packages.sh compiler", slots=0),
    Part("packages", "sh tests/gate/packages.sh services", after=("compiler",), slots=0, minutes=40),
    Part("crates", "cargo fetch --locked", slots=0),
    *(Part(f"install {name}", f"python3 tests/interop/install.py {name}", after=("packages",), slots=0, minutes=40) for name in SOFTWARE),
    Part("house", "make house", after=("compiler", "crates"), slots=0),
    # Clippy is the compiler of this build, see `gate.py`, and rustdoc reads the crates that it leaves: nothing is compiled only to be checked.
    Part("build and lints", "python3 tests/gate/programs.py", after=("compiler", "crates"), slots=ALL, minutes=40),
    Part("documentation", "RUSTDOC=tests/gate/rustdoc.py cargo test --workspace --doc", after=BUILT),
    Part("unit tests", "python3 tests/gate/run_tests.py units", after=(*BUILT, "packages"), minutes=25),
    # Each of these tests has a network of its own, which makes blocks all the time: beside other programs all of them are slower.
    Part("end-to-end tests", "python3 tests/gate/run_tests.py e2e", after=("unit tests",), slots=ALL, minutes=50),
    *(Part(name, f"make {name}", after=BUILT) for name in DEMOS),
    *(
        Part(f"interop {name}", f"python3 tests/interop/run.py {name}", after=(*BUILT, *(f"install {package}" for package in packages)))
        for name, packages in INTEROP.items()
    ),
)


def problem_of(rows):
    """What keeps the first such row from running as it says, or None."""
    above = set()
    for row in rows:
        if row.name in above:
            return f"{row.name!r}: a row above has the name"
        if not re.fullmatch(r"[a-z0-9 -]+", row.name):
            return f"{row.name!r}: a name has small letters, digits, spaces and dashes: it is a file too"
        if not isinstance(row.after, tuple):
            return f'{row.name!r}: `after` is a tuple, as ("compiler",)'
        for name in row.after:
            if name not in above:
                return f"{row.name!r}: no row above has the name {name!r}"
        if row.slots not in range(ALL + 1):
            return f"{row.name!r}: `slots` is 0 to {ALL}"
        if not isinstance(row.minutes, int) or row.minutes < 1:
            return f"{row.name!r}: `minutes` is a number of 1 or more"
        above.add(row.name)
    return None
