"""Gives the signature of a written SavedModel its real names, with any characters.

TensorFlow derives names of placeholders and Python arguments from the signature's, and changes or rejects many. So the
model is written with plain names, which are then changed in the SavedModel.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from .function_names import rename_functions, stable_names

SIGNATURE = "serving_default"

Names = Sequence[tuple[str, str]]
"""Pairs of the written name and the final name."""


def rename_signature(folder: Path, inputs: Names, outputs: Names) -> None:
    """Rename the inputs and outputs of the signature in the SavedModel at `folder`.

    The SavedModel's functions get names that are the same in every process (`stable_names`).
    """
    path = Path(folder) / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    (meta,) = saved.meta_graphs
    definition = meta.signature_def[SIGNATURE]
    _rename_keys(definition.inputs, dict(inputs))
    _rename_keys(definition.outputs, dict(outputs))
    # tf.saved_model.load ignores signature_def and uses the functions that the object graph lists.
    for node in meta.object_graph_def.nodes:
        function = node.bare_concrete_function
        if function.concrete_function_name:
            function.argument_keywords[:] = [dict(inputs).get(k, k) for k in function.argument_keywords]
            function.ClearField("function_spec")
    for function in meta.object_graph_def.concrete_functions.values():
        _rename_structure(function.canonicalized_input_signature, dict(inputs))
        _rename_structure(function.output_signature, dict(outputs))
    _rename_functions(meta)
    path.write_bytes(saved.SerializeToString(deterministic=True))


def _rename_functions(meta: meta_graph_pb2.MetaGraphDef) -> None:
    """Give the functions of the graph, and of the objects that list them, their stable names."""
    names = stable_names(meta.graph_def.library)
    rename_functions(meta.graph_def, names)
    objects = meta.object_graph_def
    _rename_keys(objects.concrete_functions, names)
    for node in objects.nodes:
        listed = node.function.concrete_functions
        if listed:
            listed[:] = [names.get(name, name) for name in listed]
        bare = node.bare_concrete_function
        if bare.concrete_function_name:
            bare.concrete_function_name = names.get(bare.concrete_function_name, bare.concrete_function_name)


def _rename_keys(mapping: Any, names: dict[str, str]) -> None:
    content = {names.get(key, key): type(value).FromString(value.SerializeToString()) for key, value in mapping.items()}
    mapping.clear()
    for key, value in content.items():
        mapping[key].CopyFrom(value)


def _rename_structure(value: Any, names: dict[str, str]) -> None:
    kind = value.WhichOneof("kind")
    if kind == "dict_value":
        _rename_keys(value.dict_value.fields, names)
        for inner in value.dict_value.fields.values():
            _rename_structure(inner, names)
    elif kind in ("tuple_value", "list_value"):
        for inner in getattr(value, kind).values:
            _rename_structure(inner, names)
    elif kind == "tensor_spec_value":
        value.tensor_spec_value.name = names.get(value.tensor_spec_value.name, value.tensor_spec_value.name)
