"""Translates layer calls of Keras 2 to the format of Keras 3.

Keras 3.15 still reads the older form of a call, a list of tensors with one set of arguments, but treats every argument
as a constant. Calls are rewritten if they have

| what | in the file |
|---|---|
| tensors among the arguments by keyword | `["x", 0, 0, {"value": ["y", 0, 0]}]` |
| states that a recurrent layer starts with | further tensors behind the sequence |
| arguments of a function of TensorFlow | constants in the place of a tensor, lists of both |
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

FUNCTION_LAYERS = ("TFOpLambda", "SlicingOpLambda")
"""The layers that Keras 2.4 to 2.15 created from a TensorFlow function called on a symbolic tensor."""
_RECURRENT = re.compile(r"(CuDNN)?(GRU|LSTM)|SimpleRNN|RNN|ConvLSTM\dD|Bidirectional")
_CAUSAL = ("Attention", "AdditiveAttention")


def translate_calls(layers: list[dict[str, Any]]) -> None:
    """Rewrite the calls of one model's layers in Keras 3's format if the older one is not enough."""
    names = {str(layer.get("name")) for layer in layers}
    for layer in layers:
        nodes = layer.get("inbound_nodes")
        if not isinstance(nodes, list):
            continue
        if layer["class_name"] in FUNCTION_LAYERS:
            _translate_function(layer, names)
            continue
        causal = layer["class_name"] in _CAUSAL and layer["config"].pop("causal", False)
        layer["inbound_nodes"] = [_call(layer, node, names, causal) for node in nodes]


def _call(layer: dict[str, Any], node: Any, names: set[str], causal: bool) -> Any:
    if not (records := _records(node)):
        return node
    arguments: dict[str, Any] = dict(records[0][3]) if len(records[0]) == 4 else {}
    tensors = [_tensor(record) for record in records]
    if _RECURRENT.fullmatch(layer["class_name"]) and len(tensors) > 1:
        arguments = {key: value for key, value in arguments.items() if value is not None}
        constants = len(tensors) - int(layer["config"].get("num_constants") or 0)
        arguments |= {"initial_state": records[1:constants]} if constants > 1 else {}
        arguments |= {"constants": records[constants:]} if constants < len(tensors) else {}
        tensors = tensors[:1]
    elif not arguments and not causal:
        return node
    if causal:
        arguments["use_causal_mask"] = True
    return {
        "args": [tensors[0] if len(tensors) == 1 else tensors],
        "kwargs": {key: _revived(value, names, _tensor) for key, value in arguments.items()},
    }


def _translate_function(layer: dict[str, Any], names: set[str]) -> None:
    """Move the arguments of a function into its configuration, because a Keras 3 layer is called on tensors only.

    Every call is its own layer. A layer with several calls is left unchanged if their arguments differ.
    """
    calls, forms = [], set()
    for node in layer["inbound_nodes"]:
        if not (records := _records(node)):
            return
        tensors: list[list[Any]] = []

        def placed(origin: list[Any], tensors: list[list[Any]] = tensors) -> dict[str, int]:
            tensors.append(origin)
            return {"tensor": len(tensors) - 1}

        values = [r[2] if r[0] == "_CONSTANT_VALUE" else placed(r) for r in records]
        single = isinstance(node[0], str)
        arguments = records[0][3] if len(records[0]) == 4 else {}
        form = {"first": values[0] if single else values, "others": _revived(arguments, names, placed)}
        forms.add(json.dumps(form, sort_keys=True))
        calls.append({"args": [[_tensor(origin) for origin in tensors]], "kwargs": {}})
    if len(forms) == 1:
        layer["inbound_nodes"] = calls
        layer["config"]["arguments"] = forms.pop()


def _records(node: Any) -> list[list[Any]]:
    """Return the tensors or constants of a call, each followed by its arguments; an empty list for another form."""
    if not isinstance(node, list) or not node:
        return []
    records = [node] if isinstance(node[0], str) else node
    return records if all(isinstance(record, list) and len(record) in (3, 4) for record in records) else []


def _tensor(origin: list[Any]) -> dict[str, Any]:
    """Return a symbolic tensor by its origin, which is all that Keras 3 uses."""
    history = {"shape": [], "dtype": "float32", "keras_history": origin[:3]}
    return {"class_name": "__keras_tensor__", "config": history}


def _revived(value: Any, names: set[str], tensor: Callable[[list[Any]], dict[str, Any]]) -> Any:
    """Return an argument in which `tensor` replaces the origin of every tensor."""
    if isinstance(value, list):
        named = len(value) in (3, 4) and isinstance(value[0], str) and value[0] in names
        if named and all(type(place) is int for place in value[1:3]):
            return tensor(value)
        return [_revived(item, names, tensor) for item in value]
    if isinstance(value, dict):
        return {key: _revived(item, names, tensor) for key, item in value.items()}
    return value
