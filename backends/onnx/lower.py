"""Prepares the shared graph for ONNX runtimes: cleaned, channels first, in the requested opset."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx_ir as ir

from convert.errors import Problem, Unsupported, UsageError
from convert.graph import location_of
from convert.graph.shape_inference import SMALL
from convert.passes import run_passes
from convert.passes.layout.assign import assign_layout
from convert.passes.opset.adapters import Adapter
from convert.passes.opset.convert import convert_opset
from convert.passes.tidy.batchnorm import fold_batch_norms
from convert.passes.tidy.clean import clean
from convert.passes.tidy.size_checks import write_size_checks_as_reshapes
from convert.request.options import Options

from .options import NEWEST, OLDEST
from .runtimes.chained_scales import join_chained_scales
from .runtimes.counted_places import keep_counted_places
from .runtimes.full_pads import full_pads
from .runtimes.full_resize import full_resize
from .runtimes.inferred_shapes import write_inferred_shapes
from .runtimes.kernel_shapes import write_kernel_shapes
from .runtimes.old_readers import NEWEST_OLD, forms_of
from .runtimes.onnxruntime_casts import cast_bfloat16_islands, cast_for_kernels
from .runtimes.same_windows import FORMS as SAME_WINDOWS
from .runtimes.stable_sigmoid import exact_probabilities
from .runtimes.string_gathers import gather_rows_of_strings
from .runtimes.vector_products import columns_for_vectors

# The IR version that introduced a dtype (onnx.proto3, enum DataType).
_DTYPE_IR = {
    ir.DataType.FLOAT8E4M3FN: 9,
    ir.DataType.FLOAT8E4M3FNUZ: 9,
    ir.DataType.FLOAT8E5M2: 9,
    ir.DataType.FLOAT8E5M2FNUZ: 9,
    ir.DataType.UINT4: 10,
    ir.DataType.INT4: 10,
    ir.DataType.FLOAT4E2M1: 11,
}

_WEIGHTS_APART = 4
"""The IR version since which weights need not be inputs of the graph; opsets 7 and 8 are older.

Readers of that time (MXNet) look for a weight among the inputs. For later readers, an input with content is still a
constant if the file has IR version 3.
"""

_COMPUTED_SPLIT = 13
"""The opset that made the sizes of Split an input."""


def lower(model: ir.Model, opset: int, options: Options | None = None) -> None:
    """Lower `model` in place to the graph that is written. Raises one `Unsupported` that lists what `opset` cannot
    express.

    options: as for `run_passes`.
    """
    old = opset <= NEWEST_OLD

    def to_opset(model: ir.Model) -> bool:
        convert_opset(model, opset, forms=_chained(SAME_WINDOWS, forms_of(opset)))
        return True

    if not OLDEST <= opset <= NEWEST:
        raise UsageError(f"opset {opset} cannot be written", hint=f"give --opset {OLDEST} to {NEWEST}")
    if opset > onnx.defs.onnx_opset_version():
        raise UsageError(
            f"opset {opset} is not in onnx {onnx.__version__}, which is installed",
            hint=f"give --opset {onnx.defs.onnx_opset_version()} or less, or install a newer onnx",
        )
    _refuse_private(model)
    older = (write_size_checks_as_reshapes,) if opset < _COMPUTED_SPLIT else ()
    hoist = hoist_all_weights if old else hoist_weights
    run_passes(
        model,
        (*PASSES, *older, to_opset, join_chained_scales, keep_counted_places, hoist, drop_unused_weights),
        options,
    )
    _make_names_unique(model)
    used = {node.domain for node in model.graph.all_nodes()} | {""}
    imports = model.graph.opset_imports
    for domain in [d for d in imports if d not in used]:
        imports.pop(domain)
    model.ir_version = ir_version(model)
    if model.ir_version < _WEIGHTS_APART:
        model.graph.inputs.extend(v for v in model.graph.initializers.values() if not v.is_graph_input())


def _chained(first: Mapping[str, Adapter], second: Mapping[str, Adapter]) -> Mapping[str, Adapter]:
    """Return adapters by operator that call `second` if `first` leaves a node unchanged."""

    def chain(a: Adapter, b: Adapter) -> Adapter:
        return lambda g, node, target: a(g, node, target) or b(g, node, target)

    return {**first, **second, **{name: chain(first[name], second[name]) for name in first.keys() & second.keys()}}


def _make_names_unique(model: ir.Model) -> None:
    """Rename nodes and values so that names are unique; passes create copies for several readers of a value."""
    kept = {id(v): v for graph in model.graphs() for v in (*graph.inputs, *graph.initializers.values(), *graph.outputs)}
    values, nodes = {v.name or "" for v in kept.values()}, set[str]()
    for node in model.graph.all_nodes():
        node.name = _apart(node.name or "", nodes)
        for value in node.outputs:
            if id(value) not in kept:
                value.name = _apart(value.name or "", values)


def _apart(name: str, taken: set[str]) -> str:
    """Return the name, with a number appended if it is in use, and mark the result as used."""
    found, count = name, 0
    while name and found in taken:
        count += 1
        found = f"{name}.{count}"
    taken.add(found)
    return found


def assign_channels_first(model: ir.Model) -> bool:
    """Assign channels-first layouts, which ONNX operators have; transposes around those from TensorFlow cancel.

    Returns whether anything changed.
    """
    return assign_layout(model, sensitive="as is")


PASSES = (
    clean,  # first: the layout counts the bytes of dead nodes too
    assign_channels_first,
    fold_batch_norms,  # after the layout, which makes neighbours of Conv and BatchNormalization
    clean,  # folds transposed weights and merged biases
    exact_probabilities,  # the passes from here on are workarounds for ONNX Runtime's kernels
    write_inferred_shapes,
    full_resize,
    full_pads,
    columns_for_vectors,
    cast_for_kernels,
    cast_bfloat16_islands,
    gather_rows_of_strings,
    write_kernel_shapes,  # last: it reads the shapes of weights, which passes may replace
)


def hoist_all_weights(model: ir.Model) -> bool:
    """Move weights out of branches and loop bodies: before IR version 4 a weight must be an input of its graph."""
    return hoist_weights(model, 0)


def hoist_weights(model: ir.Model, largest: int = SMALL) -> bool:
    """Move weights of more than `largest` bytes out of subgraphs, because only the outermost graph can have external
    ones.
    """
    main, modified = model.graph, False
    names = {v.name for graph in model.graphs() for v in graph.initializers.values()}
    for graph in [g for g in model.graphs() if g is not main]:
        for name, value in list(graph.initializers.items()):
            if value.const_value is None or value.const_value.nbytes <= largest:
                continue
            graph.initializers.pop(name)
            count = 0
            while f"{name}.{count}" in names:
                count += 1
            value.name = f"{name}.{count}"
            names.add(value.name)
            main.register_initializer(value)
            modified = True
    return modified


def drop_unused_weights(model: ir.Model) -> bool:
    """Remove initializers that nothing reads, which inlined functions leave; onnxruntime warns about them.

    Nodes that a pass has removed do not count as readers.
    """
    modified = False
    graphs = list(model.graphs())
    read = {id(v) for graph in graphs for node in graph for v in node.inputs}
    read |= {id(v) for graph in graphs for v in graph.outputs}
    for graph in graphs:
        for name, value in list(graph.initializers.items()):
            if id(value) not in read:
                graph.initializers.pop(name)
                modified = True
    return modified


def ir_version(model: ir.Model) -> int:
    """Return the oldest IR version that the model's opsets and dtypes allow, which most readers accept."""
    known = [onnx.helper.make_opsetid(d, v) for d, v in model.graph.opset_imports.items() if d in ("", "ai.onnx.ml")]
    dtypes = {v.dtype for graph in model.graphs() for v in (*graph.inputs, *graph.initializers.values())}
    dtypes |= {v.dtype for node in model.graph.all_nodes() for v in node.outputs}
    least = onnx.helper.find_min_ir_version_for(known)
    return max(least, *(_DTYPE_IR.get(d, 0) for d in dtypes if d is not None), 0)


def _refuse_private(model: ir.Model) -> None:
    """Raise `Unsupported` for operators of the shared graph that stand for other frameworks' kernels."""
    found = [node for node in model.graph.all_nodes() if node.domain.startswith("convert.")]
    problems = [Problem("ONNX has no such operator", location_of(node)) for node in found]
    if problems:
        raise Unsupported(problems=problems)
