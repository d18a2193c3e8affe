"""Distributions whose matrices PyTorch checks: what is captured, and the results of the replaced checks."""

from __future__ import annotations

import pytest
import torch
from convert.frontends.pytorch.export.patch_table import TABLE
from convert.frontends.pytorch.export.patches.patch import in_place
from torch import nn
from torch.distributions import MultivariateNormal, constraints

from tests.support.pytorch_tools import agrees, noise, read


class Prior(nn.Module):
    """Returns log-likelihoods of rows, with a computed and with a constant covariance matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        root = torch.tanh(self.mix(x))[:, :, None]
        matrix = root @ root.mT + 2 * torch.eye(3)
        given = MultivariateNormal(x * 0.5, covariance_matrix=matrix)
        return given.log_prob(x), MultivariateNormal(torch.zeros(3), torch.eye(3)).log_prob(x)


def test_a_likelihood_under_a_matrix_is_captured() -> None:
    torch.manual_seed(0)
    module = Prior().eval()
    model = read(module, "x:float32[rows,3]")
    for rows in (1, 2, 5):
        agrees(module, model, noise(rows, 3))


@pytest.mark.parametrize("name", ["symmetric", "positive_definite", "positive_semidefinite"])
def test_the_answers_are_pytorchs(name: str) -> None:
    constraint = getattr(constraints, name)
    good, turned, singular = torch.eye(2), torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.ones(2, 2)
    matrices = [torch.stack([good, singular, -good]), torch.stack([good, turned]), good, turned, torch.ones(2, 3)]
    want = [bool(constraint.check(m).all()) for m in matrices]
    rows = [row for row in TABLE if row.targets and row.targets[0].startswith("torch.distributions.constraints")]
    with in_place(rows):
        assert [bool(constraint.check(m).all()) for m in matrices] == want
    assert len(set(want)) == 2
