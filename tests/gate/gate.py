"""The gate: every part of `parts.py`, side by side where a part does not need the whole machine, and a table of their times.

    python3 tests/gate/gate.py              everything
    python3 tests/gate/gate.py PART ...     these parts alone; what they follow must have run before
    python3 tests/gate/gate.py --list
"""

import ctypes
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from parts import ALL, BUILT, PARTS, problem_of

ROOT = pathlib.Path(__file__).parent.parent.parent
LOGS = ROOT / "target" / "gate"
BUDGET_MINUTES = 35
# Seconds that a process has to end after SIGTERM.
GRACE = 10
TARGET = ROOT / "target"
OLDEST_PYTHON = (3, 11)
# Gigabytes of free disk for a build and the software of others.
NEEDED_TO_BUILD = 16
# Gigabytes where an earlier gate has built.
NEEDED_TO_RUN = 2
# Gigabytes of temporary files of the tests.
NEEDED_FOR_TESTS = 1
# A terminal, a session or a service manager ends the gate with these, perhaps more than once.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
C = ctypes.CDLL(None)

# Demos and interop run `target/debug/svc`: cargo must not be told to build elsewhere.
ELSEWHERE = ("CARGO_BUILD_TARGET", "CARGO_BUILD_TARGET_DIR")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ELSEWHERE} | {
    "CARGO_TARGET_DIR": str(TARGET),
    "CI": os.environ.get("CI", "true"),
    # A clean checkout builds each crate once, so that incremental builds save nothing; a failed test names its line without debug information.
    "CARGO_INCREMENTAL": "0",
    "CARGO_PROFILE_DEV_DEBUG": "0",
    # A registry that sends nothing is asked again, and given up after minutes.
    "CARGO_HTTP_TIMEOUT": "30",
    "CARGO_NET_RETRY": "5",
    "PYTHONUNBUFFERED": "1",
    # As `cargo clippy -- -D warnings` sets them, but for what is built: each crate is compiled and linted at once.
    "RUSTC_WORKSPACE_WRAPPER": shutil.which("clippy-driver") or "clippy-driver",
    "CLIPPY_ARGS": "-Dwarnings__CLIPPY_HACKERY__",
}


def end_with_parent():
    """Has the kernel end this process together with its parent, also when the parent is killed. Its own children go on then."""
    C.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Running:
    """A part that has been started, as a process group whose output goes to a file."""

    def __init__(self, part):
        self.part, self.log = part, LOGS / f"{part.name.replace(' ', '-')}.log"
        self.started = time.monotonic()
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                part.command,
                shell=True,
                cwd=ROOT,
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        # A part that is ended because another one failed may not have been polled yet.
        self.cpu, self.seconds = 0.0, 0.0

    def poll(self):
        """None while it runs, else what went wrong or an empty text."""
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        self.seconds = time.monotonic() - self.started
        if pid == 0:
            if self.seconds > self.part.minutes * 60:
                return f"did not end within {self.part.minutes} minutes"
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu = usage.ru_utime + usage.ru_stime
        return "" if self.process.returncode == 0 else f"failed with {self.process.returncode}"


def descendants():
    """All processes below this one. It adopts those whose parent has ended."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    found, new = set(), {os.getpid()}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return found


def end_everything():
    """Ends what the parts have started, also programs that left their process group."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE
        asked = set()
        while (left := descendants()) and time.monotonic() < deadline:
            for pid in left - asked:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            asked |= left
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            time.sleep(0.1)


def show(running, heading):
    print(f"\n===== {heading}", flush=True)
    with open(running.log, errors="replace") as log:
        shutil.copyfileobj(log, sys.stdout)
    sys.stdout.flush()


def print_table(ended, running, started):
    print("\n| part | starts at | minutes | CPU minutes |\n|---|---|---|---|")
    for one in sorted(ended + running, key=lambda one: one.started):
        cpu = f"{one.cpu / 60:.1f}" if one in ended else "ended"
        print(f"| {one.part.name} | {(one.started - started) / 60:.1f} | {one.seconds / 60:.1f} | {cpu} |")
    total = (time.monotonic() - started) / 60
    cpu = sum(one.cpu for one in ended) / 60
    print(f"| everything | 0.0 | {total:.1f} | {cpu:.1f} |")
    print(f"\n{total:.1f} of {BUDGET_MINUTES} minutes" + (": over the budget" if total > BUDGET_MINUTES else ""), flush=True)


def refuse_small_disks():
    TARGET.mkdir(exist_ok=True)
    is_built = (LOGS / "programs.json").exists()
    needed = {TARGET: NEEDED_TO_RUN if is_built else NEEDED_TO_BUILD, pathlib.Path(tempfile.gettempdir()): NEEDED_FOR_TESTS}
    for place, gigabytes in needed.items():
        free = shutil.disk_usage(place).free / 1e9
        if free < gigabytes:
            sys.exit(f"{place} has {free:.1f} GB free; the gate needs {gigabytes}")


def refuse_second_gate():
    """Parts write to fixed places below `target`. The lock ends with this process."""
    LOGS.mkdir(parents=True, exist_ok=True)
    lock = open(LOGS / "lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"another gate runs in {ROOT}")
    return lock


def choose(names):
    """The parts to run. Without names it is all of them, each after those that it follows."""
    if problem := problem_of(PARTS):
        sys.exit(f"tests/gate/parts.py: {problem}")
    known = {part.name: part for part in PARTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"{', '.join(map(repr, unknown))}: unknown; the parts are {', '.join(known)}")
    return [known[name] for name in names] or list(PARTS)


def run(parts):
    """Runs parts, each once those that it follows have passed. The first failure ends them all, and the program."""
    LOGS.mkdir(parents=True, exist_ok=True)
    C.prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in ENDING:
        # `nohup` has SIGHUP ignored.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(f"ended by {signal.Signals(number).name}"))
    waiting = list(parts)
    started, chosen = time.monotonic(), {part.name for part in waiting}
    if chosen.issuperset(BUILT):
        ENVIRONMENT["SVC_TEST_PROGRAMS_ARE_BUILT"] = "1"
    ended, running, passed = [], [], set()
    try:
        while waiting or running:
            for part in list(waiting):
                is_ready = all(name in passed or name not in chosen for name in part.after)
                has_room = sum(one.part.slots for one in running) + part.slots <= ALL
                if is_ready and has_room:
                    waiting.remove(part)
                    running.append(Running(part))
            for one in list(running):
                problem = one.poll()
                if problem is None:
                    continue
                running.remove(one)
                ended.append(one)
                if problem:
                    end_everything()
                    show(one, f"{one.part.name} {problem}; its output:")
                    print_table(ended, running, started)
                    sys.exit(f"\nthe gate has failed: {one.part.name} {problem}")
                passed.add(one.part.name)
                show(one, f"{one.part.name}: passed in {one.seconds / 60:.1f} minutes")
            time.sleep(0.2)
    finally:
        end_everything()
    print_table(ended, running, started)


def main():
    names = sys.argv[1:]
    if names == ["--list"]:
        print("\n".join(f"{part.name}: {part.command}" for part in PARTS))
        return
    parts = choose(names)
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(f"python3 is {sys.version.split()[0]}; the gate needs {'.'.join(map(str, OLDEST_PYTHON))}")
    refuse_small_disks()
    with refuse_second_gate():
        run(parts)


if __name__ == "__main__":
    main()
