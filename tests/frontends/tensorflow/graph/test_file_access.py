"""Save and Restore are only for the saver that loading uses, and tables only for the model's own assets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from convert.frontends.tensorflow.runner.allowed import check_file

from convert.errors import UnsafeInput
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.graph.test_allowed import add_function, add_node, saved_model, write


def with_saver() -> Any:
    """Return a graph as TensorFlow 2 writes it: functions that save and restore get the name of the checkpoint."""
    saved = saved_model()
    meta = saved.meta_graphs[0]
    graph = meta.graph_def
    add_node(graph.node, "saver_filename", "Placeholder")
    add_node(graph.node, "v", "VarHandleOp")
    for name, operators in (("restore", ["RestoreV2"]), ("save", ["SaveV2", "MergeV2Checkpoints"])):
        add_node(graph.node, name, "StatefulPartitionedCall", ("saver_filename",), f=f"traced_{name}")
        function = add_function(graph, f"traced_{name}", *((o, o, {}) for o in operators))
        for node in function.node_def:
            node.input.append("x")
    meta.saver_def.filename_tensor_name = "saver_filename:0"
    meta.saver_def.save_tensor_name, meta.saver_def.restore_op_name = "save:0", "restore"
    return saved


def check(tmp_path: Path, saved: Any) -> None:
    check_file(write(tmp_path, saved), Options())


def _graph(saved: Any) -> Any:
    return saved.meta_graphs[0].graph_def


def _node(saved: Any, name: str) -> Any:
    return next(n for n in _graph(saved).node if n.name == name)


def _function(saved: Any, name: str) -> Any:
    return next(f for f in _graph(saved).library.function if f.signature.name == name)


def _from_elsewhere(saved: Any) -> None:
    add_node(_function(saved, "traced_restore").node_def, "name", "Const")
    _function(saved, "traced_restore").node_def[0].input[0] = "name:output:0"


def _fed_otherwise(saved: Any) -> None:
    add_node(_graph(saved).node, "name", "Const")
    _node(saved, "restore").input[0] = "name"


def _computed(saved: Any) -> None:
    add_node(_graph(saved).node, "name", "StringJoin", ("saver_filename", "saver_filename"))
    _node(saved, "restore").input[0] = "name"


SAVERS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "a signature restores": ("not only when", lambda s: _node(s, "y").input.append("^restore")),
    "a signature saves": ("not only when", lambda s: _node(s, "y").input.append("^save")),
    "the function that saves is called": (
        "not only when",
        lambda s: add_node(_function(s, "inner").node_def, "n", "PartitionedCall", f="traced_save"),
    ),
    "a gradient is the function that saves": (
        "not only when",
        lambda s: _graph(s).library.gradient.add(function_name="inner", gradient_func="traced_save"),
    ),
    "an object holds the function": (
        "not only when",
        lambda s: s.meta_graphs[0].object_graph_def.concrete_functions["traced_save"].bound_inputs.append(0),
    ),
    "an initializer saves": (
        "not only when",
        lambda s: s.meta_graphs[0].collection_def["saved_model_main_op"].node_list.value.append("save"),
    ),
    "restoring saves": ("writes files when", lambda s: _node(s, "restore").input.append("^save")),
    "restoring is saving": (
        "writes files when",
        lambda s: setattr(s.meta_graphs[0].saver_def, "restore_op_name", "save"),
    ),
    "another file": ("another file", _from_elsewhere),
    "another name is fed": ("another file", _fed_otherwise),
    "a computed name": ("another file", _computed),
    "a function that nobody calls": (
        "no saver calls",
        lambda s: add_function(_graph(s), "alone", ("n", "SaveV2", {})),
    ),
    "a function that stands for another": (
        "stand for another",
        lambda s: setattr(_function(s, "traced_save").attr["api_implements"], "s", b"x"),
    ),
}  # fmt: skip


def test_the_saver_that_loading_uses_is_allowed(tmp_path: Path) -> None:
    saved = with_saver()
    add_node(_graph(saved).node, "save_1/Const", "Const")
    add_node(_graph(saved).node, "save_1/SaveV2", "SaveV2", ("save_1/Const",))  # another one, which nothing runs
    check(tmp_path, saved)


@pytest.mark.parametrize("case", SAVERS)
def test_no_other_use_of_it_is(tmp_path: Path, case: str) -> None:
    why, change = SAVERS[case]
    saved = with_saver()
    change(saved)
    with pytest.raises(UnsafeInput, match=why):
        check(tmp_path, saved)


def test_outputs_that_are_named_do_not_reach_it(tmp_path: Path) -> None:
    meta = with_saver().meta_graphs[0]
    meta.signature_def.clear()
    add_node(meta.graph_def.node, "z", "Identity", ("x", "^save"))
    (tmp_path / "m.meta").write_bytes(meta.SerializeToString())
    check_file(Source("tf-meta", tmp_path / "m.meta"), Options(outputs=("y",)))
    with pytest.raises(UnsafeInput, match="not only when"):
        check_file(Source("tf-meta", tmp_path / "m.meta"), Options(outputs=("z",)))


# -- tables --------------------------------------------------------------------------------------------------------


def with_asset(filename: str = "vocabulary.txt") -> Any:
    """Return a graph as TensorFlow 2 writes it: a variable gets the path of the asset, and a function is called with
    it.
    """
    saved = saved_model()
    meta = saved.meta_graphs[0]
    graph = meta.graph_def
    add_node(graph.node, "path", "Placeholder")
    add_node(graph.node, "held", "VarHandleOp", shared_name=b"held")
    add_node(graph.node, "assign", "AssignVariableOp", ("held", "path"))
    add_node(graph.node, "read", "ReadVariableOp", ("held", "^assign"))
    add_node(graph.node, "fill", "StatefulPartitionedCall", ("read",), f="initializer")
    function = add_function(graph, "initializer", ("n", "InitializeTableFromTextFileV2", {}))
    function.node_def[0].input.extend(["table", "x"])
    meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name = "fill"
    asset = meta.asset_file_def.add(filename=filename)
    asset.tensor_info.name = "path:0"
    objects = meta.object_graph_def
    objects.nodes.add().asset.SetInParent()
    objects.nodes.add().constant.SetInParent()
    objects.concrete_functions["initializer"].bound_inputs.append(0)
    return saved


def _constant_path(saved: Any) -> None:
    add_node(_graph(saved).node, "secret", "Const")
    _node(saved, "fill").input[0] = "secret"


def _second_assignment(saved: Any) -> None:
    add_node(_graph(saved).node, "secret", "Const")
    add_node(_graph(saved).node, "again", "AssignVariableOp", ("held", "secret", "^assign"))


TABLES: dict[str, Callable[[Any], object]] = {
    "a constant": _constant_path,
    "a constant for an object": lambda s: (
        s.meta_graphs[0].object_graph_def.concrete_functions["initializer"].bound_inputs.__setitem__(0, 1)
    ),
    "a second assignment": _second_assignment,
    "before it is assigned": lambda s: _node(s, "read").input.pop(),
    "a variable of the same name": lambda s: add_node(
        _function(s, "inner").node_def, "h", "VarHandleOp", shared_name=b"held"
    ),
    "the function changes it": lambda s: _node(s, "y").input.append("held"),
    "another caller": lambda s: add_node(_graph(s).node, "more", "PartitionedCall", ("x",), f="initializer"),
}


def test_a_table_is_filled_from_an_asset(tmp_path: Path) -> None:
    check(tmp_path, with_asset())


@pytest.mark.parametrize("name", ["/etc/passwd", "../../x", "a/../../x", "C:/x", ""])
def test_an_asset_is_in_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsafeInput, match="not among the model's assets"):
        check(tmp_path, with_asset(name))


@pytest.mark.parametrize("case", TABLES)
def test_no_other_file_is_read(tmp_path: Path, case: str) -> None:
    saved = with_asset()
    TABLES[case](saved)
    with pytest.raises(UnsafeInput, match="not among the model's assets"):
        check(tmp_path, saved)
