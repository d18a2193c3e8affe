"""Only one package names PyTorch's private parts, and its import costs no more than `import torch`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from convert.frontends.pytorch import torch_internals

from tests.support.import_graph import ROOT
from tests.support.wall_of_internals import own_names, private_uses

PACKAGE = ROOT / "frontends/pytorch"
WITHIN = {"_local_mapping", "_model_mapping"}
"""Private names of transformers that may be used outside `torch_internals`."""
FILES = [file for file in sorted(PACKAGE.rglob("*.py")) if "torch_internals" not in file.parts]
OWN = own_names(FILES) | WITHIN


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_no_other_module_names_a_private_part(file: Path) -> None:
    assert private_uses(file, OWN) == []


USES = [
    ("import torch._dynamo", "torch._dynamo"),
    ("from torch._C import DispatchKey", "torch._C.DispatchKey"),
    ("from torch.utils import _pytree as pytree", "torch.utils._pytree"),
    ("from torch.nn.modules.loss import _Loss", "torch.nn.modules.loss._Loss"),
    ("from torch.fx.experimental.symbolic_shapes import ShapeEnv", "torch.fx.experimental.symbolic_shapes.ShapeEnv"),
    ("def f():\n    import torch.utils._sympy.functions", "torch.utils._sympy.functions"),
    ("x = torch._C.Graph", "torch._C"),
    ("torch._check(n > 0)", "torch._check"),
    ("x = torch.fx.experimental.proxy_tensor", "torch.fx.experimental"),
    ("x = node.target._schema.name", "node.target._schema"),
    ("x = torch.ops.aten.add.Tensor._schema", "torch.ops.aten.add.Tensor._schema"),
    ("x = f()._buffers", "?._buffers"),
    ("x = getattr(target, '_schema', None)", "_schema"),
    ("with mock.patch.object(torch.func, '_jvp', other): pass", "_jvp"),
]


@pytest.mark.parametrize(("text", "what"), USES, ids=[text for text, _ in USES])
def test_a_private_part_is_seen(text: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(text)
    assert [use.partition(": ")[2] for use in private_uses(file, frozenset())] == [what]


PUBLIC = [
    "from torch.export import Dim",
    "from ._own import name",
    "x = torch.ops.aten._to_copy.default",  # the name of an operator, by which files call it
    "x = self._kept",
    "x = thing.__class__",
    "def _own(): pass\nx = module._own",
]


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_part_is_no_private_one(text: str, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(text)
    assert private_uses(file, own_names([file])) == []


def test_every_name_says_what_it_is() -> None:
    """Each name in the package is a function with a docstring, or is followed by a text."""
    import ast

    for file in (PACKAGE / "torch_internals").glob("*.py"):
        body = ast.parse(file.read_text()).body
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                assert ast.get_docstring(node), node.name
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                assert isinstance(after, ast.Expr), f"{file.name}:{node.lineno}"
                assert isinstance(after.value, ast.Constant), f"{file.name}:{node.lineno}"


def test_it_loads_little_that_pytorch_does_not() -> None:
    """It loads neither sympy nor the compiler; each of them takes as long as a small conversion."""
    code = (
        "import sys, torch, convert.frontends.pytorch\nbefore = set(sys.modules)\n"
        "from convert.frontends.pytorch import torch_internals\n"
        "print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name.split(".")[0] for name in done.stdout.split()} <= {"convert", "torch"}
    assert not {"torch._dynamo", "torch.export._trace", "sympy"} & set(done.stdout.split())
    assert len(done.stdout.split()) < 10


def test_tables_of_a_module_are_its_own() -> None:
    """They are PyTorch's tables and no copies, so that a caller may change them."""
    import torch

    module = torch.nn.BatchNorm1d(3)
    torch_internals.own_buffers(module)["running_mean"] = None
    assert module.running_mean is None
    assert list(torch_internals.own_parameters(module)) == ["weight", "bias"]
    assert torch_internals.own_parts(torch.nn.Sequential(module)) == {"0": module}
