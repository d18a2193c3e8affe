"""Operators that jax.export leaves out or decomposes, as MLIR text, against JAX's runtime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from convert.frontends import jax as frontend
from convert.frontends.jax.runner import runner

from convert.errors import Unsupported
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.jax.support import run_graph
from tests.support.cases import f32, i32

pytestmark = pytest.mark.not_core


@dataclass(frozen=True)
class ModuleRow:
    """A module with the arrays that are fed to it."""

    name: str
    text: str
    feeds: tuple[np.ndarray, ...]


def module(name: str, signature: str, body: str, *feeds: np.ndarray) -> ModuleRow:
    """Return a row: `signature` is that of main, `body` its lines."""
    return ModuleRow(name, f"module {{ func.func @main{signature} {{\n{body}\n}} }}", feeds)


INTEGER_KINDS = {"i8": "int8", "i32": "int32", "i64": "int64", "ui8": "uint8", "ui32": "uint32"}


def power_of(kind: str, base: np.ndarray, exponent: np.ndarray) -> ModuleRow:
    """Raise integers of one MLIR type, 3 x 4 of each."""
    type_, dtype = f"tensor<3x4x{kind}>", INTEGER_KINDS[kind]
    return module(f"power of {kind}", f"(%x: {type_}, %y: {type_}) -> {type_}",
                  f"%0 = stablehlo.power %x, %y : {type_}\nreturn %0 : {type_}",
                  base.astype(dtype).reshape(3, 4), exponent.astype(dtype).reshape(3, 4))  # fmt: skip


X = f32(3, 4)
ONE = "(%x: tensor<3x4xf32>) -> tensor<3x4xf32>"


def quantized(kind: str, width: str = "4", tensors: str = "3x") -> str:
    """A quantized type, such as `i8:f32, 0.1:3`."""
    return f"tensor<{tensors}{width}x!quant.uniform<{kind}>>"


def rounded(name: str, kind: str, data: np.ndarray) -> ModuleRow:
    """Quantize, and dequantize again."""
    type_ = quantized(kind)
    return module(name, ONE, f"%0 = stablehlo.uniform_quantize %x : (tensor<3x4xf32>) -> {type_}\n"
                  f"%1 = stablehlo.uniform_dequantize %0 : ({type_}) -> tensor<3x4xf32>\n"
                  "return %1 : tensor<3x4xf32>", data)  # fmt: skip


HALVES = np.arange(-6, 6, dtype=np.float32).reshape(3, 4) / 2
INTEGERS, PER_AXIS = "i8:f32, 0.5:3", "i8<-127:127>:f32:1, {0.1,0.2,0.3}"
SUMS, NARROW = "i32:f32:1, {0.01,0.02,0.03}", "i8:f32, 0.05:7"
QUANTIZED = [
    rounded("quantized halves", "i8:f32, 1.0", HALVES),
    rounded("quantized halves, odd zero point", "i8:f32, 1.0:3", HALVES),
    rounded("quantized beyond the range", "i8:f32, 0.01:12", 2 * X),
    rounded("quantized in part", "i8<-4:4>:f32, 0.25", X),
    rounded("quantized along an axis", "i8:f32:1, {0.5,0.25:2,0.125,1.0:-4}", X),
    rounded("quantized to 16 bits", "i16:f32, 0.001", X), rounded("quantized to 32 bits", "i32:f32, 0.0001", X),
    module("quantized product", "(%x: tensor<2x4xf32>) -> tensor<2x3xf32>",
           f"%0 = stablehlo.uniform_quantize %x : (tensor<2x4xf32>) -> {quantized(INTEGERS, '4', '2x')}\n"
           "%w = stablehlo.constant() {value = dense<[[1,2,3],[4,5,6],[-7,8,9],[1,-2,3]]> : tensor<4x3xi8>} : () -> "
           f"{quantized(PER_AXIS, '3', '4x')}\n"
           f"%1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : ({quantized(INTEGERS, '4', '2x')}, "
           f"{quantized(PER_AXIS, '3', '4x')}) -> {quantized(SUMS, '3', '2x')}\n"
           f"%2 = stablehlo.uniform_quantize %1 : ({quantized(SUMS, '3', '2x')}) -> {quantized(NARROW, '3', '2x')}\n"
           f"%3 = stablehlo.reshape %2 : ({quantized(NARROW, '3', '2x')}) -> {quantized(NARROW, '6', '')}\n"
           f"%4 = stablehlo.reshape %3 : ({quantized(NARROW, '6', '')}) -> {quantized(NARROW, '3', '2x')}\n"
           f"%5 = stablehlo.uniform_dequantize %4 : ({quantized(NARROW, '3', '2x')}) -> tensor<2x3xf32>\n"
           "return %5 : tensor<2x3xf32>", f32(2, 4)),
    module("quantized sum", "(%x: tensor<3x4xf32>) -> tensor<3x4xf32>",
           f"%0 = stablehlo.uniform_quantize %x : (tensor<3x4xf32>) -> {quantized(INTEGERS)}\n"
           f"%1 = stablehlo.add %0, %0 : {quantized(INTEGERS)}\n%2 = stablehlo.maximum %1, %0 : {quantized(INTEGERS)}\n"
           f"%3 = stablehlo.uniform_dequantize %2 : ({quantized(INTEGERS)}) -> tensor<3x4xf32>\n"
           "return %3 : tensor<3x4xf32>", X),
]  # fmt: skip
RAGGED = ("lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
          "rhs_contracting_dimensions", "lhs_ragged_dimensions", "rhs_group_dimensions")  # fmt: skip


def ragged(name: str, x: tuple[int, ...], y: tuple[int, ...], found: tuple[int, ...], *axes: list[int]) -> ModuleRow:
    """A ragged product of tensors of these shapes; `axes` are its dimension numbers in the order of `RAGGED`.

    The sizes of the groups are 2, 0 and 4: one is empty, and the seventh row belongs to none.
    """
    types = ["x".join(map(str, shape)) for shape in (x, y, found)]
    numbers = ", ".join(f"{key} = {value}" for key, value in zip(RAGGED, axes, strict=True))
    every = ", ".join(f"tensor<{t}xf32>" for t in types[:2])
    return module(
        f"chlo.ragged_dot, {name}",
        f"(%x: tensor<{types[0]}xf32>, %y: tensor<{types[1]}xf32>, %g: tensor<3xi32>) -> tensor<{types[2]}xf32>",
        f'%0 = "chlo.ragged_dot"(%x, %y, %g) {{ragged_dot_dimension_numbers = #chlo.ragged_dot<{numbers}>, '
        "precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>]} : "
        f"({every}, tensor<3xi32>) -> tensor<{types[2]}xf32>\nreturn %0 : tensor<{types[2]}xf32>",
        f32(*x), f32(*y), np.array([2, 0, 4], np.int32),
    )  # fmt: skip


def scan(axis: int, reverse: str) -> ModuleRow:
    """A scan over a tensor of 3 x 4, whose carried value is halved and added to each row."""
    rest = "4" if axis == 0 else "3"
    kind = f"tensor<{rest}xf32>"
    return module(
        f"chlo.scan {axis} {reverse}", f"(%x: tensor<3x4xf32>, %s: {kind}) -> (tensor<3x4xf32>, {kind})",
        f"%0:2 = chlo.scan(%x) inits(%s) dimension={axis} attributes {{is_reverse = {reverse}}} {{\n"
        f"^bb0(%row: {kind}, %carried: {kind}):\n%h = stablehlo.constant dense<0.5> : {kind}\n"
        f"%1 = stablehlo.multiply %carried, %h : {kind}\n"
        f"%2 = stablehlo.add %1, %row : {kind}\n%3 = stablehlo.tanh %2 : {kind}\n"
        f"stablehlo.return %2, %3 : {kind}, {kind}\n}} : (tensor<3x4xf32>, {kind}) -> (tensor<3x4xf32>, {kind})\n"
        f"return %0#0, %0#1 : tensor<3x4xf32>, {kind}", X, f32(int(rest)),
    )  # fmt: skip


Y = f32(4)
COLUMN = np.arange(3, dtype=np.float32)


def broadcasting(operator: str, attributes: str = "", result: str = "f32") -> str:
    """The body of a function of `%x` (3 x 4) and `%y` by an operator of CHLO that broadcasts."""
    kind = "tensor<3xf32>" if "dimensions" in attributes else "tensor<4xf32>"
    found = f"tensor<3x4x{result}>"
    call = f'%0 = "chlo.broadcast_{operator}"(%x, %y) {{{attributes}}} : (tensor<3x4xf32>, {kind}) -> {found}'
    return f"{call}\nreturn %0 : {found}"


LAST, FIRST = (f"(%x: tensor<3x4xf32>, %y: tensor<{n}xf32>) -> tensor<3x4x{{}}>" for n in (4, 3))
LESS = "broadcast_dimensions = array<i64: 0>, comparison_direction = #chlo<comparison_direction LT>"
OLDER = [
    *((module(f"chlo.broadcast_{name}", LAST.format("f32"), broadcasting(name), X, Y), [f(X, Y)])
      for name, f in {"add": np.add, "subtract": np.subtract, "maximum": np.maximum, "atan2": np.arctan2,
                      "next_after": np.nextafter}.items()),
    (module("chlo.broadcast_compare", FIRST.format("i1"), broadcasting("compare", LESS, "i1"), X, COLUMN),
     [COLUMN[:, None] > X]),
    (module("chlo.broadcast_multiply of any size", "(%x: tensor<?x1xf32>, %y: tensor<4xf32>) -> tensor<?x4xf32>",
            "%0 = chlo.broadcast_multiply %x, %y : (tensor<?x1xf32>, tensor<4xf32>) -> tensor<?x4xf32>\n"
            '%1 = "chlo.constant_like"(%0) {value = 2.5 : f32} : (tensor<?x4xf32>) -> tensor<?x4xf32>\n'
            "%2 = chlo.broadcast_add %0, %1 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>\n"
            "return %2 : tensor<?x4xf32>", COLUMN[:, None], Y), [COLUMN[:, None] * Y + 2.5]),
    (module("chlo.broadcast_complex", "(%x: tensor<3x4xf32>, %y: tensor<4xf32>) -> tensor<3x4xcomplex<f32>>",
            broadcasting("complex", result="complex<f32>"), X, Y), [np.stack([X, np.broadcast_to(Y, X.shape)], -1)]),
    (module("chlo.broadcast_select", "(%c: tensor<3x4xi1>, %y: tensor<4xf32>) -> tensor<3x4xf32>",
            "%x = chlo.constant dense<3.0> : tensor<f32>\n%0 = chlo.broadcast_select %c, %y, %x : (tensor<3x4xi1>, "
            "tensor<4xf32>, tensor<f32>) -> tensor<3x4xf32>\nreturn %0 : tensor<3x4xf32>", X > 0, Y),
     [np.where(X > 0, Y, np.float32(3))]),
    (module("broadcast", "(%y: tensor<4xf32>) -> tensor<2x3x4xf32>", '%0 = "stablehlo.broadcast"(%y) {broadcast_sizes '
            "= array<i64: 2, 3>} : (tensor<4xf32>) -> tensor<2x3x4xf32>\nreturn %0 : tensor<2x3x4xf32>", Y),
     [np.broadcast_to(Y, (2, 3, 4))]),
    (module("einsum", "(%x: tensor<3x4xf32>, %y: tensor<4x5xf32>) -> tensor<5x3xf32>", "%0 = stablehlo.einsum %x, %y, "
            'config = "ab,bc->ca" : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<5x3xf32>\n'
            "return %0 : tensor<5x3xf32>", X, f32(4, 5)), [(X @ f32(4, 5)).T]),
    (module("unary_einsum", "(%x: tensor<3x4xi8>) -> tensor<4xi8>", '%0 = stablehlo.unary_einsum %x, config = "ab->b" '
            ": (tensor<3x4xi8>) -> tensor<4xi8>\nreturn %0 : tensor<4xi8>", np.full((3, 4), 100, np.int8)),
     [np.full(4, 44, np.int8)]),
]  # fmt: skip
"""Operators of StableHLO's and CHLO's earlier producers, which jaxlib 0.10 does not run, with results of NumPy."""

SCANS = [scan(axis, reverse) for axis in (0, 1) for reverse in ("false", "true")]
ROWS = [
    *QUANTIZED,
    ragged("rows of groups", (7, 5), (3, 5, 2), (7, 2), [], [], [1], [1], [0], [0]),
    ragged("rows of groups in a batch", (2, 7, 5), (3, 2, 5, 4), (2, 7, 4), [0], [1], [2], [2], [1], [0]),
    ragged("sums of groups", (5, 7), (7, 2), (3, 5, 2), [], [], [1], [0], [1], []),
    ragged("sums of groups in a batch", (2, 7, 5), (2, 7, 4), (3, 2, 5, 4), [0], [0], [1], [1], [1], []),
    ragged("groups of a batch", (7, 5, 4), (7, 4, 2), (7, 5, 2), [0], [0], [2], [1], [0], []),
    module("chlo.mulhi", "(%x: tensor<4xi64>, %y: tensor<4xi64>) -> tensor<4xi64>", "%0 = chlo.mulhi %x, %y : "
           "tensor<4xi64>, tensor<4xi64> -> tensor<4xi64>\nreturn %0 : tensor<4xi64>",
           np.array([2**62, -(2**63), -1, 5]), np.array([8, -(2**63), 2**40, -7])),
    module("a while whose values all count", "(%x: tensor<i64>) -> tensor<i64>",
           "%z = stablehlo.constant dense<0> : tensor<i64>\n%o = stablehlo.constant dense<1> : tensor<i64>\n"
           "%t = stablehlo.constant dense<10> : tensor<i64>\n"
           "%0:2 = stablehlo.while(%i = %z, %j = %o) : tensor<i64>, tensor<i64>\ncond {\n"
           "%1 = stablehlo.compare LT, %i, %t : (tensor<i64>, tensor<i64>) -> tensor<i1>\n"
           "stablehlo.return %1 : tensor<i1>\n} do {\n%2 = stablehlo.add %i, %o : tensor<i64>\n"
           "%3 = stablehlo.add %j, %o : tensor<i64>\nstablehlo.return %2, %3 : tensor<i64>, tensor<i64>\n}\n"
           "%4 = stablehlo.add %0#1, %x : tensor<i64>\nreturn %4 : tensor<i64>", np.array(3)),
    *(
        module(f"chlo.{name}", ONE, f"%0 = chlo.{name} %x : tensor<3x4xf32> -> tensor<3x4xf32>\n"
               "return %0 : tensor<3x4xf32>", data)
        for name, data in {
            "acos": X / 3, "acosh": abs(X) + 1, "asin": X / 3, "asinh": X, "atan": X, "atanh": X / 3, "cosh": X,
            "erf": X, "erfc": X, "erf_inv": X / 3, "sinh": X, "tan": X / 2, "square": X, "lgamma": abs(X) + 0.1,
            "digamma": abs(X) + 0.1, "bessel_i1e": X, "conj": X,
        }.items()
    ),
    *(
        module(f"chlo.{name}", "(%x: tensor<4xf32>) -> tensor<4xi1>", f"%0 = chlo.{name} %x : tensor<4xf32> -> "
               "tensor<4xi1>\nreturn %0 : tensor<4xi1>", np.array([1, np.inf, -np.inf, np.nan], np.float32))
        for name in ("is_inf", "is_pos_inf", "is_neg_inf")
    ),
    module("chlo.zeta", "(%x: tensor<3x4xf32>, %q: tensor<3x4xf32>) -> tensor<3x4xf32>",
           "%0 = chlo.zeta %x, %q : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>\nreturn %0 : tensor<3x4xf32>",
           abs(X) + 1.5, abs(X) + 0.5),
    module("chlo.polygamma", ONE, "%c = stablehlo.constant dense<2.0> : tensor<3x4xf32>\n"
           "%0 = chlo.polygamma %c, %x : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>\n"
           "return %0 : tensor<3x4xf32>", abs(X) + 0.5),
    module("chlo.next_after", "(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>) -> tensor<3x4xf32>",
           "%0 = chlo.next_after %x, %y : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>\n"
           "return %0 : tensor<3x4xf32>", X, X[::-1]),
    module("chlo.top_k", "(%x: tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)",
           "%0:2 = chlo.top_k(%x, k = 2) : tensor<3x4xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)\n"
           "return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi32>", X),
    module("dot", "(%x: tensor<3x4xf32>, %y: tensor<4x2xf32>) -> tensor<3x2xf32>",
           "%0 = stablehlo.dot %x, %y : (tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>\n"
           "return %0 : tensor<3x2xf32>", X, f32(4, 2)),
    module("map", ONE, '%0 = "stablehlo.map"(%x) ({\n^bb0(%a: tensor<f32>):\n%1 = stablehlo.multiply %a, %a : '
           "tensor<f32>\nstablehlo.return %1 : tensor<f32>\n}) {dimensions = array<i64: 0, 1>} : (tensor<3x4xf32>) -> "
           "tensor<3x4xf32>\nreturn %0 : tensor<3x4xf32>", X),
    module("batch_norm_inference", "(%x: tensor<2x3x4xf32>, %s: tensor<4xf32>, %v: tensor<4xf32>) -> "
           "tensor<2x3x4xf32>", '%0 = "stablehlo.batch_norm_inference"(%x, %s, %s, %s, %v) {epsilon = 1.0e-3 : f32, '
           "feature_index = 2 : i64} : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, "
           "tensor<4xf32>) -> tensor<2x3x4xf32>\nreturn %0 : tensor<2x3x4xf32>", f32(2, 3, 4), f32(4),
           f32(4, low=0.5)),
    module("torch_index_select", "(%x: tensor<3x4xf32>, %i: tensor<2xi32>) -> tensor<3x2xf32>",
           '%0 = "stablehlo.torch_index_select"(%x, %i) {dim = 1 : i64, batch_dims = 0 : i64} : (tensor<3x4xf32>, '
           "tensor<2xi32>) -> tensor<3x2xf32>\nreturn %0 : tensor<3x2xf32>", X, i32(2, low=0, high=4)),
    module("tan", ONE, "%0 = stablehlo.tan %x : tensor<3x4xf32>\nreturn %0 : tensor<3x4xf32>", X / 2),
    module("cholesky", "(%x: tensor<3x3xf32>) -> tensor<3x3xf32>", "%0 = stablehlo.cholesky %x, lower = true : "
           "tensor<3x3xf32>\n%z = stablehlo.constant dense<0.0> : tensor<3x3xf32>\n%i = stablehlo.iota dim = 0 : "
           "tensor<3x3xi32>\n%j = stablehlo.iota dim = 1 : tensor<3x3xi32>\n%c = stablehlo.compare GE, %i, %j : "
           "(tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>\n%1 = stablehlo.select %c, %0, %z : tensor<3x3xi1>, "
           "tensor<3x3xf32>\nreturn %1 : tensor<3x3xf32>", (np.eye(3) * 4 + 1).astype(np.float32)),
    module("triangular_solve", "(%a: tensor<3x3xf32>, %b: tensor<3x4xf32>) -> tensor<3x4xf32>",
           '%0 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false, '
           "transpose_a = #stablehlo<transpose TRANSPOSE>} : (tensor<3x3xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>\n"
           "return %0 : tensor<3x4xf32>", (np.eye(3) * 4 + 1).astype(np.float32), X),
    module("triangular_solve right", "(%a: tensor<4x4xf32>, %b: tensor<3x4xf32>) -> tensor<3x4xf32>",
           '%0 = "stablehlo.triangular_solve"(%a, %b) {left_side = false, lower = false, unit_diagonal = true, '
           "transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<4x4xf32>, tensor<3x4xf32>) -> "
           "tensor<3x4xf32>\nreturn %0 : tensor<3x4xf32>", (np.eye(4) * 4 + 1).astype(np.float32), X),
    module("if", "(%x: tensor<3x4xf32>, %c: tensor<i1>) -> tensor<3x4xf32>",
           '%0 = "stablehlo.if"(%c) ({\n%1 = stablehlo.sine %x : tensor<3x4xf32>\nstablehlo.return %1 : '
           "tensor<3x4xf32>\n}, {\nstablehlo.return %x : tensor<3x4xf32>\n}) : (tensor<i1>) -> tensor<3x4xf32>\n"
           "return %0 : tensor<3x4xf32>", X, np.array(True)),
    *(power_of(kind, np.array([0, 1, -1, 2, 3, -3, 7, -2, 0, 1, -1, 5]),
               np.array([0, 9, 9, 5, 60, 41, 63, 31, 3, 3, 4, 2] if kind.startswith("u")
                        else [0, 9, 9, 5, 60, 41, -1, 31, 3, -3, -4, -2]))
      for kind in INTEGER_KINDS),
    module("power", "(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>) -> tensor<3x4xf32>", "%0 = stablehlo.power %x, %y : "
           "tensor<3x4xf32>\nreturn %0 : tensor<3x4xf32>", abs(X), X),
    module("logistic", ONE, "%0 = stablehlo.logistic %x : tensor<3x4xf32>\nreturn %0 : tensor<3x4xf32>", X),
    module("optimization_barrier", ONE, "%0 = stablehlo.optimization_barrier %x : tensor<3x4xf32>\n"
           "return %0 : tensor<3x4xf32>", X),
    module("create_token", ONE, "%t = stablehlo.create_token : !stablehlo.token\nreturn %x : tensor<3x4xf32>", X),
    module("tokens", ONE, "%t = stablehlo.after_all : !stablehlo.token\n%0 = stablehlo.add %x, %x : tensor<3x4xf32>\n"
           "return %0 : tensor<3x4xf32>", X),
]  # fmt: skip
QUICK = ("chlo.erf", "if")


@pytest.mark.parametrize(
    "case", [pytest.param(r, id=r.name, marks=[] if r.name in QUICK else [pytest.mark.slow]) for r in ROWS]
)
def test_modules(case: ModuleRow, tmp_path: Path) -> None:
    path = tmp_path / "module.mlir"
    path.write_text(case.text)
    source = Source("stablehlo", path, written_here=True)
    model = frontend.read(source, Options(), Report("convert"))
    feeds = dict(zip([v.name for v in model.graph.inputs], case.feeds, strict=True))
    (expected,) = runner.run(source, [feeds], precision="float32", options=Options())
    found = run_graph(model, feeds, tmp_path)
    for one, other in zip(found.values(), expected.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_large_exponents(kind: str, tmp_path: Path) -> None:
    """XLA of jaxlib 0.10 reads six bits of an exponent, and its highest bit as a sign, so Python is the reference."""
    dtype = np.dtype(INTEGER_KINDS[kind])
    limit = np.iinfo(dtype).max
    base = np.array([0, 1, -1, 2, 3, -3, 7, -2, 5, 1, -1, 5])
    exponent = np.array([64, limit, limit, 65, 70, 101, limit, 64, limit - 1, limit - 2, 127, 100])
    case = power_of(kind, base, exponent)
    path = tmp_path / "module.mlir"
    path.write_text(case.text)
    model = frontend.read(Source("stablehlo", path, written_here=True), Options(), Report("convert"))
    (found,) = run_graph(
        model, dict(zip([v.name for v in model.graph.inputs], case.feeds, strict=True)), tmp_path
    ).values()
    size = 2 ** (8 * dtype.itemsize)
    exact = [pow(int(x), int(y), size) for x, y in zip(*(feed.flat for feed in case.feeds), strict=True)]
    assert [int(value) % size for value in found.flat] == exact


@pytest.mark.slow
@pytest.mark.parametrize(("case", "expected"), OLDER, ids=lambda value: getattr(value, "name", ""))
def test_operators_of_earlier_producers(case: ModuleRow, expected: list[np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "module.mlir"
    path.write_text(case.text)
    model = frontend.read(Source("stablehlo", path, written_here=True), Options(), Report("convert"))
    found = run_graph(model, dict(zip([v.name for v in model.graph.inputs], case.feeds, strict=True)), tmp_path)
    for one, other in zip(found.values(), expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("case", SCANS, ids=lambda case: case.name)
def test_scans(case: ModuleRow, tmp_path: Path) -> None:
    """XLA cannot run chlo.scan in jaxlib 0.10, so JAX's own scan is the reference."""
    path = tmp_path / "module.mlir"
    path.write_text(case.text)
    model = frontend.read(Source("stablehlo", path, written_here=True), Options(), Report("convert"))
    found = run_graph(model, dict(zip([v.name for v in model.graph.inputs], case.feeds, strict=True)), tmp_path)
    axis = int(case.name.split()[1])

    def step(carried: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        added = carried / 2 + row
        return jnp.tanh(added), added

    x, start = case.feeds
    last, rows = jax.lax.scan(step, start, np.moveaxis(x, axis, 0), reverse=case.name.endswith("true"))
    for one, other in zip(found.values(), (np.moveaxis(np.asarray(rows), 0, axis), last), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("zero", [3, 128])
def test_unsigned_quantization(zero: int, tmp_path: Path) -> None:
    """StableHLO's own lowering, by which the runner computes, converts to signed bytes; the specification has this."""
    path = tmp_path / "module.mlir"
    path.write_text(rounded("unsigned", f"u8:f32, 0.01:{zero}", X).text)
    source = Source("stablehlo", path, written_here=True)
    model = frontend.read(source, Options(), Report("convert"))
    (found,) = run_graph(model, {model.graph.inputs[0].name: X}, tmp_path).values()
    scale = np.float32(0.01)
    steps = np.clip(np.round(X / scale + np.float32(zero)), 0, 255)
    np.testing.assert_allclose(found, (steps - zero) * scale, rtol=1e-6, atol=1e-6)
    with pytest.raises(Unsupported, match="unsigned"):
        runner.run(source, [{"arg0": X}], precision="float32", options=Options())


def test_a_module_with_open_sizes(tmp_path: Path) -> None:
    path = tmp_path / "module.mlir"
    path.write_text(
        "func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {\n"
        "%0 = stablehlo.tanh %x : tensor<?x4xf32>\nreturn %0 : tensor<?x4xf32>\n}"
    )
    source = Source("stablehlo", path, written_here=True)
    model = frontend.read(source, Options(), Report("convert"))
    assert str(model.graph.outputs[0].shape) == "[batch,4]"
    (found,) = runner.run(source, [{"arg0": X}], precision="float64", options=Options())
    np.testing.assert_allclose(found["output"], np.tanh(X.astype(np.float64)), rtol=1e-12)
