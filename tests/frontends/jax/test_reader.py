"""JAX files are recognized by content, and refused if damaged; also objects in memory, and runs."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from convert.frontends import jax as frontend
from convert.frontends.jax.runner import runner
from jax import export

import convert
from convert import limits
from convert.errors import BadInput, ResourceLimit, Unsupported, UsageError
from convert.files.sniff import sniff
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.support.cases import f32

pytestmark = pytest.mark.not_core


def program() -> export.Exported:
    """A small program with an open batch size."""
    (batch,) = export.symbolic_shape("batch")
    w = f32(4, 3)
    return export.export(jax.jit(lambda x: jax.scipy.special.erf(x @ w)))(jax.ShapeDtypeStruct((batch, 4), np.float32))


def files(folder: Path) -> dict[str, Path]:
    """Write the program as a file of each kind."""
    made = program()
    contents = {
        "a.jax": bytes(made.serialize()),
        "b.mlirbc": made.mlir_module_serialized,
        "c.mlir": made.mlir_module().encode(),
        "d.bin": bytes(made.serialize()),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: folder / name for name in contents}


def test_files_are_told_by_their_content(tmp_path: Path) -> None:
    kinds = {name: sniff(path) for name, path in files(tmp_path).items()}
    assert kinds == {"a.jax": "jax-export", "b.mlirbc": "stablehlo", "c.mlir": "stablehlo", "d.bin": "jax-export"}


def test_every_kind_of_file_gives_one_graph(tmp_path: Path) -> None:
    for path in files(tmp_path).values():
        model = frontend.read(Source(sniff(path), path, written_here=True), Options(), Report("convert"))
        assert [n.op_type for n in model.graph] == ["MatMul", "Erf"], path
        assert [str(v.shape) for v in model.graph.inputs] == ["[batch,4]"]


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.98])
def test_files_that_break_off(tmp_path: Path, share: float) -> None:
    for path in files(tmp_path).values():
        data = path.read_bytes()
        path.write_bytes(data[: int(share * len(data))])
        with pytest.raises(BadInput):
            frontend.read(Source(sniff(path), path), Options(), Report("convert"))


@pytest.mark.slow
def test_bytes_that_were_changed(tmp_path: Path) -> None:
    """Each of 40 files with one changed bit gives an error of convert's own, or a graph."""
    path = files(tmp_path)["b.mlirbc"]
    data, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(40):
        changed = bytearray(data)
        changed[rng.integers(20, len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        with contextlib.suppress(BadInput, ResourceLimit, Unsupported):
            frontend.read(Source(sniff(path), path), Options(), Report("convert"))


def test_functions_that_call_the_next_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = "(%x: tensor<f32>) -> tensor<f32>"
    call = "call @f{} (%{}) : (tensor<f32>) -> tensor<f32>"
    lines = [
        f"func.func private @f{i}{kind} {{ %0 = {call.format(i + 1, 'x')}\n%1 = {call.format(i + 1, '0')}\n"
        "return %1 : tensor<f32> }"
        for i in range(40)
    ]
    last = f"func.func private @f40{kind} {{ return %x : tensor<f32> }}"
    main = f"func.func @main{kind} {{ %0 = {call.format(0, 'x')}\nreturn %0 : tensor<f32> }}"
    path = tmp_path / "bomb.mlir"
    path.write_text("module {\n" + "\n".join([main, *lines, last]) + "\n}")
    monkeypatch.setattr(limits, "STABLEHLO_OPERATORS", 10_000)
    with pytest.raises(ResourceLimit, match="expand to more than"):
        frontend.read(Source("stablehlo", path, written_here=True), Options(), Report("convert"))


def test_functions_that_call_themselves(tmp_path: Path) -> None:
    path = tmp_path / "loop.mlir"
    path.write_text(
        "func.func @main(%x: tensor<f32>) -> tensor<f32> { %0 = call @main(%x) : (tensor<f32>) -> tensor<f32>\n"
        "return %0 : tensor<f32> }"
    )
    with pytest.raises(ResourceLimit, match="call one another"):
        frontend.read(Source("stablehlo", path, written_here=True), Options(), Report("convert"))


def test_windows_that_are_combined_one_by_one(tmp_path: Path) -> None:
    """The window has 2^48 places, which are counted before they are listed."""
    one, whole = "tensor<f32>", "tensor<4x8xf32>"
    path = tmp_path / "window.mlir"
    path.write_text(
        f"func.func @main(%x: {whole}) -> {whole} {{ %z = stablehlo.constant dense<0.0> : {one}\n"
        f'%r = "stablehlo.reduce_window"(%x, %z) ({{\n^bb0(%a: {one}, %b: {one}):\n'
        f"%s = stablehlo.atan2 %a, %b : {one}\nstablehlo.return %s : {one}\n"
        "}) {window_dimensions = array<i64: 16777216, 16777216>, padding = dense<[[16777215, 0], [16777215, 0]]> "
        f": tensor<2x2xi64>}} : ({whole}, {one}) -> {whole}\nreturn %r : {whole} }}"
    )
    with pytest.raises(ResourceLimit, match="a window of 281,474,976,710,656 elements"):
        frontend.read(Source("stablehlo", path, written_here=True), Options(), Report("convert"))


def doubled(first: str, line: str) -> str:
    """Return aliases that each name the one before twice, sixty times."""
    return "\n".join([first, *(line.replace("NEW", str(n + 1)).replace("OLD", str(n)) for n in range(60))])


PLACE = '#loc0 = loc("x")'
SHARED = {
    "attributes": (doubled('#a0 = "x"', "#aNEW = [#aOLD, #aOLD]"), "{odd = #a60}", "", ResourceLimit, "values"),
    "dicts": (doubled('#a0 = "x"', "#aNEW = {a = #aOLD, b = #aOLD}"), "{odd = #a60}", "", ResourceLimit, "values"),
    "deep lists": ("", f"{{odd = {'[' * 200}{']' * 200}}}", "", ResourceLimit, "100 deep"),
    "types": (doubled("!a0 = tensor<f32>", "!aNEW = tuple<!aOLD, !aOLD>"), "{odd = !a60}", "", Unsupported, "tuple"),
    "call sites": (doubled(PLACE, "#locNEW = loc(callsite(#locOLD at #locOLD))"), "", "loc(#loc60)", None, ""),
    "fused": (doubled(PLACE, '#locNEW = loc(fused[callsite(#locOLD at #locOLD), "y"])'), "", "loc(#loc60)", None, ""),
}  # fmt: skip
"""Module texts with parts that contain each other, the error type, and a word of its message."""


@pytest.mark.parametrize("name", SHARED)
def test_parts_that_hold_one_another_twice_are_walked_in_bounded_time(name: str, tmp_path: Path) -> None:
    aliases, attributes, place, kind, word = SHARED[name]
    path = tmp_path / "shared.mlir"
    path.write_text(
        f"{aliases}\nmodule {{\nfunc.func @main(%x: tensor<f32>) -> tensor<f32> {{\n%0 = stablehlo.add %x, %x "
        f"{attributes} : tensor<f32> {place}\nreturn %0 : tensor<f32>\n}}\n}}\n"
    )
    assert sniff(path) == "stablehlo"
    began = time.process_time()
    with contextlib.nullcontext() if kind is None else pytest.raises(kind, match=word):
        frontend.read(Source("stablehlo", path, written_here=True), Options(), Report("convert"))
    assert time.process_time() - began < 15  # and not until --timeout


def test_a_main_that_is_only_declared(tmp_path: Path) -> None:
    path = tmp_path / "declared.mlir"
    path.write_text("func.func private @main(tensor<f32>) -> tensor<f32>")
    with pytest.raises(BadInput, match="no body"):
        frontend.read(Source("stablehlo", path, written_here=True), Options(), Report("convert"))


def test_a_function_without_shapes_is_asked_for_them() -> None:
    with pytest.raises(UsageError, match="has no shapes"):
        frontend.read(Source("jax-function-object", model=jax.jit(jnp.sin)), Options(), Report("convert"))


def test_a_callback_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "callback.mlir"
    path.write_text(
        "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n%0 = stablehlo.custom_call "
        "@xla_ffi_python_cpu_callback(%x) : (tensor<3xf32>) -> tensor<3xf32>\nreturn %0 : tensor<3xf32>\n}"
    )
    with pytest.raises(Unsupported, match="runs code of the program"):
        frontend.read(Source("stablehlo", path, written_here=True), Options(), Report("convert"))


def test_runs_in_float64_have_its_digits() -> None:
    """Functions that are kept as CHLO operators have the digits of float64, not those of float32."""
    made = program()
    x = f32(5, 4)
    (found,) = runner.run(Source("jax-export-object", model=made), [{"x": x}], precision="float64", options=Options())
    assert found["output"].dtype == np.float64
    with jax.enable_x64(True):
        expected = jax.scipy.special.erf(x.astype(np.float64) @ f32(4, 3).astype(np.float64))
    np.testing.assert_allclose(found["output"], expected, rtol=1e-12)


def test_bits_have_no_float64() -> None:
    made = export.export(jax.jit(lambda x: jax.lax.bitcast_convert_type(x, jnp.int32)))(
        jax.ShapeDtypeStruct((3,), np.float32)
    )
    with pytest.raises(Unsupported, match="bits of floating numbers"):
        runner.run(Source("jax-export-object", model=made), [{"x": f32(3)}], precision="float64", options=Options())


@pytest.mark.slow
def test_the_parameters_of_a_module_are_called_by_their_paths() -> None:
    from tests.frontends.jax.networks import NETWORKS

    network = NETWORKS["nnx mlp"]
    options = Options(inputs=(convert.request.options.parse_input(str(network.inputs)),))
    model = frontend.read(Source("jax-module-object", model=network.build()), options, Report("convert"))
    assert {"first.kernel", "last.kernel"} <= set(model.graph.initializers)
    assert [v.name for v in model.graph.inputs] == ["x"]


@pytest.mark.slow
def test_a_file_is_converted_and_verified(tmp_path: Path) -> None:
    path = files(tmp_path)["a.jax"]
    report = convert.convert(path, "onnx", tmp_path / "a.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
