"""The vocabulary of the layout pass: permutations, the facts of values, and the form of a node.

A value of rank r >= 3 can be held *as is*, in the graph's own coordinates, or *moved*, permuted by `move(r)`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from convert.graph.values import Dim, inverse_permutation

Move: TypeAlias = Callable[[int], tuple[int, ...]]
"""From a rank to the permutation that moves the channels of a value of that rank."""


class Side(enum.Enum):
    """How a node wants one of its inputs, or gives one of its outputs."""

    AS_IS = enum.auto()
    MOVED = enum.auto()
    FREE = enum.auto()  # as is or moved: all free sides of a node alike
    BROADCAST = enum.auto()  # an operand of lower rank: aligned to the free sides where these are moved
    ANY = enum.auto()  # whatever there is: absent, unused, or a side whose layout does not matter


@dataclass(frozen=True)
class LayoutForm:
    """The sides of a node, and the changes to make if its free sides turn out moved.

    `attributes` and `constants` (by input position) replace the node's own or are added to them; `gather` picks from
    the output, by these indices, what the node gave before; `domain`, if set, becomes the node's domain in any case,
    `moved_domain` where its free sides are moved, which costs `moved_price` times a transpose of its first output.
    """

    inputs: tuple[Side, ...]
    outputs: tuple[Side, ...]
    attributes: tuple[ir.Attr, ...] = ()
    constants: Mapping[int, np.ndarray] = field(default_factory=dict)
    gather: tuple[int, ...] | None = None
    domain: str = ""
    moved_domain: str = ""
    moved_price: float = 0.0


Rule: TypeAlias = Callable[[ir.Node, Move], LayoutForm | None]
"""What a node may be; None: it has to stay as is. A rule is asked only if the node's domain is ONNX's."""


def channels_last(rank: int) -> tuple[int, ...]:
    """N C spatial… to N spatial… C; below rank 3 nothing moves."""
    return (0, *range(2, rank), 1) if rank > 2 else tuple(range(rank))


def channels_first(rank: int) -> tuple[int, ...]:
    """N spatial… C to N C spatial…; below rank 3 nothing moves."""
    return (0, rank - 1, *range(1, rank - 1)) if rank > 2 else tuple(range(rank))


def moved_axes(axes: Iterable[int], perm: Sequence[int]) -> list[int]:
    """Axes, maybe negative, in the coordinates of the permuted tensor."""
    where = inverse_permutation(perm)
    return [where[a % len(perm)] for a in axes]


def side_without_axes(full: int, axes: Sequence[int], move: Move) -> Side | None:
    """How a tensor of rank `full` that is held moved comes to lie once `axes` are taken out of it.

    None: neither as is nor moved.
    """
    order = [a for a in move(full) if a not in axes]
    kept = sorted(order)
    if order == kept:
        return Side.AS_IS
    return Side.FREE if len(kept) > 2 and order == [kept[i] for i in move(len(kept))] else None


def same_order(shape: Sequence[Dim], perm: Sequence[int]) -> bool:
    """Whether a permutation leaves every element in its place, since only dims of one element change their order."""
    long = [a for a in perm if shape[a] != 1]
    return long == sorted(long)


def free_sides(node: ir.Node, *free: int) -> tuple[Side, ...]:
    """FREE for the inputs at these positions, AS_IS for the others."""
    return tuple(Side.FREE if i in free else Side.AS_IS for i in range(len(node.inputs)))
