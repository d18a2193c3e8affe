"""The rows of the suite: a small function, its inputs, and the forms in which its graph is frozen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

FORMS = ("static", "open", "old", "unranked")
"""Static dims and open ones in a function of TensorFlow 2, open ones in a graph of TensorFlow 1, no ranks at all."""

Feed = Sequence[np.ndarray]


@dataclass(frozen=True)
class FrozenRow:
    """A function of tensors, one feed or several, and the forms in which it is frozen."""

    name: str
    function: Callable[..., Any]
    feeds: Sequence[Feed]
    forms: Sequence[str]
    gap: str = ""

    def declared(self, form: str) -> str:
        """Return the pattern of the reason for which this form is refused, or an empty string."""
        forms, told, pattern = self.gap.partition(": ")
        if not told or not {*forms.split()} <= {*FORMS}:
            return self.gap
        return pattern if form in forms.split() else ""


@dataclass(frozen=True)
class FrozenGraph:
    """A GraphDef with the names of its inputs and outputs, and TensorFlow's outputs for each feed."""

    graph: Any
    inputs: list[str]
    outputs: list[str]
    feeds: Sequence[Feed]
    expected: list[list[np.ndarray]]


def row(name: str, function: Callable[..., Any], *feeds: Feed, forms: str = "static open", gap: str = "") -> FrozenRow:
    """A row of a table.

    forms: words of `FORMS`. gap: a pattern of the reason if the row is refused; with a prefix such as "open: " only in
    that form.
    """
    return FrozenRow(name, function, [[np.asarray(a) for a in feed] for feed in feeds], forms.split(), gap)


@dataclass(frozen=True)
class Autographed:
    """A function whose statements AutoGraph converts; this is done where it is run, which takes a tenth of a second."""

    function: Callable[..., Any]


def autographed(function: Callable[..., Any]) -> Any:
    """The function with Python's statements turned into TensorFlow's."""
    return Autographed(function)


def frozen(made: FrozenRow, form: str) -> FrozenGraph:
    """Return the graph of a row in one form, run by TensorFlow."""
    if isinstance(made.function, Autographed):
        made = replace(made, function=tf.autograph.to_graph(made.function.function))
    specs = [_spec([feed[i] for feed in made.feeds], form, i) for i in range(len(made.feeds[0]))]
    return _old_graph(made, specs) if form == "old" else _new_graph(made, specs)


def _spec(arrays: Sequence[np.ndarray], form: str, number: int) -> tf.TensorSpec:
    """Return a spec with dynamic dims, except for int32 vectors (axes, sizes, permutations) whose length never
    changes.
    """
    first = arrays[0]
    same = all(a.shape == first.shape for a in arrays)
    argument = first.ndim == 1 and first.dtype == np.int32
    dims = [None] * first.ndim if (form in ("open", "old") and not argument) or not same else list(first.shape)
    dtype = tf.string if first.dtype.kind in "OSU" else first.dtype
    return tf.TensorSpec(None if form == "unranked" else dims, dtype, f"x{number}")


def _new_graph(made: FrozenRow, specs: Sequence[tf.TensorSpec]) -> FrozenGraph:
    function = tf.function(lambda *tensors: _named(made.function(*tensors)))
    concrete = convert_variables_to_constants_v2(function.get_concrete_function(*specs), lower_control_flow=False)
    outputs = [t.name for t in concrete.outputs]
    graph = concrete.graph.as_graph_def()
    with tf.Graph().as_default() as whole, tf.compat.v1.Session(graph=whole) as session:
        tf.import_graph_def(graph, name="")
        inputs = [t.name for t in concrete.inputs]
        expected = [session.run(outputs, dict(zip(inputs, feed, strict=True))) for feed in made.feeds]
    return FrozenGraph(graph, [i.removesuffix(":0") for i in inputs], outputs, made.feeds, expected)


def _old_graph(made: FrozenRow, specs: Sequence[tf.TensorSpec]) -> FrozenGraph:
    """Return the function in a TensorFlow 1 graph, with its control flow; TensorFlow itself turns variables into
    constants.
    """
    v1 = tf.compat.v1
    modern = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as whole, v1.Session(graph=whole) as session:
            places = [v1.placeholder(s.dtype, s.shape, s.name) for s in specs]
            results = _named(made.function(*places))
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            expected = [session.run(results, dict(zip(places, feed, strict=True))) for feed in made.feeds]
            names = [t.op.name for t in results]
            graph = whole.as_graph_def()
            if v1.global_variables():
                graph = v1.graph_util.convert_variables_to_constants(session, graph, names)
    finally:
        if modern:
            v1.enable_control_flow_v2()
    return FrozenGraph(graph, [p.op.name for p in places], [f"{n}:0" for n in names], made.feeds, expected)


def _named(results: Any) -> list[Any]:
    flat = tf.nest.flatten(results)
    return [tf.identity(r, f"y{i}") for i, r in enumerate(flat)]


def f32(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers."""
    return np.random.default_rng(seed + 7 * len(shape)).normal(size=shape).astype(np.float32)


def above(*shape: int) -> np.ndarray:
    """Return numbers between 0.5 and 1.5."""
    return (0.5 + np.random.default_rng(3).random(shape)).astype(np.float32)


def i32(value: Any) -> np.ndarray:
    """Given integers."""
    return np.array(value, np.int32)


def i64(value: Any) -> np.ndarray:
    """Return the given integers as int64."""
    return np.array(value, np.int64)


def boolean(value: Any) -> np.ndarray:
    """Given truth values."""
    return np.array(value, bool)


def text(value: Any) -> np.ndarray:
    """Given strings."""
    return np.array(value, object)
