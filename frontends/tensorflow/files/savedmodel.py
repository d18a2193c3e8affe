"""Parses SavedModels: a signature of the meta graph, with its variables from the checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from convert.errors import BadInput, Unsupported, UsageError
from convert.outcome.report import Report
from convert.request.options import Options

from ..graph.attributes import shape_of
from ..graph.function_body import FunctionBody, Ref, body_from_function, body_from_graph
from ..graph.lookup_tables import filled_tables
from ..graph.one_signature import INTERNAL, default_signature, serving_meta_graph, signature_names
from ..graph.protos import MESSAGES
from ..graph.saved_model_message import parse_saved_model
from ..graph.variables import Variable
from ..program import Program, ProgramInput
from ..runner.allowed import check_saved_model, several_signatures
from ..runner.graph_signature import defaulted_inputs
from ..runner.names import distinct_names
from .frozen import SCALARS_SINCE, input_of_node
from .object_graph import captured_objects, checkpoint_keys, named_functions
from .tensor_bundle import Bundle, open_bundle

_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_ASSIGNMENTS = ("AssignVariableOp", "Assign")


def read_saved_model(folder: Path, options: Options, report: Report) -> Program:
    """Return the program of one signature. Raises `BadInput` for a broken folder, `UsageError` for an ambiguous
    choice.
    """
    buffer, saved = parse_saved_model(folder)
    if not options.trust and check_saved_model(saved, folder, options, unknown=False) is not None:
        report.note(
            "other signatures and functions, which may do more than compute, are left out", code="other-signatures"
        )
    meta = serving_meta_graph(saved)
    if meta is None:
        raise BadInput(f"{folder} holds no graph", hint="is the file complete?")
    return read_signature(meta, folder, folder / "variables" / "variables", buffer, options, report)


def read_signature(
    meta: Any, label: Path, checkpoint: Path, buffer: memoryview, options: Options, report: Report
) -> Program:
    """Return the program of one signature of a meta graph; variables are in the files that begin with `checkpoint`."""
    name, signature = _select_signature(meta, options.signature, label)
    if options.outputs and set(options.outputs) != set(signature.outputs):
        raise UsageError(
            f"the outputs of {label} are those of its signature {name!r}: {', '.join(sorted(signature.outputs))}",
            hint="--outputs names tensors of a frozen graph or a checkpoint; leave it out",
        )
    if not options.signature and len(signature_names(meta)) > 1:
        report.note(
            f"signature {name!r} of {', '.join(signature_names(meta))} (--signature NAME chooses another)",
            code="chosen-signature",
        )
    inputs = {key: signature.inputs[key] for key in sorted(signature.inputs, key=_natural_sort_key)}
    outputs = _ordered_outputs(signature.outputs)
    for key, info in (*inputs.items(), *outputs.items()):
        if info.coo_sparse or info.composite_tensor or not info.name:
            raise Unsupported(f"{key!r} of signature {name!r} is a sparse or composite tensor")
    starts = [Ref.parse(info.name) for info in inputs.values()]
    if any(r.index for r in starts):
        raise Unsupported(f"signature {name!r} feeds a tensor that is not its node's first")
    more = list(defaulted_inputs(meta.graph_def, inputs, [s.name for s in options.inputs]))
    arguments = [*(r.node for r in starts), *more]
    body = body_from_graph(meta.graph_def, name, arguments, [info.name for info in outputs.values()])
    described = [ProgramInput(key, info.dtype, shape_of(info.tensor_shape)) for key, info in inputs.items()]
    described += [input_of_node(body.nodes[n], SCALARS_SINCE) for n in more]
    functions = {f.signature.name: f for f in meta.graph_def.library.function}
    objects = captured_objects(meta, body)
    variables = Checkpoint(checkpoint, restored_keys(meta, body, functions), objects, meta.object_graph_def)
    first = [info.name.partition(":")[0] for key in INTERNAL if key in meta.signature_def
             for info in meta.signature_def[key].outputs.values()]  # fmt: skip
    tables = filled_tables(body, functions, first, buffer, _assets(meta, label))
    called = distinct_names([*inputs, *more], list(outputs))[1]
    return Program(
        name, body, described, called, functions, variables.find, buffer=buffer, tables=tables, cuttable=True
    )


def _assets(meta: Any, folder: Path) -> dict[str, Path]:
    """Return the files in the folder's `assets` by the nodes that hold their paths, except links that lead outside."""
    own = folder / "assets"
    # a name in the file may not be a valid file name
    names = {path.name for path in own.iterdir()} if own.is_dir() else set()
    found = {Ref.parse(a.tensor_info.name).node: own / a.filename for a in meta.asset_file_def if a.filename in names}
    inside = own.resolve()
    return {node: path for node, path in found.items() if path.resolve().parent == inside and path.is_file()}


def _select_signature(meta: Any, wanted: str, folder: Path) -> tuple[str, Any]:
    names = signature_names(meta)
    if not names:
        functions = named_functions(meta.object_graph_def)
        listed = f"; its functions are {', '.join(functions)}" if functions else ""
        raise BadInput(
            f"{folder} has no signature, so that its inputs and outputs are not known{listed}",
            hint=f"save it with one: m = tf.saved_model.load(…); tf.saved_model.save(m, …, "
            f"signatures=m.{functions[0]}.concrete_functions[0])"
            if functions
            else "save it with signatures=…, or export a Keras model with model.export",
        )
    name = default_signature(names, wanted)
    if not name:
        raise several_signatures(folder, names)
    if name not in names:
        raise UsageError(
            f"{folder} has no signature {wanted!r}", hint=f"choose one with --signature: {', '.join(names)}"
        )
    return name, meta.signature_def[name]


def _natural_sort_key(key: str) -> list[Any]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", key)]


def _ordered_outputs(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs in the order of the function if one node makes them all, else by name (output_2 before
    output_10).
    """
    refs = {key: Ref.parse(outputs[key].name or "?") for key in outputs}
    same = len({r.node for r in refs.values()}) == 1 and len(set(refs.values())) == len(refs)
    keys = sorted(outputs, key=lambda k: (refs[k].index if same else 0, _natural_sort_key(k)))
    return {key: outputs[key] for key in keys}


# -- variables ----------------------------------------------------------------------------------------------------


@dataclass
class Checkpoint:
    """The variables of a SavedModel, opened at first use.

    keys: checkpoint keys by node. objects: object numbers in `graph`, a SavedObjectGraph, by node.
    """

    prefix: Path
    keys: Mapping[str, str]
    objects: Mapping[str, int] = field(default_factory=dict)
    graph: Any = None
    _bundle: Bundle | None = None
    _found: dict[str, Variable] = field(default_factory=dict)
    _object_keys: dict[int, str] = field(default_factory=dict)

    def find(self, node: str, shared_name: str) -> Variable | None:
        """Return the variable of a handle's node, or None if the checkpoint does not have it."""
        name = shared_name or node
        if name not in self._found:
            if self._bundle is None:
                self._bundle = open_bundle(self.prefix)
                self._object_keys = self._keys_of_objects(self._bundle)
            own = self._object_keys.get(self.objects.get(node, -1))
            key = next((k for k in (self.keys.get(node), own, shared_name, node) if k and k in self._bundle), None)
            if key is None:
                return None
            self._found[name] = Variable(name, self._bundle.tensor(key))
        return self._found[name]

    def _keys_of_objects(self, bundle: Bundle) -> dict[int, str]:
        if not self.objects or _OBJECTS not in bundle:
            return {}
        try:
            tracked = MESSAGES["TrackableObjectGraph"].FromString(bundle.text(_OBJECTS))
        except DecodeError as error:
            raise BadInput(f"the objects in {self.prefix} are damaged: {error}", hint="get the file again") from error
        return checkpoint_keys(self.graph, tracked)


def restored_keys(meta: Any, graph: FunctionBody, functions: Mapping[str, Any]) -> dict[str, str]:
    """Return the checkpoint key that each variable is restored from, by its node, as the saver's graph does it."""
    operation = meta.saver_def.restore_op_name.partition(":")[0]
    if operation not in graph.nodes:
        return {}
    start = graph.nodes[operation]
    if "f" in start.attr and start.attr["f"].func.name in functions:
        restore = body_from_function(functions[start.attr["f"].func.name])
        outside = {argument: ref.node for argument, ref in zip(restore.arguments, start.inputs, strict=False)}
        nodes = list(restore.nodes.values())
    else:
        restore = FunctionBody("restore", graph.nodes, [], [Ref(operation)])
        outside = {}
        nodes = [*restore.live, *restore.control_dependencies]
    keys = {}
    for node in nodes:
        if node.op in _ASSIGNMENTS and len(node.inputs) >= 2:
            handle, key = node.inputs[0].node, _restored_key(restore, node.inputs[1])
            if key:
                keys[outside.get(handle, handle)] = key
    return keys


def _restored_key(body: FunctionBody, ref: Ref) -> str:
    """Return the checkpoint key that `ref` carries from a RestoreV2, or ""."""
    for _ in range(10):
        node = body.nodes.get(ref.node)
        if node is None or node.op == "RestoreV2" or not node.inputs:
            break
        if node.op not in ("Identity", "Cast"):
            return ""
        ref = node.inputs[0]
    if node is None or node.op != "RestoreV2":
        return ""
    names = body.nodes.get(node.inputs[1].node)
    keys = names.attr["value"].tensor.string_val if names is not None and names.op == "Const" else []
    return keys[ref.index].decode(errors="backslashreplace") if ref.index < len(keys) else ""
