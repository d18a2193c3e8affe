"""Selects TensorFlow's CPU kernels, Eigen's or oneDNN's; an artefact is compared with its source under both."""

from __future__ import annotations

import mmap
import os
import platform
import re
import sys
from itertools import islice
from pathlib import Path

from convert.errors import ConvertError
from convert.request.source import Source

from .graph_signature import meta_file

_ONEDNN = "TF_ENABLE_ONEDNN_OPTS"

# Operators as a GraphDef stores them: field 2 of a node, and the length of the name.
_DEPARTING = re.compile(rb"\x12(?:\x0aQuantizeV2|\x0aDequantize|\x10QuantizedAvgPool)")
_ONLY_ONEDNN = re.compile(rb"\x12.(?:_Quantized|QuantizedDepthwise|Quantized(?:Conv2D|MatMul)[A-Z])", re.S)


def environment(source: Source) -> dict[str, str]:
    """Return settings that select Eigen's kernels for graphs with byte operators that oneDNN computes differently.

    oneDNN's QuantizeV2 differs by one level from TensorFlow's documentation, its QuantizedAvgPool rounds where Eigen's
    truncates, and it lacks a 32-bit Dequantize, so that the graph fails. The verdict must not depend on the default of
    the processor at hand. Graphs that only oneDNN has kernels for get no settings.
    """
    return {_ONEDNN: "0"} if _has_operators(source, _DEPARTING) and not _has_operators(source, _ONLY_ONEDNN) else {}


def onednn_by_default() -> bool:
    """Return whether TensorFlow uses oneDNN's kernels here.

    This depends on the environment variable, or else on whether the processor has instructions for products of bytes or
    bfloat16 (`IsMKLEnabled` in tensorflow/core/util/util.cc).
    """
    setting = os.environ.get(_ONEDNN, "")
    return setting == "1" if setting in ("0", "1") else _has_products()


def _has_products() -> bool:
    """Return whether this processor has instructions for products of bytes or bfloat16."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    return bool({"avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16"} & set(flags))


def check_kernels() -> None:
    """Raise `ConvertError` if the imported TensorFlow uses other kernels than requested.

    On machines without oneDNN, both settings give the same kernels.
    """
    from tensorflow.python.util import _pywrap_util_port

    wanted = os.environ.get(_ONEDNN)
    if (wanted == "0" and _pywrap_util_port.IsMklEnabled()) or (
        wanted == "1"
        and sys.platform == "linux"
        and platform.machine() == "x86_64"
        and not _pywrap_util_port.IsMklEnabled()
    ):
        raise ConvertError(f"TensorFlow was asked for {_ONEDNN}={wanted}, and runs without", hint="set it yourself")


def is_imported() -> bool:
    """Return whether TensorFlow is imported in this process and has read its variables, which a fork may need to
    differ.
    """
    return "tensorflow" in sys.modules


def settings(source: Source) -> list[dict[str, str]]:
    """Return the settings for both kinds of kernels, the processor's default first; another machine may have the other.

    Returns only oneDNN's for graphs with operators that Eigen has no kernel for, and only Eigen's where `environment`
    asks for them.
    """
    if forced := environment(source):
        return [forced]
    found = ["1"] if _has_operators(source, _ONLY_ONEDNN) else ["1", "0"] if onednn_by_default() else ["0", "1"]
    return [{_ONEDNN: value} for value in found]


def is_usual_setting(source: Source) -> bool:
    """Return whether this process has the kernels that the processor gets by default, or the only ones for `source`.

    One of the processes that run an artefact has them, whatever the environment asks for.
    """
    usual = "1" if _has_products() else "0"
    return len(settings(source)) == 1 or os.environ.get(_ONEDNN, usual) == usual


def _has_operators(source: Source, pattern: re.Pattern[bytes]) -> bool:
    """Return whether the graph in the file of `source` has an operator whose name matches `pattern`."""
    return count_operators(source, pattern, 1) == 1


def count_operators(source: Source, pattern: re.Pattern[bytes], most: int) -> int:
    """Return how many operators in the graph of `source` have names that match `pattern`, counted up to `most`."""
    files = {"savedmodel": lambda path: path / "saved_model.pb", "frozen-graph": Path, "tf-meta": meta_file}
    if source.path is None or source.kind not in files:
        return 0
    file = files[source.kind](source.path)
    if not file.is_file() or not file.stat().st_size:
        return 0
    with open(file, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as graph:
        return sum(1 for _ in islice(pattern.finditer(graph), most))
