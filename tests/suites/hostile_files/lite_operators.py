"""TensorFlow Lite files of one operator with options, constants or names that no valid model has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

_TYPES = {"float32": 0, "int32": 2, "int64": 4}
_MOST = 2**31 - 1
_IMAGE = (1, 8, 8, 2)

Change = Callable[[Any, Any, Any], None]
"""A change of a model; the arguments are the model, its first subgraph and the schema."""


def lite_operator(
    operator: str = "NEG",
    options: str = "",
    values: Mapping[str, Any] | None = None,
    constants: Sequence[np.ndarray] = (),
    shape: Sequence[int] = (2, 3),
    change: Change | None = None,
    outputs: Sequence[str] = ("y",),
) -> bytes:
    """Return a file of one operator on an input `x` and constants. A Fill and a Split have their constant first."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.buffers, model.subgraphs, graph.tensors = 3, [schema.BufferT()], [graph], []
    for name, array in (("x", None), *((f"c{i}", c) for i, c in enumerate(constants)), *((n, None) for n in outputs)):
        tensor = lite_tensor(schema, name, shape if array is None else array.shape)
        if array is not None:
            tensor.type, tensor.buffer = _TYPES[array.dtype.name], len(model.buffers)
            model.buffers.append(schema.BufferT())
            model.buffers[-1].data = list(array.tobytes())
        graph.tensors.append(tensor)
    count = 1 + len(constants)
    node, code = schema.OperatorT(), schema.OperatorCodeT()
    node.inputs, node.outputs = list(range(count)), list(range(count, count + len(outputs)))
    if operator in ("FILL", "SPLIT"):
        node.inputs = [1, 0]
    if options:
        node.builtinOptionsType = getattr(schema.BuiltinOptions, options)
        node.builtinOptions = getattr(schema, f"{options}T")()
        for key, value in (values or {}).items():
            setattr(node.builtinOptions, key, value)
    code.builtinCode, code.version = getattr(schema.BuiltinOperator, operator), 1
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    graph.inputs, graph.outputs, graph.operators, model.operatorCodes = [0], node.outputs, [node], [code]
    if change is not None:
        change(model, graph, schema)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def lite_tensor(schema: Any, name: str, shape: Sequence[int], number: int = 0, buffer: int = 0) -> Any:
    """Return one tensor; buffer 0 has no bytes."""
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.type, tensor.buffer = name, list(shape), number, buffer
    return tensor


def sparse(levels: Sequence[Any], order: Sequence[int], shape: Sequence[int], blocks: Sequence[int] = ()) -> Change:
    """Make the first constant sparse, with one number; a level is a size, or segments and indices."""

    def change(model: Any, graph: Any, schema: Any) -> None:
        found = schema.SparsityParametersT()
        found.traversalOrder, found.blockMap, found.dimMetadata = list(order), list(blocks), []
        for level in levels:
            made = schema.DimensionMetadataT()
            if isinstance(level, int):
                made.format, made.denseSize = 0, level
            else:
                made.format, made.arraySegmentsType, made.arrayIndicesType = 1, 1, 1
                made.arraySegments, made.arrayIndices = schema.Int32VectorT(), schema.Int32VectorT()
                made.arraySegments.values, made.arrayIndices.values = level
            found.dimMetadata.append(made)
        graph.tensors[1].sparsity, graph.tensors[1].shape = found, list(shape)
        model.buffers[1].data = [0, 0, 128, 63]

    return change


def signature(
    inputs: Sequence[tuple[str, int]] = (("x", 0),),
    outputs: Sequence[tuple[str, int]] = (("y", 1),),
    key: str = "serving_default",
    index: int = 0,
) -> Change:
    """Give the model a signature with these names and numbers of tensors."""

    def change(model: Any, graph: Any, schema: Any) -> None:
        made = schema.SignatureDefT()
        made.signatureKey, made.subgraphIndex = key, index
        for side, pairs in (("inputs", inputs), ("outputs", outputs)):
            maps = [schema.TensorMapT() for _ in pairs]
            for one, (name, number) in zip(maps, pairs, strict=True):
                one.name, one.tensorIndex = name, number
            setattr(made, side, maps)
        model.signatureDefs = [made]

    return change


def _named(name: str) -> Change:
    def change(model: Any, graph: Any, schema: Any) -> None:
        for tensor in graph.tensors:
            tensor.name = name

    return change


def _placed(offset: int, size: int) -> Change:
    """Move the first constant behind the tables, as in files of more than 2 GB."""

    def change(model: Any, graph: Any, schema: Any) -> None:
        model.buffers[1].data, model.buffers[1].offset, model.buffers[1].size = None, offset, size

    return change


def _metadata(model: Any, graph: Any, schema: Any) -> None:
    entry = schema.MetadataT()
    entry.name, entry.buffer = "\x1b[31m<script>alert(1)</script>", 1 << 30
    model.metadata = [entry]


def _endless(model: Any, graph: Any, schema: Any) -> None:
    """Return a While whose condition is a constant."""
    model.buffers.append(schema.BufferT())
    model.buffers[-1].data = [1]
    for name in ("cond", "body"):
        one = schema.SubGraphT()
        one.name, one.inputs, one.operators = name, [0], []
        one.tensors = [lite_tensor(schema, "x", (2, 3)), lite_tensor(schema, "go", (), 6, len(model.buffers) - 1)]
        one.outputs = [1 if name == "cond" else 0]
        model.subgraphs.append(one)


def _chain(count: int, each: Callable[[Any, Any, int], None]) -> Change:
    """Repeat the operator, each time on the previous result; `each` changes an operator or its tensor."""

    def change(model: Any, graph: Any, schema: Any) -> None:
        first, graph.operators = graph.operators[0], []
        graph.tensors = [graph.tensors[0]]
        for number in range(count):
            graph.tensors.append(lite_tensor(schema, f"y{number}", graph.tensors[0].shape))
            node = schema.OperatorT()
            node.builtinOptionsType, node.builtinOptions = first.builtinOptionsType, first.builtinOptions
            node.inputs, node.outputs = [number], [number + 1]
            each(graph, node, number)
            graph.operators.append(node)
        graph.outputs = [count]

    return change


def _twice(graph: Any, node: Any, number: int) -> None:
    node.inputs *= 2
    graph.tensors[-1].shape = [2, 3 << min(number + 1, 25)]


def operator_files() -> dict[str, Callable[[], bytes]]:
    """Return a maker for each file."""

    def integers(*values: int) -> np.ndarray:
        return np.array(values, np.int32)

    def longs(*values: int) -> np.ndarray:
        return np.array(values, np.int64)

    def zeros(*dims: int) -> np.ndarray:
        return np.zeros(dims, np.float32)

    kernel, pads = (zeros(4, 3, 3, 2), zeros(4)), np.full((2, 2), _MOST, np.int32)
    one = {"strideH": 1, "strideW": 1}
    rows: dict[str, tuple[Any, ...]] = {
        "a Fill of 2^60": ("FILL", "FillOptions", {}, [longs(2**40, 2**20)], ()),
        "a Fill below zero": ("FILL", "FillOptions", {}, [longs(-5)], ()),
        "a Tile of 2^60": ("TILE", "TileOptions", {}, [longs(2**40, 2**20)]),
        "a BroadcastTo of 2^40": ("BROADCAST_TO", "BroadcastToOptions", {}, [longs(2**40, 2, 3)]),
        "a Pad of 2^60": ("PAD", "PadOptions", {}, [longs(2**60, 0, 0, 2**60).reshape(2, 2)]),
        "a MirrorPad of 2^31": ("MIRROR_PAD", "MirrorPadOptions", {"mode": 0}, [pads]),
        "a OneHot of 2^31": ("ONE_HOT", "OneHotOptions", {"axis": -1}, [integers(_MOST), zeros(), zeros()]),
        "a Split into 2^31": ("SPLIT", "SplitOptions", {"numSplits": _MOST}, [integers(0)]),
        "an Unpack into 2^31": ("UNPACK", "UnpackOptions", {"num": _MOST}),
        "a Pack of 2^31": ("PACK", "PackOptions", {"valuesCount": _MOST, "axis": _MOST}),
        "blocks of 0": ("SPACE_TO_DEPTH", "SpaceToDepthOptions", {"blockSize": 0}, (), _IMAGE),
        "blocks of 2^31": ("DEPTH_TO_SPACE", "DepthToSpaceOptions", {"blockSize": _MOST}, (), _IMAGE),
        "strides of 0": ("CONV_2D", "Conv2DOptions", {"strideH": 0, "strideW": 0}, kernel, _IMAGE),
        "strides below zero": ("CONV_2D", "Conv2DOptions", {"strideH": -1, "strideW": -1}, kernel, _IMAGE),
        "dilations of 2^31": ("CONV_2D", "Conv2DOptions", {**one, "dilationHFactor": _MOST}, kernel, _IMAGE),
        "windows of 0": ("MAX_POOL_2D", "Pool2DOptions", {"filterHeight": 0, "filterWidth": 0}, (), _IMAGE),
        "windows of 2^31": ("AVERAGE_POOL_2D", "Pool2DOptions", {**one, "filterHeight": _MOST}, (), _IMAGE),
        "an axis of 2^31": ("GATHER", "GatherOptions", {"axis": _MOST, "batchDims": -_MOST}, [integers(_MOST)]),
        "steps of 0": ("STRIDED_SLICE", "StridedSliceOptions", {"newAxisMask": _MOST},
                       [integers(0, 0), integers(2, 3), integers(0, 0)]),
        "a Resize to 2^62": ("RESIZE_BILINEAR", "ResizeBilinearOptions", {}, [integers(_MOST, _MOST)], _IMAGE),
        "a Resize to 0": ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions", {}, [integers(0, -1)], _IMAGE),
        "a Reshape to 2^93": ("RESHAPE", "ReshapeOptions", {}, [integers(_MOST, _MOST, _MOST)]),
        "a sum over 10,000 axes": ("SUM", "ReducerOptions", {}, [np.full(10_000, _MOST, np.int32)]),
        "a BatchToSpace of 0": ("BATCH_TO_SPACE_ND", "BatchToSpaceNDOptions", {}, [integers(0, 0), pads * 0], _IMAGE),
        "a SpaceToBatch of 2^31": ("SPACE_TO_BATCH_ND", "SpaceToBatchNDOptions", {},
                                   [integers(_MOST, _MOST), pads], _IMAGE),
        "an initializer that calls itself": ("CALL_ONCE", "CallOnceOptions", {"initSubgraphIndex": 0}),
        "a variable with a path": ("VAR_HANDLE", "VarHandleOptions", {"container": "../x", "sharedName": "\x1b[31m"}),
        "a While without an end": ("WHILE", "WhileOptions", {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}, (),
                                   (2, 3), _endless),
        "sizes that double": ("CONCATENATION", "ConcatenationOptions", {"axis": 1}, (), (2, 3), _chain(60, _twice)),
        "20,000 operators": ("NEG", "", {}, (), (2, 3), _chain(20_000, lambda graph, node, number: None)),
    }  # fmt: skip
    changes: dict[str, Change] = {
        "a sparse weight of 2^32": sparse([1, ([0, 1], [5])], [0, 1], (2**16, 2**16)),
        "a sparse weight of 2^33 in three numbers": sparse([([0, 1], [0]), ([0, 1], [5])], [0, 1], (2**17, 2**16)),
        "a sparse weight of a whole dim of 2^28": sparse([2**28, ([0, 1], [0])], [0, 1], (2**28, 1)),
        "segments that turn back": sparse([1, ([0, 2**30, 1], [0])], [0, 1], (1, 3)),
        "blocks of no size": sparse([4, 3, 0, 0], [0, 1, 2, 3], (4, 3), [0, 1]),
        "blocks of no dim": sparse([4, 3, -1], [0, 1, 2], (4, 3), [-1]),
        "a constant in the tables": _placed(8, 48),
        "a constant at an odd place": _placed(9, 48),
        "a constant of 2^63": _placed(100, 2**63),
        "a constant before the file": _placed(2**64 - 48, 48),
        "a signature of no subgraph": signature(index=2**31),
        "a signature of two inputs of one name": signature(inputs=[("x", 0), ("x", 0)]),
        "a signature of one name for both ends": signature(outputs=[("x", 2)]),
        "a signature without names": signature(inputs=[("", 0)], outputs=[("", 2)]),
        "a signature of markup": signature(
            [("<img src=x onerror=alert(1)>\u202e", 0)], [("../../y\0z", 2)], "\x1b[31m<script>alert(1)</script>"),
        "metadata of markup": _metadata,
        "one name for all": _named("x"),
        "one name of markup": _named("</script><script>alert(1)</script>\"'><b>"),
        "one name of 5,000,000": _named("x" * 5_000_000),
    }  # fmt: skip
    makers: dict[str, Callable[[], bytes]] = {
        name: lambda row=row: lite_operator(*row)
        for name, row in rows.items()  # type: ignore[misc]
    }
    dense = ("FULLY_CONNECTED", "FullyConnectedOptions", {}, [zeros(4, 3)], (2, 3))
    return makers | {name: lambda c=change: lite_operator(*dense, c) for name, change in changes.items()}  # type: ignore[misc]
