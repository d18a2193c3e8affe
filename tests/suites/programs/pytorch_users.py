"""PyTorch programs as users write them: sparse matrices, attention with score functions, rare layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

from tests.suites.programs.torch_program import f, i, program


class Graphs(nn.Module):
    """A graph convolution: sparse matrices made of edges, stored as a parameter, a buffer and an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.mixing = nn.Parameter(f(3, 3).relu().to_sparse())
        self.rows = torch.eye(3).to_sparse_csr()
        self.register_buffer("table", f(3, 3, seed=1).relu().to_sparse())

    def forward(self, x: Tensor, edges: Tensor) -> Any:
        n = x.shape[0]
        a = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1]), (n, n)).coalesce()
        c = torch.sparse_csr_tensor(torch.tensor([0, 1, 1, 3]), torch.tensor([1, 0, 2]), torch.ones(3), (3, 3))
        y = torch.sparse.mm(a, self.layer(x)) / (torch.sparse.sum(a, 1).to_dense()[:, None] + 1)
        mixed = self.mixing @ y.T + self.rows @ y.T + c @ y.T + torch.sparse.mm(self.table, y.T)
        return torch.sparse.addmm(y, a, y), mixed, a.to_dense() @ x, x.relu().to_sparse().to_dense()


class ScoreBias(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slopes = nn.Parameter(f(4))

    def forward(self, x: Tensor) -> Tensor:
        def score_mod(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return score + self.slopes[h] * (q - k).abs() * -0.1

        return flex_attention(x, x, x, score_mod=score_mod)


class Window(nn.Module):
    """Attention with a block mask that was made once, and with fewer heads of keys."""

    def __init__(self) -> None:
        super().__init__()
        self.mask = create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < 5), None, None, 16, 16, device="cpu")

    def forward(self, x: Tensor) -> Any:
        return flex_attention(x, x[:, :2], x[:, 2:], block_mask=self.mask, enable_gqa=True)


class Documents(nn.Module):
    """A mask of blocks out of data."""

    def forward(self, x: Tensor, of: Tensor) -> Any:
        def same(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return (of[b, q] == of[b, k]) & (q >= k)

        mask = create_block_mask(same, x.shape[0], None, 16, 16, device="cpu")
        y, more = flex_attention(x, x, x, block_mask=mask, return_aux=AuxRequest(lse=True))
        return y, more.lse


class Clusters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10])

    def forward(self, x: Tensor, n: Tensor) -> Any:
        return self.layer.log_prob(x), self.layer.predict(x), self.layer(x, n)


def windowed(x: Tensor) -> Any:
    frames = x.unfold(-1, 40, 20) * torch.hamming_window(40)
    return frames.std(-1), frames * torch.kaiser_window(40, periodic=False, beta=8.0) + torch.blackman_window(40)


HEADS = tuple(f(n, 4, 16, 8) for n in (2, 1, 3))
USERS = [
    program("Graphs", Graphs, *((f(n, 4), i(2, e, high=n)) for n, e in ((6, 9), (8, 5), (3, 1)))),
    program("ScoreBias", ScoreBias, *HEADS),
    program("Window", Window, *HEADS),
    program("Documents", Documents, *((x, i(len(x), 16, high=3)) for x in HEADS)),
    program("Clusters", Clusters, *((f(n, 8), i(n, high=20)) for n in (4, 1, 7))),
    program("windowed", windowed, f(2, 160), f(1, 160), f(3, 100)),
]
