"""Which kernels TensorFlow takes on a processor, Eigen's or oneDNN's: both, where an artefact is held to its source."""

from __future__ import annotations

import mmap
import os
import platform
import re
import sys
from itertools import islice
from pathlib import Path

from convert.errors import ConvertError
from convert.source import Source

from .graph_signature import meta_file

_ONEDNN = "TF_ENABLE_ONEDNN_OPTS"

# Operators as a GraphDef stores them: field 2 of a node, and how long the name is.
_DEPARTING = re.compile(rb"\x12(?:\x0aQuantizeV2|\x0aDequantize|\x10QuantizedAvgPool)")
_ONLY_ONEDNN = re.compile(rb"\x12.(?:_Quantized|QuantizedDepthwise|Quantized(?:Conv2D|MatMul)[A-Z])", re.S)


def environment(source: Source) -> dict[str, str]:
    """Eigen's kernels for graphs with operators on bytes that oneDNN's compute in another way, on any processor.

    oneDNN's QuantizeV2 departs by a level from what TensorFlow documents, its QuantizedAvgPool rounds where Eigen's
    cuts off, and it lacks a Dequantize of 32 bits, so that the graph fails. A verdict on the converted model must not
    depend on which the processor at hand has by default. Left alone are graphs that only oneDNN has kernels for.
    """
    return {_ONEDNN: "0"} if _has_operators(source, _DEPARTING) and not _has_operators(source, _ONLY_ONEDNN) else {}


def onednn_by_default() -> bool:
    """Whether TensorFlow takes oneDNN's kernels here: as the variable says, else where the processor has instructions
    for products of bytes or bfloat16 (`IsMKLEnabled` in tensorflow/core/util/util.cc).
    """
    setting = os.environ.get(_ONEDNN, "")
    if setting in ("0", "1"):
        return setting == "1"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    return bool({"avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16"} & set(flags))


def check_kernels() -> None:
    """Raise `ConvertError` where TensorFlow, which is imported, has other kernels than it was asked for.

    It lacks oneDNN on some machines; what it then does under both settings is the same.
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
    """Whether TensorFlow is in this process and has read its variables, other ones than a fork may be asked for."""
    return "tensorflow" in sys.modules


def settings(source: Source) -> list[dict[str, str]]:
    """Both kinds of kernels, the processor's choice first: another machine's may be the other.

    Only oneDNN's for graphs that have operators which Eigen has no kernel for.
    """
    found = ["1"] if _has_operators(source, _ONLY_ONEDNN) else ["1", "0"] if onednn_by_default() else ["0", "1"]
    return [{_ONEDNN: value} for value in found]


def _has_operators(source: Source, pattern: re.Pattern[bytes]) -> bool:
    """Whether the graph in the file of `source` has an operator whose name is like `pattern`."""
    return count_operators(source, pattern, 1) == 1


def count_operators(source: Source, pattern: re.Pattern[bytes], most: int) -> int:
    """How many operators whose names are like `pattern` the graph in the file of `source` has, counted up to `most`."""
    files = {"savedmodel": lambda path: path / "saved_model.pb", "frozen-graph": Path, "tf-meta": meta_file}
    if source.path is None or source.kind not in files:
        return 0
    file = files[source.kind](source.path)
    if not file.is_file() or not file.stat().st_size:
        return 0
    with open(file, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as graph:
        return sum(1 for _ in islice(pattern.finditer(graph), most))
