"""Tests of the gate itself, with parts that pass, fail, hang and leave processes behind.

    python3 tests/gate/self_test.py
"""

import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import parts

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
DRIVER = """
import pathlib, sys
sys.path.insert(0, {here!r})
import gate
from parts import Part
gate.LOGS = pathlib.Path({logs!r})
gate.ENVIRONMENT["LOGS"] = {logs!r}
gate.run({parts})
"""


def run(parts, logs):
    program = DRIVER.format(here=str(HERE), logs=logs, parts=parts)
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([sys.executable, "-c", program], preexec_fn=hear_hang_ups, **output)


def hear_hang_ups():
    """A gate below `nohup` ignores SIGHUP, and so would this one."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def is_alive(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


class PartsTest(unittest.TestCase):
    def test_every_row_can_run(self):
        self.assertIsNone(parts.problem_of(parts.PARTS))
        first = parts.Part("first", "true")
        for row, problem in (
            ({"name": "first"}, "'first': a row above has the name"),
            ({"name": "a/b"}, "'a/b': a name has small letters, digits, spaces and dashes: it is a file too"),
            ({"after": ("first")}, "'second': `after` is a tuple, as (\"compiler\",)"),
            ({"after": ("frist",)}, "'second': no row above has the name 'frist'"),
            ({"slots": parts.ALL + 1}, f"'second': `slots` is 0 to {parts.ALL}"),
            ({"slots": 0.5}, f"'second': `slots` is 0 to {parts.ALL}"),
            ({"minutes": "1"}, "'second': `minutes` is a number of 1 or more"),
        ):
            self.assertEqual(parts.problem_of((first, parts.Part(**{"name": "second", "command": "true"} | row))), problem)

    def test_every_part_of_interop_and_all_its_software_are_in_the_gate(self):
        listed = run_script("tests/interop/run.py", "--list")
        self.assertEqual(listed, sorted(parts.INTEROP))
        self.assertEqual(run_script("tests/interop/install.py", "--list"), sorted(parts.SOFTWARE))


def run_script(*command):
    return sorted(subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())


class MachineTest(unittest.TestCase):
    """What a build lacks is one line, within seconds. The machine is a folder of programs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.meminfo = self.folder / "meminfo"
        self.meminfo.write_text("MemAvailable: 8000000 kB\nSwapFree: 0 kB\n")
        for tool in ("sh", "awk", "cut", "sed", "sort", "head"):
            (self.folder / tool).symlink_to(shutil.which(tool))
        self.program("rustc", "case $1 in --version) echo rustc 1.95.0;; *) echo host: a-b-c;; esac")
        self.program("cargo", "exit 0")
        self.program("cc", "exit 0")

    def program(self, name, script):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def check(self):
        environment = {"PATH": str(self.folder), "MEMINFO": str(self.meminfo)}
        command = ["sh", "tests/gate/packages.sh", "machine"]
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30)
        return ended.returncode, ended.stderr.splitlines()

    def test_a_machine_with_everything_passes_without_a_word(self):
        self.assertEqual(self.check(), (0, []))

    def test_everything_that_is_missing_is_one_line(self):
        for name, change, line in (
            ("no compiler of Rust", lambda: (self.folder / "cargo").unlink(), "install Rust 1.95 or newer with rustup"),
            ("an old one", lambda: self.program("rustc", "echo rustc 1.9.0"), "Rust is 1.9.0, svc needs 1.95 or newer"),
            ("no C compiler", lambda: (self.folder / "cc").unlink(), "a C compiler is missing (cc)"),
            ("little memory", lambda: self.meminfo.write_text("MemAvailable: 1500000 kB\nSwapFree: 0 kB\n"), "1 GiB of memory"),
            ("no network", lambda: self.program("cargo", "exit 101"), "the first build needs a network"),
        ):
            with self.subTest(name):
                self.setUp()
                change()
                code, lines = self.check()
                self.assertEqual((code, len(lines)), (1, 1), lines)
                self.assertIn(line, lines[0])


class GateTest(unittest.TestCase):
    def setUp(self):
        # A space, as a temporary folder may have one.
        self.logs = tempfile.TemporaryDirectory(prefix="the gate ")
        self.addCleanup(self.logs.cleanup)

    def end(self, parts):
        gate = run(parts, self.logs.name)
        self.addCleanup(gate.kill)
        return gate.communicate(timeout=60)[0], gate.returncode

    def test_parts_run_in_their_order_and_are_in_the_table(self):
        log = f"{self.logs.name}/order"
        output, code = self.end("""[Part('b', 'echo b >> "$LOGS/order"', after=('a',)), Part('a', 'sleep 0.3; echo a >> "$LOGS/order"')]""")
        self.assertEqual(code, 0, output)
        self.assertEqual(pathlib.Path(log).read_text(), "a\nb\n")
        self.assertIn("\n| a | ", output)
        self.assertIn("\n| everything | ", output)

    def test_a_failure_is_named_with_its_output_and_ends_what_others_started(self):
        pid = f"{self.logs.name}/pid"
        # This part leaves its process group and its parent, as a daemon does.
        left = """setsid sh -c 'echo $$ > "$LOGS/pid"; exec sleep 600' & sleep 600"""
        broken = """until [ -s "$LOGS/pid" ]; do sleep 0.1; done; echo the reason; exit 3"""
        output, code = self.end(f"[Part('left', {left!r}), Part('broken', {broken!r})]")
        self.assertEqual(code, 1, output)
        self.assertIn("the gate has failed: broken failed with 3", output)
        self.assertIn("the reason", output)
        self.assertFalse(is_alive(int(pathlib.Path(pid).read_text())), "a process is left")

    def test_a_part_that_hangs_is_named_after_its_time(self):
        output, code = self.end("[Part('slow registry', 'echo asked; sleep 600', minutes=0.02)]")
        self.assertEqual(code, 1, output)
        self.assertIn("slow registry did not end within 0.02 minutes", output)
        self.assertIn("asked", output)

    def test_what_needs_the_whole_machine_runs_alone_and_downloads_run_beside_it(self):
        log = f"{self.logs.name}/order"
        parts = """[Part('build', 'exec >> "$LOGS/order"; echo begin; sleep 1; echo end', slots=__import__('parts').ALL),
            Part('test', 'echo test >> "$LOGS/order"'), Part('download', 'sleep 0.5; echo downloaded >> "$LOGS/order"', slots=0)]"""
        output, code = self.end(parts)
        self.assertEqual(code, 0, output)
        self.assertEqual(pathlib.Path(log).read_text().split(), ["begin", "downloaded", "end", "test"])

    def test_what_clippy_warns_of_is_an_error_of_the_build(self):
        home = pathlib.Path(self.logs.name)
        (home / "Cargo.toml").write_text('[package]\nname = "linted"\nedition = "2024"\n[lib]\npath = "lib.rs"\n[workspace]\n')
        for source, is_clean in (("pub fn one() -> u8 { 1 }", True), ("pub fn one() -> u8 { return 1; }", False)):
            (home / "lib.rs").write_text(source)
            output, code = self.end("""[Part('build', 'cd "$LOGS" && CARGO_TARGET_DIR=target cargo build --offline')]""")
            self.assertEqual(code == 0, is_clean, output)
        self.assertIn("needless_return", output)

    def test_a_gate_that_is_ended_ends_its_parts(self):
        pid = pathlib.Path(self.logs.name, "pid")
        # Nothing of a gate that is killed can clean up after it.
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            with self.subTest(number=number):
                pid.unlink(missing_ok=True)
                gate = run("""[Part('left', 'echo $$ > "$LOGS/pid"; exec sleep 600')]""", self.logs.name)
                self.wait_until(lambda: pid.exists() and pid.read_text())
                gate.send_signal(number)
                gate.wait(timeout=60)
                gate.stdout.close()
                self.wait_until(lambda: not is_alive(int(pid.read_text())))

    def wait_until(self, holds):
        deadline = time.monotonic() + 30
        while not holds():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()
