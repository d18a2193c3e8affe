"""Environments of the consumers, the programs that read our artefacts: Python, and packages of pip, npm and Debian."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 1800
_VERSION = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
_PACKAGES = """
import json
try:
    from importlib.metadata import distributions
    print(json.dumps({d.metadata["Name"].lower().replace("_", "-"): d.version for d in distributions()}))
except ImportError:
    import pkg_resources
    print(json.dumps({d.key: d.version for d in pkg_resources.working_set}))
"""


class NotToBeHad(Exception):
    """An environment cannot be created here, for this reason."""


@dataclass(frozen=True)
class Needs:
    """The packages to install: from pip for a version of Python, from npm, and shared libraries from Debian."""

    python: str = "3.11"
    pip: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    """Packages of pip to install without their requirements, for which pip finds no versions within an hour."""
    npm: tuple[str, ...] = ()
    debian: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    """The name that a library is loaded by → its name in Debian's package."""


@dataclass(frozen=True)
class Environment:
    """A folder in which everything is installed."""

    folder: Path
    needs: Needs

    @property
    def python(self) -> Path:
        """The path of its interpreter."""
        return self.folder / "bin" / "python"

    def variables(self) -> dict[str, str]:
        """The environment variables of a process in it, without those of ours that change Python or a library."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "KERAS", "TF_", "VIRTUAL_ENV"))}
        places = [self.folder / "links", *sorted({p.parent for p in (self.folder / "debian").rglob("*.so.*")})]
        return kept | ({"LD_LIBRARY_PATH": ":".join(map(str, places))} if self.needs.debian else {})

    def versions(self) -> dict[str, str]:
        """The versions of what was requested, and of Python if it is there."""
        found = {}
        if self.needs.pip:
            installed = json.loads(_call([str(self.python), "-c", _PACKAGES], self.folder))
            wanted = [
                re.split(r"[=<>\[]", package)[0].lower().replace("_", "-")
                for package in (*self.needs.alone, *self.needs.pip)
            ]
            found = {"python": _call([str(self.python), "-c", _VERSION], self.folder).strip()}
            found |= {name: installed[name] for name in wanted}
        for package in (re.sub(r"(?<=.)@.*", "", p) for p in self.needs.npm):
            described = self.folder / "node_modules" / package / "package.json"
            found[package] = json.loads(described.read_text())["version"]
        return found


def interpreter(version: str) -> str:
    """Return a Python of that version, from PATH or from the pyenv in PYENV_ROOT."""
    pyenv = os.environ.get("PYENV_ROOT")
    versions = Path(pyenv, "versions").glob(f"{version}.*/bin/python{version}") if pyenv else []
    found = [shutil.which(f"python{version}"), *sorted(map(str, versions))]
    for path in filter(None, found):
        told = subprocess.run([path, "-c", _VERSION], capture_output=True, text=True)
        if told.stdout.strip() == version:  # a command of pyenv on PATH may belong to a disabled version
            return path
    raise NotToBeHad(f"there is no Python {version}")


def environment(needs: Needs, folder: Path) -> Environment:
    """Create the environment in `folder`, or find it there. Raises `NotToBeHad`."""
    made, record = Environment(folder, needs), folder / "installed.json"
    wanted = json.dumps([needs.python, needs.pip, needs.alone, needs.npm, needs.debian, dict(needs.links)])
    if record.exists() and record.read_text() == wanted:
        return made
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if needs.pip:
        _call([interpreter(needs.python), "-m", "venv", str(folder)], folder)
        pip = [str(made.python), "-m", "pip", "install", "--quiet"]
        if tuple(map(int, needs.python.split("."))) < (3, 9):
            _call([*pip, "--upgrade", "pip<22"], folder)  # the oldest versions of pip do not know today's wheel tags
        _call([*pip, *needs.pip], folder)
    if needs.alone:
        _call([*pip, "--no-deps", *needs.alone], folder)
    if needs.npm:
        _require("npm", "node")
        (folder / "package.json").write_text("{}")
        _call(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *needs.npm], folder)
    if needs.debian:
        _require("apt-get", "dpkg")
        _unpack_debian(needs, folder)
    record.write_text(wanted)
    return made


def _unpack_debian(needs: Needs, folder: Path) -> None:
    """Unpack Debian's packages into their own folder, so that nothing is installed into the system."""
    unpacked, links = folder / "debian", folder / "links"
    unpacked.mkdir()
    links.mkdir()
    _call(["apt-get", "download", *needs.debian], unpacked)
    for package in unpacked.glob("*.deb"):
        _call(["dpkg", "-x", package.name, "."], unpacked)
    for name, library in needs.links.items():
        (links / name).symlink_to(next(unpacked.rglob(library)))


def _require(*programs: str) -> None:
    if missing := [p for p in programs if shutil.which(p) is None]:
        raise NotToBeHad(f"there is no {' and no '.join(missing)}")


def _call(command: Sequence[str], folder: Path) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotToBeHad(f"{Path(command[0]).name}: {error}") from error
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        told = next((line for line in lines if line.startswith(("ERROR", "E:", "npm error"))), (lines or ["?"])[-1])
        raise NotToBeHad(f"{Path(command[0]).name}: {told[:200]}")
    return done.stdout
