"""Records which weights a source does not train, so that backends with trainable artefacts freeze them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import onnx_ir as ir

from .metadata import NON_TRAINABLE_KEY
from .values import nodes_of

_STATISTICS = {"BatchNormalization": (3, 4)}
"""Input indices of running statistics, by operator."""


def mark_non_trainable(model: ir.Model, trainable: Collection[str]) -> None:
    """Mark all initializers as not trainable, except those with a name in `trainable`."""
    names = (_names(value) for value in model.graph.initializers.values())
    model.meta[NON_TRAINABLE_KEY] = frozenset().union(*(own for own in names if own.isdisjoint(trainable)))


_FORMULAS = "convert.formula_constants"


def add_formula_constants(model: ir.Model, names: Iterable[str]) -> None:
    """Mark initializers that a lowering made as not trainable: they are numbers in a formula, whatever the source."""
    model.meta[_FORMULAS] = model.meta.get(_FORMULAS, frozenset()) | frozenset(names)


def add_non_trainable(model: ir.Model, made: ir.Value, inputs: Iterable[ir.Value | None]) -> None:
    """Mark the initializer `made` as not trainable, if none of the constants `inputs` is trainable.

    It was computed from these constants.
    """
    marked = _marked(model)
    if marked is not None and not any(_names(v).isdisjoint(marked) for v in inputs if v is not None):
        add_formula_constants(model, [str(made.name)])


def _marked(model: ir.Model) -> frozenset[str] | None:
    """Return the names of the initializers that are marked as not trainable; None if nothing marked any."""
    found = [model.meta[key] for key in (NON_TRAINABLE_KEY, _FORMULAS) if key in model.meta]
    return frozenset().union(*found) if found else None


def non_trainable(model: ir.Model) -> set[ir.Value]:
    """Return the initializers that are not trained: marked ones, and running statistics of batch norms.

    A view of a weight counts as the weight.
    """
    marked = _marked(model) or frozenset()
    found = {value for value in _initializers(model.graph) if not _names(value).isdisjoint(marked)}
    for node in nodes_of(model.graph):
        places = _STATISTICS.get(node.op_type, ())
        found.update(v for i, v in enumerate(node.inputs) if i in places and v is not None)
    return found


def is_marked(model: ir.Model) -> bool:
    """Return whether the frontend marked the weights: those without a mark are then trained, whatever their size."""
    return NON_TRAINABLE_KEY in model.meta


def single_weights(model: ir.Model) -> set[ir.Value]:
    """Return the initializers with one element that are weights, and not merely numbers in a formula.

    They are inputs that operators use as weights, such as the bias of a layer with one output. If the frontend marked
    the weights, unmarked initializers with one element count as well.
    """
    single = [v for v in _initializers(model.graph) if v.const_value is not None and v.const_value.size == 1]
    single = [v for v in single if v.dtype is not None and v.dtype.is_floating_point()]
    marked = _marked(model) if is_marked(model) else None
    known = {v for v in single if marked is not None and _names(v).isdisjoint(marked)}
    return known | {v for v in single if v.shape is not None and len(v.shape) and any(map(_takes_weight, v.uses()))}


def _takes_weight(use: tuple[ir.Node, int]) -> bool:
    node, place = use
    if node.op_type == "Add":  # the bias added to a product
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
"""Input indices of weights, by operator (including the backends' own operators)."""


def _initializers(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.initializers.values()
    for inner in graph.subgraphs():
        yield from inner.initializers.values()


def _names(value: ir.Value) -> set[str]:
    """Return the name of an initializer and of its content; views of a weight share the content's name."""
    content = value.const_value
    return {name for name in (value.name, None if content is None else content.name) if name}
