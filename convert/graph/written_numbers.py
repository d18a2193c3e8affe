"""Numbers that programs wrote and a file rounded to float32, restored for float64 in reader and runner alike.

A graph stores √2 as 1.41421354 and 0.1 as 0.100000001. In float64 the program would have used the number that it wrote,
and operators such as Gelu do. So both float64 runs restore a float32 scalar to the number that was written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from convert.graph.metadata import EXACT_KEY

# √n and 1/√n for n up to 512 are scales of attention with heads of size n.
_CONSTANTS = (
    math.pi,
    math.e,
    math.log(2.0),
    math.log(10.0),
    math.sqrt(2.0),
    math.sqrt(0.5),
    math.sqrt(math.pi),
    math.sqrt(2.0 * math.pi),
    math.sqrt(2.0 / math.pi),
    math.sqrt(0.5 / math.pi),
    2.0 * math.pi,
    0.5 * math.pi,
    1.0 / 3.0,
    1.0 / 6.0,
    0.044715,  # of Gelu by tanh
    *(math.sqrt(n) for n in range(2, 513)),
    *(1.0 / math.sqrt(n) for n in range(2, 513) if math.isqrt(n) ** 2 != n),
)
_WRITTEN = {float(np.float32(sign * x)): sign * x for x in _CONSTANTS for sign in (1.0, -1.0)}

# A program wrote a decimal with so few digits. If a number looks like one by chance, both sides still agree.
_DIGITS = 6


def unrounded_number(number: float, *, decimals: bool = True) -> float:
    """Return the number that a float32 was rounded from: a constant of an operator, a decimal of up to 6 digits, or
    itself.

    Pass `decimals=False` for a file that is the program itself, as ONNX is: there 0.1 is the float32.
    """
    number = float(np.float32(number))
    if not math.isfinite(number) or number in _WRITTEN or not decimals:
        return _WRITTEN.get(number, number)
    decimal = float(f"{number:.{_DIGITS}g}")
    return decimal if float(np.float32(decimal)) == number else number


def written_number(tensor: ir.TensorProtocol) -> float:
    """Return the content of a tensor with one floating-point element, as the program wrote it if that is recorded."""
    exact = tensor.meta.get(EXACT_KEY)
    return float(np.asarray(tensor.numpy() if exact is None else exact).item())


def record_written_numbers(values: Iterable[ir.Value], *, decimals: bool = True) -> None:
    """Record for every float32 constant with one element the number that was written, for the float64 run.

    Scales of quantization stay: another scale would round to another integer.
    """
    for value in values:
        tensor = value.const_value
        if tensor is None or tensor.dtype != ir.DataType.FLOAT or tensor.size != 1:
            continue
        if not any("Quant" in use.node.op_type or "QLinear" in use.node.op_type for use in value.uses()):
            number = unrounded_number(tensor.numpy().item(), decimals=decimals)
            tensor.meta.setdefault(EXACT_KEY, np.array(number))


def record_constants_of_operators(graphs: Iterable[ir.Graph]) -> None:
    """Record for every float32 constant with one element in a file's graphs which constant of an operator it is.

    Constant nodes are included. In such files 0.1 is a float32, but a rounded √2 is √2, as it is in Gelu.
    """
    for graph in graphs:
        for node in graph:
            if node.op_type != "Constant" or node.domain:
                continue
            content = ir.convenience.get_const_tensor(node.outputs[0])
            if content is not None and content.dtype == ir.DataType.FLOAT and content.size == 1:
                node.outputs[0].const_value = content
                record_written_numbers(node.outputs, decimals=False)
                node.attributes.clear()
                node.attributes["value"] = ir.AttrTensor("value", content)
        record_written_numbers(graph.initializers.values(), decimals=False)
