"""Functions of dynamic sizes, at other sizes than those of the capture."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.support.pytorch_tools import noise, read, run

FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    **{
        f"affine_grid {aligned} {dims}d": lambda x, aligned=aligned, dims=dims: functional.affine_grid(
            torch.linspace(-1, 1, 2 * dims * (dims + 1)).view(2, dims, dims + 1),
            [2, 1, *x.shape, 2][: dims + 2],
            aligned,
        )
        for aligned in (False, True)
        for dims in (2, 3)
    },
    "kron": lambda x: torch.kron(x, x + 1),
    "kron of other ranks": lambda x: x.kron(x[0]),
    "vander": lambda x: torch.vander(x[0]),
    "vander, increasing": lambda x: torch.vander(x[0] / 2, increasing=True),
    "multi_dot": lambda x: torch.linalg.multi_dot([x, x.mT, x]),
    "pairs": lambda x: torch.combinations(x[0]),
    "pairs with replacement": lambda x: torch.combinations(x[0], with_replacement=True),
    "logspace": lambda x: torch.logspace(-1, 2, x.shape[1]),
    "fftfreq": lambda x: torch.fft.fftfreq(x.shape[1], 0.5),
    "rfftfreq": lambda x: torch.fft.rfftfreq(x.shape[1]),
    **{
        f"{side}_indices {offset}": lambda x, side=side, offset=offset: getattr(torch, f"{side}_indices")(
            x.shape[1], x.shape[1], offset
        )
        for side in ("triu", "tril")
        for offset in (-2, -1, 0, 1, 2)
    },
    **{
        f"{name}_window {periodic}": lambda x, name=name, periodic=periodic: getattr(torch, f"{name}_window")(
            x.shape[1], periodic
        )
        for name in ("hann", "hamming", "blackman", "bartlett", "kaiser")
        for periodic in (True, False)
    },
    "hamming_window, own numbers": lambda x: torch.hamming_window(x.shape[1], True, 0.5, 0.4),
    "kaiser_window, own beta": lambda x: torch.kaiser_window(x.shape[1], True, 5.0, dtype=torch.float64),
    "kthvalue": lambda x: x.kthvalue(x.shape[1] // 2 + 1, 1)[0],
    "one_hot": lambda x: functional.one_hot((x > 0).long(), x.shape[1] + 1),
    "adaptive_avg_pool1d": lambda x: functional.adaptive_avg_pool1d(x[None], x.shape[1] // 2 + 1),
}


class Formed(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.function(x), x * 2


@pytest.mark.parametrize("name", FORMS)
def test_sizes_are_not_fixed_to_those_of_the_example(name: str) -> None:
    model = read(Formed(FORMS[name]), "x:float32[a,b]")
    for a, b in ((4, 6), (3, 1), (2, 2), (5, 9), (9, 4)):
        x = noise(a, b)
        want = FORMS[name](torch.from_numpy(x)).numpy()
        got = run(model, x)[0]
        assert got.shape == want.shape, (a, b)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6, err_msg=f"{a}, {b}")
