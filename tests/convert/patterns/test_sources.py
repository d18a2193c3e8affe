"""Each layer is found in every source that writes it as arithmetic, and computes what the unfused graph computes.

Rows are ONNX texts, modules that PyTorch's old exporter writes at old opsets, and functions of TensorFlow and JAX.
onnxruntime runs the unfused file; the graph is compared with the file in float64 as well.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from convert.passes.to_float64 import widen_model
from convert.reference.executor import run
from convert.reference.onnx_file import open_model, run_as_it_is
from tests.support.marks import slow
from tests.support.onnx_support import read, run_ort

pytestmark = pytest.mark.not_core

SHAPES: dict[str, tuple[int, ...]] = {"x": (2, 3, 8), "image": (2, 8, 4, 4), "q": (2, 2, 5, 8), "k": (2, 2, 7, 8)}
ROUNDINGS = {"float32": 2e-6, "float16": 2e-3}


def feeds_of(names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return normal noise for inputs of these names; `v` has the shape of `k`."""
    chance = np.random.default_rng(3)
    return {n: chance.normal(size=SHAPES["k" if n == "v" else n]).astype(np.float32) for n in names}


def check(proto: onnx.ModelProto, found: dict[str, int]) -> None:
    """Assert that a file's graph has these operators, and computes what onnxruntime and the file in float64 compute."""
    feeds = feeds_of([i.name for i in proto.graph.input])
    if proto.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16:
        feeds = {name: array.astype(np.float16) for name, array in feeds.items()}
    graph = read(proto)
    operators = [n.op_type for n in graph.graph.all_nodes()]
    assert {name: operators.count(name) for name in found} == found, operators
    (expected,) = run_ort(proto, feeds)
    (got,) = run(graph, feeds).values()
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    bound = ROUNDINGS[expected.dtype.name] * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(got, expected, rtol=0, atol=bound)
    wide = {name: array.astype(np.float64) for name, array in feeds.items()}
    (reference,) = run_as_it_is(open_model(proto), wide).values()
    (exact,) = run(widen_model(graph), wide).values()
    np.testing.assert_allclose(exact, reference, rtol=1e-9, atol=1e-9)


# -- ONNX text --------------------------------------------------------------------------------------------------------

CONSTANTS = """<float half={0.5}, float one={1}, float two={2}, float three={3}, float six={6}, float zero={0},
 float root={1.4142135}, float six_digits={1.41421}, float cubic={0.044715}, float slope={0.7978846},
 float cube={3}, float epsilon={0.00001}, float root8={2.828427}, float eight={8},
 float16[8] half_gamma={1,2,3,4,5,6,7,8},
 float[8] gamma={1,2,3,4,5,6,7,8}, float[8] beta={8,7,6,5,4,3,2,1},
 float[8,1,1] by_channel={1,2,3,4,5,6,7,8}, float[8,1,1] channel_variance={1,2,1,2,1,2,1,2}>"""
X, IMAGE = "float[b,3,8] x", "float[b,8,4,4] image"
HALF = "float16[b,3,8] x"
HEADS = "float[b,2,n,8] q, float[b,2,m,8] k, float[b,2,m,8] v"
MEAN = "mean = ReduceMean<axes=[-1], keepdims=1>(x) d = Sub(x, mean)"
SCORES = "kt = Transpose<perm=[0,1,3,2]>(k) p = MatMul(q, kt)"
# Name: inputs, nodes, operators of the graph.
TEXTS: dict[str, tuple[str, str, dict[str, int]]] = {
    "gelu": (X, "a = Div(x, root) e = Erf(a) s = Add(one, e) h = Mul(half, x) y = Mul(s, h)", {"Gelu": 1, "Erf": 0}),
    "gelu, half last": (X, "a = Div(x, root) e = Erf(a) s = Add(e, one) h = Mul(x, s) y = Mul(h, half)", {"Gelu": 1}),
    "gelu of six digits": (X, "a = Div(x, six_digits) e = Erf(a) s = Add(e, one) h = Mul(x, s) y = Mul(h, half)",
                           {"Gelu": 0}),
    "gelu by tanh": (X, "c = Pow(x, cube) m = Mul(c, cubic) a = Add(x, m) n = Mul(slope, a) t = Tanh(n) s = Add(t, one)"
                        " h = Mul(x, s) y = Mul(h, half)", {"Gelu": 1, "Tanh": 0}),
    "gelu that something else reads": (X, "a = Div(x, root) e = Erf(a) s = Add(one, e) h = Mul(half, x) g = Mul(s, h)"
                                       " y = Add(g, s)", {"Gelu": 1, "Erf": 1}),
    "hard swish": (X, "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
                   {"HardSwish": 1, "Clip": 0}),
    "hard swish of other bounds": (X, "a = Add(x, two) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
                                   {"HardSwish": 0}),
    "mish": (X, "p = Softplus(x) t = Tanh(p) y = Mul(x, t)", {"Mish": 1}),
    "softplus": (X, "e = Exp(x) s = Add(e, one) y = Log(s)", {"Softplus": 1}),
    "sigmoid": (X, "n = Neg(x) e = Exp(n) s = Add(e, one) y = Reciprocal(s)", {"Sigmoid": 1}),
    "softmax": (X, "m = ReduceMax<axes=[-1]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum<axes=[-1]>(e) y = Div(e, s)",
                {"Softmax": 1, "Exp": 0}),
    "softmax over two axes": (X, "m = ReduceMax<axes=[1,2]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum<axes=[1,2]>(e) "
                              "y = Div(e, s)", {"Softmax": 0}),
    "mean": (X, "s = ReduceSum<axes=[2], keepdims=0>(x) y = Div(s, eight)", {"ReduceMean": 1, "ReduceSum": 0}),
    "layer norm": (X, f"{MEAN} q = Pow(d, two) w = ReduceMean<axes=[-1]>(q) u = Add(w, epsilon) r = Sqrt(u) "
                   "n = Div(d, r) m = Mul(n, gamma) y = Add(m, beta)", {"LayerNormalization": 1, "ReduceMean": 0}),
    "layer norm without parameters": (X, f"{MEAN} q = Mul(d, d) w = ReduceMean<axes=[-1]>(q) u = Add(w, epsilon) "
                                      "r = Sqrt(u) y = Div(d, r)", {"LayerNormalization": 1, "Mul": 0}),
    "layer norm over another axis": (X, "mean = ReduceMean<axes=[1]>(x) d = Sub(x, mean) q = Mul(d, d) "
                                     "w = ReduceMean<axes=[1]>(q) u = Add(w, epsilon) r = Sqrt(u) y = Div(d, r)",
                                     {"LayerNormalization": 0}),
    "rms norm": (X, "q = Pow(x, two) w = ReduceMean<axes=[-1]>(q) u = Add(w, epsilon) r = Sqrt(u) i = Reciprocal(r) "
                 "n = Mul(x, i) y = Mul(gamma, n)", {"RMSNormalization": 1, "Sqrt": 0}),
    "rms norm of half precision, in float32": (
        HALF, "f = Cast<to=1>(x) q = Mul(f, f) w = ReduceMean<axes=[-1]>(q) u = Add(w, epsilon) r = Sqrt(u) "
        "n = Div(f, r) h = Cast<to=10>(n) y = Mul(half_gamma, h)", {"RMSNormalization": 1, "Cast": 0}),
    "layer norm in float64": (
        X, "f = Cast<to=11>(x) mean = ReduceMean<axes=[-1]>(f) d = Sub(f, mean) q = Mul(d, d) e = Cast<to=11>(epsilon) "
        "w = ReduceMean<axes=[-1]>(q) u = Add(w, e) r = Sqrt(u) n = Div(d, r) y = Cast<to=1>(n)",
        {"Cast": 3}),
    "batch norm": (IMAGE, "d = Sub(image, by_channel) u = Add(channel_variance, epsilon) r = Sqrt(u) n = Div(d, r) "
                   "m = Mul(n, by_channel) y = Add(m, by_channel)", {"BatchNormalization": 1, "Sqrt": 0}),
    "attention": (HEADS, f"{SCORES} s = Div(p, root8) w = Softmax<axis=3>(s) y = MatMul(w, v)",
                  {"Attention": 1, "Softmax": 0}),
    "attention over the wrong axis": (HEADS, f"{SCORES} s = Div(p, root8) w = Softmax<axis=2>(s) y = MatMul(w, v)",
                                      {"Attention": 0}),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_text(name: str) -> None:
    inputs, nodes, found = TEXTS[name]
    kind = "float[b,3]" if name == "mean" else inputs.split(" ")[0]
    opset = 13 if name == "mish" or name.startswith("attention") else 11
    proto = onnx.parser.parse_model(
        f'<ir_version: 7, opset_import: ["": {opset}]> g ({inputs}) => ({kind} y) {CONSTANTS} {{ {nodes} }}'
    )
    check(proto, found)


# -- PyTorch, exported at old opsets ----------------------------------------------------------------------------------


def exported(module: Any, names: Sequence[str], opset: int) -> onnx.ModelProto:
    """Return what PyTorch's exporter of TorchScript writes."""
    import torch

    stream = io.BytesIO()
    inputs = tuple(torch.from_numpy(array) for array in feeds_of(names).values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), inputs, stream, opset_version=opset, input_names=list(names), dynamo=False)
    return onnx.load_model_from_string(stream.getvalue())


def modules() -> dict[str, tuple[Callable[..., Any], tuple[str, ...], int, dict[str, int]]]:
    """Return the modules by name, with inputs, opset and operators."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    def by_hand(x: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def attention(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(8), -1) @ v

    return {
        "gelu": (nn.GELU(), ("x",), 11, {"Gelu": 1}),
        "gelu by tanh": (nn.GELU("tanh"), ("x",), 13, {"Gelu": 1}),
        "layer norm": (nn.LayerNorm(8), ("x",), 11, {"LayerNormalization": 1}),
        "layer norm of two dims": (nn.LayerNorm((3, 8)), ("x",), 12, {"LayerNormalization": 1}),
        "rms norm": (by_hand, ("x",), 13, {"RMSNormalization": 1}),
        # Its HardSigmoid has 1/6 as a float32 attribute, which is another number in float64.
        "hard swish": (nn.Hardswish(), ("x",), 11, {"HardSigmoid": 1, "HardSwish": 0}),
        "mish": (lambda x: x * torch.tanh(F.softplus(x)), ("x",), 11, {"Mish": 1}),
        "attention": (attention, ("q", "k", "v"), 11, {"Attention": 1}),
    }


MODULES = (
    "gelu", "gelu by tanh", "layer norm", "layer norm of two dims", "rms norm", "hard swish", "mish", "attention",
)  # fmt: skip


@pytest.mark.parametrize("name", slow(MODULES, *MODULES))
def test_module(name: str) -> None:
    from torch import nn

    function, names, opset, found = modules()[name]

    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = function

        def forward(self, *inputs: Any) -> Any:
            return self.inner(*inputs)

    check(exported(Module(), names, opset), found)


# -- JAX --------------------------------------------------------------------------------------------------------------


def functions() -> dict[str, tuple[Callable[..., Any], tuple[str, ...], list[str]]]:
    """Return functions of JAX by name, with inputs and all operators of the graph."""
    import jax
    import jax.numpy as jnp

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.float32(math.sqrt(8))
        return jax.nn.softmax(scores) @ v

    def masked(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.float32(math.sqrt(8))
        seen = jnp.arange(5)[:, None] >= jnp.arange(7)
        return jax.nn.softmax(jnp.where(seen, scores, jnp.finfo(scores.dtype).min)) @ v

    def by_einsum(q: Any, k: Any, v: Any) -> Any:
        return jnp.einsum("bhqk,bhkd->bqhd", jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k)), v)

    def group_norm(image: Any, quick: bool = True, groups: int = 2) -> Any:
        from flax import linen

        norm = linen.GroupNorm(groups, use_fast_variance=quick)
        return norm.apply({"params": {"scale": np.arange(1, 5.0, dtype="f"), "bias": np.arange(4.0, dtype="f")}}, image)

    transposed = ["Transpose", "GroupNormalization", "Transpose"]
    return {
        "gelu": (lambda x: 0.5 * x * (1 + jax.lax.erf(x / np.float32(math.sqrt(2)))), ("x",), ["Gelu"]),
        "gelu by tanh": (jax.nn.gelu, ("x",), ["Gelu"]),
        "hard swish": (jax.nn.hard_swish, ("x",), ["HardSwish"]),
        "softmax": (jax.nn.softmax, ("x",), ["Softmax"]),
        "attention": (attention, ("q", "k", "v"), ["Attention"]),
        "attention by einsum": (by_einsum, ("q", "k", "v"), ["Attention", "Transpose", "Transpose"]),
        "attention with a mask": (masked, ("q", "k", "v"), ["Attention"]),
        "group norm": (group_norm, ("image",), transposed),
        "group norm of one group": (partial(group_norm, groups=1), ("image",), transposed),
        "group norm by deviations": (partial(group_norm, quick=False), ("image",), transposed),
    }


FUNCTIONS = (
    "gelu",
    "gelu by tanh",
    "hard swish",
    "softmax",
    "attention",
    "attention by einsum",
    "attention with a mask",
    "group norm",
    "group norm of one group",
    "group norm by deviations",
)


@pytest.mark.parametrize("name", slow(FUNCTIONS, *FUNCTIONS))
def test_function_of_jax(name: str) -> None:
    import jax

    from tests.frontends.jax import support

    function, names, operators = functions()[name]
    feeds = feeds_of(names)
    graph = support.read(support.exported(support.row(name, function, *feeds.values())))
    assert [n.op_type for n in graph.graph if not is_constant(n)] == operators
    expected = np.asarray(jax.jit(function)(*feeds.values()))
    given = dict(zip([v.name for v in graph.graph.inputs], feeds.values(), strict=True))
    (got,) = run(graph, given).values()
    np.testing.assert_allclose(
        got, expected, rtol=0, atol=ROUNDINGS["float32"] * max(1.0, float(np.abs(expected).max()))
    )


def is_constant(node: ir.Node) -> bool:
    """Return whether a node computes something of constants only."""
    makers = [v.producer() for v in node.inputs if v is not None and v.const_value is None]
    return all(m is not None and is_constant(m) for m in makers) and not any(
        v is not None and v.is_graph_input() for v in node.inputs
    )
