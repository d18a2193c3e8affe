"""Exported programs that contradict themselves are bad input; programs of torch.export do not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from convert.frontends.pytorch.files.pt2_archive import read_exported
from convert.frontends.pytorch.files.pt2_replay import find_contradiction

import convert
from convert.errors import BadInput
from tests.suites.hostile_files.case import members, stored
from tests.suites.hostile_files.program_files import GOOD, MODEL, Change, calls, descriptions

CHANGES = {
    "an argument twice": "'input' specified both as positional and keyword argument",
    "an operator as an argument": "for argument 'self'",
    "a tensor of 2^60": "makes float32[1099511627776, 1048576]",
    "tensors of dtype 9": "the weight conv1.weight is float32[8, 1, 3, 3], described as complex32",
    "tensors of 2^40": "described as float32[1099511627776]",
}
"""The message by the change of the hostile programs."""


def changed(name: str, folder: Path) -> Path:
    """Return a program with one change."""
    original = members(GOOD)
    document = json.loads(original[MODEL])
    change: Change = (descriptions() | calls("x"))[name]
    change(document)
    return stored(folder / "m.pt2", original | {MODEL: json.dumps(document).encode()})


@pytest.mark.parametrize("stride", [-1, 1 << 40])
def test_a_stride_that_no_kernel_takes(stride: int, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=re.escape(f"a convolution has the stride [{stride}, {stride}]")):
        convert.inspect(changed(f"strides of {stride}", tmp_path))


@pytest.mark.parametrize("name", CHANGES)
def test_a_program_that_contradicts_itself(name: str, tmp_path: Path, recwarn: Any) -> None:
    path = changed(name, tmp_path)
    with pytest.raises(BadInput, match="contradicts itself") as told:
        convert.inspect(path)
    assert CHANGES[name] in str(told.value)
    assert not recwarn.list


class Of(torch.nn.Module):
    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call
        self.register_buffer("w", torch.ones(3))

    def forward(self, x: torch.Tensor) -> Any:
        return self.call(x, self.w)


PROGRAMS = {
    "of weights": lambda x, w: x * w,
    "of several results": lambda x, w: [*torch.topk(x, 2)],
    "of sizes": lambda x, w: x.reshape(-1) * x.shape[0],
    "of data": lambda x, w: torch.nonzero(x > 0),
    "of a number": lambda x, w: x * torch.sum(x).item(),
    "of a branch": lambda x, w: torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,)),
    "of a change in place": lambda x, w: w.add_(1) + x,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_torch_export_does_not(name: str, tmp_path: Path) -> None:
    dims = ({0: torch.export.Dim("n", min=2)},) if name != "of several results" else None
    program = torch.export.export(
        Of(PROGRAMS[name]), (torch.ones(4, 3),), dynamic_shapes={"x": dims[0]} if dims else None
    )
    torch.export.save(program, tmp_path / "m.pt2")
    assert find_contradiction(read_exported(tmp_path / "m.pt2")) == ""
