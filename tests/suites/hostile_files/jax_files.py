"""StableHLO as text, as bytecode and in files of jax.export: deep, doubled, endless, huge, or with foreign calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.suites.hostile_files.case import Canary, Case, file_name
from tests.support.hostile import mutations, truncations

T = "tensor<4x8xf32>"


def _main(body: str, result: str = "%r", before: str = "", kind: str = T, inputs: str = f"%x: {T}") -> str:
    """Return a module whose only function has this body."""
    return f"{before}\nmodule {{\nfunc.func @main({inputs}) -> {kind} {{\n{body}\nreturn {result} : {kind}\n}}\n}}\n"


def _doubled(first: str, twice: str, levels: int) -> str:
    """Return aliases, each of which names the one before twice; `twice` has places for the number and the last one."""
    lines = [first, *(twice.format(n=n, last=n - 1) for n in range(1, levels))]
    return "\n".join(lines)


def _calls(levels: int, callee: str = "") -> str:
    """Return functions that each call the next twice; the last one calls `callee`."""
    lines = [f"func.func @main(%x: {T}) -> {T} {{\n%r = call @f0(%x) : ({T}) -> {T}\nreturn %r : {T}\n}}"]
    for level in range(levels):
        after = f"f{level + 1}" if level + 1 < levels else callee
        body = f"%0 = call @{after}(%x) : ({T}) -> {T}\n%r = call @{after}(%0) : ({T}) -> {T}" if after else (
            f"%r = stablehlo.add %x, %x : {T}")  # fmt: skip
        lines.append(f"func.func private @f{level}(%x: {T}) -> {T} {{\n{body}\nreturn %r : {T}\n}}")
    return "module {\n" + "\n".join(lines) + "\n}\n"


def _custom(name: str, more: str = "") -> str:
    return _main(f"%r = stablehlo.custom_call @{name}(%x) {more} : ({T}) -> {T}")


def _loop(end: int, step: int) -> str:
    """Return a loop that counts from 0 by `step` while it is below `end`."""
    return _main(
        f"%c = stablehlo.constant dense<0> : tensor<i64>\n%e = stablehlo.constant dense<{end}> : tensor<i64>\n"
        f"%s = stablehlo.constant dense<{step}> : tensor<i64>\n"
        f"%r:2 = stablehlo.while(%i = %c, %v = %x) : tensor<i64>, {T} cond {{\n"
        "%p = stablehlo.compare LT, %i, %e : (tensor<i64>, tensor<i64>) -> tensor<i1>\n"
        "stablehlo.return %p : tensor<i1>\n} do {\n%n = stablehlo.add %i, %s : tensor<i64>\n"
        f"%w = stablehlo.add %v, %v : {T}\nstablehlo.return %n, %w : tensor<i64>, {T}\n}}",
        "%r#1",
    )


def _window(sizes: str, more: str = "", operator: str = "add") -> str:
    """Return a sum over windows of these sizes, or what another operator makes of them."""
    return _main(
        "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f'%r = "stablehlo.reduce_window"(%x, %z) ({{\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n'
        f"%s = stablehlo.{operator} %a, %b : tensor<f32>\nstablehlo.return %s : tensor<f32>\n"
        f"}}) {{window_dimensions = array<i64: {sizes}>{more}}} : ({T}, tensor<f32>) -> {T}"
    )


def _pad(low: int, high: int, inner: int, kind: str) -> str:
    return _main(
        "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f"%r = stablehlo.pad %x, %z, low = [{low}, 0], high = [{high}, 0], interior = [{inner}, 0] : "
        f"({T}, tensor<f32>) -> {kind}",
        kind=kind,
    )


def _deep() -> dict[str, str]:
    """Return modules that nest, or name one part twice again and again."""
    plain = "%r = stablehlo.add %x, %x"
    fine = f"{plain} : {T}"
    branches = "{\nstablehlo.return %x : " + T + "\n}"
    index = "%i = stablehlo.constant dense<0> : tensor<i32>\n"
    nest = "%r = stablehlo.negate %x : " + T
    for _ in range(400):
        nest = f'%r = "stablehlo.case"(%i) ({{\n{nest}\nstablehlo.return %r : {T}\n}}) : (tensor<i32>) -> {T}'
    named = _doubled('#a0 = "x"', "#a{n} = [#a{last}, #a{last}]", 60)
    kinds = _doubled("!t0 = tensor<f32>", "!t{n} = tuple<!t{last}, !t{last}>", 40)
    places = _doubled('#loc0 = loc("x")', "#loc{n} = loc(fused[#loc{last}, #loc{last}])", 40)
    calls = _doubled('#loc0 = loc("x")', "#loc{n} = loc(callsite(#loc{last} at #loc{last}))", 40)
    return {
        "types in types": _main(f"{plain} {{odd = {'tuple<' * 50_000}f32{'>' * 50_000}}} : {T}"),
        "attributes in attributes": _main(f"{plain} {{odd = {'[' * 50_000}{']' * 50_000}}} : {T}"),
        "attributes in attributes that MLIR reads": _main(f"{plain} {{odd = {'[' * 200}{']' * 200}}} : {T}"),
        "names of attributes, doubled": _main(f"{plain} {{odd = #a59}} : {T}", before=named),
        "names of types, doubled": _main(f"{plain} {{odd = !t39}} : {T}", before=kinds),
        "locations, doubled": _main(f"{fine} loc(#loc39)", before=places),
        "call sites, doubled": _main(f"{fine} loc(#loc39)", before=calls),
        "locations in locations": _main(f"{fine} loc({'fused[' * 20_000}unknown{']' * 20_000})"),
        "regions in regions": _main(index + nest),
        "branches without number": _main(
            f'{index}%r = "stablehlo.case"(%i) ({", ".join([branches] * 20_000)}) : (tensor<i32>) -> {T}'
        ),
        "functions that double": _calls(60),
        "functions that call one another": _calls(3, "f0"),
        "a function that calls nothing": _calls(1, "none"),
        "a million operators": _main("%0 = stablehlo.negate %x : " + T + "\n" + "".join(
            f"%{n + 1} = stablehlo.negate %{n} : {T}\n" for n in range(30_000)), "%30000"),
        "a composite of itself": f"module {{\nfunc.func @main(%x: {T}) -> {T} {{\n"
            f'%r = stablehlo.composite "mine.f" %x {{decomposition = @main}} : ({T}) -> {T}\nreturn %r : {T}\n}}\n}}\n',
    }  # fmt: skip


def _huge() -> dict[str, str]:
    """Return modules of few bytes whose tensors, windows or loops are large."""
    big = "tensor<1099511627776xf32>"
    most = f"tensor<{2**63 - 1}xf32>"
    return {
        "a constant of 4 TB": _main(f"%r = stablehlo.constant dense<0.0> : {big}", kind=big),
        "a constant of 2^63 numbers": _main(f"%r = stablehlo.constant dense<0.0> : {most}", kind=most),
        "an iota of 4 TB": _main(f"%r = stablehlo.iota dim = 0 : {big}", kind=big),
        "a constant of 4 TB that is added": _main(
            f"%a = stablehlo.constant dense<1.0> : {big}\n%b = stablehlo.iota dim = 0 : {big}\n"
            f"%r = stablehlo.add %a, %b : {big}", kind=big),
        "a broadcast to 4 TB": _main(
            "%c = stablehlo.constant dense<1.0> : tensor<f32>\n"
            f"%r = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> {big}", kind=big),
        "an input of 4 TB": _main(f"%r = stablehlo.negate %x : {big}", kind=big, inputs=f"%x: {big}"),
        "dims without number": _main(f"%r = stablehlo.negate %x : tensor<{'1x' * 5_000}f32>",
            kind=f"tensor<{'1x' * 5_000}f32>", inputs=f"%x: tensor<{'1x' * 5_000}f32>"),
        "a resource that is not there": _main(f"%r = stablehlo.constant dense_resource<none> : {T}"),
        "padding of 2^40": _pad(2**40, 0, 0, "tensor<1099511627780x8xf32>"),
        "padding of less than there is": _pad(-8, -8, 0, "tensor<0x8xf32>"),
        "padding inside of 2^40": _pad(0, 0, 2**40, "tensor<3298534883332x8xf32>"),
        "padding inside below zero": _pad(0, 0, -1, T),
        "a window of 2^40": _window("1099511627776, 1"),
        "a window of 2^40 with padding": _window(
            "1099511627776, 1", ", padding = dense<[[1099511627775, 0], [0, 0]]> : tensor<2x2xi64>"),
        "a window of 2^48 that is combined one by one": _window(
            "16777216, 16777216", ", padding = dense<[[16777215, 0], [16777215, 0]]> : tensor<2x2xi64>", "atan2"),
        "a window of nothing": _window("0, 1"),
        "steps of nothing": _window("1, 1", ", window_strides = array<i64: 0, 1>"),
        "dilations of 2^62": _window("1, 1", f", window_dilations = array<i64: {2**62}, 1>"),
        "a slice by nothing": _main(f"%r = stablehlo.slice %x [0:4:0, 0:8] : ({T}) -> {T}"),
        "a slice beyond the end": _main(f"%r = stablehlo.slice %x [0:{2**62}, 0:8] : ({T}) -> {T}"),
        "a reshape to other sizes": _main(
            f"%r = stablehlo.reshape %x : ({T}) -> tensor<5x8xf32>", kind="tensor<5x8xf32>"),
        "a transpose of no dim": _main(f"%r = stablehlo.transpose %x, dims = [0, 7] : ({T}) -> {T}"),
        "a concatenation of itself": _main(
            f"%r = stablehlo.concatenate {', '.join(['%x'] * 20_000)}, dim = 0 : ({', '.join([T] * 20_000)}) -> "
            "tensor<80000x8xf32>", kind="tensor<80000x8xf32>"),
        "ten thousand results": f"func.func @main(%x: {T}) -> ({', '.join([T] * 10_000)}) {{\n"
            f"return {', '.join(['%x'] * 10_000)} : {', '.join([T] * 10_000)}\n}}\n",
        "a loop without end": _loop(1, 0),
        "a loop of 2^62 turns": _loop(2**62, 1),
        "a sort of no dim": _main(
            f'%r = "stablehlo.sort"(%x) ({{\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n'
            "%p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
            f"stablehlo.return %p : tensor<i1>\n}}) {{dimension = 9 : i64}} : ({T}) -> {T}"),
        "groups of 2^40": _main(
            "%w = stablehlo.constant dense<1.0> : tensor<1x1x3x3xf32>\n"
            "%r = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], "
            "window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1099511627776 : i64} : "
            "(tensor<1x1x8x8xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x6x6xf32>",
            kind="tensor<1x1x6x6xf32>", inputs="%x: tensor<1x1x8x8xf32>"),
    }  # fmt: skip


def _foreign(canary: Canary) -> dict[str, str]:
    """Return modules that call what is not StableHLO, and names that are not text for a terminal."""
    config = f'{{backend_config = "touch {canary.marker}", has_side_effect = true}}'
    lines = r"\0APASS  error 0\0Aerror: forged\1B[31m"
    fine = f"%r = stablehlo.add %x, %x : {T}"
    return {
        **{f"a call of {name}": _custom(name, config)
           for name in ("system", "xla_python_cpu_callback", "xla_ffi_python_cpu_callback", "lapack_sgetrf",
                        "tf.call_tf_function", "Sharding", "stablehlo.dynamic_reduce_window", "dlopen")},
        "a call with another interface": _custom(
            "system", "{api_version = 4 : i32, backend_config = {a = 1 : i64}}"),
        "another dialect": _main(f'%r = "llvm.inline_asm"(%x) {{asm_string = "int3"}} : ({T}) -> {T}'),
        "an operator of no dialect": _main(f'%r = "mine.run"(%x) : ({T}) -> {T}'),
        "an outfeed": _main(f"%t = stablehlo.create_token : !stablehlo.token\n{fine}\n"
                            f"%o = \"stablehlo.outfeed\"(%x, %t) : ({T}, !stablehlo.token) -> !stablehlo.token"),
        "a call of another name of lines": _custom(f'"{lines}"'),
        "a location of lines": _main(f'%r = stablehlo.custom_call @odd(%x) : ({T}) -> {T} loc("{lines}")'),
        "a location of a file": _main(f'%r = stablehlo.custom_call @odd(%x) : ({T}) -> {T} loc("/etc/passwd":1:1)'),
        "an input of lines": _main(fine, inputs=f'%x: {T} {{jax.arg_info = "{lines}"}}'),
        "an output of lines": f'func.func @main(%x: {T}) -> ({T} {{jax.result_info = "{lines}"}}) {{\n{fine}\n'
                              f"return %r : {T}\n}}\n",
        "an element of no kind": _main("%r = stablehlo.negate %x : tensor<4x!quant.uniform<i8:f32, 0.0>>",
            kind="tensor<4x!quant.uniform<i8:f32, 0.0>>", inputs="%x: tensor<4x!quant.uniform<i8:f32, 0.0>>"),
        "no main": _calls(2).replace("@main", "@other"),
        "two modules": _calls(1) * 2,
        "a main without a body": f"func.func private @main({T}) -> {T}\n",
    }  # fmt: skip


def _exported() -> bytes:
    """Return a file of jax.export with a named dim."""
    import jax
    from jax import export
    from jax import numpy as jnp

    (batch,) = export.symbolic_shape("batch")
    described = jax.ShapeDtypeStruct((batch, 8), jnp.float32)
    return bytes(export.export(jax.jit(lambda x: jnp.tanh(x).reshape(batch * 2, 4)))(described).serialize())


def hostile_modules(canary: Canary) -> dict[str, str]:
    """Return the text of every hostile module."""
    return _deep() | _huge() | _foreign(canary)


def jax_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Modules as text, then changed and truncated bytecode, then changed files of jax.export."""
    from convert.frontends.jax.files.parsing import parse_module

    good = folder / "good.mlir"
    text = _main(f"%r = stablehlo.tanh %x : {T}")
    good.write_text(text)
    for name, module in hostile_modules(canary).items():
        path = folder / f"{file_name(name)}.mlir"
        path.write_text(module)
        yield Case(name, path, good=good)
    binary, exported = folder / "good.mlirbc", folder / "good.jax_export"
    with binary.open("wb") as file:
        parse_module(text.encode(), "good").operation.write_bytecode(file)
    exported.write_bytes(_exported())
    for whole, changes in ((binary, 40), (exported, 60)):
        for number, path in enumerate(truncations(whole, folder, 12)):
            yield Case(f"{whole.suffix} cut, {number}", path, good=good)
        for number, path in enumerate(mutations(whole, folder, changes, seed=51)):
            yield Case(f"{whole.suffix} changed, {number}", path, good=good)
    data = exported.read_bytes()
    for name, size in (("a power of powers", b"2**9**9"), ("a long sum", b"1+1+1+1"), ("no dim", b"__import__")):
        path = folder / f"{file_name(name)}.jax_export"
        path.write_bytes(data.replace(b"batch", size[:5].ljust(5, b" ")))
        yield Case(f"sizes: {name}", path, good=good)
