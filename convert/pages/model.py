"""The page of `convert inspect`: the model's facts, its operators, its weights, and a drawing of its graph."""

from __future__ import annotations

import math
from pathlib import Path

from convert.errors import ConvertError
from convert.outcome.report import Report, Tensor
from convert.outcome.text import bytes_text
from convert.pages.graph_view import draw_graph
from convert.pages.template import Page, bullets, cell, notes_list, number_cell, section, table
from convert.pages.verification import contract


def write_page(done: Report, path: Path, error: ConvertError | None = None) -> None:
    """Write the result of `convert.inspect` to `path`. error: what ended the work, shown on the page.

    Raises `UsageError` if `path` cannot be written, and `ResourceLimit` on a full disk.
    """
    failed = error is not None
    head = ("operator", "nodes")
    rows = [[cell(name), number_cell(str(count))] for name, count in done.operators.items()]
    sections = [
        contract(done),
        section("Conditions on sizes", bullets(done.conditions)),
        draw_graph(done.graph.graph) if done.graph is not None else "",
        section("Operators", table("operators", head, rows)),
        section("Weights", _weights(done)),
        section("Notes", notes_list(done.notes)),
    ]
    Page(
        "ERROR" if failed else "MODEL",
        "ERROR" if failed else "",
        error.sentence if error is not None else Path(done.source).name,
        f"{done.source}{f', {done.kind}' if done.kind else ''}",
        [f"Hint: {error.hint}" if error is not None and error.hint else ""],
        _totals(done),
        sections,
        done.reproduce,
        done.seconds,
    ).write(path)


def _totals(done: Report) -> dict[str, str]:
    counted = {"inputs": len(done.inputs), "outputs": len(done.outputs), "nodes": sum(done.operators.values())}
    totals = {name: f"{count:,}" for name, count in counted.items() if count}
    if done.parameters:
        totals["parameters"] = f"{done.parameters:,}"
    if done.weight_bytes:
        totals["weights"] = bytes_text(done.weight_bytes)
    return totals


def _weights(done: Report) -> str:
    if done.weights:
        found = done.weights
    else:
        from convert.graph.tensors import dtype_name

        values = [] if done.graph is None else list(done.graph.graph.initializers.values())
        tensors = [(str(v.name), v.const_value) for v in values if v.const_value is not None]
        found = [Tensor(name, dtype_name(t.dtype), tuple(t.shape.numpy())) for name, t in tensors]
    rows = [
        [cell(t.name), cell(t.dtype), cell("×".join(map(str, t.shape or ()))), number_cell(f"{_size(t):,}", _size(t))]
        for t in found
    ]
    return table("weights", ("weight", "dtype", "dims", "elements"), rows)


def _size(tensor: Tensor) -> int:
    return math.prod(d for d in tensor.shape or () if isinstance(d, int))
