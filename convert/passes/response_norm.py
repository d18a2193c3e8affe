"""Writes the local response norm that PyTorch spells as a pool over channels as the one operator that it is."""

from __future__ import annotations

import onnx_ir as ir

from convert.graph.values import constant, constant_integers, is_used, known_dims, nodes_of


def find_response_norms(model: ir.Model) -> bool:
    """x / (k + alpha · mean of x² over `size` neighbouring channels)^beta becomes LRN. Whether there was one.

    `torch.nn.functional.local_response_norm` takes the mean by an AveragePool of three dims (two for one dim) over
    padded channels; few runtimes have that pool. Of an even size ONNX's window lies otherwise (LRN-13: one channel
    fewer before than after), so these stay.
    """
    modified = False
    for node in list(nodes_of(model.graph)):
        if node.op_type == "Div" and node.domain == "" and is_used(node.outputs[0]):
            modified |= _write(node)
    return modified


def _write(quotient: ir.Node) -> bool:
    graph, (x, power) = quotient.graph, quotient.inputs
    if graph is None or x is None or not (known_dims(x) or ())[2:]:
        return False
    sums, beta = _with_number(power, "Pow", either=False)
    scaled, bias = _with_number(sums, "Add")
    mean, alpha = _with_number(scaled, "Mul")
    if beta is None or bias is None or alpha is None or mean is None:
        return False
    size = _window(mean, x)
    if size is None:
        return False
    attributes = {"alpha": alpha, "beta": beta, "bias": bias, "size": size}
    node = ir.node("LRN", [x], attributes, name=quotient.name, num_outputs=1)
    node.metadata_props.update(quotient.metadata_props)
    result, old = node.outputs[0], quotient.outputs[0]
    result.name, result.type, result.shape = old.name, old.type, old.shape
    graph.insert_before(quotient, node)
    ir.convenience.replace_all_uses_with(old, result, replace_graph_outputs=True)
    graph.remove(quotient, safe=True)
    return True


def _window(mean: ir.Value, x: ir.Value) -> int | None:
    """Over how many channels `mean` is the mean of x², an odd number; None if it is something else."""
    pooled = _input_of(mean, "Reshape") if len(known_dims(x) or ()) > 3 else mean
    if known_dims(mean) != known_dims(x) or None in (known_dims(x) or ()):
        return None
    kept = _squeezed(pooled)
    pool = kept.producer() if kept is not None else None
    if (
        pool is None
        or (pool.op_type, pool.domain) != ("AveragePool", "")
        or pool.attributes.get_int("ceil_mode", 0) != 0
    ):
        return None
    size, *rest = pool.attributes.get_ints("kernel_shape", ())
    plain = not any(pool.attributes.get_ints("pads", ())) and {*pool.attributes.get_ints("strides", ())} <= {1}
    if not plain or {*rest} != {1} or size % 2 == 0 or {*pool.attributes.get_ints("dilations", ())} - {1}:
        return None
    padded = _padded(pool.inputs[0], size // 2)
    known = known_dims(padded) if padded is not None else None
    if known is None or len(known) != len(rest) + 3 or (known[0], *known[1:3]) != (*_first(x, 1), 1, *_first(x, 2)[1:]):
        return None
    squares = _input_of(padded, "Reshape") or _input_of(padded, "Unsqueeze")
    return size if _is_square(squares, x) else None


def _first(value: ir.Value, count: int) -> tuple[object, ...]:
    return (known_dims(value) or ())[:count]


def _padded(value: ir.Value | None, amount: int) -> ir.Value | None:
    """What has `amount` zeros put before and after its dim 2, and nothing else."""
    pad = value.producer() if value is not None else None
    if pad is None or (pad.op_type, pad.domain) != ("Pad", "") or len(pad.inputs) < 2:
        return None
    fill = constant(pad.inputs[2]) if len(pad.inputs) > 2 and pad.inputs[2] is not None else None
    if pad.attributes.get_string("mode", "constant") != "constant" or (fill is not None and fill.numpy().any()):
        return None
    if fill is None and len(pad.inputs) > 2 and pad.inputs[2] is not None:
        return None
    x, amounts = pad.inputs[0], constant_integers(pad.inputs[1])
    ranks = len(known_dims(x) or ()) if x is not None else 0
    axes = constant_integers(pad.inputs[3]) if len(pad.inputs) > 3 and pad.inputs[3] is not None else [*range(ranks)]
    if amounts is None or axes is None or len(amounts) != 2 * len(axes):
        return None
    found = {a % ranks: (amounts[i], amounts[i + len(axes)]) for i, a in enumerate(axes) if ranks}
    return x if {a: p for a, p in found.items() if p != (0, 0)} == {2: (amount, amount)} else None


def _squeezed(value: ir.Value | None) -> ir.Value | None:
    """What lost its dim 1 to become `value`."""
    node = value.producer() if value is not None else None
    if node is None or (node.op_type, node.domain) != ("Squeeze", "") or len(node.inputs) < 2:
        return None
    return node.inputs[0] if constant_integers(node.inputs[1]) == [1] else None


def _is_square(value: ir.Value | None, x: ir.Value) -> bool:
    node = value.producer() if value is not None else None
    if node is None or node.domain or node.op_type not in ("Mul", "Pow"):
        return False
    return list(node.inputs) == [x, x] or (
        node.op_type == "Pow" and node.inputs[0] is x and _number(node.inputs[1]) == 2
    )


def _input_of(value: ir.Value | None, operator: str) -> ir.Value | None:
    node = value.producer() if value is not None else None
    return node.inputs[0] if node is not None and (node.op_type, node.domain) == (operator, "") else None


def _with_number(value: ir.Value | None, operator: str, *, either: bool = True) -> tuple[ir.Value | None, float | None]:
    """The tensor and the number that an operator of two makes `value` of; the number is the second, or either."""
    node = value.producer() if value is not None else None
    if node is None or (node.op_type, node.domain) != (operator, ""):
        return None, None
    first, second = node.inputs
    if (number := _number(second)) is not None:
        return first, number
    return (second, _number(first)) if either else (None, None)


def _number(value: ir.Value | None) -> float | None:
    tensor = constant(value)
    return None if tensor is None or tensor.size != 1 else float(tensor.numpy().item())
