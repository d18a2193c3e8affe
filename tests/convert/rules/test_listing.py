"""Names of before: they work for one release, with a DeprecationWarning that says the new one."""

from __future__ import annotations

import importlib

import pytest

from convert.reference import kernel
from convert.runners import reference_rules

ROOMS = [
    ("convert.backends.tensorflow", "onnx", "onnx_op", "tensorflow"),
    ("convert.backends.keras", "onnx", "onnx_op", "keras"),
    ("convert.backends.caffe2", "onnx", "onnx_op", ""),
    ("convert.frontends.pytorch", "aten", "torch_op", ""),
    ("convert.frontends.tensorflow", "node", "tf_op", ""),
    ("convert.frontends.caffe2", "caffe2", "caffe2_op", ""),
]


@pytest.mark.parametrize(("room", "old", "new", "needs"), ROOMS)
def test_the_old_decorator_is_the_new_one(room: str, old: str, new: str, needs: str) -> None:
    if needs:
        pytest.importorskip(needs)
    module = importlib.import_module(room)
    with pytest.warns(DeprecationWarning, match=rf"{room}\.{old} is called {new} now"):
        found = getattr(module, old)
    assert found is getattr(module, new)


def test_it_is_imported_by_name() -> None:
    """`from room import old`, as rule files of users have it; the warning names the line that does it."""
    with pytest.warns(DeprecationWarning, match="torch_op") as caught:
        from convert.frontends.pytorch import aten  # noqa: F401
    assert caught[0].filename == __file__


def test_the_old_home_of_kernels() -> None:
    with pytest.warns(DeprecationWarning, match=r"convert\.reference\.kernel now"):
        assert reference_rules.kernel is kernel


@pytest.mark.parametrize("room", [room for room, *_ in ROOMS] + ["convert.runners.reference_rules"])
def test_other_names_are_not_there(room: str) -> None:
    module = importlib.import_module(room)
    with pytest.raises(AttributeError, match="nowhere"):
        _ = module.nowhere
