"""Sets up a clone: `venv` makes .venv with unshuffle and its dependencies, `java` makes sure that Spark finds a Java.

Needs only Python's standard library. A second run does nothing: a stamp in .venv names what was installed.
`.venv/.unfinished` exists while an installation runs, so that an interrupted installation is started again instead of
trusted; pip would take a half-unpacked package for an installed one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
UNFINISHED = VENV / ".unfinished"
JAVA_AT_LEAST = 17
# Debian 12 and Ubuntu have 17, Debian 13 begins with 21; Spark runs on both.
JAVA_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless")

GET_JAVA = """\
  Debian, Ubuntu   sudo apt-get update && sudo apt-get install openjdk-17-jre-headless   (Debian 13: openjdk-21-jre-headless)
  Fedora           sudo dnf install java-21-openjdk-headless
  macOS            brew install openjdk@17 && export JAVA_HOME="$(brew --prefix openjdk@17)"
A Java that is elsewhere is named like this: export JAVA_HOME=/path/to/java (the folder that holds bin/java)"""


class SetupError(Exception):
    """What is missing, and what the user can do about it."""


def say(message: str) -> None:
    print(f"==> {message}", flush=True)


# --- the virtual environment


def install() -> None:
    """Installs into .venv what pyproject.toml requires."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # one installation at a time
        stamp = VENV / f".installed-{fingerprint(tomllib.load(file), ROOT)}"
        if stamp.exists():
            return
        python = _virtual_environment()
        say("installing unshuffle and its dependencies into .venv (minutes the first time)")
        UNFINISHED.touch()
        if _run([python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "-e", ".[dev]"]) != 0:
            raise SetupError("The installation failed; what pip says is above. Mend it and run make again.")
        # An editable installation compiles nothing, and where PYTHONDONTWRITEBYTECODE is set, every start would do it anew.
        _run([python, "-m", "compileall", "-qq", "src"])
        for old in VENV.glob(".installed-*"):
            old.unlink()
        stamp.touch()
        UNFINISHED.unlink()


def fingerprint(pyproject: dict[str, object], folder: Path) -> str:
    """Changes with everything that an installation depends on, and with nothing else, such as a linter's settings.

    The folder counts, because an editable installation and its scripts contain absolute paths.
    """
    parts = [pyproject.get("project"), pyproject.get("build-system"), str(folder)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _virtual_environment() -> Path:
    """The Python of .venv. Creates .venv if it does not exist, does not work, or is incomplete."""
    python = VENV / "bin" / "python"
    usable = _works([python, "-c", "import pip, sys; sys.exit(sys.version_info < (3, 11))"])
    if usable and _scripts_call(VENV) and not UNFINISHED.exists():
        return python
    if not _works([sys.executable, "-c", "import ensurepip, venv"]):
        _install_venv_module()
    if VENV.is_symlink():
        VENV.unlink()  # another folder's, which `--clear` would empty
    say(f"making .venv with Python {sys.version.split()[0]}")
    if _run([sys.executable, "-m", "venv", "--clear", VENV]) != 0:
        raise SetupError("The virtual environment could not be made; the reason is above.")
    return python


def _scripts_call(venv: Path) -> bool:
    """Was the virtual environment made in this folder? After a move its scripts still call the old path."""
    script = venv / "bin" / "pip"
    return script.exists() and str(venv) in script.read_text(errors="replace")


def _install_venv_module() -> None:
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    what_to_do = f"On Debian and Ubuntu: sudo apt-get install {package}"
    if sys.executable.startswith("/usr/bin/") and _apt_install([package]):
        return
    raise SetupError(f"This Python ({sys.executable}) has no venv module, so .venv cannot be made.\n{what_to_do}")


# --- Java


def find_java() -> None:
    """Makes sure that Spark finds a Java that it runs on, where Spark looks for it: JAVA_HOME first, then PATH."""
    java_home = os.environ.get("JAVA_HOME")
    java = str(Path(java_home) / "bin" / "java") if java_home else "java"
    found = _java_version(java)
    if found is not None and found >= JAVA_AT_LEAST:
        return
    if java_home:
        problem = f"is Java {found}" if found else "holds no Java that runs"
        raise SetupError(
            f"JAVA_HOME={java_home} {problem}; Spark needs Java {JAVA_AT_LEAST} or newer.\n"
            f"Unset it to use the java on the PATH, or let it name another:\n{GET_JAVA}"
        )
    say(f"Java {found} is too old for Spark" if found else "there is no Java on this machine")
    if _apt_install(JAVA_PACKAGES):
        now = _java_version("java")
        if now is not None and now >= JAVA_AT_LEAST:
            say(f"Java {now} is installed")
            return
        raise SetupError(
            "A newer Java is installed, but `java` on the PATH is not it. Choose one in /usr/lib/jvm:\n" + GET_JAVA
        )
    raise SetupError(f"Spark needs Java {JAVA_AT_LEAST} or newer. To get it:\n{GET_JAVA}")


def java_major(text: str) -> int | None:
    """The major version in the output of `java -version`: 17 in "17.0.15", and 8 in "1.8.0_402"."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if not match:
        return None
    return int(match[2] or 1) if match[1] == "1" else int(match[1])


def _java_version(java: str) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # macOS has a /usr/bin/java that fails and only prints where to get one.
    return java_major(answer.stderr + answer.stdout) if answer.returncode == 0 else None


# --- running things


def _apt_install(candidates: Sequence[str]) -> bool:
    """Installs the first of these Debian packages that exists; False without permission, or if none exists."""
    if not shutil.which("apt-get"):
        return False
    as_root: list[str] = []
    if os.geteuid() != 0:
        if not _works(["sudo", "-n", "true"]):
            return False
        as_root = ["sudo", "-n"]
    apt = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
    say("asking apt-get what there is")
    if _run([*apt, "update"]) != 0:
        return False
    for package in candidates:
        if _works(["apt-cache", "show", package]):
            say(f"installing {package}")
            return _run([*apt, "install", "--yes", "--no-install-recommends", package], stdout=subprocess.DEVNULL) == 0
    return False


def _run(command: Sequence[str | Path], stdout: int | None = None) -> int:
    return subprocess.run(command, cwd=ROOT, stdout=stdout).returncode


def _works(command: Sequence[str | Path]) -> bool:
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0
    except OSError:
        return False


def main(arguments: Sequence[str]) -> int:
    steps = {"venv": install, "java": find_java}
    try:
        for name in arguments:
            steps[name]()
    except SetupError as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
