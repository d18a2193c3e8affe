"""The child that turns a SavedModel into a TensorFlow Lite flatbuffer: `python -m …converter_process FOLDER PARENT`.

Where a process is there that has imported TensorFlow, it is a fork of that one instead, which begins with `run`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from convert.runners.sandbox import die_with_parent

from .flatbuffer import repeated_bytes


def run(arguments: Sequence[str]) -> None:
    """`main`, in a fork that is given the folder as the only argument."""
    main(Path(arguments[0]))


def main(folder: Path) -> None:
    """Read `job.json` and `model/`, write `model.tflite` and `status.json`; no status means that this process died."""
    import tensorflow as tf

    job = json.loads((folder / "job.json").read_text())
    converter = _converter(folder)
    # By default infinite constants become the largest number: another function, and nothing says so. In 8 bits they
    # are out of range in any case.
    converter.canonicalizing_inf_as_min_max_float = bool(job["samples"])
    if job["dtype"] == "float16":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
    if job["quantize"] == "int8":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if job["samples"]:
            converter.representative_dataset = lambda: _samples(folder, job["samples"])
    status: dict[str, Any] = {"problems": [], "error": ""}
    try:
        (folder / "model.tflite").write_bytes(converter.convert())
    except Exception as error:  # of classes that are not public
        status["problems"] = _problems(error)
        status["error"] = " ".join(str(error).split())[:600]
    (folder / "status.part").write_text(json.dumps(status))
    (folder / "status.part").rename(folder / "status.json")


def _converter(folder: Path) -> Any:
    """TensorFlow's converter of SavedModels, without its first steps, and without its last where it serves nobody.

    The first load the graph into Python, for statistics and debug information, and with what follows take 18 bytes of
    memory for each byte of weights; without them it is half. The last takes the file apart into objects of Python,
    twice, and writes it anew with one buffer for those of equal content: as long as the conversion itself where the
    graph is large.
    """
    from tensorflow.core.framework import graph_pb2
    from tensorflow.lite.python import lite

    class Converter(lite.TFLiteSavedModelConverterV2):
        def convert(self) -> bytes:
            definition = graph_pb2.GraphDef.FromString((folder / "operators.pb").read_bytes())
            return self._convert_from_saved_model(definition)

        def _optimize_tflite_model(self, model: bytes, quant_mode: Any, *others: Any, **named: Any) -> bytes:
            if not quant_mode.is_integer_quantization() and repeated_bytes(model) <= len(model) * _WORTH_SHARING:
                return model
            return super()._optimize_tflite_model(model, quant_mode, *others, **named)

    return Converter(str(folder / "model"), {"serve"}, ["serving_default"])


_WORTH_SHARING = 0.001
"""Which part of a file its repeated buffers are where they are shared: a number here and there is not."""


def _samples(folder: Path, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    from convert.runners.arrays import load_arrays

    for i in range(count):
        yield "serving_default", load_arrays(folder / f"sample{i}")


def _problems(error: Exception) -> list[dict[str, str]]:
    """Operators that could not be expressed, and the operations that were such.

    What the error collects is one operation for each operator; all of them are in its text.
    """
    found: dict[tuple[str, str], None] = {}
    for line in str(error).splitlines():
        match = _LINE.search(line)
        names = _NAME.findall(line) if match else []
        if match and names:
            found[match["operator"], names[0].partition("@")[0]] = None
    for e in getattr(error, "errors", ()):
        if e.operator.name and e.location.call:
            found[e.operator.name, e.location.call[0].name.partition("@")[0]] = None
        elif e.operator.name and not any(operator == e.operator.name for operator, _ in found):
            found[e.operator.name, ""] = None
    return [{"operator": operator, "name": name} for operator, name in found]


_LINE = re.compile(r"loc\((?P<place>.*)\): '(?P<operator>[\w.]+)' op is neither a custom op nor a flex op")
# What was fused is written as a list of its type and its name.
_NAME = re.compile(r'(?:fused\["[^"]*", |callsite\(|loc\()"([^"]+)"')


if __name__ == "__main__":
    die_with_parent(int(sys.argv[2]))
    main(Path(sys.argv[1]))
