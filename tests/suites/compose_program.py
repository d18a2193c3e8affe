"""Random programs of `compose.py`: their data type, and how they grow step by step on values at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Feeds = list[dict[str, np.ndarray]]

MOST_ELEMENTS = 6000
LARGEST = 30.0  # larger values are scaled down


class NoSuchValue(Exception):
    """No value suits an operator."""


@dataclass(frozen=True)
class Input:
    """A graph input; dims that are names are dynamic."""

    name: str
    dtype: str
    dims: tuple[int | str, ...]

    def spec(self) -> str:
        """Return the input as `--input` takes it."""
        return f"{self.name}:{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclass(frozen=True)
class Step:
    """`name = code`, an expression over the names in `uses`; `layers` are modules or constants that it needs."""

    name: str
    code: str
    uses: tuple[str, ...]
    layers: tuple[tuple[str, str], ...] = ()
    operator: str = ""


@dataclass(frozen=True)
class Program:
    """A graph: `kind` is "pytorch" or "onnx"; `feeds` are its inputs at several sizes, the first with no dim of 1."""

    kind: str
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    feeds: Feeds = field(repr=False)

    def operators(self) -> list[str]:
        """The rows of the table that the steps were generated from."""
        return [step.operator for step in self.steps]


def without_dead(program: Program) -> Program:
    """Return the program with only the steps and inputs that an output needs, and at least one input."""
    needed, kept = set(program.outputs), []
    for step in reversed(program.steps):
        if step.name in needed:
            kept.append(step)
            needed.update(step.uses)
    inputs = tuple(i for i in program.inputs if i.name in needed) or program.inputs[:1]
    names = {i.name for i in inputs}
    feeds = [{k: v for k, v in feed.items() if k in names} for feed in program.feeds]
    return replace(program, steps=tuple(reversed(kept)), inputs=inputs, feeds=feeds)


class Draw:
    """The values so far, each at all sizes, from which a row of a table samples its operands."""

    def __init__(self, rng: np.random.Generator, env: list[dict[str, Any]]) -> None:
        self.rng, self.env = rng, env
        self.names: list[str] = list(env[0])
        self.layers: dict[str, str] = {}
        self.new: dict[str, str] = {}
        self.used: list[str] = []
        self.ever: set[str] = set()
        self.count = 0
        self.subgraphs = bool(rng.random() < 0.4)
        self.name, self.nodes, self.made = "", list[str](), list[str]()

    def begin(self) -> None:
        """Forget the samples of the last step."""
        self.new, self.used, self.nodes, self.made = {}, [], [], []

    def keep(self) -> None:
        """Record that the step was accepted, and its layers with it."""
        self.layers |= self.new
        self.ever.update(self.used)

    # -- values

    def kind(self, name: str) -> str:
        """Return the kind of a value: `f`, `i` or `b`."""
        dtype = str(self.env[0][name].dtype).removeprefix("torch.")
        return {"f": "f", "i": "i", "u": "i", "b": "b"}[dtype[0]]

    def shape(self, name: str) -> tuple[int | None, ...]:
        """Return the dims; None for those that differ between sizes."""
        shapes = [tuple(values[name].shape) for values in self.env]
        return tuple(s[0] if len(set(s)) == 1 else None for s in zip(*shapes, strict=True))

    def rank(self, name: str) -> int:
        """Number of dims."""
        return len(self.env[0][name].shape)

    def value(
        self,
        kind: str = "f",
        rank: int | Sequence[int] | None = None,
        test: Callable[[str], bool] | None = None,
    ) -> str:
        """Sample a value of this kind, preferably a recent one; raise `NoSuchValue` if there is none."""
        ranks = range(20) if rank is None else [rank] if isinstance(rank, int) else rank
        found = [n for n in self.names if self.kind(n) in kind and self.rank(n) in ranks and (not test or test(n))]
        if not found:
            raise NoSuchValue
        if self.rng.random() < 0.6:
            found = [n for n in found if n not in self.ever] or found
        recent = len(found) - 1 - int(min(self.rng.exponential(2.5), len(found) - 1))
        name = found[recent if self.rng.random() < 0.8 else int(self.rng.integers(len(found)))]
        self.used.append(name)
        return name

    def partner(self, name: str) -> str:
        """Sample a value of the same kind that broadcasts with `name` at all sizes."""
        dtype = self.env[0][name].dtype

        def fits(other: str) -> bool:
            if (other == name and self.rng.random() < 0.7) or self.env[0][other].dtype != dtype:
                return False
            return all(_broadcast(v[name].shape, v[other].shape) for v in self.env)

        return self.value("fib", test=fits)

    # -- numbers

    def axis(self, name: str, static: bool = False, least: int = 1) -> int:
        """Sample an axis of `name`, positive or negative; `static`: one whose size is known, and at least `least`."""
        shape = self.shape(name)
        axes = [i for i, d in enumerate(shape) if not static or (d is not None and d >= least)]
        if not axes:
            raise NoSuchValue
        axis = int(self.rng.choice(axes))
        return axis - len(shape) if self.rng.random() < 0.4 else axis

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def number(self, low: float = -1.5, high: float = 1.5) -> float:
        """Two digits."""
        return round(float(self.rng.uniform(low, high)), 2)

    def chance(self, probability: float = 0.5) -> bool:
        """Return True with this probability."""
        return bool(self.rng.random() < probability)

    def one_of(self, *choices: Any) -> Any:
        """Return one of these."""
        return choices[int(self.rng.integers(len(choices)))]

    def shuffled(self, count: int) -> list[int]:
        """A permutation."""
        return [int(i) for i in self.rng.permutation(count)]

    # -- what belongs to the model

    def layer(self, code: str) -> str:
        """Return the name of a module or constant made by `code`; sometimes an equal one that exists already."""
        same = [n for n, c in self.layers.items() if c == code]
        if same and self.chance(0.5):
            name = same[0]
            self.new[name] = code
            return name
        name = f"k{self.count}"
        self.count += 1
        self.new[name] = code
        return name


def _broadcast(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def draw_inputs(rng: np.random.Generator) -> tuple[tuple[Input, ...], Feeds]:
    """Sample one to three inputs, mostly images or sequences, and input sets at three sizes of the dynamic dims.

    In the second set all dynamic dims are 1.
    """
    sizes = {"b": [3, 1, 2], "n": [5, 1, 4], "h": [6, 1, 9], "w": [7, 1, 4]}
    for values in sizes.values():
        values[0], values[2] = (int(x) for x in rng.permutation([2, 3, 4, 5, 6, 7, 8])[:2])
    # Some formats refuse operators at dynamic sizes, so some graphs have no dynamic dim, or only the batch.
    open_dims = (set(), {"b"}, set(sizes))[int(rng.choice(3, p=[0.25, 0.3, 0.45]))]
    first = _dims(rng)
    inputs = [Input("x", "float32", first)]
    for name in ("y", "z")[: int(rng.choice(3, p=[0.5, 0.35, 0.15]))]:
        if rng.random() < 0.25:
            inputs.append(Input(name, "int64", _dims(rng)[:2]))
        else:
            inputs.append(Input(name, "float32", _related(rng, first) if rng.random() < 0.7 else _dims(rng)))
    fixed = {k: int(rng.choice([v[0], v[0], 1])) for k, v in sizes.items() if k not in open_dims}
    inputs = [replace(i, dims=tuple(fixed.get(d, d) if isinstance(d, str) else d for d in i.dims)) for i in inputs]
    places = range(3 if any(isinstance(d, str) for i in inputs for d in i.dims) else 1)
    return tuple(inputs), [
        {i.name: _array(rng, i, {k: v[p] for k, v in sizes.items()}) for i in inputs} for p in places
    ]


def _dims(rng: np.random.Generator) -> tuple[int | str, ...]:
    channels = int(rng.choice([1, 2, 3, 4, 6, 8]))
    size = int(rng.choice([1, 4, 5, 6, 8]))
    forms: list[tuple[int | str, ...]] = [
        ("b", channels, size, int(rng.choice([1, 4, 6, 7]))), ("b", channels, "h", "w"), ("b", channels, size, size),
        ("b", "n", channels), ("b", channels, "n"), ("b", channels), ("b", size, channels), (channels, size),
        ("b", channels, int(rng.choice([1, 3, 4])), 4, 4), (2, channels, 5, 5), ("n", 4), (4,), ("b",),
        (1, channels, 6, 4),
        (3, "b", channels, 4),
    ]  # fmt: skip
    weights = np.array([4, 3, 4, 3, 2, 2, 2, 1, 1.5, 1.5, 0.5, 0.4, 0.3, 1, 0.7])
    return forms[int(rng.choice(len(forms), p=weights / weights.sum()))]


def _related(rng: np.random.Generator, dims: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return dims that broadcast with `dims`."""
    found = tuple(1 if rng.random() < 0.15 else d for d in dims)
    return found[int(rng.integers(0, len(found))) :] if rng.random() < 0.3 else found


def _array(rng: np.random.Generator, spec: Input, sizes: dict[str, int]) -> np.ndarray:
    shape = [sizes[d] if isinstance(d, str) else d for d in spec.dims]
    if spec.dtype == "int64":
        return rng.integers(0, 7, shape)
    return rng.standard_normal(shape).astype(np.float32)


def chosen_outputs(rng: np.random.Generator, steps: Sequence[Step]) -> tuple[str, ...]:
    """Return the unused values, and few others: outputs in the middle would prevent fusion."""
    used = {name for step in steps for name in step.uses}
    return tuple(s.name for s in steps if s.name not in used or rng.random() < 0.08)
