"""What a run left behind: its operators in order, with where they came from, and a summary of every value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Location
from convert.graph import location_of

_PERIOD = 8191  # of the weights of the ordered sum: a prime, so that no axis is in step with it


@dataclass(frozen=True)
class Summary:
    """A floating value in numbers that comparing needs: mean to high do not change when it is permuted or reshaped.

    `ordered` is a sum with fixed random weights over the flat array, divided by the square root of its size: it does
    change when elements change places. `dtype` and `shape` are told; other values than floating have those only.
    """

    dtype: str
    shape: tuple[int, ...]
    mean: float = 0.0
    rms: float = 0.0
    low: float = 0.0
    high: float = 0.0
    ordered: float = 0.0
    floating: bool = False

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def statistics(self) -> tuple[float, float, float, float]:
        """Mean, root mean square, least and largest."""
        return self.mean, self.rms, self.low, self.high

    def __str__(self) -> str:
        text = f"{self.dtype}{list(self.shape)}"
        if not self.floating:
            return text
        return f"{text}, mean {self.mean:.3g}, rms {self.rms:.3g}, from {self.low:.3g} to {self.high:.3g}"


@dataclass(frozen=True)
class Step:
    """One operator of a run: where it came from, and the names of the values that it reads and makes."""

    at: Location
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass
class Trace:
    """A whole run: operators in order, and values by name. `precision` is that of the run."""

    steps: list[Step] = field(default_factory=list)
    values: dict[str, Summary] = field(default_factory=dict)
    precision: str = "float64"

    def told(self, name: str) -> str:
        """A value for people."""
        return f"{name}: {self.values[name]}" if name in self.values else f"{name}: not known"

    def to_json(self) -> str:
        """One line of JSON, which `from_json` reads."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Trace:
        """What `to_json` wrote."""
        data = json.loads(text)
        steps = [Step(Location(**s["at"]), tuple(s["inputs"]), tuple(s["outputs"])) for s in data["steps"]]
        values = {n: Summary(**{**v, "shape": tuple(v["shape"])}) for n, v in data["values"].items()}
        return Trace(steps, values, data["precision"])


def summary(array: Any) -> Summary:
    """The summary of an array; its statistics leave infinities and NaNs out. A sequence has a type and no more."""
    if isinstance(array, list) or array is None:
        return Summary(type(array).__name__, ())
    array = np.asarray(array)
    floating = array.size > 0 and (array.dtype.kind == "f" or array.dtype.name == "bfloat16")
    if not floating:
        return Summary(array.dtype.name, array.shape)
    wide = array.astype(np.float64).ravel()
    finite = np.isfinite(wide)
    if not finite.all():
        wide = np.where(finite, wide, 0.0)
    present = wide[finite] if not finite.all() else wide
    if not present.size:
        return Summary(array.dtype.name, array.shape, floating=True)
    weights = _weights()
    whole = len(wide) // _PERIOD * _PERIOD
    folded = wide[:whole].reshape(-1, _PERIOD).dot(weights).sum() + wide[whole:].dot(weights[: len(wide) - whole])
    return Summary(
        array.dtype.name,
        array.shape,
        float(present.mean()),
        float(np.sqrt(np.mean(present**2))),
        float(present.min()),
        float(present.max()),
        float(folded / np.sqrt(len(wide))),
        True,
    )


@cache
def _weights() -> np.ndarray:
    return np.random.default_rng(20).standard_normal(_PERIOD)


def trace_graph(model: ir.Model, feed: Mapping[str, np.ndarray]) -> tuple[Trace, dict[str, Any]]:
    """Run a shared graph in float64 by the reference executor, once: its trace, and its outputs as arrays."""
    from convert.passes.widen import widen
    from convert.runners.reference import run

    found = run(widen(model), feed, every=True, keep=summary)
    values = {n: v if isinstance(v, Summary) else summary(v) for n, v in found.items()}
    for value in model.graph.initializers.values():
        if value.const_value is not None and value.const_value.dtype != ir.DataType.STRING and value.name:
            values[value.name] = summary(value.const_value.numpy())
    return Trace(steps_of(model.graph), values), {str(v.name): found[str(v.name)] for v in model.graph.outputs}


def steps_of(graph: ir.Graph) -> list[Step]:
    """The nodes of a graph, outermost level, in order; what their subgraphs read from outside counts as inputs."""
    from convert.runners.reference import reads

    return [
        Step(
            location_of(node),
            tuple(dict.fromkeys(str(v.name) for v in reads(node))),
            tuple(str(v.name) for v in node.outputs if v.name),
        )
        for node in graph
    ]


def departed(trace: Trace, agreed: set[str], expected: Callable[[Step], bool] = lambda step: True) -> Iterable[Step]:
    """Steps in order of which no floating output has `agreed`, nor anything that is computed from one.

    expected: whether the other side can be asked to hold a step's outputs; one that it fused into another cannot.
    """
    users: dict[str, list[int]] = {}
    for i, step in enumerate(trace.steps):
        for name in step.inputs:
            users.setdefault(name, []).append(i)
    reached: set[int] = set()
    for i in reversed(range(len(trace.steps))):
        outputs = trace.steps[i].outputs
        if any(name in agreed or any(u in reached for u in users.get(name, ())) for name in outputs):
            reached.add(i)
    for i, step in enumerate(trace.steps):
        floating = any(n in trace.values and trace.values[n].floating for n in step.outputs)
        if i not in reached and floating and expected(step):
            yield step


def agreeing(ours: Trace, theirs: Trace, bound: float, *, ordered: bool) -> set[str]:
    """Names of the floating values of `ours` that some value of `theirs` equals, by their statistics.

    bound: relative to the value's root mean square. ordered: elements have to be in the same order as well, which a
    target whose layout differs cannot be asked for.
    """
    rows = [v for v in theirs.values.values() if v.floating]
    by_size: dict[int, np.ndarray] = {}
    for size in {v.size for v in rows}:
        by_size[size] = np.array([(*v.statistics, v.ordered) for v in rows if v.size == size])
    return {n for n, v in ours.values.items() if v.floating and _among(v, by_size.get(v.size), bound, ordered)}


def _among(value: Summary, found: np.ndarray | None, bound: float, ordered: bool) -> bool:
    if found is None:
        return False
    scale = max(value.rms, np.finfo(np.float64).tiny)
    near = np.abs(found[:, :4] - np.array(value.statistics)).max(axis=1) <= bound * scale
    if ordered:
        # The weights have a mean square of one: the sum moves by about as much as the elements do.
        near &= np.abs(found[:, 4] - value.ordered) <= 8 * bound * scale
    return bool(near.any())
