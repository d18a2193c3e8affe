"""Steps of optimizers, from ONNX's domain ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

# The schema's defaults.
_MOMENTS = {"alpha": 0.9, "beta": 0.999, "epsilon": 1e-6, "norm_coefficient": 0.0, "norm_coefficient_post": 0.0}


def adagrad(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """H ← H + G², X ← X − R·G / (√H + ε), where the rate R decays with the number of steps."""
    rate, count = _rate_and_count(g, node)
    decay, epsilon = node.attributes.get_float("decay_factor", 0.0), node.attributes.get_float("epsilon", 1e-6)
    rate = g.Div(rate, g.Add(g.Mul(count, decay), 1.0))

    def step(x: ir.Value, gradient: ir.Value, squares: ir.Value) -> tuple[ir.Value, ...]:
        gradient = _regularized(g, node, x, gradient)
        squares = g.Add(squares, g.Mul(gradient, gradient))
        return g.Sub(x, g.Div(g.Mul(rate, gradient), g.Add(g.Sqrt(squares), epsilon))), squares

    return _of_each_tensor(node, 3, step)


def adam(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """V ← αV + (1 − α)G, H ← βH + (1 − β)G², X ← X − R·V / (√H + ε); after the first step R is corrected for bias."""
    alpha, beta, epsilon, _, post = (node.attributes.get_float(name, value) for name, value in _MOMENTS.items())
    rate, count = _rate_and_count(g, node)
    seen, squared = (g.Sub(1.0, g.Pow(g.const(decay, g.dtype(rate)), count)) for decay in (alpha, beta))
    rate = g.Where(g.Greater(count, 0.0), g.Div(g.Mul(rate, g.Sqrt(squared)), seen), rate)

    def step(x: ir.Value, gradient: ir.Value, mean: ir.Value, square: ir.Value) -> tuple[ir.Value, ...]:
        gradient = _regularized(g, node, x, gradient)
        mean = g.Add(g.Mul(mean, alpha), g.Mul(gradient, 1 - alpha))
        square = g.Add(g.Mul(square, beta), g.Mul(g.Mul(gradient, gradient), 1 - beta))
        x = g.Sub(x, g.Div(g.Mul(rate, mean), g.Add(g.Sqrt(square), epsilon)))
        return g.Mul(x, 1 - post) if post else x, mean, square

    return _of_each_tensor(node, 4, step)


def momentum(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """V ← αV + βG, X ← X − R·V, or X − R·(G + αV) for Nesterov's; the first step uses the whole gradient."""
    mode = node.attributes.get_string("mode", "standard")
    if mode not in ("standard", "nesterov"):
        raise Unsupported(f"mode={mode!r}")
    alpha, beta = (node.attributes.get_float(name, 0.0) for name in ("alpha", "beta"))
    rate, count = _rate_and_count(g, node)
    share = g.Where(g.Greater(count, 0.0), *(g.const(value, g.dtype(rate)) for value in (beta, 1.0)))

    def step(x: ir.Value, gradient: ir.Value, moved: ir.Value) -> tuple[ir.Value, ...]:
        gradient = _regularized(g, node, x, gradient)
        moved = g.Add(g.Mul(moved, alpha), g.Mul(gradient, share))
        change = g.Add(gradient, g.Mul(moved, alpha)) if mode == "nesterov" else moved
        return g.Sub(x, g.Mul(change, rate)), moved

    return _of_each_tensor(node, 3, step)


def _rate_and_count(g: Graph, node: ir.Node) -> tuple[ir.Value, ir.Value]:
    """Return the learning rate and the number of steps taken, both in the dtype of the tensors."""
    rate, count, first = node.inputs[:3]
    assert rate is not None
    assert count is not None
    assert first is not None
    dtype = g.dtype(first)
    return rate if g.dtype(rate) == dtype else g.Cast(rate, to=dtype), g.Cast(count, to=dtype)


def _regularized(g: Graph, node: ir.Node, x: ir.Value, gradient: ir.Value) -> ir.Value:
    norm = node.attributes.get_float("norm_coefficient", 0.0)
    return g.Add(gradient, g.Mul(x, norm)) if norm else gradient


def _of_each_tensor(node: ir.Node, kinds: int, step: Callable[..., Iterable[ir.Value]]) -> list[ir.Value]:
    """Apply `step` to (X1, G1, …), (X2, G2, …) … of the inputs X1 X2 … G1 G2 …; return X1 X2 … V1 V2 …."""
    tensors = node.inputs[2:]
    count = len(tensors) // kinds
    results = [step(*tensors[i::count]) for i in range(count)]
    return [value for kind in zip(*results, strict=True) for value in kind]
