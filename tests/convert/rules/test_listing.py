"""Old names work for one release, with a DeprecationWarning that gives the new name."""

from __future__ import annotations

from types import ModuleType

import pytest
from convert.backends import caffe2 as to_caffe2
from convert.backends import keras as to_keras
from convert.backends import tensorflow as to_tensorflow
from convert.frontends import caffe2 as from_caffe2
from convert.frontends import pytorch as from_pytorch
from convert.frontends import tensorflow as from_tensorflow

MODULES = [
    (to_tensorflow, "onnx", "onnx_op", "tensorflow"),
    (to_keras, "onnx", "onnx_op", "keras"),
    (to_caffe2, "onnx", "onnx_op", ""),
    (from_pytorch, "aten", "torch_op", ""),
    (from_tensorflow, "node", "tf_op", ""),
    (from_caffe2, "caffe2", "caffe2_op", ""),
]
NAMES = [module.__name__ for module, *_ in MODULES]


@pytest.mark.parametrize(("module", "old", "new", "needs"), MODULES, ids=NAMES)
def test_the_old_decorator_is_the_new_one(module: ModuleType, old: str, new: str, needs: str) -> None:
    if needs:
        pytest.importorskip(needs)
    with pytest.warns(DeprecationWarning, match=rf"{module.__name__}\.{old} is called {new} now"):
        found = getattr(module, old)
    assert found is getattr(module, new)


def test_it_is_imported_by_name() -> None:
    """As in `from module import old` in users' rule files; the warning names that line."""
    with pytest.warns(DeprecationWarning, match="torch_op") as caught:
        from convert.frontends.pytorch import aten  # noqa: F401
    assert caught[0].filename == __file__


@pytest.mark.parametrize("module", [module for module, *_ in MODULES], ids=NAMES)
def test_other_names_are_not_there(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match="nowhere"):
        _ = module.nowhere
