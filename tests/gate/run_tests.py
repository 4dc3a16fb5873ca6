"""Runs the test programs of the workspace, two at a time: many tests wait for blocks and sockets, and not for a core.

    python3 tests/gate/run_tests.py [units | e2e]
"""

import concurrent.futures
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
END_TO_END = "svc/e2e"
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
ENDED = re.compile(r"^test (\S+).* \.\.\. (?:ok|FAILED|ignored)", re.MULTILINE)
LISTED = re.compile(r"^(\S+): test$", re.MULTILINE)
# Tests write here why they could not run.
SKIPPED = LIST.parent / "skipped"
# Each end-to-end test waits for the blocks of its own network half of the time.
END_TO_END_THREADS = CORES + 1
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


def end_left_over():
    """Ends the processes that tests have left running, which would take the cores of the tests behind them. Returns their command lines."""
    left = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text(errors="replace").rsplit(")", 1)[1].split()[:2]
            if int(parent) != os.getpid() or state == "Z":
                continue
            command = stat.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            os.kill(int(stat.parent.name), signal.SIGKILL)
        except OSError:
            continue
        left.append(command)
    return left


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
