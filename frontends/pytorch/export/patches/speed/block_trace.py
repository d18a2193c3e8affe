"""The captured operators of a block of a network, which are compared with another block or replayed."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn

from ....torch_internals import DisableTorchFunction, OpOverload, last_node, proxy_tensor, pytree, schema_of
from .likeness import Incomparable, tensor_likeness, value_likeness

_SIZES = (torch.sym_max, torch.sym_min, torch.sym_not, torch.sym_float, torch.sym_int, torch.sym_ite, operator.getitem)


class Made(NamedTuple):
    """A tensor that a block returns, and the node that computes it."""

    value: Tensor
    node: fx.Node


@dataclass
class BlockTrace:
    """The operators of one block, and what they read from outside: its inputs, its weights, and other values.

    `inputs` are the nodes of the tensors that it was called with, `weights` those of its parameters and buffers.
    `unread` are size queries whose results nobody reads. PyTorch makes them when its cache of fake tensors has no
    answer yet, so they occur in one block and not in the next.
    """

    path: str
    nodes: list[fx.Node]
    inputs: list[fx.Node]
    weights: list[fx.Node]
    outputs: list[Any]
    structure: pytree.TreeSpec
    unread: list[fx.Node] = field(default_factory=list)

    def places(self) -> dict[fx.Node, tuple[str, int]]:
        """The role of each node in the block."""
        found: dict[fx.Node, tuple[str, int]] = {}
        for kind, nodes in (("node", self.nodes), ("input", self.inputs), ("weight", self.weights)):
            for place, node in enumerate(nodes):
                found.setdefault(node, (kind, place))
        return found


def nodes_of(tracer: Any, tensors: Sequence[Tensor]) -> list[fx.Node]:
    """Return the nodes of captured tensors. Raises `Incomparable` for constants."""
    found = []
    for tensor in tensors:
        slot = proxy_tensor.get_proxy_slot(tensor, tracer, None)
        if slot is None or slot.constant is not None:
            raise Incomparable
        found.append(slot.proxy.node)
    return found


def trace_of(
    tracer: Any, block: nn.Module, before: fx.Node, inputs: list[fx.Node], weights: list[fx.Node], result: Any
) -> BlockTrace:
    """Return the operators since the node `before`. Raises `Incomparable` if they have side effects."""
    nodes: list[fx.Node] = []
    unread: dict[fx.Node, None] = {}
    node = last_node(tracer.graph)
    while node is not before:
        if not _only_computes(node):
            raise Incomparable
        if _is_size(node) and all(user in unread for user in node.users):
            unread[node] = None
        else:
            nodes.append(node)
        node = node.prev
    leaves, structure = pytree.tree_flatten(result)
    if any(isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)) for leaf in leaves):
        raise Incomparable
    outputs = [_output_of(tracer, leaf) for leaf in leaves]
    return BlockTrace(tracer.path_of_module(block), nodes[::-1], inputs, weights, outputs, structure, [*unread])


def _is_size(node: fx.Node) -> bool:
    """Return whether a node only computes or queries sizes."""
    values = pytree.tree_leaves(node.meta.get("val"))
    return bool(values) and all(isinstance(v, (torch.SymInt, torch.SymFloat, torch.SymBool)) for v in values)


def _output_of(tracer: Any, leaf: Any) -> Any:
    """Return a tensor with its node, or a plain value."""
    if isinstance(leaf, Tensor):
        return Made(leaf, nodes_of(tracer, [leaf])[0])
    value_likeness(leaf)
    return leaf


def _only_computes(node: fx.Node) -> bool:
    """Return whether a node has no effect but its value, and is deterministic."""
    target = node.target
    if node.op != "call_function" or node.meta.get("unbacked_bindings"):
        return False
    if isinstance(target, OpOverload):
        return not schema_of(target).is_mutable and not _draws(node)
    return target in _SIZES or getattr(target, "__module__", "") == "_operator"


def _draws(node: fx.Node) -> bool:
    """Return whether a node draws random numbers, as dropout does in training only."""
    aten, target = torch.ops.aten, node.target
    if target is aten.dropout.default:
        return node.args[2] is not False
    if target is aten.scaled_dot_product_attention.default:
        return bool(node.args[4:5] not in ((), (0.0,)) or node.kwargs.get("dropout_p", 0.0))
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def are_same(one: BlockTrace, other: BlockTrace) -> bool:
    """Return whether two blocks apply the same operators to their own inputs and weights and to the same other
    values.
    """
    if len(one.nodes) != len(other.nodes) or one.structure != other.structure:
        return False
    places, others = one.places(), other.places()

    def same(a: Any, b: Any) -> bool:
        if isinstance(a, fx.Node) and isinstance(b, fx.Node):
            return places.get(a, a) == others.get(b, b)
        return type(a) is type(b) and bool(a == b)

    for a, b in zip(one.nodes, other.nodes, strict=True):
        leaves, structure = pytree.tree_flatten((a.args, a.kwargs))
        beside, other_structure = pytree.tree_flatten((b.args, b.kwargs))
        if a.target is not b.target or structure != other_structure or not all(map(same, leaves, beside)):
            return False
        if _value_likeness(a) != _value_likeness(b):
            return False
    pairs = zip(one.outputs, other.outputs, strict=True)
    return all(same(a.node, b.node) if isinstance(a, Made) and isinstance(b, Made) else same(a, b) for a, b in pairs)


def _value_likeness(node: fx.Node) -> Any:
    values = pytree.tree_leaves(node.meta.get("val"))
    return [tensor_likeness(v) if isinstance(v, Tensor) else str(v) for v in values]


def write_again(
    tracer: Any, pattern: BlockTrace, path: str, inputs: Sequence[fx.Node], weights: Sequence[fx.Node]
) -> Any:
    """Replay the operators of the pattern with other inputs and weights; return their results."""
    made = dict(zip((*pattern.inputs, *pattern.weights), (*inputs, *weights), strict=True))
    for node in pattern.nodes:
        name = node.target.overloadpacket.__name__ if isinstance(node.target, OpOverload) else None
        args, kwargs = (fx.node.map_arg(given, lambda n: made.get(n, n)) for given in (node.args, node.kwargs))
        copy = tracer.graph.create_node(node.op, node.target, args, kwargs, name)
        copy.meta = dict(node.meta)
        copy.meta["nn_module_stack"] = _replace_path(node.meta.get("nn_module_stack", {}), pattern.path, path)
        made[node] = copy
    leaves = [_output_again(tracer, o, made) if isinstance(o, Made) else o for o in pattern.outputs]
    return pytree.tree_unflatten(leaves, pattern.structure)


def _output_again(tracer: Any, output: Made, made: Mapping[fx.Node, fx.Node]) -> Tensor:
    """Return a tensor like one of the pattern's outputs, computed by the copy of its node."""
    like = output.value
    with DisableTorchFunction(), proxy_tensor.disable_proxy_modes_tracing():
        copy = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
    proxy = fx.Proxy(made.get(output.node, output.node), tracer)
    found: Tensor = proxy_tensor.track_tensor_tree(copy, proxy, constant=None, tracer=tracer)
    return found


def _replace_path(stack: Mapping[str, Any], path: str, other: str) -> dict[str, Any]:
    """Return the module stack of a node, with one path replaced by another."""

    def moved(name: str) -> str:
        inside = name == path or name.startswith((f"{path}.", f"{path}@"))
        return other + name[len(path) :] if inside else name

    return {moved(key): (moved(name), kind) for key, (name, kind) in stack.items()}


def is_read_outside(pattern: BlockTrace) -> bool:
    """Return whether a tensor that is no output of the block is read outside it, such as through a global list."""
    inside = {*pattern.nodes, *pattern.unread}
    given = {o.node for o in pattern.outputs if isinstance(o, Made)}
    return any(
        user not in inside
        for node in pattern.nodes
        if node not in given and not isinstance(node.meta.get("val"), torch.SymInt)
        for user in node.users
    )
