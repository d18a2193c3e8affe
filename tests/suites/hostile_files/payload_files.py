"""The hostile StableHLO modules as MLIR bytecode, and inside TensorFlow graphs (`XlaCallModule`)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.suites.hostile_files.case import FIXTURES, Canary, Case, file_name
from tests.suites.hostile_files.jax_files import hostile_modules

GRAPH = FIXTURES / "mnist_cnn_frozen.pb"
PARSE_SECONDS = 20.0
"""Seconds for MLIR to parse a module when the files are made; those that take longer stay text."""
_PLAIN = """module @plain { func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
%r = stablehlo.tanh %x : tensor<4x8xf32> return %r : tensor<4x8xf32> } }"""


def _bytecode(text: str, place: Path) -> bytes:
    """Return the module as bytecode, or as text if MLIR rejects it. MLIR may crash over it, so a fork parses it."""
    from convert.frontends.jax.files.parsing import parse_module

    place.unlink(missing_ok=True)
    pid = os.fork()
    if not pid:
        try:
            with place.open("wb") as file:
                parse_module(text.encode(), "hostile").operation.write_bytecode(file)
        except BaseException:
            place.unlink(missing_ok=True)
        os._exit(0)
    until = time.monotonic() + PARSE_SECONDS
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > until:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            return text.encode()
        time.sleep(0.01)
    return (place.read_bytes() if place.exists() else b"") or text.encode()


def _number(value: int) -> bytes:
    """Return the longest form of a number in bytecode: a zero, then eight bytes."""
    return b"\0" + value.to_bytes(8, "little")


def _damaged(plain: bytes) -> dict[str, bytes]:
    """Return bytecode with false numbers, and sections that are missing, doubled, unknown or without end."""
    start = plain.index(b"\0") + 1  # after the magic number, the version and the producer's name
    head, sections = plain[:start], plain[start:]
    found = {
        "no sections": head,
        "a version of 2^60": b"ML\xefR" + _number(1 << 60) + plain[5:],
        "a producer without end": plain[:5] + b"x" * 100_000,
        "sections twice": head + sections * 2,
        "a thousand times": plain * 1000,
        "an unknown section": head + bytes([0x7F, 0x01]) + sections,
        "text after the magic number": b"ML\xefR" + b"module {}",
    }
    for place in range(min(60, len(sections))):
        for name, value in (("2^62", _number(1 << 62)), ("2^32", _number(1 << 32)), ("0", b"\1")):
            found[f"{name} at byte {place}"] = head + sections[:place] + value + sections[place + 1 :]
    return found


def _graph(module: bytes, **attributes: Any) -> bytes:
    """Return a frozen graph from x to y that calls the module."""
    from tensorflow.core.framework import graph_pb2

    graph = graph_pb2.GraphDef()
    x = graph.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = 1
    for size in (4, 8):
        x.attr["shape"].shape.dim.add(size=size)
    call = graph.node.add(name="y", op="XlaCallModule", input=["x"])
    call.attr["module"].s = module
    call.attr["version"].i = attributes.get("version", 9)
    call.attr["Tin"].list.type.append(1)
    call.attr["Tout"].list.type.append(attributes.get("dtype", 1))
    shape = call.attr["Sout"].list.shape.add()
    for size in attributes.get("sizes", (4, 8)):
        shape.dim.add(size=size)
    call.attr["platforms"].list.s.extend(attributes.get("platforms", [b"CPU"]))
    call.attr["function_list"].list.SetInParent()
    for name in attributes.get("functions", ()):
        call.attr["function_list"].list.func.add(name=name)
    call.attr["has_token_input_output"].b = attributes.get("token", False)
    return graph.SerializeToString()


def payload_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write each module as bytecode and in a graph, then damaged bytecode, then graphs with false attributes."""
    plain = _bytecode(_PLAIN, folder / "module")
    good = folder / "good.mlirbc"
    good.write_bytes(plain)
    modules = {name: _bytecode(text, folder / "module") for name, text in hostile_modules(canary).items()}
    for name, content in (modules | _damaged(plain)).items():
        path = folder / f"{file_name(name)}.mlirbc"
        path.write_bytes(content)
        yield Case(f"bytecode: {name}", path, good=good, verbs=("inspect",) if "at byte" in name else ())
    damaged = {name: content for name, content in _damaged(plain).items() if "at byte" not in name}
    calls: dict[str, dict[str, Any]] = {
        "a version of 2^40": {"version": 1 << 40}, "a version of 1": {"version": 1}, "dtype 99": {"dtype": 99},
        "sizes of 2^62": {"sizes": [1 << 62]}, "10,000 platforms": {"platforms": [b"\x1b[31m\n"] * 10_000},
        "functions that are not there": {"functions": ["gone\nPASS"]}, "tokens": {"token": True},
    }  # fmt: skip
    graphs = {name: _graph(content) for name, content in (modules | damaged).items()}
    graphs |= {name: _graph(plain, **more) for name, more in calls.items()} | {"nothing": _graph(b"")}
    for name, content in graphs.items():
        path = folder / f"call_{file_name(name)}.pb"
        path.write_bytes(content)
        yield Case(f"a call of {name}", path, good=GRAPH, verbs=("inspect", "source", "target", "python"))
