"""Converts a model to the canonical opset, infers its shapes, and applies the user's input specs."""

from __future__ import annotations

import json
import math

import onnx
import onnx_ir as ir

from convert.errors import Problem, Unsupported, UsageError
from convert.graph import OPSET, location_of, register_initializer
from convert.graph.metadata import DIMS_KEY
from convert.graph.shape_inference import infer_facts
from convert.graph.tensors import SHORT_NAMES, dtype_name
from convert.graph.values import Dim, dims, known_dims
from convert.outcome.report import Report
from convert.passes.opset.convert import convert_opset
from convert.request.given_inputs import shown_value, tensor_of_value
from convert.request.nearest import names_hint
from convert.request.options import InputSpec, Options

from .declared_dims import false_names
from .repaired_nodes import repair_nodes


def lift_opset(model: ir.Model, report: Report) -> None:
    """Convert `model` to the canonical opset, in place; a newer opset keeps operators that the canonical one lacks.

    Raises `Unsupported` that lists operators that ONNX lacks or that cannot be converted.
    """
    unknown = [n for n in model.graph.all_nodes() if n.domain == "" and not onnx.defs.has(n.op_type)]
    if unknown:
        raise Unsupported(problems=[Problem("ONNX has no such operator", location_of(n)) for n in unknown])
    if model.graph.opset_imports.get(_ML, _KEYS_OF_NAN) < _KEYS_OF_NAN:
        for node in model.graph.all_nodes():
            if node.domain == _ML and node.op_type == "LabelEncoder":
                _drop_keys_of_nan(node)
    repair_nodes(model, report)
    _infer_outputs(model, report)
    convert_opset(model, OPSET, keep_newer=True)
    infer_facts(model)


_ML = "ai.onnx.ml"
_KEYS_OF_NAN = 4
"""The opset of ONNX-ML from which on NaN matches a key that is NaN."""


def _drop_keys_of_nan(node: ir.Node) -> None:
    """Remove the keys of a LabelEncoder that nothing equals, with their values."""
    keys = node.attributes.get_floats("keys_floats", [])
    kept = [i for i, key in enumerate(keys) if not math.isnan(key)]
    if len(kept) == len(keys):
        return
    for name in ("keys_floats", "values_floats", "values_int64s", "values_strings"):
        if name in node.attributes:
            old = node.attributes[name]
            node.attributes[name] = ir.Attr(name, old.type, [list(old.value)[i] for i in kept])


def _infer_outputs(model: ir.Model, report: Report) -> None:
    """Infer all dtypes and shapes, also the dims of outputs, including those of subgraphs, that follow from the inputs.

    The declared shape of an output or a loop body is used only if inference finds none, and its names only if they are
    not false. Files whose batch was made dynamic at the inputs only still declare a batch of 1 there; runtimes warn and
    continue.
    """
    declared = {y: known_dims(y) for graph in model.graphs() for y in graph.outputs if not y.is_graph_input()}
    for y in declared:
        y.shape = None
    infer_facts(model)
    for _ in range(_MOST_NESTED):
        relaxed = [_relax_body(node, declared) for node in model.graph.all_nodes()]
        if not any(relaxed):
            break
        infer_facts(model)
    if _drop_false_names(model, declared, report):
        infer_facts(model)
    for y, own in declared.items():
        found = known_dims(y)
        if own is not None and found is not None and len(own) == len(found):
            pairs = zip(own, found, strict=True)
            y.shape = ir.Shape([old if new is None or isinstance(old, str) else new for old, new in pairs])
        elif own is not None:
            y.shape = ir.Shape(own)


def _drop_false_names(model: ir.Model, declared: dict[ir.Value, tuple[Dim, ...] | None], report: Report) -> bool:
    """Drop declared names that inference refutes, with a note; return whether there are any in loops.

    A state of a loop has its name at the input and the output of the body and at the output of the node.
    """
    false = false_names(model, declared)
    in_loops = False
    for node in model.graph.all_nodes():
        for inside, output, state in _inner_outputs(node):
            if axes := false.get(inside, set()):
                false[output] = false.get(output, set()) | axes
                if state is not None:
                    in_loops = True
                    state.shape = _without(known_dims(state), axes)
    false_outputs = [y for y in model.graph.outputs if false.get(y)]
    shown = [f"{y.name} [{', '.join(map(str, declared[y] or ()))}]" for y in false_outputs if y in declared]
    for y, axes in false.items():
        if y in declared:
            declared[y] = _dims_without(declared[y], axes)
    if shown:
        report.note(
            f"the file gives one name to dims of unlike sizes; it was dropped from outputs: {', '.join(shown)}",
            code="false-dim",
        )
    return in_loops


def _inner_outputs(node: ir.Node) -> list[tuple[ir.Value, ir.Value, ir.Value | None]]:
    """Return the outputs of branches and the states of loops: inside, at the node, and the input of the loop's body."""
    if node.domain or node.op_type not in ("If", "Loop", "Scan"):
        return []
    if node.op_type == "If":
        branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
        return [(inner, y, None) for graph in branches for inner, y in zip(graph.outputs, node.outputs, strict=True)]
    body, first = node.attributes["body"].as_graph(), 2 if node.op_type == "Loop" else 0
    count = len(node.inputs) - first - node.attributes.get_int("num_scan_inputs", 0)
    return [(body.outputs[first // 2 + i], node.outputs[i], body.inputs[first + i]) for i in range(count)]


def _dims_without(dims: tuple[Dim, ...] | None, axes: set[int]) -> tuple[Dim, ...] | None:
    return None if dims is None else tuple(None if a in axes else d for a, d in enumerate(dims))


def _without(dims: tuple[Dim, ...] | None, axes: set[int]) -> ir.Shape | None:
    kept = _dims_without(dims, axes)
    return None if kept is None else ir.Shape(kept)


_MOST_NESTED = 8
"""Maximum nesting of loops, because each learns from the one around it."""


def _relax_body(node: ir.Node, declared: dict[ir.Value, tuple[Dim, ...] | None]) -> bool:
    """Drop lengths that a loop body declares if the outer value has another name; return whether any was dropped.

    declared: shapes that the file declares for outputs; they are dropped there too.
    """
    if node.op_type not in ("Loop", "Scan") or node.domain:
        return False
    body, first = node.attributes["body"].as_graph(), 2 if node.op_type == "Loop" else 0
    states = len(node.inputs) - first - node.attributes.get_int("num_scan_inputs", 0)
    changed = False
    for place in range(states):
        outer, value = node.inputs[first + place], body.inputs[first + place]
        given, own = None if outer is None else known_dims(outer), known_dims(value)
        if given is None or own is None or len(given) != len(own):
            continue
        open_axes = [
            a for a, (d, n) in enumerate(zip(own, given, strict=True)) if isinstance(d, int) and isinstance(n, str)
        ]
        if not open_axes:
            continue
        value.shape, changed = ir.Shape([None if a in open_axes else d for a, d in enumerate(own)]), True
        for y in (node.outputs[place], body.outputs[place + first // 2]):
            wanted = declared.get(y)
            if wanted is not None and len(wanted) == len(own):
                declared[y] = tuple(None if a in open_axes else d for a, d in enumerate(wanted))
    return changed


def fix_values(model: ir.Model, options: Options, report: Report) -> None:
    """Turn inputs with values in `options.fixed` into constants. Raises `UsageError` if a value does not fit."""
    values = {v.name or "": v for v in model.graph.inputs}
    for name, given in options.fixed.items():
        value = values.get(str(name))
        if value is None:
            raise UsageError(f"the model has no input {name!r}", hint=names_hint(str(name), values))
        if value.dtype is None or value.is_graph_output():
            raise UsageError(f"the input {name!r} cannot have a fixed value", hint="describe its dims instead")
        content = ir.tensor(tensor_of_value(str(name), given, value.dtype.numpy(), known_dims(value)))
        model.graph.inputs.remove(value)
        value.name = f"{name}.fixed"
        ir.convenience.replace_all_uses_with(value, register_initializer(model.graph, str(name), content))
        report.note(f"the input {name} has the fixed value {shown_value(given)}", code="fixed-input")


def fix_inputs(model: ir.Model, options: Options, report: Report) -> None:
    """Set input dims to the sizes or names in `options.inputs`, everywhere that the same dim occurs.

    Raises `UsageError` for a name, dtype, rank or size that contradicts the model.
    """
    if not options.inputs:
        return
    values = {v.name or "": v for v in model.graph.inputs}
    renamed: dict[str, int | str] = {}
    bounds: dict[str, list[int | None]] = {}
    for position, spec in enumerate(options.inputs):
        value = _find_input(values, spec, position)
        wanted = None if spec.dtype is None else SHORT_NAMES[spec.dtype]
        if wanted is not None and value.dtype is not None and wanted != value.dtype:
            raise UsageError(
                f"the input {value.name!r} is {dtype_name(value.dtype)}, not {spec.dtype}",
                hint=f"an ONNX model fixes the dtypes of its inputs; leave out the dtype: --input '{_own_spec(value)}'",
            )
        if spec.shape is not None:
            _fix_shape(value, spec, renamed, bounds)
    named = {y: dims(y) for y in model.graph.outputs if y.shape is not None and not y.is_graph_input()}
    for graph in model.graphs():
        for value in _graph_values(graph):
            if value.shape is not None and any(not isinstance(d, int) and d.value in renamed for d in value.shape):
                value.shape = ir.Shape([renamed.get(d, d) if isinstance(d, str) else d for d in dims(value)])
    if bounds:
        known = json.loads(model.metadata_props.get(DIMS_KEY, "{}"))
        model.metadata_props[DIMS_KEY] = json.dumps({**known, **bounds})
    _infer_sizes(model, named)


def _infer_sizes(model: ir.Model, named: dict[ir.Value, tuple[Dim, ...]]) -> None:
    """Infer dtypes and shapes; a named output dim gets a size if the inputs determine it.

    named: the dims of outputs before names became sizes. Runtimes accept a file that declares `[batch_size]` for four
    numbers per row, although it is wrong for any size; if nothing else is known, the name is kept.
    """
    for y, old in named.items():
        pairs = zip(old, dims(y), strict=True)
        y.shape = ir.Shape([None if isinstance(was, str) and isinstance(d, int) else d for was, d in pairs])
    infer_facts(model)
    for y, old in named.items():
        y.shape = ir.Shape([was if d is None else d for was, d in zip(old, dims(y), strict=True)])


def _find_input(values: dict[str, ir.Value], spec: InputSpec, position: int) -> ir.Value:
    if spec.name is None and position < len(values):
        return list(values.values())[position]
    if spec.name not in values:
        asked = repr(spec.name) if spec.name else f"number {position + 1}"
        raise UsageError(f"the model has no input {asked}", hint=names_hint(spec.name or "", values))
    return values[spec.name]


def _own_spec(value: ir.Value) -> str:
    """Return an input's `--input` spec as the model declares it."""
    shape = ",".join("?" if d is None else str(d) for d in known_dims(value) or ())
    return f"{value.name}:[{shape}]"


def _fixed_size_hint(value: ir.Value, spec: InputSpec) -> str:
    """Return a hint for sizes that contradict the model; they may belong to the other layout."""
    own, asked = list(known_dims(value) or ()), [d.size for d in spec.shape or ()]
    for layout, order in (("nhwc", [0, *range(2, len(own)), 1]), ("nchw", [0, len(own) - 1, *range(1, len(own) - 1)])):
        moved = [own[i] for i in order] if len(own) > 3 else []
        if moved and all(isinstance(d, str) or n in (None, d) for d, n in zip(moved, asked, strict=False)):
            return f"these are the sizes of the other layout: --layout {layout} gives it to the output, without --input"
    return f"a size that the model fixes cannot be changed: --input '{_own_spec(value)}'"


def _fix_shape(
    value: ir.Value, spec: InputSpec, renamed: dict[str, int | str], bounds: dict[str, list[int | None]]
) -> None:
    assert spec.shape is not None
    if value.shape is not None and len(value.shape) != len(spec.shape):
        raise UsageError(
            f"the input {value.name!r} has {len(value.shape)} dims, not {len(spec.shape)}",
            hint=f"its shape is that of --input '{_own_spec(value)}'",
        )
    old = list(value.shape) if value.shape is not None else [None] * len(spec.shape)
    dims: list[int | str | None] = []
    for known, wanted in zip(old, spec.shape, strict=True):
        name = None if known is None or isinstance(known, int) else known.value
        if isinstance(known, int):
            if wanted.size not in (None, known):
                raise UsageError(
                    f"the input {value.name!r} has a dim of {known} where {wanted} was asked for",
                    hint=_fixed_size_hint(value, spec),
                )
            dims.append(known)
            continue
        new = wanted.size if wanted.size is not None else wanted.name or name
        if name and new is not None and renamed.setdefault(name, new) != new:
            raise UsageError(
                f"the dim {name!r} cannot be {renamed[name]} and {new}",
                hint=f"it is one dim of the model: give it one size in each --input, such as {renamed[name]}",
            )
        if isinstance(new, str) and (wanted.low is not None or wanted.high is not None):
            bounds[new] = [wanted.low, wanted.high]
        dims.append(new)
    value.shape = ir.Shape(dims)


def _graph_values(graph: ir.Graph) -> list[ir.Value]:
    return [*graph.inputs, *graph.outputs, *(v for node in graph for v in node.outputs)]
