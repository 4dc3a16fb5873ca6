#!/usr/bin/env python3
"""A rustdoc for `cargo test --doc` that writes the documentation of each crate, without warnings, before it tests the examples in it.

`cargo doc` reads its dependencies as `cargo check` leaves them, and would have them all checked once more after the build.
"""

import os
import pathlib
import subprocess
import sys

DOCUMENTATION = pathlib.Path(__file__).parent.parent.parent / "target" / "doc"


def without_test(arguments):
    """The arguments with which the same crate is documented."""
    left = iter(arguments)
    for argument in left:
        if argument == "--test-run-directory":
            next(left)
        elif argument != "--test":
            yield argument


def main():
    arguments = sys.argv[1:]
    if "--test" in arguments:
        documented = subprocess.run(["rustdoc", *without_test(arguments), "--out-dir", DOCUMENTATION, "--deny", "warnings"])
        if documented.returncode != 0:
            sys.exit(documented.returncode)
    os.execvp("rustdoc", ["rustdoc", *arguments])


if __name__ == "__main__":
    main()
