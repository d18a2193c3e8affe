"""Which weights a source does not train: backends whose artefacts can go on training leave those as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import onnx_ir as ir

from .metadata import NON_TRAINABLE_KEY
from .values import nodes_of

_STATISTICS = {"BatchNormalization": (3, 4)}
"""Inputs that are averages of what was seen in training, by operator."""


def mark_non_trainable(model: ir.Model, trainable: Collection[str]) -> None:
    """Say of all initializers that the source does not train them, but of those that it calls by these names."""
    names = (_names(value) for value in model.graph.initializers.values())
    model.meta[NON_TRAINABLE_KEY] = frozenset().union(*(own for own in names if own.isdisjoint(trainable)))


def add_non_trainable(model: ir.Model, made: ir.Value, inputs: Iterable[ir.Value | None]) -> None:
    """Say it of an initializer that was computed from constants of which none is trained."""
    marked = model.meta.get(NON_TRAINABLE_KEY)
    if marked is not None and not any(_names(v).isdisjoint(marked) for v in inputs if v is not None):
        model.meta[NON_TRAINABLE_KEY] = marked | {str(made.name)}


def non_trainable(model: ir.Model) -> set[ir.Value]:
    """The initializers that are not trained: those that the frontend has marked, and the averages of batch norms.

    A view of a weight is as the weight.
    """
    marked = model.meta.get(NON_TRAINABLE_KEY, frozenset())
    found = {value for value in _initializers(model.graph) if not _names(value).isdisjoint(marked)}
    for node in nodes_of(model.graph):
        places = _STATISTICS.get(node.op_type, ())
        found.update(v for i, v in enumerate(node.inputs) if i in places and v is not None)
    return found


def is_marked(model: ir.Model) -> bool:
    """Whether the frontend has said which weights are trained: the others are, whatever their size."""
    return NON_TRAINABLE_KEY in model.meta


def single_weights(model: ir.Model) -> set[ir.Value]:
    """The initializers of one number that are weights all the same, where others of that size are but numbers.

    They stand where operators take weights, as the bias of a layer of one output; or the frontend has marked which
    weights are trained, and these are.
    """
    single = [v for v in _initializers(model.graph) if v.const_value is not None and v.const_value.size == 1]
    single = [v for v in single if v.dtype is not None and v.dtype.is_floating_point()]
    marked = model.meta.get(NON_TRAINABLE_KEY)
    known = {v for v in single if marked is not None and _names(v).isdisjoint(marked)}
    return known | {v for v in single if v.shape is not None and len(v.shape) and any(map(_takes_weight, v.uses()))}


def _takes_weight(use: tuple[ir.Node, int]) -> bool:
    node, place = use
    if node.op_type == "Add":  # the bias behind a product
        other = node.inputs[1 - place]
        made = None if other is None else other.producer()
        return made is not None and made.op_type in ("MatMul", "Conv", "ConvTranspose")
    return place in _PLACES.get(node.op_type, ())


_PLACES = {
    **dict.fromkeys(("Conv", "ConvTranspose", "Dense", "Gemm", "Linear"), (1, 2)),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization", "LayerNormalization"), (1, 2)),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), (1, 2, 3)),
    "BatchNormalization": (1, 2, 3, 4),
    "PRelu": (1,),
    "RMSNormalization": (1,),
}
"""Which inputs of operators, our own of the backends too, are weights."""


def _initializers(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.initializers.values()
    for inner in graph.subgraphs():
        yield from inner.initializers.values()


def _names(value: ir.Value) -> set[str]:
    """The name of an initializer, and that of its content, which views of it have as well."""
    content = value.const_value
    return {name for name in (value.name, None if content is None else content.name) if name}
