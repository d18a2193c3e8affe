"""TorchScript programs as users write them: decoders, merges of tokens, counts, tables, searches."""

# ruff: noqa: UP006, UP035  (the language that is tested is no Python)
from __future__ import annotations

from typing import Dict, List, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.suites.programs.torch_program import SCRIPTS, f, program, script

IDS, FEW = torch.tensor([1, 2, 2, 4, 9]), torch.tensor([0, 0, 3])


@script(torch.tensor([1, 2, 2, 4]), torch.tensor([0, 3, 3, 3]))
def counted_places(x: Tensor) -> Tensor:
    counts = [0] * 5
    for v in x:
        counts[int(v)] += 1
    return torch.tensor(counts)


@script(torch.tensor([5, 2, 9]), torch.tensor([1, 3, 3]))
def place_of_the_largest(x: Tensor) -> Tuple[int, int]:
    items: List[int] = x.tolist()
    return items.index(max(items)), sum(items) // len(items)


@script(IDS, FEW)
def merged_pairs(ids: Tensor) -> Tensor:
    items: List[int] = ids.tolist()
    out: List[int] = []
    i = 0
    while i < len(items):
        if i + 1 < len(items) and items[i] == items[i + 1]:
            out.append(items[i] + 100)
            i += 2
        else:
            out.append(items[i])
            i += 1
    return torch.tensor(out)


@script((f(7, 3), torch.tensor([3, 2, 2])), (f(7, 3), torch.tensor([1, 2, 4])))
def padded_pieces(x: Tensor, n: Tensor) -> Tensor:
    lengths: List[int] = n.tolist()
    out: List[Tensor] = []
    for piece in x.split(lengths):
        out.append(functional.pad(piece, [0, 0, 0, max(lengths) - piece.size(0)]))
    return torch.stack(out)


@script(f(2, 4, 7), f(3, 4, 9))
def maxima_of_lines(x: Tensor) -> Tuple[Tensor, Tensor]:
    return functional.max_pool1d(x, x.size(2)).squeeze(2), functional.avg_pool2d(x.unsqueeze(1), [2, x.size(2)])


@script((torch.tensor([1, 2, 3]), torch.tensor([1, 3])), (torch.tensor([4, 2, 2]), torch.tensor([2, 3])))
def edit_distance(a: Tensor, b: Tensor) -> Tensor:
    before = [j for j in range(b.size(0) + 1)]  # noqa: C416
    for i in range(1, a.size(0) + 1):
        row = [i] + [0] * b.size(0)
        for j in range(1, b.size(0) + 1):
            change = 0 if int(a[i - 1]) == int(b[j - 1]) else 1
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + change)
        before = row
    return torch.tensor(before[-1])


class Vocabulary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table: Dict[int, int] = {1: 5, 2: 7, 9: 3}
        self.weights: Dict[int, float] = {0: 0.5, 1: 1.5}

    def forward(self, ids: Tensor) -> Tuple[Tensor, Tensor]:
        items: List[int] = ids.tolist()
        out: List[int] = []
        total = 0.0
        for i in items:
            out.append(self.table.get(i, -1))
            if i in self.table:
                total += self.weights[i % 2]
        return torch.tensor(out), torch.tensor(total)


class GreedyLabels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        best = self.layer(x).argmax(-1)
        out: List[int] = []
        before = -1
        for k in range(best.size(0)):
            label = int(best[k])
            if label != before and label != 0:
                out.append(label)
            before = label
        return torch.tensor(out, dtype=torch.int64)


class BestPath(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.moves = nn.Parameter(torch.randn(4, 4))

    def forward(self, scores: Tensor) -> Tuple[Tensor, Tensor]:
        score = scores[0]
        back: List[Tensor] = []
        for t in range(1, scores.size(0)):
            best, place = (score.unsqueeze(1) + self.moves).max(0)
            back.append(place)
            score = best + scores[t]
        last = score.argmax()
        path = [last]
        for place in back[::-1]:
            last = place[last]
            path.append(last)
        path.reverse()
        return torch.stack(path), score.max()


SCRIPTS += [
    program("Vocabulary", Vocabulary, IDS, FEW, script=True),
    program("GreedyLabels", GreedyLabels, f(9, 6), f(5, 6), script=True),
    program("BestPath", BestPath, f(5, 4), f(8, 4), script=True),
]
