"""Runs TensorFlow Lite models with ai-edge-litert, as deployed, and once with TensorFlow's own interpreter."""

from __future__ import annotations

import importlib.util
import struct
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import BadInput, ConvertError, Location, Problem, Unsupported, UsageError
from convert.graph.metadata import state_output
from convert.outcome.extras import install_command
from convert.request.detections import BESIDE, CANDIDATE_NAMES, CANDIDATES, INNER, InnerTensors
from convert.request.options import Options
from convert.request.source import Source
from convert.request.storage import REAL_IO, THREADS
from convert.request.stored import FULL, HALF, WEIGHT_STEPS, WEIGHTS, WIDE, StoredWeight

from ..graph.allowed import operator_problem, refuse_listed
from ..graph.protos import open_buffer
from ..runner.names import distinct_names, tensor_names
from .file import parse_lite_model
from .stateful import StatefulFile, file_for

KINDS = ("tflite",)
TIMED_THREADS = (4,)
"""Numbers of threads that a run is timed with, besides one."""
OTHER_RUNTIMES = ("tf.lite.Interpreter", "without XNNPACK")
"""Optional ways of use: if the artefact does not run this way, the report says so."""
INNER_TENSORS = True
"""Whether `run` takes the option `INNER`."""

Feeds = Sequence[Mapping[str, np.ndarray]]


def available() -> str:
    """Return an empty string if the interpreter is installed, else what is missing."""
    found = importlib.util.find_spec("ai_edge_litert")
    return "" if found else f"ai-edge-litert is not installed ({install_command('ai_edge_litert')})"


def run(source: Source, feeds: Feeds, *, precision: str, options: Options) -> list[dict[str, np.ndarray]]:
    """Return outputs by name for each dict of inputs; names are the signature's, or the tensors' if there is none.

    Raises `Unsupported` for float64 and for operators that the interpreter lacks, `BadInput` for a broken file, and
    `UnsafeInput` for one with TensorFlow operators that do more than compute.
    """
    if precision == "float64":
        raise Unsupported("TensorFlow Lite computes in the precision that the file says")
    if not options.trust:
        check_operators(source)
    try:
        interpreter, file = _interpreter(source, feeds, options)
    except (ValueError, RuntimeError) as error:
        raise _runner_error(source, error) from error
    ends = tensor_details(interpreter, options.signature)
    found = []
    for feed in feeds:
        outputs = _real(_run_interpreter(interpreter, source, feed, ends, file), ends, options)
        found.append(_with_tensors(outputs, interpreter, source, options))
    return found


def _with_tensors(
    outputs: dict[str, np.ndarray], interpreter: Any, source: Source, options: Options
) -> dict[str, np.ndarray]:
    """Return the outputs of the last run, with tensors beside or instead of them if the options request it."""
    if inner := options.extra.get(INNER):
        return ({} if inner.numbers else outputs) | _inner_tensors(interpreter, inner)
    if asked := options.extra.get(CANDIDATES):
        return (outputs if asked == BESIDE else {}) | _candidates(interpreter, source)
    return outputs


def _inner_tensors(interpreter: Any, asked: InnerTensors) -> dict[str, np.ndarray]:
    """Return tensors of the last run. Tensors that a delegate has not written are left out, or contain anything."""
    found: dict[str, np.ndarray] = {}
    names = {number: name for name, number in asked.numbers}
    for details in interpreter.get_tensor_details():
        number = int(details["index"])
        if asked.numbers and number not in names:
            continue
        try:
            array = interpreter.get_tensor(number)
        except (ValueError, RuntimeError):  # it has no memory
            continue
        rows = array.dtype.kind == "i" and array.ndim == 2 and array.shape[1] == 3
        if names or rows or (array.dtype == np.float32 and array.size in asked.sizes):
            found[names.get(number, str(number))] = array
    return found


def _candidates(interpreter: Any, source: Source) -> dict[str, np.ndarray]:
    """Return the boxes and scores of the last run that the detection operator has selected from, decoded as it does.

    Raises `Unsupported` for a file without that operator.
    """
    graph = parse_lite_model(open_buffer(source.file), source.label).subgraphs[0]
    operator = next((o for o in graph.operators if o.name.endswith("TFLite_Detection_PostProcess")), None)
    if operator is None:
        raise Unsupported(f"{source.label} has no TFLite_Detection_PostProcess")
    encoded, scores, anchors = (interpreter.get_tensor(number) for number in operator.inputs)
    moved, grown = np.split(encoded[0].astype(np.float64) / np.array(operator.options["scales"]), 2, axis=1)
    centre, size = np.split(anchors.astype(np.float64), 2, axis=1)
    middle, half = moved * size + centre, np.exp(grown) / 2 * size
    boxes = np.concatenate([middle - half, middle + half], 1).astype(np.float32)
    by_class = scores[0].T[-operator.options["num_classes"] :]
    return dict(zip(CANDIDATE_NAMES, (boxes[None], by_class[None]), strict=True))


def _real(
    found: dict[str, np.ndarray], ends: tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]], options: Options
) -> dict[str, np.ndarray]:
    """Return quantized outputs as real numbers, if the options request it."""
    if not options.extra.get(REAL_IO):
        return found
    real = dict(found)
    for name, tensor in ends[1].items():
        scale, zero = tensor["quantization"]
        if scale and np.dtype(tensor["dtype"]).kind in "iu":
            real[name] = ((found[name].astype(np.int32) - zero) * np.float32(scale)).astype(np.float32)
    return real


def _interpreter(
    source: Source, feeds: Feeds, options: Options, interpreter_class: Any = None
) -> tuple[Any, StatefulFile]:
    """Return an interpreter of the file, or of a copy in which the variables named by the feeds are inputs and outputs.

    Also returns what `file_for` found about the file.
    """
    from ai_edge_litert.interpreter import Interpreter

    with open_buffer(source.file) as data:
        found = file_for(data, source.label, options.signature, {name for feed in feeds for name in feed})
    given: dict[str, Any] = (
        {"model_path": str(source.file)} if found.content is None else {"model_content": found.content}
    )
    threads = options.extra.get(THREADS, 1)
    if options.extra.get(CANDIDATES) or options.extra.get(INNER):
        given["experimental_preserve_all_tensors"] = True
    return (interpreter_class or Interpreter)(**given, num_threads=threads), found


def run_as_used(source: Source, feeds: Feeds, options: Options) -> dict[str, list[dict[str, np.ndarray]] | Unsupported]:
    """Return outputs by way of using the file: its tensors, resized for each feed, and its signature, called by name.

    The first feed also runs by TensorFlow Lite's own kernels, as on devices for which XNNPACK is not built, and in
    TensorFlow's own interpreter, if there is one, which has other versions of operators.
    """
    found: dict[str, list[dict[str, np.ndarray]] | Unsupported]
    found = {"its tensors": run(source, feeds, precision="float32", options=options)}
    signature = not (options.extra.get(CANDIDATES) or options.extra.get(INNER))  # it returns no other tensors
    called = _run_signature(source, feeds[0], options) if signature else None
    if called is not None:
        found["its signature, called by name"] = [called]
    found[OTHER_RUNTIMES[1]] = _run_without_delegate(source, feeds[0], options)
    if importlib.util.find_spec("tensorflow"):
        found[OTHER_RUNTIMES[0]] = _run_tensorflow(source, feeds[0], options)
    return found


def _run_without_delegate(
    source: Source, feed: Mapping[str, np.ndarray], options: Options
) -> list[dict[str, np.ndarray]] | Unsupported:
    """Return outputs on one feed by TensorFlow Lite's own kernels, or why they do not run the file."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    made = partial(Interpreter, experimental_op_resolver_type=plain)
    return _run_other(source, feed, options, made, "ai-edge-litert runs it with XNNPACK, and not without")


def _run_tensorflow(
    source: Source, feed: Mapping[str, np.ndarray], options: Options
) -> list[dict[str, np.ndarray]] | Unsupported:
    """Return outputs on one feed by TensorFlow's interpreter, or why it does not run the file."""
    import tensorflow as tf

    refusal = f"TensorFlow {tf.__version__}'s interpreter does not run it, ai-edge-litert does"
    with warnings.catch_warnings(action="ignore"):  # TensorFlow announces its replacement by ai-edge-litert
        return _run_other(source, feed, options, tf.lite.Interpreter, refusal)


def _run_other(
    source: Source, feed: Mapping[str, np.ndarray], options: Options, interpreter_class: Any, refusal: str
) -> list[dict[str, np.ndarray]] | Unsupported:
    """Return outputs on one feed by another interpreter, or `refusal` with its reason."""
    try:
        interpreter, file = _interpreter(source, [feed], options, interpreter_class)
        details = tensor_details(interpreter, options.signature)
        outputs = _real(_run_interpreter(interpreter, source, feed, details, file), details, options)
        return [_with_tensors(outputs, interpreter, source, options)]
    except ConvertError as error:
        text = error.sentence
    except (ValueError, RuntimeError) as error:
        text = " ".join(str(error).split())[:400]
    return Unsupported(f"{refusal}: {text}")


def _run_signature(source: Source, feed: Mapping[str, np.ndarray], options: Options) -> dict[str, np.ndarray] | None:
    """Return one run by the signature runner, or None if it cannot be used.

    It needs a signature. It does not take tensors that are variables, and does not return outputs without elements.
    """
    try:
        interpreter, file = _interpreter(source, [feed], options)
        inputs, outputs = tensor_details(interpreter, options.signature)
        if file.tensors or not interpreter.get_signature_list():
            return None
        given = {name: _input_array(feed[name], tensor) for name, tensor in inputs.items()}
        return _real(_called(interpreter, options.signature, given, outputs), (inputs, outputs), options)
    except (ValueError, RuntimeError, TypeError) as error:
        if "Tensor data is null" in str(error):
            return None
        raise _runner_error(source, error) from error


def _called(
    interpreter: Any, signature: str, given: Mapping[str, np.ndarray], outputs: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Return the outputs, by the reader's names, of a signature that is called by its name."""
    found = interpreter.get_signature_runner(_signature_key(interpreter, signature))(**given)
    own = _end_details(interpreter, signature)[1]
    return {name: np.array(found[key]) for name, key in zip(outputs, own, strict=True)}


def stored(source: Source) -> str:
    """Return how the file stores numbers, one of `convert.request.stored.STORED`; empty for float32."""
    from ai_edge_litert import schema_py_generated as schema

    try:
        return _number_storage(schema, schema.Model.GetRootAs(source.file.read_bytes(), 0))
    except _BROKEN as error:
        raise BadInput(f"{source.label} is no TensorFlow Lite model: {error}") from error


def computes_with_integers(source: Source) -> bool:
    """Return whether computed numbers are integers with a scale."""
    integers = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16)
    model = parse_lite_model(open_buffer(source.file), source.label)
    tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors]
    return any(t.content is None and t.quantization is not None and t.dtype in integers for t in tensors)


def stored_weights(source: Source) -> list[StoredWeight]:
    """Return the constants of the file as stored: floating-point ones, and integers with a scale."""
    found = []
    for graph in parse_lite_model(open_buffer(source.file), source.label).subgraphs:
        for tensor in graph.tensors:
            steps, dtype = tensor.quantization, tensor.dtype
            if tensor.content is None or dtype is None or not (steps or dtype.is_floating_point()):
                continue
            array = tensor.content.numpy()
            if steps is None or dtype.is_floating_point():
                found.append(StoredWeight(tensor.name, array))
                continue
            shape = [-1 if i == steps.axis else 1 for i in range(array.ndim)] if steps.per_axis else [1] * array.ndim
            scale, zero = steps.scale.reshape(shape), steps.zero.reshape(shape)
            found.append(StoredWeight(tensor.name, array, scale, zero, steps.ends))
    return found


_BROKEN = (struct.error, IndexError, ValueError, TypeError, OverflowError)
"""Errors that the generated code raises for wrong offsets."""


def check_operators(source: Source) -> None:
    """Raise `UnsafeInput` if the file has TensorFlow operators (Flex) that may not be run.

    Other custom operators belong to the interpreter, or it has none of that name.
    """
    from ai_edge_litert import schema_py_generated as schema

    try:
        model = schema.Model.GetRootAs(source.file.read_bytes(), 0)
        codes = [model.OperatorCodes(i).CustomCode() or b"" for i in range(model.OperatorCodesLength())]
    except _BROKEN as error:
        raise BadInput(f"{source.label} is no TensorFlow Lite model: {error}") from error
    names = sorted({code.decode("utf-8", "replace") for code in codes})
    flex = [(name, operator_problem(name.removeprefix("Flex"))) for name in names if name.startswith("Flex")]
    refuse_listed(source.label, [Problem(why, Location(name)) for name, why in flex if why])


_SHARE, _LEAST = 8, 1024
"""Thresholds at which a file counts as narrow: the fraction of constants that are narrow, or the size of an 8-bit
weight, which is the one from which TensorFlow Lite's converter narrows. A few half-precision constants are a defect,
not a format.
"""


def _number_storage(schema: Any, model: Any) -> str:
    kinds = schema.TensorType
    sizes = {kinds.FLOAT32: 4, kinds.FLOAT16: 2, kinds.INT8: 1}
    numbers = dict.fromkeys(sizes, 0)
    steps, large, met, seen = set[int](), False, False, set()
    for subgraph in map(model.Subgraphs, range(model.SubgraphsLength())):
        dequantized = _dequantized(schema, model, subgraph)
        for number, tensor in enumerate(map(subgraph.Tensors, range(subgraph.TensorsLength()))):
            kind, place = tensor.Type(), tensor.Buffer()
            buffer, scales = model.Buffers(place), tensor.Quantization()
            length = max(buffer.DataLength(), buffer.Size()) // sizes.get(kind, 1)
            if kind in (kinds.INT8, kinds.INT16) and (scales is None or not scales.ScaleLength()):
                continue
            if not length:
                steps |= {kind} & {kinds.INT8, kinds.INT16}
            elif kind in sizes and place not in seen:
                seen.add(place)
                numbers[kind] += length
                large |= kind == kinds.INT8 and length >= _LEAST
                met |= kind == kinds.INT8 and number not in dequantized
    wide, half, narrow = numbers.values()
    if steps:
        return FULL if kinds.INT8 in steps else WIDE
    if large or (narrow and _SHARE * narrow >= narrow + wide):
        return WEIGHTS if met else WEIGHT_STEPS
    return HALF if half and _SHARE * half >= half + wide else ""


def _dequantized(schema: Any, model: Any, subgraph: Any) -> set[int]:
    """Return the tensors that only DEQUANTIZE reads."""
    read: tuple[set[int], set[int]] = set(), set()
    for operator in map(subgraph.Operators, range(subgraph.OperatorsLength())):
        code = model.OperatorCodes(operator.OpcodeIndex())
        alone = max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) == schema.BuiltinOperator.DEQUANTIZE
        read[alone].update(map(operator.Inputs, range(operator.InputsLength())))
    return read[True] - read[False]


def tensor_details(
    interpreter: Any, signature: str = ""
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return details of the input and output tensors by the reader's names, in the file's order."""
    if interpreter.get_signature_list():
        sides = _end_details(interpreter, signature)
        names = distinct_names(*sides)
        details = [list(side.values()) for side in sides]
    else:
        details = [interpreter.get_input_details(), interpreter.get_output_details()]
        names = tensor_names(*([d["name"] for d in side] for side in details))
    inputs, outputs = (dict(zip(*side, strict=True)) for side in zip(names, details, strict=True))
    return inputs, outputs


def _end_details(interpreter: Any, signature: str) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return details of the tensors of a signature, by its own names."""
    sides = interpreter.get_input_details(), interpreter.get_output_details()
    runner = interpreter.get_signature_runner(_signature_key(interpreter, signature))
    found = []
    for side, details in zip(sides, (runner.get_input_details(), runner.get_output_details()), strict=True):
        place = {d["index"]: i for i, d in enumerate(side)}
        found.append(dict(sorted(details.items(), key=lambda item: place.get(item[1]["index"], len(place)))))
    return found[0], found[1]


def _signature_key(interpreter: Any, wanted: str) -> str:
    known = interpreter.get_signature_list()
    key = wanted or ("serving_default" if "serving_default" in known else next(iter(known)))
    if key not in known:
        raise UsageError(f"no signature {wanted!r}", hint=f"signatures: {', '.join(known)}")
    return str(key)


def _run_interpreter(
    interpreter: Any,
    source: Source,
    feed: Mapping[str, np.ndarray],
    ends: tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]],
    file: StatefulFile,
) -> dict[str, np.ndarray]:
    inputs, outputs = ends
    unknown = [n for n in feed if n not in inputs and n not in file.tensors] or [n for n in inputs if n not in feed]
    if unknown:
        raise UsageError(f"the model has no input {unknown[0]!r}, or it is not given", hint=", ".join(inputs))
    given = {name: _input_array(feed[name], tensor) for name, tensor in inputs.items()}
    states = {name: number for name, number in file.tensors.items() if name in feed}
    if file.called and states:
        raise Unsupported(f"signature {file.called!r}, which is not the first, is not run with a state")
    try:
        if file.called:
            return _called(interpreter, file.called, given, outputs)
        for name, tensor in inputs.items():
            interpreter.resize_tensor_input(tensor["index"], given[name].shape)
        interpreter.allocate_tensors()
        for name, tensor in inputs.items():
            interpreter.set_tensor(tensor["index"], given[name])
        for name, number in states.items():
            interpreter.set_tensor(number, np.asarray(feed[name], np.float32))
        interpreter.invoke()
    except (ValueError, RuntimeError) as error:
        raise _runner_error(source, error) from error
    shapes = {d["index"]: d["shape"] for d in interpreter.get_output_details()}
    found = {name: _output_array(interpreter, tensor, shapes) for name, tensor in outputs.items()}
    return found | {state_output(name): interpreter.get_tensor(number) for name, number in states.items()}


def _output_array(interpreter: Any, tensor: Mapping[str, Any], shapes: Mapping[int, Sequence[int]]) -> np.ndarray:
    """Return an output; the interpreter refuses to return one without elements."""
    shape = shapes[tensor["index"]]
    if np.prod(shape) == 0:
        return np.zeros(shape, np.object_ if tensor["dtype"] is np.bytes_ else tensor["dtype"])
    return interpreter.get_tensor(tensor["index"])


def _input_array(array: np.ndarray, tensor: Mapping[str, Any]) -> np.ndarray:
    """Return the array as the tensor takes it: strings as bytes, floats in its dtype, or quantized."""
    array = np.asarray(array)
    wanted = tensor["dtype"]
    if array.dtype.kind in "OUS":
        texts = [s if isinstance(s, bytes) else str(s).encode() for s in array.ravel().tolist()]
        return np.array(texts, dtype=bytes).reshape(array.shape)
    if array.dtype.kind == "f" and np.dtype(wanted).kind in "iu" and tensor["quantization"][0]:
        scale, zero = tensor["quantization"]
        limits = np.iinfo(wanted)
        return np.clip(np.round(array / np.float32(scale)) + zero, limits.min, limits.max).astype(wanted)
    return array.astype(wanted) if array.dtype.kind == "f" and np.dtype(wanted).kind == "f" else array


def _runner_error(source: Source, error: Exception) -> ConvertError:
    text = " ".join(str(error).split())[:400]
    if "Flex" in text or "custom op" in text or "Didn't find op" in text:
        return Unsupported(f"{source.label} has operators that ai-edge-litert does not run: {text}")
    if "could not open" in text.lower() or "flatbuffer" in text.lower() or "identifier" in text.lower():
        return BadInput(f"{source.label} is no TensorFlow Lite model: {text}")
    return ConvertError(f"ai-edge-litert failed to run {source.label}: {text}")
