"""An einsum of one operand that sums nothing is a view of it."""

from __future__ import annotations


def view_labels(equation: str) -> tuple[str, str] | None:
    """Return the labels of operand and result if an equation of one operand sums nothing, else None.

    A repeated label of the operand is a diagonal; dims without labels ("...") are left to PyTorch.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    right = right if arrow else "".join(sorted(c for c in set(left) if left.count(c) == 1))
    if "," in left or "." in equation or set(left) != set(right) or len(set(right)) != len(right):
        return None
    return left, right
