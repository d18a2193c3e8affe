"""Scripted modules as users write them: post-processing, beam searches, masks, dicts, strings, classes."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from convert.errors import Unsupported
from tests.support.torchscript_tools import agree, converted, kinds, scripted

# -- detection --------------------------------------------------------------------------------------------------------


class Detect(nn.Module):
    """Boxes above a threshold, as a dict."""

    __constants__ = ("limit",)

    def __init__(self) -> None:
        super().__init__()
        self.limit = 0.15
        self.head = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {}
        y = self.head(x)
        scores, labels = (y[:, 5:].softmax(-1) * y[:, 4].sigmoid()[:, None]).max(1)
        keep = torch.where(scores > self.limit)[0]
        out["boxes"] = y[:, :4].sigmoid()[keep]
        out.update({"labels": labels[keep]})
        if "scores" not in out:
            out["scores"] = scores[keep]
        return out


class DetectEach(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.detect = Detect()

    def forward(self, x: Tensor) -> list[dict[str, Tensor]]:
        found: list[dict[str, Tensor]] = []
        for i in range(2):
            found.append(self.detect(x[i]))
        return found


class Suppress(nn.Module):
    """Overlapping boxes, suppressed by a loop of the module."""

    def forward(self, boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
        order = scores.argsort(descending=True)
        keep, dead = scores < 0, scores < 0
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        for k in range(order.size(0)):
            i = order[k]
            if not bool(dead[i]):
                keep[i] = True
                low, high = torch.max(boxes[i, :2], boxes[:, :2]), torch.min(boxes[i, 2:], boxes[:, 2:])
                size = (high - low).clamp(min=0)
                common = size[:, 0] * size[:, 1]
                dead = dead | (common / (area[i] + area - common) > threshold)
        return torch.nonzero(keep).squeeze(1)


class Pyramid(nn.Module):
    """Features of several sizes, named by their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3, 3, 3, 2, 1) for _ in range(3)])

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        features: list[Tensor] = []
        for layer in self.layers:
            x = layer(x).relu()
            features.append(x)
        out: dict[str, Tensor] = {}
        for i, feature in enumerate(features):
            out[str(i)] = feature
        last = features[-1]
        for i in range(len(features) - 2, -1, -1):
            last = features[i] + F.interpolate(last, size=features[i].shape[-2:], mode="nearest")
            out[f"p{i}"] = last
        return out


class Anchors(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sizes = ((16,), (32,))
        self.ratios = [0.5, 1.0, 2.0]

    def forward(self, h: int, w: int, x: Tensor) -> Tensor:
        every: list[Tensor] = []
        for size in self.sizes:
            height = torch.sqrt(torch.tensor(self.ratios))
            width = 1 / height
            base = torch.stack([-width * size[0], -height * size[0], width * size[0], height * size[0]], 1) / 2
            rows, columns = torch.arange(h, dtype=torch.float32) * 8, torch.arange(w, dtype=torch.float32) * 8
            yy, xx = torch.meshgrid(rows, columns, indexing="ij")
            moved = torch.stack([xx.reshape(-1), yy.reshape(-1)] * 2, 1)
            every.append((moved[:, None] + base[None]).reshape(-1, 4))
        return torch.cat(every) * x


# -- searches and sequences -------------------------------------------------------------------------------------------


class Beam(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.out = nn.Embedding(11, 6), nn.GRUCell(6, 6), nn.Linear(6, 11)
        self.width, self.end = 3, 1

    def forward(self, h0: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        h = h0.expand(self.width, 6)
        tokens, scores = torch.zeros(self.width, 1, dtype=torch.long), torch.zeros(self.width)
        scores[1:] = -1e9
        for _ in range(steps):
            h = self.cell(self.embed(tokens[:, -1]), h)
            scores, places = (F.log_softmax(self.out(h), -1) + scores[:, None]).view(-1).topk(self.width)
            rows, token = torch.div(places, 11, rounding_mode="floor"), places % 11
            tokens, h = torch.cat([tokens[rows], token[:, None]], 1), h[rows]
            if bool((token == self.end).all()):
                break
        return tokens[0], scores


class Greedy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.out = nn.Embedding(11, 6), nn.LSTMCell(6, 6), nn.Linear(6, 11)

    def forward(self, h: Tensor, limit: int) -> Tensor:
        c, token = torch.zeros_like(h), torch.zeros(h.size(0), dtype=torch.long)
        found: list[Tensor] = []
        i = 0
        while i < limit:
            h, c = self.cell(self.embed(token), (h, c))
            token = self.out(h).argmax(-1)
            found.append(token)
            i += 1
        return torch.stack(found, 1)


class Collapse(nn.Module):
    """The best path through the outputs of CTC."""

    def forward(self, logits: Tensor) -> Tensor:
        places, found, before = logits.argmax(-1), torch.jit.annotate(list[int], []), -1
        for i in range(places.size(0)):
            place = int(places[i].item())
            if place != before and place != 0:
                found.append(place)
            before = place
        return torch.tensor(found, dtype=torch.long)


class Masked(nn.Module):
    """Attention over sequences of given lengths, with an optional argument."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor, extra: Tensor | None = None) -> tuple[Tensor, Tensor]:
        mask = torch.arange(x.size(1))[None, :] >= lengths[:, None]
        if extra is not None:
            x = x + extra
        y, _ = self.attention(x, x, x, key_padding_mask=mask)
        return y.masked_fill(mask[..., None], 0.0), mask


class Chunks(nn.Module):
    """The loudest chunk of a signal."""

    def forward(self, x: Tensor, size: int) -> Tensor:
        count = (x.size(0) + size - 1) // size
        best = torch.tensor(0.0)
        for chunk in F.pad(x, [0, count * size - x.size(0)]).split(size):
            loud = chunk.pow(2).mean()
            if bool(loud > best):
                best = loud
        return best


class Windows(nn.Module):
    """A layer on overlapping windows, averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(1, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        out, count = torch.zeros_like(x), torch.zeros_like(x)
        for a in range(0, x.size(-1) - 7, 4):
            out[:, :, a : a + 8] += self.layer(x[:, :, a : a + 8])
            count[:, :, a : a + 8] += 1
        return out / count.clamp(min=1)


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(4, 3), nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            mask = chosen == k
            rows = torch.where(mask.any(-1))[0]
            if rows.numel() > 0:
                out.index_add_(0, rows, expert(x[rows]) * (weights * mask).sum(-1)[rows][:, None])
        return out


class Early(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(3)
        for row in x:
            if bool(row[0] < 0.1):
                continue
            if bool(row.sum() > 2.0):
                return row * 2
            total = total + row
        return total


# -- Python's own types -----------------------------------------------------------------------------------------------


class Strings(nn.Module):
    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode, self.factors = mode, {"a": 1.5, "b": -2.0}
        self.layers = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})

    def forward(self, x: Tensor) -> Tensor:
        for name, layer in self.layers.items():
            x = layer(x) * self.factors[name]
        if self.mode == "mean":
            return x.mean(0)
        elif self.mode.startswith("s"):
            return x.sum(0)
        raise ValueError(f"unknown {self.mode}")


class Names(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {}
        for i, name in enumerate(["left", "right"]):
            out["{}_{}".format(name, i)] = x[i]  # noqa: UP032
            out[name.upper()] = x[i] * 2
            out["%s-%d" % (name, i)] = x[i] * 3  # noqa: UP031
        assert "left" in ",".join(list(out.keys()))
        return out


class Optionals(nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.bias: Tensor | None = nn.Parameter(torch.randn(4)) if bias else None

    def activated(self, x: Tensor, name: str) -> Tensor:
        return F.relu(x) if name == "relu" else x

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, bias = x @ self.weight, self.bias
        if bias is not None:
            y = y + bias
        with torch.no_grad():
            z = self.activated(y, "relu")
        return y, z


class Pair(NamedTuple):
    first: Tensor
    second: Optional[Tensor]  # noqa: UP045  (TorchScript knows no other way to say so here)


class Named(nn.Module):
    def forward(self, x: Tensor) -> Pair:
        pair = Pair(x + 1, None)
        if pair.second is None:
            pair = Pair(pair.first * 2, x)
        return pair


class Lists(nn.Module):
    def forward(self, x: Tensor) -> dict[str, list[Tensor]]:
        limits, out = [0.1, 0.2, 0.3], torch.jit.annotate(dict[str, list[Tensor]], {"a": [], "b": []})
        for i, (column, limit) in enumerate(zip(x.unbind(1), limits)):  # noqa: B905
            out["a" if i % 2 == 0 else "b"].append(torch.where(column > limit, column, torch.zeros_like(column)))
        limits.remove(0.2)
        out.setdefault("c", [x * max(limits) + limits.index(0.3)])
        return out


@torch.jit.script
class Mean:
    def __init__(self, size: int):
        self.total = torch.zeros(size)
        self.count = 0

    def add(self, x: Tensor):
        self.total = self.total + x
        self.count += 1

    def value(self) -> Tensor:
        return self.total / self.count


class Classes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        mean = Mean(3)
        for i in range(x.size(0)):
            mean.add(x[i])
        return mean.value()


ROWS: list[tuple[Any, list[str], list[tuple[Any, ...]]]] = [
    (Detect, ["x:float32[n,8]"], [(torch.rand(5, 8),), (torch.rand(1, 8),)]),
    (DetectEach, ["x:float32[2,n,8]"], [(torch.rand(2, 5, 8),)]),
    (Suppress, ["boxes:float32[n,4]", "scores:float32[n]", "threshold:float64[]"],
     [(torch.cat([torch.rand(6, 2), torch.rand(6, 2) + 0.5], 1), torch.rand(6), 0.3)]),
    (Pyramid, ["x:float32[b,3,h,w]"], [(torch.rand(2, 3, 32, 48),), (torch.rand(1, 3, 40, 32),)]),
    (Anchors, ["h:int64[]", "w:int64[]", "x:float32[1]"], [(3, 4, torch.rand(1)), (1, 2, torch.rand(1))]),
    (Beam, ["h0:float32[1,6]", "steps:int64[]"], [(torch.rand(1, 6), 4), (torch.rand(1, 6), 1)]),
    (Greedy, ["h:float32[b,6]", "limit:int64[]"], [(torch.rand(2, 6), 4), (torch.rand(1, 6), 1)]),
    (Collapse, ["logits:float32[t,5]"], [(torch.rand(9, 5),), (torch.eye(5)[:1],)]),
    (Masked, ["x:float32[b,t,8]", "lengths:int64[b]"], [(torch.rand(2, 5, 8), torch.tensor([3, 5]))]),
    (Masked, ["x:float32[b,t,8]", "lengths:int64[b]", "extra:float32[b,t,8]"],
     [(torch.rand(2, 5, 8), torch.tensor([3, 5]), torch.rand(2, 5, 8))]),
    (Chunks, ["x:float32[n]", "size:int64[]"], [(torch.rand(37), 8), (torch.rand(16), 4)]),
    (Windows, ["x:float32[1,1,n]"], [(torch.rand(1, 1, 20),), (torch.rand(1, 1, 33),)]),
    (Experts, ["x:float32[n,4]"], [(torch.rand(5, 4),), (torch.rand(1, 4),)]),
    (Early, ["x:float32[n,3]"], [(torch.rand(9, 3),), (torch.rand(2, 3) * 0.3,), (torch.rand(2, 3) * 0.01,)]),
    (lambda: Strings("mean"), ["x:float32[n,4]"], [(torch.rand(3, 4),)]),
    (lambda: Strings("sum"), ["x:float32[n,4]"], [(torch.rand(3, 4),)]),
    (Names, ["x:float32[2,n]"], [(torch.rand(2, 3),)]),
    (lambda: Optionals(True), ["x:float32[n,4]"], [(torch.rand(3, 4),)]),
    (lambda: Optionals(False), ["x:float32[n,4]"], [(torch.rand(3, 4),)]),
    (Named, ["x:float32[n]"], [(torch.rand(3),)]),
    (Lists, ["x:float32[n,3]"], [(torch.rand(4, 3),)]),
    (Classes, ["x:float32[n,3]"], [(torch.rand(4, 3),), (torch.rand(1, 3),)]),
]  # fmt: skip


@pytest.mark.parametrize("row", range(len(ROWS)), ids=lambda i: f"{getattr(ROWS[i][0], '__name__', 'made')}{i}")
def test_programs(row: int) -> None:
    torch.manual_seed(0)
    make, specs, calls = ROWS[row]
    program = scripted(make())
    agree(program, converted(program, *specs), *calls)


def test_the_loop_of_a_search_stays_a_loop() -> None:
    assert {"Loop", "If"} & set(kinds(converted(scripted(Beam()), "h0:float32[1,6]", "steps:int64[]")))


class Removed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        parts = {"a": x, "b": x * 2}
        parts.popitem()
        return torch.stack(list(parts.values()))


def test_changes_of_containers_are_never_ignored() -> None:
    """A method without a rule is an error; the dict is not silently left unchanged."""
    with pytest.raises(Unsupported, match="popitem"):
        converted(scripted(Removed()), "x:float32[n]")
