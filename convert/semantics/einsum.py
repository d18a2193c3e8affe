"""Equations of Einsum for runtimes that do not repeat a dim of 1, as numpy and ONNX Runtime do."""

from __future__ import annotations

from collections.abc import Sequence


def squeeze_labels(equation: str, shapes: Sequence[Sequence[int | None]]) -> tuple[str, list[list[int]]]:
    """The equation without the labels of dims that would have to be repeated, and for each operand their axes.

    A dim of 1 whose label another operand has, where it is not known to be 1, adds nothing: it is dropped. Labels that
    an operand has twice stay, and so do dims of an ellipsis, which runtimes repeat. `shapes` has None for dims that are
    not known.
    """
    terms, right = result_of_equation(equation)
    places = [axes_of_labels(term, len(shape)) for term, shape in zip(terms, shapes, strict=True)]
    dropped: list[list[int]] = []
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        others = [(p, s) for j, (p, s) in enumerate(zip(places, shapes, strict=True)) if j != i]
        found = {
            label: axis
            for label, axis in places[i].items()
            if shape[axis] == 1 and term.count(label) == 1 and any(label in p and s[p[label]] != 1 for p, s in others)
        }
        dropped.append(sorted(found.values()))
        terms[i] = "".join(label for label in term if label not in found)
    return f"{','.join(terms)}->{right}", dropped


def result_of_equation(equation: str) -> tuple[list[str], str]:
    """The terms of the operands, and that of the result, which need not be written."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    if not arrow:  # as numpy has it: an ellipsis, then what is there once, by its letters
        once = sorted(label for label in set(left) - set(",.") if left.count(label) == 1)
        right = ("..." if "..." in left else "") + "".join(once)
    return left.split(","), right


def axes_of_labels(term: str, rank: int) -> dict[str, int]:
    """The axis of each label of a term, whose ellipsis stands for as many dims as `rank` leaves."""
    before, dots, after = term.partition("...")
    axes = dict(zip(before, range(rank), strict=False))
    if dots:
        axes |= {label: rank - len(after) + i for i, label in enumerate(after)}
    return axes
