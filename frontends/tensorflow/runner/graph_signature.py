"""Finds the inputs and outputs of a frozen graph that does not name them, by its structure; locates graph files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any

from convert.errors import BadInput, UsageError
from convert.request.source import Source

from ..graph.defaults import DEFAULTED

NOT_RESULTS = frozenset(
    [
        "Const",
        "NoOp",
        "Assert",
        "Print",
        "PrintV2",
        "Placeholder",
        "PlaceholderWithDefault",
        "PlaceholderV2",
        "VarHandleOp",
        "VariableV2",
        "Variable",
        "ControlTrigger",
        "Switch",
        "RefSwitch",
        "_SwitchN",
        "NextIteration",
        "SaveV2",
        "RestoreV2",
        "MergeV2Checkpoints",
        "ScalarSummary",
        "HistogramSummary",
        "MergeSummary",
        "ImageSummary",
    ]
)
"""Operators that are no output even if nothing reads them."""

_ONE_RESULT = re.compile(
    "(Ref)?Merge|_?FusedBatchNorm(V[23]|Ex)?|SoftmaxCrossEntropyWithLogits|SparseSoftmaxCrossEntropyWithLogits"
)
"""Operators whose first tensor is the result; others are an index or for the gradient, and kernels may not compute
them.

TensorFlow fuses a convolution and the FusedBatchNorm after it into one node with one output.
"""

PLACEHOLDERS = ("Placeholder", "PlaceholderV2")

# Operators that change variables, tables and queues, as initialization does.
_CHANGES = re.compile(
    "(Resource)?(Assign|Scatter(Nd)?(Update|Add|Sub|Mul|Div|Max|Min)|StridedSliceAssign|CountUpTo).*"
    "|LookupTable(Insert|Remove|Import).*|InitializeTable.*|(Queue|Stack).*|DestroyResourceOp"
)


# Operators that return a list, a table or a variable's handle, which is no tensor: a loop leaves lists that it
# unstacked.
_NO_TENSOR = re.compile(
    "EmptyTensorList|TensorList(Reserve|FromTensor|SetItem|PushBack|Resize|Split|Scatter.*|ConcatLists)"
    "|TensorArray(Write|Scatter|Split|Unpack|Grad.*)?(V[23])?|VarHandleOp|(Mutable|Anonymous)?.*HashTable.*"
)

_OF_A_LOOP = re.compile("(.*/)?while(_[0-9]+)?/Identity(_[0-9]+)?")  # tf.while_loop gives its results such names

_HANDLES = (20, 21)  # DT_RESOURCE and DT_VARIANT; an Identity of one passes a list on


def unread_nodes(nodes: Sequence[Any]) -> list[Any]:
    """Return the NodeDefs whose tensors nothing reads and that exist for their value.

    A loop leaves Exits for unused variables, or Identities of a While with generated names; they are used only if there
    are no others. The Identity of a Switch exists for control edges.
    """
    read = {_node_name(i) for n in nodes for i in n.input if not i.startswith("^")}
    switches = {n.name for n in nodes if n.op in ("Switch", "RefSwitch", "_SwitchN")}
    found = [n for n in nodes if n.name not in read and n.op not in NOT_RESULTS and "/Assert/" not in n.name]
    found = [n for n in found if not _NO_TENSOR.fullmatch(n.op) and n.attr["T"].type not in _HANDLES]
    found = [n for n in found if not (n.op == "Identity" and n.input and _node_name(n.input[0]) in switches)]
    loops = {n.name for n in nodes if n.op in ("While", "StatelessWhile")}
    left = {n.name for n in found if n.op == "Identity" and n.input and _node_name(n.input[0]) in loops}
    left = {name for name in left if _OF_A_LOOP.fullmatch(name)}
    return [n for n in found if n.op not in ("Exit", "RefExit") and n.name not in left] or found


def result_count(node: Any, count: int) -> int:
    """Return how many of the `count` unread tensors of a node are results."""
    return min(count, 1) if _ONE_RESULT.fullmatch(node.op) else count


def inference_nodes(nodes: Sequence[Any], saver: str) -> list[Any]:
    """Return the NodeDefs of a graph with variables, without those that initialize, save and restore them.

    `saver` is the name of the tensor with the saver's file name.
    """
    scope = saver.partition(":")[0].rpartition("/")[0]
    variables = {n.name for n in nodes if n.op in ("VarHandleOp", "VariableV2", "Variable")}
    changes = [n for n in nodes if _CHANGES.fullmatch(n.op)]
    dropped = {n.name for n in nodes if scope and n.name.startswith(f"{scope}/")} | {n.name for n in changes}
    dropped |= {_node_name(i) for n in changes for i in n.input}
    dropped |= {n.name for n in nodes if n.input and set(n.input) <= variables}
    users: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        for tensor in node.input:
            users[_node_name(tensor.removeprefix("^"))].add(node.name)
    waiting = list(dropped - variables)
    makers = {n.name: [_node_name(i) for i in n.input if not i.startswith("^")] for n in nodes}
    while waiting:
        alone = {m for m in makers.get(waiting.pop(), ()) if m not in dropped and users[m] <= dropped}
        dropped |= alone
        waiting += alone
    return [n for n in nodes if n.name not in dropped or n.name in variables]


def signature_tensor_names(
    graph: Any, inputs: Sequence[str], outputs: Sequence[str], candidates: Sequence[Any] | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return tensor names by input and output name; `inputs` and `outputs` are those that the user named.

    Without named outputs, returns unread tensors of `candidates`, or of the whole graph.
    """
    from tensorflow.python.framework import op_def_registry

    found: dict[str, str] = {}
    if outputs:
        found = {_short_name(o): _tensor_name(o) for o in outputs}
    else:
        for node in unread_nodes(graph.node if candidates is None else candidates):
            definition = op_def_registry.get(node.op)
            count = 1 if definition is None else sum(_arg_count(arg, node) for arg in definition.output_arg)
            found |= {_short_name(f"{node.name}:{i}"): f"{node.name}:{i}" for i in range(result_count(node, count))}
    placeholders = {n.name: f"{n.name}:0" for n in graph.node if n.op in PLACEHOLDERS}
    return {_short_name(i): _tensor_name(i) for i in inputs} | placeholders, found


def defaulted_inputs(graph: Any, signature: Container[str], named: Iterable[str | None]) -> dict[str, str]:
    """Return the placeholders with a default that the user `named` and the signature lacks: name to tensor name."""
    nodes = {n.name for n in graph.node if n.op == DEFAULTED}
    names = [n.removesuffix(":0") for n in named if n]
    return {n: f"{n}:0" for n in names if n in nodes and n not in signature and f"{n}:0" not in signature}


def meta_file(path: Path) -> Path:
    """Return the `.meta` file: of a folder, the only one or the one that its `checkpoint` file names.

    Raises `UsageError` if there are several.
    """
    if not path.is_dir():
        return path
    found = sorted(path.glob("*.meta"))
    state = path / "checkpoint"
    named = re.search(r'^model_checkpoint_path: "(.*)"', state.read_text(), re.M) if state.is_file() else None
    latest = path / (Path(named.group(1)).name + ".meta") if named else None
    if latest in found:
        return latest
    if len(found) != 1:
        raise UsageError(
            f"{path} holds {len(found)} graphs", hint=f"name one of {', '.join(f.name for f in found[:8])}"
        )
    return found[0]


def complete_fused_attributes(graph: Any) -> Any:
    """Return the graph with the attributes that TensorFlow.js omits from fused operators, which imports require."""
    lacking = [n for n in graph.node if n.op.startswith("_Fused") and "num_args" in n.attr and "TArgs" not in n.attr]
    if not lacking:
        return graph
    copy = type(graph)()
    copy.CopyFrom(graph)
    for node in copy.node:
        if node.op.startswith("_Fused") and "num_args" in node.attr and "TArgs" not in node.attr:
            node.attr["TArgs"].list.type.extend([node.attr["T"].type] * node.attr["num_args"].i)
    return copy


def _arg_count(arg: Any, node: Any) -> int:
    if arg.number_attr:
        return node.attr[arg.number_attr].i
    return len(node.attr[arg.type_list_attr].list.type) if arg.type_list_attr else 1


def _node_name(tensor: str) -> str:
    return tensor.partition(":")[0]


def _tensor_name(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _short_name(name: str) -> str:
    return name[:-2] if name.endswith(":0") else name


def read_frozen(source: Source) -> Any:
    """Return the GraphDef in a file. Raises `BadInput` for other content."""
    from tensorflow.core.framework.graph_pb2 import GraphDef

    try:
        return GraphDef.FromString(source.file.read_bytes())
    except Exception as error:
        raise BadInput(f"{source.label} is not a GraphDef: {error}") from error
