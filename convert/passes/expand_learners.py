"""Writes operators of ONNX-ML that a backend has no rule for in ONNX's own: features, linear models, trees, kernels."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

import onnx_ir as ir

from convert.errors import BadInput, Unsupported
from convert.graph import Graph, location_of
from convert.graph.shape_inference import infer_facts
from convert.graph.values import names_in_use
from convert.numerics import decision_trees, learners, lookups
from convert.rules.onnx_schemas import operator_of

Expansion = Callable[[Graph, ir.Node], Sequence[ir.Value]]

_DOMAIN = "ai.onnx.ml"

EXPANSIONS: dict[str, Expansion] = {
    "ArrayFeatureExtractor": lookups.array_feature_extractor,
    "Binarizer": lookups.binarizer,
    "FeatureVectorizer": learners.feature_vectorizer,
    "Imputer": learners.imputer,
    "LabelEncoder": lookups.label_encoder,
    "LinearClassifier": learners.linear_classifier,
    "LinearRegressor": learners.linear_regressor,
    "Normalizer": learners.normalizer,
    "OneHotEncoder": learners.one_hot_encoder,
    "SVMClassifier": learners.support_vector_classifier,
    "SVMRegressor": learners.support_vector_regressor,
    "Scaler": learners.scaler,
    "TreeEnsembleClassifier": decision_trees.tree_classifier,
    "TreeEnsembleRegressor": decision_trees.tree_regressor,
}
"""Operator → what it computes; what the function raises `Unsupported` for stays, and has no rule."""


def expand_learners(model: ir.Model, known: Container[str]) -> bool:
    """Replace every operator of the table that is not `known`. Whether there was one."""
    modified = False
    for node in [n for n in model.graph.all_nodes() if n.domain == _DOMAIN and n.op_type in EXPANSIONS]:
        if operator_of(node) not in known:
            if any(v is not None and (v.dtype is None or v.shape is None) for v in node.inputs):
                infer_facts(model)  # of what an operator before it, of which ONNX infers nothing, has become
            modified |= _expand(model, node)
    if modified:
        infer_facts(model)
    return modified


def _expand(model: ir.Model, node: ir.Node) -> bool:
    g, graph = Graph(), node.graph
    assert graph is not None
    g.reserve(names_in_use(model))
    g.location = location_of(node)
    try:
        results = EXPANSIONS[node.op_type](g, node)
    except Unsupported:
        return False
    except (ValueError, LookupError) as error:
        text = f"{location_of(node)}: its attributes do not fit each other or its input ({error})"
        raise BadInput(text, hint="is the file damaged?") from error
    made, values = list(g.graph), list(g.graph.initializers.values())
    g.graph.remove(made)
    for value in values:
        g.graph.initializers.pop(value.name or "")
        model.graph.register_initializer(value)
    for one in made:
        one.metadata_props.update({**node.metadata_props, **one.metadata_props})
    graph.insert_before(node, made)
    for old, new in zip(node.outputs, results, strict=False):
        name = old.name
        new.type, new.shape = old.type or new.type, old.shape if old.shape is not None else new.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        new.name, old.name = name, None
    graph.remove(node, safe=True)
    return True
