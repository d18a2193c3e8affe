"""The environment of a verdict: versions of the packages involved, and settings that change numbers."""

from __future__ import annotations

import os
import platform
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = (
    "torch", "tensorflow", "keras", "ai-edge-litert", "onnx", "onnx-ir", "onnxruntime", "numpy", "scipy",
    "transformers",
)  # fmt: skip
_SETTINGS = ("OMP_NUM_THREADS", "TF_ENABLE_ONEDNN_OPTS", "ATEN_CPU_CAPABILITY", "CONVERT_CAFFE2_PYTHON")


def environment_facts() -> dict[str, str]:
    """Return the date, versions by package (those that are installed), the platform, and the settings that are set."""
    found = {"date": datetime.now().astimezone().isoformat(" ", "minutes")}
    found |= {"convert": _version("convert-models") or "not installed", "Python": platform.python_version()}
    found |= {"platform": platform.platform(), "processor": f"{platform.machine()}, {os.cpu_count()} cores"}
    found |= {name: number for name in _PACKAGES if (number := _version(name))}
    return found | {name: os.environ[name] for name in _SETTINGS if name in os.environ}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
