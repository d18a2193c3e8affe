"""The nodes of a graph by name, guessed outputs, and what an unfrozen graph lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import convert
from convert.errors import BadInput, UsageError
from convert.outcome.note_codes import ACTION
from convert.outcome.notes import as_note

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")


def graph_of(value: Any, *, metric: bool) -> Any:
    """Return a graph of a dense layer with `value` as its weights, and of the accuracy, which needs labels."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], "x")
        weights = tf.convert_to_tensor(value([[1.0, 2], [3, 4], [5, 6], [7, 8]]))
        top = tf.nn.top_k(tf.matmul(x, weights), name="top")
        if metric:
            label = tf.compat.v1.placeholder(tf.int32, [None, 1], "label")
            tf.reduce_mean(tf.cast(tf.equal(top.indices, label), tf.float32), name="accuracy")
        else:
            tf.add(top.values, 1.0, name="more")
    return graph.as_graph_def()


def test_nodes_are_listed_as_outputs_takes_them(tmp_path: Path) -> None:
    graph = graph_of(tf.constant, metric=True)
    (tmp_path / "g.pb").write_bytes(graph.SerializeToString())
    for source in (tmp_path / "g.pb", graph):
        listed = {n.name: n for n in convert.inspect(source, nodes="*").nodes}
        assert set(listed) == {n.name for n in graph.node}
        assert (listed["top"].operator, listed["top"].outputs) == ("TopKV2", ("top", "top:1"))
        assert [n.name for n in convert.inspect(source, nodes="TOP").nodes] == ["top/k", "top"]
        found = convert.inspect(source, outputs=listed["top"].outputs)
        assert len(found.outputs) == 2
        with pytest.raises(UsageError, match="no node has a name like 'topp'") as error:
            convert.inspect(source, nodes="topp")
        assert "did you mean top?" in error.value.hint


def test_a_wrong_name_is_answered_with_the_near_one_and_the_listing(tmp_path: Path) -> None:
    graph = graph_of(tf.constant, metric=True)
    (tmp_path / "g.pb").write_bytes(graph.SerializeToString())
    for source, listing in (
        (tmp_path / "g.pb", f"convert inspect {tmp_path / 'g.pb'} --nodes '*'"),
        (graph, "nodes='*'"),
    ):
        with pytest.raises(UsageError) as error:
            convert.inspect(source, outputs=("acuracy",))
        assert error.value.hint.startswith("did you mean accuracy? ")
        assert listing in error.value.hint


@pytest.mark.parametrize("metric", [True, False])
def test_a_guess_of_outputs_is_told_where_there_is_a_choice(metric: bool) -> None:
    """A metric takes labels, a second input."""
    notes = [as_note(n) for n in convert.inspect(graph_of(tf.constant, metric=metric)).notes]
    (note,) = [n for n in notes if n.code in ("found-outputs", "guessed-outputs")]
    assert (note.level == ACTION) == metric
    assert "--outputs" in str(note)


@pytest.mark.parametrize("beside", [True, False])
def test_an_unfrozen_graph_says_where_its_weights_are(beside: bool, tmp_path: Path) -> None:
    (tmp_path / "g.pb").write_bytes(graph_of(tf.Variable, metric=False).SerializeToString())
    if beside:
        (tmp_path / "train.meta").touch()
    with pytest.raises(BadInput, match=r"g\.pb is not frozen: the value of its variable 'Variable'") as error:
        convert.inspect(tmp_path / "g.pb")
    assert (str(tmp_path / "train.meta") in error.value.hint) == beside
    assert beside or "convert_variables_to_constants" in error.value.hint
    assert {n.operator for n in convert.inspect(tmp_path / "g.pb", nodes="variable").nodes} >= {"VarHandleOp"}
