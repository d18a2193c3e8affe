"""PyTorch programs of language models: a decoder with its cache, windows, experts."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.suites.programs.torch_program import b, f, i, program


def rotate_half(x: Tensor) -> Any:
    a, c = x.chunk(2, -1)
    return torch.cat((-c, a), -1)


class Decoder(nn.Module):
    """A decoder with its cache: rotary positions after the cached ones, grouped heads, tied embedding, soft cap."""

    def __init__(self, layers: int = 2, heads: int = 4, groups: int = 2, size: int = 8) -> None:
        super().__init__()
        self.h, self.g, self.d = heads, groups, size
        w = heads * size
        self.embed = nn.Embedding(17, w)
        self.q = nn.ModuleList(nn.Linear(w, w, bias=False) for _ in range(layers))
        self.kv = nn.ModuleList(nn.Linear(w, 2 * groups * size, bias=False) for _ in range(layers))
        self.o = nn.ModuleList(nn.Linear(w, w, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(w, 2 * w, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(w, w, bias=False) for _ in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(w) for _ in range(2 * layers + 1))
        self.register_buffer("inv", 1.0 / (10000 ** (torch.arange(0, size, 2).float() / size)), persistent=False)

    def forward(self, ids: Tensor, past_k: Tensor, past_v: Tensor) -> Any:
        b, s = ids.shape
        p = past_k.shape[3]
        at = torch.arange(p, p + s)
        angle = torch.outer(at.float(), self.inv)
        angle = torch.cat((angle, angle), -1)
        cos, sin = angle.cos()[None, None], angle.sin()[None, None]
        mask = torch.full((s, p + s), float("-inf")).triu(p + 1)
        x = self.embed(ids) * math.sqrt(self.embed.embedding_dim)
        ks, vs = [], []
        for n in range(len(self.q)):
            y = self.norms[2 * n](x)
            q = self.q[n](y).view(b, s, self.h, self.d).transpose(1, 2)
            k, v = self.kv[n](y).view(b, s, 2, self.g, self.d).permute(2, 0, 3, 1, 4)
            q = q * cos + rotate_half(q) * sin
            k = k * cos + rotate_half(k) * sin
            k, v = torch.cat((past_k[n], k), 2), torch.cat((past_v[n], v), 2)
            ks.append(k)
            vs.append(v)
            r = self.h // self.g
            kk = k[:, :, None].expand(b, self.g, r, p + s, self.d).reshape(b, self.h, p + s, self.d)
            vv = v.repeat_interleave(r, 1)
            a = q @ kk.mT / math.sqrt(self.d)
            a = torch.tanh(a / 50.0) * 50.0 + mask
            a = a.softmax(-1, dtype=torch.float32).type_as(q) @ vv
            x = x + self.o[n](a.transpose(1, 2).contiguous().view(b, s, -1))
            gate, up = self.up[n](self.norms[2 * n + 1](x)).chunk(2, -1)
            x = x + self.down[n](F.silu(gate) * up)
        return F.linear(self.norms[-1](x), self.embed.weight), torch.stack(ks), torch.stack(vs)


class Sliding(nn.Module):
    """Causal attention within a window, with sinks, ALiBi and padding."""

    def __init__(self, window: int = 3) -> None:
        super().__init__()
        self.qkv, self.w = nn.Linear(8, 24), window
        self.register_buffer("slopes", torch.tensor([0.25, 0.0625]))
        self.sink = nn.Parameter(torch.randn(2))

    def forward(self, x: Tensor, padded: Tensor) -> Any:
        b, s, _ = x.shape
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        at = torch.arange(s)
        near = (at[None] <= at[:, None]) & (at[None] > at[:, None] - self.w)
        near = near[None, None] & ~padded[:, None, None] | torch.eye(s, dtype=torch.bool)
        bias = self.slopes[:, None, None] * (at[None] - at[:, None])
        score = (q @ k.transpose(-1, -2)) * 0.5 + bias
        score = score.masked_fill(~near, torch.finfo(score.dtype).min)
        sinks = self.sink.view(1, -1, 1, 1).expand(b, -1, s, -1)
        p = torch.cat((score, sinks), -1)
        p = (p - p.max(-1, keepdim=True).values).softmax(-1)[..., :-1]
        return (p @ v).transpose(1, 2).reshape(b, s, 8)


class Blocked(nn.Module):
    """Local attention in blocks: lengths are padded to a multiple, and each block attends to the previous one."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: Tensor) -> Any:
        b, s, _ = x.shape
        w = 4
        pad = (-s) % w
        x = F.pad(x, (0, 0, 0, pad))
        n = x.shape[1] // w
        q, k, v = self.qkv(x).view(b, n, w, 3, 8).unbind(3)
        k = torch.cat((F.pad(k, (0, 0, 0, 0, 1, 0))[:, :-1], k), 2)
        v = torch.cat((torch.roll(v, 1, 1), v), 2)
        place = torch.arange(n * w).view(n, w)
        before = torch.cat((place - w, place), -1)
        seen = (before[:, None] <= place[:, :, None]) & (before[:, None] >= 0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return y.reshape(b, n * w, 8)[:, :s]


class Mixtral(nn.Module):
    """Route tokens to their experts by where and index_add_."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = (
            nn.Linear(8, 4, bias=False),
            nn.ModuleList(nn.Sequential(nn.Linear(8, 12), nn.SiLU(), nn.Linear(12, 8)) for _ in range(4)),
        )

    def forward(self, x: Tensor) -> Any:
        b, s, d = x.shape
        x = x.view(-1, d)
        p = F.softmax(self.gate(x), dim=1, dtype=torch.float)
        w, which = torch.topk(p, 2, dim=-1)
        w /= w.sum(-1, keepdim=True)
        out = torch.zeros((b * s, d), dtype=x.dtype)
        mask = F.one_hot(which, num_classes=4).permute(2, 1, 0)
        for n in range(4):
            idx, top = torch.where(mask[n])
            y = self.experts[n](x[None, top].reshape(-1, d)) * w[top, idx, None]
            out.index_add_(0, top, y.to(x.dtype))
        return out.reshape(b, s, d), p


class Switch(nn.Module):
    """Experts with a capacity: positions by cumsum, dispatch and combine by einsum."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.a, self.c = (
            nn.Linear(8, 4),
            nn.Parameter(torch.randn(4, 8, 12) * 0.3),
            nn.Parameter(torch.randn(4, 12, 8) * 0.3),
        )

    def forward(self, x: Tensor) -> Any:
        x.shape[0] * x.shape[1]
        t = x.flatten(0, 1)
        p = self.gate(t).softmax(-1)
        chance, e = p.max(-1)
        hot = F.one_hot(e, 4)
        place = (hot.cumsum(0) * hot - 1).max(-1).values
        cap = 3
        kept = place < cap
        d = F.one_hot(e, 4)[..., None] * F.one_hot(place.clamp(max=cap - 1), cap)[:, None] * kept[:, None, None]
        d = d.to(x.dtype)
        h = torch.einsum("nec,nd->ecd", d, t)
        h = torch.bmm(F.gelu(torch.bmm(h, self.a)), self.c)
        y = torch.einsum("nec,ecd,n->nd", d, h, chance)
        aux = 4 * (hot.float().mean(0) * p.mean(0)).sum()
        return y.view_as(x), aux


class SortedExperts(nn.Module):
    """Sort tokens by their expert, and restore their order afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.w = nn.Linear(8, 3), nn.Parameter(torch.randn(3, 8, 8) * 0.3)

    def forward(self, x: Tensor) -> Any:
        s, e = self.gate(x).sigmoid().topk(2, -1)
        flat = e.view(-1)
        order = flat.argsort(stable=True)
        token = order // 2
        y = torch.einsum("nd,ndk->nk", x[token], self.w[flat[order]])
        back = torch.empty_like(y).scatter_(0, order[:, None].expand_as(y), y)
        counts = torch.zeros(3, dtype=torch.int64).scatter_add_(0, flat, torch.ones_like(flat))
        return (back.view(-1, 2, 8) * s[..., None]).sum(1), counts


class CountedExperts(SortedExperts):
    """Split the tokens by expert, into pieces whose lengths are a list of counts."""

    def forward(self, x: Tensor) -> Any:
        s, e = self.gate(x).sigmoid().topk(2, -1)
        order = e.flatten().argsort(stable=True)
        counts = torch.bincount(e.flatten(), minlength=3)
        pieces = x[order // 2].split(counts.tolist())
        y = torch.cat([piece @ w for piece, w in zip(pieces, self.w, strict=True)]) * s.flatten()[order, None]
        return torch.zeros_like(x).index_add(0, order // 2, y)


class SlicedExperts(SortedExperts):
    """Do the same with a NumPy array, and leave out experts that no token selects."""

    def forward(self, x: Tensor) -> Any:
        s, e = self.gate(x).sigmoid().topk(2, -1)
        order = e.flatten().argsort(stable=True)
        ends = e.flatten().bincount(minlength=3).cpu().numpy().cumsum(0)
        total = torch.zeros_like(x)
        for k, end in enumerate(ends):
            start = 0 if k == 0 else ends[k - 1]
            if start == end:
                continue
            places = order[start:end]
            y = x[places // 2] @ self.w[k] * s.flatten()[places, None]
            total.scatter_reduce_(0, (places // 2)[:, None].repeat(1, 8), y, reduce="sum")
        return total


N = ((2, 5), (1, 1), (3, 7))
LANGUAGE = [
    program(
        "Decoder",
        Decoder,
        *(
            (i(n, s, high=17), f(2, n, 2, p, 8), f(2, n, 2, p, 8, seed=1))
            for n, s, p in ((2, 3, 4), (1, 1, 6), (3, 5, 0))
        ),
    ),
    program("Sliding", Sliding, *((f(n, s, 8), b(n, s)) for n, s in N)),
    program("Blocked", Blocked, *(f(n, s, 8) for n, s in ((2, 5), (1, 4), (3, 11), (2, 8)))),
    program("Mixtral", Mixtral, *(f(n, s, 8) for n, s in N)),
    program("Switch", Switch, *(f(n, s, 8) for n, s in N)),
    *(program(c.__name__, c, f(5, 8), f(1, 8), f(9, 8)) for c in (SortedExperts, CountedExperts, SlicedExperts)),
]
