"""Runs the test programs of the workspace, two at a time: many tests wait for blocks and sockets, and not for a core.

    python3 tests/gate/run_tests.py [units | e2e]
"""

import concurrent.futures
import contextlib
import ctypes
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from cores import CORES
from programs import LIST, programs

PR_SET_CHILD_SUBREAPER = 36
# Seconds in which a process that was ended goes.
GRACE = 3
END_TO_END = "svc/e2e"
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
ENDED = re.compile(r"^test (\S+).* \.\.\. (?:ok|FAILED|ignored)", re.MULTILINE)
LISTED = re.compile(r"^(\S+): test$", re.MULTILINE)
# Tests write here why they could not run.
SKIPPED = LIST.parent / "skipped"
# An end-to-end test waits for the blocks of its own network more than half of the time.
END_TO_END_THREADS = 2 * CORES
# Programs that take longer have a test that hangs. The gate's parts take a little longer, so that the test is named.
LONGEST_MINUTES = {"e2e": 45, "units": 20, "all": 65}
SECONDS = re.compile(r"finished in ([\d.]+)s")


def run(program, deadline):
    """Runs a program as cargo does, in the folder of its package, until the deadline at most; its exit code and its output."""
    threads = {"RUST_TEST_THREADS": str(END_TO_END_THREADS)} if program.name == END_TO_END else {}
    environment = threads | os.environ | {"CARGO_MANIFEST_DIR": program.folder, "SVC_TEST_SKIPPED": str(SKIPPED)}
    options = {"cwd": program.folder, "env": environment, "stdin": subprocess.DEVNULL}
    output = LIST.parent / f"{program.name.replace('/', '-')}.output"
    with open(output, "wb") as written:
        running = subprocess.Popen([program.path], stdout=written, stderr=subprocess.STDOUT, **options)
        try:
            code = running.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            running.kill()
            code = running.wait()
            listed = subprocess.run([program.path, "--list"], capture_output=True, text=True, **options).stdout
            ended = set(ENDED.findall(output.read_text(errors="replace")))
            left = [name for name in LISTED.findall(listed) if name not in ended]
            written.write(f"\nthe time is over; not ended: {', '.join(left)}\n".encode())
    return code, output.read_text(errors="replace")


def left_over():
    """The processes that tests have left running, by id, with their command lines."""
    left = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text(errors="replace").rsplit(")", 1)[1].split()[:2]
            command = stat.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if int(parent) == os.getpid() and state != "Z":
            left[int(stat.parent.name)] = command
    return left


def end_left_over():
    """Ends what is left running, and what that leaves in its turn. Returns the command lines."""
    # A process that was killed with its test may take a moment to go.
    deadline = time.monotonic() + GRACE
    while (left := left_over()) and time.monotonic() < deadline:
        time.sleep(0.1)
    ended, deadline = [], time.monotonic() + GRACE
    while left and time.monotonic() < deadline:
        for pid, command in left.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            ended.append(command)
        time.sleep(0.1)
        left = {pid: command for pid, command in left_over().items() if pid not in left}
    return ended


def main():
    chosen = {
        "units": lambda program: program.name != END_TO_END,
        "e2e": lambda program: program.name == END_TO_END,
        "all": lambda program: True,
    }
    wanted = sys.argv[1] if len(sys.argv) > 1 else "all"
    if wanted not in chosen:
        sys.exit(f"{wanted!r} is none of {', '.join(chosen)}")
    # The end-to-end tests take longest.
    order = sorted(filter(chosen[wanted], programs()), key=lambda program: (program.name != END_TO_END, program.name))
    if not order:
        sys.exit("no test program was built")
    SKIPPED.unlink(missing_ok=True)
    # This process becomes the parent of those whose test has ended.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    counts, failed = [0, 0, 0], []
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        started = time.monotonic()
        deadline = started + LONGEST_MINUTES[wanted] * 60
        running = {pool.submit(run, program, deadline): program for program in order}
        for ended in concurrent.futures.as_completed(running):
            program, (code, output) = running[ended], ended.result()
            # A test may run the program once more for itself: the last result is that of the whole.
            results = list(RESULT.finditer(output))
            if code != 0 or not results:
                print(f"\n==== {program.name} failed with {code}\n{output}", flush=True)
                failed.append(program.name)
            if results:
                counts = [sum(pair) for pair in zip(counts, map(int, results[-1].groups()))]
                print(f"{program.name}: {results[-1].group()}; finished in {SECONDS.findall(output)[-1]}s", flush=True)
    if left := end_left_over():
        print("left running by tests: " + "; ".join(left), flush=True)
        failed.append("processes were left running")
    passed, broken, ignored = counts
    print(f"{len(order)} programs in {time.monotonic() - started:.0f} s, {ignored} tests ignored")
    if SKIPPED.exists():
        print(f"could not run, and count as passed:\n{SKIPPED.read_text()}")
    print(f"tests: {passed} passed, {broken} failed", flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
