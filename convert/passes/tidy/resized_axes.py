"""Finds the axes that a Resize really resizes, if its sizes are computed from its input's shape.

`interpolate(x, size=…)` and Keras's layers write batch and channels into the sizes, as dims of x that are known at run
time only. An axis of unknown length is resampled like any other, even if its length does not change.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from convert.graph.model_names import ModelNames
from convert.graph.values import constant, constant_integers, known_dims

Entry: TypeAlias = "int | tuple[ir.Value, int]"
"""An element of a vector of sizes: a number, or (value, i) for dim i of a tensor or element i of another vector."""


def name_resized_axes(model: ir.Model) -> bool:
    """Remove unchanged axes from the sizes of every Resize; return whether there were any."""
    modified = False
    for node in list(model.graph.all_nodes()):
        if node.op_type == "Resize" and not node.domain and len(node.inputs) > 3:
            modified |= _name_axes(model, node)
    return modified


def _name_axes(model: ir.Model, node: ir.Node) -> bool:
    x, _, _, sizes = node.inputs
    if x is None or sizes is None or constant(sizes) is not None or "axes" in node.attributes or node.graph is None:
        return False
    if node.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch":
        return False
    if node.attributes.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        return False
    entries, dims = _entries(sizes), known_dims(x)
    if entries is None or dims is None or len(entries) != len(dims):
        return False
    axes = [i for i, entry in enumerate(entries) if entry != (x, i) and (entry != dims[i] or isinstance(entry, tuple))]
    if not axes or len(axes) == len(entries):
        return False
    names = ModelNames(model.graph)
    wanted = [entries[i] for i in axes]
    if all(isinstance(n, int) for n in wanted):
        new = names.initializer(f"{sizes.name}_axes", ir.tensor(np.array(wanted, np.int64)))
    else:
        chosen = names.initializer(f"{sizes.name}_places", ir.tensor(np.array(axes, np.int64)))
        pick = ir.node("Gather", [sizes, chosen], {"axis": 0}, name=names.unique(f"{sizes.name}_axes"))
        new = pick.outputs[0]
        new.name, new.type, new.shape = names.unique(f"{sizes.name}_axes"), sizes.type, ir.Shape([len(axes)])
        node.graph.insert_before(node, pick)
    node.replace_input_with(3, new)
    node.attributes["axes"] = ir.AttrInt64s("axes", axes)
    return True


def _entries(value: ir.Value) -> list[Entry] | None:
    """Return the elements of a vector of integers, or of a scalar; None if their count is unknown."""
    if constant(value) is not None:
        return list(constant_integers(value) or [])
    node = value.producer()
    if node is not None and not node.domain and (found := _made_by(node)) is not None:
        return found
    shape = known_dims(value)
    if shape is None or len(shape) > 1 or not all(isinstance(n, int) for n in shape):
        return None
    return [(value, i) for i in range(int(shape[0]) if shape else 1)]  # type: ignore[arg-type]


def _made_by(node: ir.Node) -> list[Entry] | None:
    kind, x = node.op_type, node.inputs[0] if node.inputs else None
    if x is None:
        return None
    if kind == "Shape":
        dims = known_dims(x)
        if dims is None:
            return None
        start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", len(dims))
        return [d if isinstance(d, int) else (x, i) for i, d in list(enumerate(dims))[start:end]]
    if kind == "Concat":
        parts = [_entries(part) if part is not None else None for part in node.inputs]
        return None if None in parts else [entry for part in parts for entry in part or []]
    if kind == "Cast":
        whole = node.outputs[0].dtype in (ir.DataType.INT64, ir.DataType.INT32)
        return _entries(x) if whole and x.dtype in (ir.DataType.INT64, ir.DataType.INT32) else None
    if kind in ("Identity", "Squeeze", "Unsqueeze"):
        return _entries(x)
    if kind not in ("Slice", "Gather") or (given := _entries(x)) is None or len(x.shape or ()) != 1:
        return None
    numbers = [constant_integers(i) if i is not None else None for i in node.inputs[1:]]
    if None in numbers or not numbers:
        return None
    if kind == "Gather":
        places = numbers[0] or []
        return [given[p] for p in places] if all(-len(given) <= p < len(given) for p in places) else None
    starts, ends, steps = numbers[0], numbers[1], numbers[3] if len(numbers) > 3 else [1]
    return given[starts[0] : ends[0] : steps[0]] if starts and ends and steps and steps[0] > 0 else None
