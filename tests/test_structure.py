"""Test the measures of `tests/suites/structure.py` on graphs that were counted by hand, and on the project."""

from __future__ import annotations

import pytest

from tests.suites.structure import main
from tests.support.import_graph import arrows_back, circles, entries, floors

CALM = {"top": {"middle", "bottom"}, "middle": {"bottom"}, "bottom": set[str]()}
TWISTED = {"a": {"b"}, "b": {"c"}, "c": {"a", "b"}, "d": {"a"}}


@pytest.mark.parametrize(("graph", "high", "back", "rings"), [(CALM, 3, 0, []), (TWISTED, 2, 1, [["a", "b", "c"]])])
def test_counts(graph: dict[str, set[str]], high: int, back: int, rings: list[list[str]]) -> None:
    assert (floors(graph), arrows_back(graph), circles(graph)) == (high, back, rings)


def test_many_nodes_in_one_circle() -> None:
    """Above 16 nodes a heuristic is used. For a plain ring it must find the minimum, which is one arrow."""
    ring = {f"n{i:02}": {f"n{(i + 1) % 20:02}"} for i in range(20)}
    assert arrows_back(ring) == 1


def test_entries_are_files_and_folders() -> None:
    graph = {"p": {"p.a.x"}, "p.a.x": {"p.a.y", "p.b"}, "p.a.y": set[str](), "p.b": {"q"}, "q": set[str]()}
    assert entries(graph, "p") == {"__init__": {"a"}, "a": {"b"}, "b": set()}


@pytest.mark.slow
def test_the_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No package has a circle of files, and the entries of all but two import one another in one direction.

    In `convert/` 13 arrows point back. A task of a batch does what a command does after parsing. Constants are folded
    by the kernels of the executor, which uses passes itself. Small modules of one package are used below it: `Options`
    and `Source` in `files/`, `graph/` and `plugin.py`, lists of dims in `graph/`, differences of runtimes in `rules/`,
    how errors escape text in `errors.py`, long double in `semantics/`, and how Python is started in `files/` and
    `rules/`.

    In the reader of exported programs 6 arrows point back: a capture is watched for decisions, and a decision is
    answered by another capture.
    """
    monkeypatch.setattr("sys.argv", ["structure.py"])
    main()
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    rows = {cells[0]: [int(c) for c in cells[1:]] for cells in lines[1:]}
    assert {"convert", "frontends/pytorch", "frontends/tensorflow", "backends/caffe2", "backends/keras"} <= set(rows)
    assert {package: cells[3:] for package, cells in rows.items() if any(cells[3:])} == {
        "convert": [13, 0, 3],
        "frontends/pytorch/export": [6, 0, 1],
    }
