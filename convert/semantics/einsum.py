"""Rewrites Einsum equations for runtimes that do not broadcast dims of 1, as numpy and ONNX Runtime do."""

from __future__ import annotations

from collections.abc import Sequence


def squeeze_labels(equation: str, shapes: Sequence[Sequence[int | None]]) -> tuple[str, list[list[int]]]:
    """Return the equation without the labels of dims that need broadcasting, and these dims' axes by operand.

    A dim of 1 is dropped if another operand has the same label and is not known to have size 1 there, because it
    contributes nothing. Labels that occur twice in an operand stay, and so do dims of an ellipsis, which runtimes
    broadcast. `shapes` has None for unknown dims.
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
    """Return the terms of the operands and the term of the result, which an equation may omit."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    if not arrow:  # as in numpy: the ellipsis, then the labels that occur once, in alphabetical order
        once = sorted(label for label in set(left) - set(",.") if left.count(label) == 1)
        right = ("..." if "..." in left else "") + "".join(once)
    return left.split(","), right


def axes_of_labels(term: str, rank: int) -> dict[str, int]:
    """Return the axis of each label of a term; an ellipsis stands for the remaining dims of `rank`."""
    before, dots, after = term.partition("...")
    axes = dict(zip(before, range(rank), strict=False))
    if dots:
        axes |= {label: rank - len(after) + i for i, label in enumerate(after)}
    return axes
