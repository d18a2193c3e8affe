"""Replacements for the source and target of a verification, and for the child processes that would run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import BadInput, ConvertError
from convert.graph import Graph
from convert.parity import verify as verification
from convert.parity.runs import repeats
from convert.processes.run_here import AS_USED, Limits, run_all
from convert.request.options import Options
from convert.request.source import Source

F = ir.DataType.FLOAT
SOURCE, TARGET = Source("onnx-object", model="source"), Source("onnx-object", model="target")
Arrays = Mapping[str, np.ndarray]
Function = Callable[[Arrays], dict[str, np.ndarray]]


def graph(scale: float = 2.0, dims: Sequence[int | str] = ("n", 6)) -> ir.Model:
    """y = Tanh(x) · scale."""
    g = Graph()
    g.output(g.Mul(g.Tanh(g.input("x", F, dims)), np.float32(scale)), "y")
    return g.model()


def scaled(scale: float, dtype: type = np.float32) -> Function:
    return lambda arrays: {"y": (np.tanh(arrays["x"].astype(np.float64)) * scale).astype(dtype)}


def raises(error: Exception) -> Function:
    def function(arrays: Arrays) -> dict[str, np.ndarray]:
        raise error

    return function


class Side:
    """A replacement for the runner of one artefact, with a function for each precision or way of use. It records its
    inputs.
    """

    def __init__(self, **functions: Function) -> None:
        self.functions = functions
        self.given: list[Arrays] = []
        self.stopped = 0
        self.options: list[Options] = []

    def run(self, source: Source, feeds: Sequence[Arrays], *, precision: str, options: Options) -> Any:
        self.given += feeds if precision == "float32" else []
        function = self.functions.get(precision) or next(iter(self.functions.values()))
        return [function(arrays) for arrays in feeds]

    def run_as_used(self, source: Source, feeds: Sequence[Arrays], options: Options) -> Any:
        ways = {w: f for w, f in self.functions.items() if w not in ("float32", "float64")}
        if not ways:
            return {"": self.run(source, feeds, precision="float32", options=options)}
        return {w: [f(a) for a in (feeds if number == 0 else feeds[:1])] for number, (w, f) in enumerate(ways.items())}


class Sides:
    """A source and a target that run in this process instead of child processes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, source: Side, target: Side) -> None:
        self.of = {id(SOURCE): source, id(TARGET): target}
        self.located: list[tuple[Any, ...]] = []
        for module in (verification, repeats):
            monkeypatch.setattr(module, "execute", self.execute)
        monkeypatch.setattr(verification, "start", self.start)
        monkeypatch.setattr(verification, "locate", lambda *given: self.located.append(given) or "in the target")
        monkeypatch.setattr(verification, "locate_source", lambda *given: self.located.append(given) or "in the source")

    def execute(
        self,
        which: Source,
        feeds: Any,
        precisions: Any,
        options: Options,
        limits: Limits,
        optional: int = 0,
        deployed: Sequence[int] = (),
    ) -> Any:
        side = self.of[id(which)]
        side.options.append(options)
        return SimpleNamespace(
            results=lambda: run_all(side, which, feeds, precisions, options, optional, deployed),  # type: ignore[arg-type]
            stop=lambda: setattr(side, "stopped", side.stopped + 1),
        )

    def start(
        self, which: Source, feeds: Any, options: Options, limits: Limits, optional: int, *, at_once: bool = True
    ) -> Any:
        running = self.execute(which, feeds, (AS_USED,), options, limits, optional)

        def results() -> Any:
            try:
                return running.results()
            except ConvertError as error:
                return error

        return SimpleNamespace(notes=[], results=results, stop=running.stop)


def refuses(columns: int | None, function: Function) -> Function:
    """Return the function, extended to raise an error for NaN (None) or for arrays with this number of columns."""

    def made(arrays: Arrays) -> dict[str, np.ndarray]:
        if np.isnan(arrays["x"]).any() if columns is None else arrays["x"].shape[1] == columns:
            raise BadInput("not these")
        return function(arrays)

    return made
