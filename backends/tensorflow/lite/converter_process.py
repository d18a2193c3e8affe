"""The child that turns a SavedModel into a TensorFlow Lite flatbuffer: `python -m …converter_process FOLDER PARENT`.

If a process exists that has imported TensorFlow, the child is forked from it instead, and begins with `run`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from convert.processes.sandbox import die_with_parent

from .flatbuffer import repeated_bytes

WEIGHTS_ALONE, WIDE_ACTIVATIONS = "int8-weights", "int16x8"


def run(arguments: Sequence[str]) -> None:
    """Call `main` in a forked process, which gets the folder as its only argument."""
    main(Path(arguments[0]))


def main(folder: Path) -> None:
    """Read `job.json` and `model/`, write `model.tflite` and `status.json`. Without a status, this process has died.

    What delegates take is written afterwards, to `delegates.json`, because it is no failure to know nothing about it.
    """
    import tensorflow as tf

    from .compact import compact
    from .io_dtypes import NotInSteps, set_io_dtypes
    from .metadata import FileMetadata, add_metadata
    from .stored_weights import store_weights

    job = json.loads((folder / "job.json").read_text())
    converter = _converter(folder, job)
    # By default infinite constants become the largest number, without a message, which changes the function. In 8 bits
    # they are out of range in any case.
    converter.canonicalizing_inf_as_min_max_float = bool(job["samples"])
    if job["dtype"] == "float16":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
    if job["quantize"] and job["quantize"] != WEIGHTS_ALONE:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if job["samples"]:
            converter.representative_dataset = lambda: (
                ("serving_default", sample) for sample in _samples(folder, job["samples"])
            )
    if job["quantize"] == WIDE_ACTIVATIONS:
        kinds = tf.lite.OpsSet
        converter.target_spec.supported_ops = [
            kinds.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8,
            kinds.TFLITE_BUILTINS,
        ]
    status: dict[str, Any] = {"problems": [], "error": "", "lost": []}
    try:
        written = converter.convert()
        written = store_weights(written) if job["quantize"] == WEIGHTS_ALONE else written
        data = _quantized(written, folder, job["quantized"])
        data = _with_detections(data, folder, job["detections"]) if job["detections"] else data
        data = data if job["io_dtype"] == "float32" else set_io_dtypes(data, job["io_dtype"])
        data = compact(data)  # before metadata, whose archive of labels is behind the last table
        data = add_metadata(data, FileMetadata.of(job["metadata"])) if job["metadata"] else data
        (folder / "model.tflite").write_bytes(data)
    except NotInSteps as error:
        status["lost"] = list(error.args)
    except Exception as error:  # these classes are not public
        status["problems"] = _problems(error)
        status["error"] = " ".join(str(error).split())[:600] or type(error).__name__
    (folder / "status.part").write_text(json.dumps(status))
    (folder / "status.part").rename(folder / "status.json")
    if not status["error"] and not status["lost"]:
        from .delegates import examine

        (folder / "delegates.json").write_text(json.dumps(examine(folder / "model.tflite")))


def _with_detections(data: bytes, folder: Path, options: dict[str, Any]) -> bytes:
    from convert.processes.arrays import load_arrays

    from .detections import add_detections

    return add_detections(data, options, load_arrays(folder / "anchors"))


def _quantized_in_ranges(calibrated: bytes, folder: Path, job: dict[str, Any]) -> bytes:
    """Return a calibrated model quantized to int8, or with activations in int16, with ranges of our own
    (`job["method"]`), and with the operators in floats that have to be (`job["keep"]`), or, in int8, that are faster so
    (`job["choose"]`). The names of the latter go to `floats.json`.
    """
    from tensorflow.lite.python.convert import mlir_quantize

    from .calibrated_ranges import choose_ranges, separate_joined
    from .file_objects import LiteFile
    from .float_choice import CHOSEN, choose_floats
    from .float_parts import keep_in_floats, operators_of, restore_floats
    from .wide_activations import quantize_wide

    file = LiteFile(calibrated)
    floats = operators_of(file, job["keep"])
    if job["quantize"] == WIDE_ACTIVATIONS:
        choose_ranges(file, partial(_samples, folder, job["samples"]), job["method"], floats[0], wide=True)
        return quantize_wide(file, floats)
    if job["choose"]:
        chosen = choose_floats(file, floats[0])
        names = [file.name(file.model.subgraphs[0].operators[number]) for number in sorted(chosen - floats[0])]
        (folder / "floats.json").write_text(json.dumps([name for name in names if name in CHOSEN]))
        floats[0] |= chosen
    choose_ranges(file, partial(_samples, folder, job["samples"]), job["method"], floats[0])
    kept, hidden = keep_in_floats(file, floats)
    separate_joined(file)
    quantized: bytes = mlir_quantize(file.packed(), denylisted_nodes=kept)
    return restore_floats(quantized, hidden) if kept or hidden else quantized


def _quantized(data: bytes, folder: Path, parts: dict[str, Any]) -> bytes:
    """Return the file with the quantized parts of the model as integers."""
    if parts["integers"]:
        from .stored_weights import store_integers

        data = store_integers(data)
    if not parts["marks"] and not parts["weights"]:
        return data
    from convert.processes.arrays import load_arrays

    from .kernels import quantize_file
    from .steps import Steps
    from .weights import KnownWeights

    weights = KnownWeights([load_arrays(folder / f"weight{n}") for n in range(parts["weights"])])
    return quantize_file(data, [Steps(**mark) for mark in parts["marks"]], weights, parts)


def _converter(folder: Path, job: dict[str, Any]) -> Any:
    """Return TensorFlow's converter of SavedModels without its first steps, and without its last step if nothing needs
    it.

    The first steps load the graph into Python for statistics and debug information. With the steps after them, they
    take 18 bytes of memory for each byte of weights; without them it is half. The last step unpacks the file into
    Python objects twice, and writes it again with one buffer for all constants of equal content. For a large graph it
    takes as long as the conversion itself.
    """
    from tensorflow.core.framework import graph_pb2
    from tensorflow.lite.python import lite

    class Converter(lite.TFLiteSavedModelConverterV2):
        def convert(self) -> bytes:
            definition = graph_pb2.GraphDef.FromString((folder / "operators.pb").read_bytes())
            return self._convert_from_saved_model(definition)

        def _quantize(self, *arguments: Any) -> bytes:
            self._experimental_calibrate_only = True
            return _quantized_in_ranges(super()._quantize(*arguments), folder, job)

        def _optimize_tflite_model(self, model: bytes, quant_mode: Any, *others: Any, **named: Any) -> bytes:
            if not quant_mode.is_integer_quantization() and repeated_bytes(model) <= len(model) * _WORTH_SHARING:
                return model
            return super()._optimize_tflite_model(model, quant_mode, *others, **named)

    return Converter(str(folder / "model"), {"serve"}, ["serving_default"])


_WORTH_SHARING = 0.001
"""Buffers are shared if the repeated ones are at least this part of the file."""


def _samples(folder: Path, count: int) -> Iterator[dict[str, Any]]:
    from convert.processes.arrays import load_arrays

    return (load_arrays(folder / f"sample{i}") for i in range(count))


def _problems(error: Exception) -> list[dict[str, str]]:
    """Return the operators that could not be expressed, each with an operation that uses it.

    The error has one operation for each operator; its text names all of them.
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
# A fused operation is written as a list of its type and its name.
_NAME = re.compile(r'(?:fused\["[^"]*", |callsite\(|loc\()"([^"]+)"')


if __name__ == "__main__":
    die_with_parent(int(sys.argv[2]))
    main(Path(sys.argv[1]))
