"""The types of the layout pass: permutations, facts of values, and the form of a node.

A value of rank r >= 3 is held *as is*, in the graph's own layout, or *moved*, permuted by `move(r)`.
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
"""Maps a rank to the permutation that moves the channels of a value of that rank."""


class Side(enum.Enum):
    """The layout in which a node takes an input or returns an output."""

    AS_IS = enum.auto()
    MOVED = enum.auto()
    FREE = enum.auto()  # as is or moved; all free sides of a node are alike
    BROADCAST = enum.auto()  # an operand of lower rank; it is aligned to the free sides if these are moved
    ANY = enum.auto()  # any layout: the value is absent, unused, or not affected by the layout


@dataclass(frozen=True)
class LayoutForm:
    """The sides of a node, and the changes to it if its free sides are moved.

    - `attributes`, `constants` (by input position): replace the node's own, or are added
    - `gather`: indices that restore the order of the output's elements
    - `domain`: becomes the node's domain in any case
    - `moved_domain`: becomes the node's domain if its free sides are moved, at a cost of `moved_price` transposes of
      its first output
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
"""Returns the possible forms of a node, or None if it must stay as is. Called only for nodes in ONNX's own domain."""


def channels_last(rank: int) -> tuple[int, ...]:
    """Return the permutation from N C spatial… to N spatial… C; below rank 3 the identity."""
    return (0, *range(2, rank), 1) if rank > 2 else tuple(range(rank))


def channels_first(rank: int) -> tuple[int, ...]:
    """Return the permutation from N spatial… C to N C spatial…; below rank 3 the identity."""
    return (0, rank - 1, *range(1, rank - 1)) if rank > 2 else tuple(range(rank))


def moved_axes(axes: Iterable[int], perm: Sequence[int]) -> list[int]:
    """Return axes, which may be negative, in the coordinates of the permuted tensor."""
    where = inverse_permutation(perm)
    return [where[a % len(perm)] for a in axes]


def side_without_axes(full: int, axes: Sequence[int], move: Move) -> Side | None:
    """Return the layout of a moved tensor of rank `full` after `axes` are removed from it.

    Returns None if the result has neither of the two layouts.
    """
    order = [a for a in move(full) if a not in axes]
    kept = sorted(order)
    if order == kept:
        return Side.AS_IS
    return Side.FREE if len(kept) > 2 and order == [kept[i] for i in move(len(kept))] else None


def same_order(shape: Sequence[Dim], perm: Sequence[int]) -> bool:
    """Return whether a permutation leaves every element in place, because only dims of size 1 change their order."""
    long = [a for a in perm if shape[a] != 1]
    return long == sorted(long)


def free_sides(node: ir.Node, *free: int) -> tuple[Side, ...]:
    """Return FREE for the inputs at these positions, and AS_IS for the others."""
    return tuple(Side.FREE if i in free else Side.AS_IS for i in range(len(node.inputs)))
