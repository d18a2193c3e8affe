"""Modules that decide on sizes give PyTorch's results at every size, or fail as `OUTCOMES` says: never other numbers.

They are defined in a file, and in code without one (`exec`, a notebook, standard input): the result must not depend on
that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import convert
from convert.errors import Unsupported
from tests.frontends.pytorch.export.size_modules import ONE, TWO
from tests.support.marks import slow_but

SIZES = [
    (1, 1), (1, 4), (2, 2), (2, 3), (3, 6), (4, 5), (4, 8), (5, 2), (6, 7), (7, 12), (8, 1), (9, 16), (24, 24),
    (302, 2), (3, 301),
]  # fmt: skip
OTHERS = [1, 3, 2, 1, 3, 2, 8, 5, 5, 3, 4, 1, 24, 2, 2]
"""The length of the second input, for each size of the first."""
_HEAD = """
import bisect, collections, dataclasses, math, operator

import torch
from torch import nn


class Made(nn.Module):
    def forward(self, {}):
"""
BESIDE_TORCH = f"{Path(torch.__file__).parent}vision/made.py"
"""A file of another package, whose name begins with that of PyTorch's folder."""
ELSEWHERE = ["<stdin>", "<ipython-input-3-1f>", BESIDE_TORCH]


def made(body: str, arguments: str, file: str) -> nn.Module:
    """Return a module with this body of forward, which Python takes to be from `file`."""
    text = _HEAD.format(arguments) + "".join(f"        {line}\n" for line in body.split("\n"))
    if file.endswith(".py") and file != BESIDE_TORCH:
        Path(file).write_text(text)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, file, "exec"), names)
    return names["Made"]().eval()


RIGHT, GUARDED, REFUSED = "right at all sizes", "fails at some sizes", "refused"
OUTCOMES = {
    **dict.fromkeys((
        "a while",  # this ends beyond 127 only
        "half", "range",  # a number that Python needs: there are as many paths as sizes
        "number of pieces", "last piece", "pieces of which one counts",
        "after a squeeze",  # a fact from an operator, not a decision
    ), GUARDED),
    **dict.fromkeys((
        "odd, by a bit", "root", "root as a factor", "logarithm", "rows", "list of a length",
        "a key of a dictionary", "a set", "the greatest divisor", "counted columns",
    ), REFUSED),
}  # fmt: skip
"""Outcomes of the modules that are not right at all sizes: 7 and 11 of 99."""

SCRIPTED = ("root", "root as a factor", "rows", "counted columns", "a key of a dictionary")
"""Modules that are refused without a code file, and are right as TorchScript, which needs such a file."""


def check(name: str, file: str) -> tuple[int, int]:
    """Return how many sizes are right and how many fail; assert that no other numbers come."""
    if name in ONE:
        module, inputs = made(ONE[name], "x", file), ["x:float32[a,b]"]
    else:
        module, inputs = made(TWO[name], "x, y", file), ["x:float32[a,b]", "y:float32[c,b]"]
    try:
        proto = convert.to_onnx(module, inputs, verify=False)
    except Unsupported:
        return 0, len(SIZES)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    names = [i.name for i in session.get_inputs()]
    draw, right, failed = np.random.default_rng(0), 0, 0
    for (a, b), c in zip(SIZES, OTHERS, strict=True):
        feeds = {
            n: draw.standard_normal(shape).astype(np.float32) for n, shape in zip("xy", ((a, b), (c, b)), strict=True)
        }
        feeds = {n: feeds[n] for n in names}
        try:
            want = module(*map(torch.from_numpy, feeds.values()))
        except Exception:
            continue  # inputs that forward rejects are not compared
        try:
            (got,) = session.run(None, feeds)
        except Exception:
            failed += 1
            continue
        assert got.shape == tuple(want.shape), (a, b, c)
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-5, err_msg=f"{a}, {b}, {c}")
        right += 1
    assert right
    return right, failed


QUICK = ("odd", "more than three hundred", "twice as wide", "number of pieces", "parts by number", "another length")


@pytest.mark.parametrize("place", ["file", "exec"])
@pytest.mark.parametrize("name", slow_but([*ONE, *TWO], *QUICK))
def test_numbers_are_right_or_refused(name: str, place: str, tmp_path: Path) -> None:
    right, failed = check(name, str(tmp_path / "made.py") if place == "file" else "<string>")
    outcome = REFUSED if not right else GUARDED if failed else RIGHT
    wanted = RIGHT if place == "file" and name in SCRIPTED else OUTCOMES.get(name, RIGHT)
    assert outcome == wanted, (right, failed)


@pytest.mark.parametrize("file", ELSEWHERE)
@pytest.mark.parametrize("name", ["odd", "more than three"])
def test_whatever_file_the_code_is_from(name: str, file: str) -> None:
    assert check(name, file) == (len(SIZES), 0)


def test_what_is_always_taken_is_not_checked() -> None:
    """If a length changes nothing, or a decision does not depend on sizes, the graph has no checks for it."""
    for body in ("return x[: min(x.shape[0], 5)]", "return x * 1 if x.shape[0] == 1 else x.flip(0).flip(0)"):
        proto = convert.to_onnx(made(body, "x", "<string>"), "x:float32[a,b]", verify=False)
        assert "Split" not in {n.op_type for n in proto.graph.node}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return x + 1 if x.shape[0] & 4 else x - 1", "cannot check whether"),
        ("return x / math.sqrt(x.shape[1])", "takes only one size"),
    ],
)
def test_what_a_graph_cannot_check_is_refused_with_its_line(body: str, told: str) -> None:
    with pytest.raises(Unsupported, match=told) as error:
        convert.to_onnx(made(body, "x", "<string>"), "x:float32[a,b]", verify=False)
    assert told in str(error.value)
    assert "<string>:10" in str(error.value)
