"""PyTorch programs of networks for images, speech, graphs and spectra."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.suites.programs.torch_program import f, i, program


class Deformable(nn.Module):
    """Sampling around reference points on two levels (deformable attention)."""

    def __init__(self) -> None:
        super().__init__()
        self.off, self.att, self.val = nn.Linear(8, 2 * 2 * 3 * 2), nn.Linear(8, 2 * 2 * 3), nn.Linear(8, 8)

    def forward(self, q: Tensor, ref: Tensor, value: Tensor) -> Any:
        b, n, _ = q.shape
        shapes = [(4, 6), (2, 3)]
        v = self.val(value).view(b, -1, 2, 4)
        parts = v.split([h * w for h, w in shapes], 1)
        off = self.off(q).view(b, n, 2, 2, 3, 2)
        att = self.att(q).view(b, n, 2, 6).softmax(-1).view(b, n, 2, 2, 3)
        norm = torch.tensor([[w, h] for h, w in shapes], dtype=q.dtype)
        loc = ref[:, :, None, None, None] + off / norm[None, None, None, :, None]
        grids = 2 * loc - 1
        seen = []
        for level, (h, w) in enumerate(shapes):
            m = parts[level].flatten(2).transpose(1, 2).reshape(b * 2, 4, h, w)
            g = grids[:, :, :, level].transpose(1, 2).flatten(0, 1)
            seen.append(F.grid_sample(m, g, mode="bilinear", padding_mode="zeros", align_corners=False))
        a = att.transpose(1, 2).reshape(b * 2, 1, n, 6)
        return (torch.stack(seen, -2).flatten(-2) * a).sum(-1).view(b, 8, n).transpose(1, 2)


class UNet(nn.Module):
    """A U-Net for odd sizes: maps are up-sampled to the size of the skip connection, or padded to it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.c, self.d = (
            nn.Conv2d(3, 6, 3, padding=1),
            nn.Conv2d(6, 8, 3, padding=1),
            nn.Conv2d(8, 8, 3, padding=1),
        )
        self.up, self.e, self.g = (
            nn.ConvTranspose2d(8, 8, 2, stride=2),
            nn.Conv2d(16, 6, 3, padding=1),
            nn.Conv2d(12, 2, 3, padding=1),
        )
        self.bn = nn.BatchNorm2d(6)

    def forward(self, x: Tensor) -> Any:
        a = F.relu(self.bn(self.a(x)))
        c = F.relu(self.c(F.max_pool2d(a, 2)))
        d = F.relu(self.d(F.max_pool2d(c, 2)))
        u = self.up(d)
        dy, dx = c.size(2) - u.size(2), c.size(3) - u.size(3)
        u = F.pad(u, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        u = F.relu(self.e(torch.cat([c, u], 1)))
        u = F.interpolate(u, size=a.shape[2:], mode="bilinear", align_corners=True)
        return self.g(torch.cat([a, u], 1))


class Conformer(nn.Module):
    """Subsampled features, relative attention with its shift, gated depthwise convolution, mask by lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.sub = nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.ReLU(), nn.Conv2d(4, 4, 3, 2), nn.ReLU())
        self.out, self.qkv, self.pos = nn.Linear(4 * 3, 8), nn.Linear(8, 24), nn.Linear(8, 8, bias=False)
        self.u, self.v = nn.Parameter(torch.randn(2, 4) * 0.3), nn.Parameter(torch.randn(2, 4) * 0.3)
        self.pw1, self.dw, self.pw2, self.bn = (
            nn.Conv1d(8, 16, 1),
            nn.Conv1d(8, 8, 5, padding=2, groups=8),
            nn.Conv1d(8, 8, 1),
            nn.BatchNorm1d(8),
        )
        self.ff, self.norm = (
            nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8)),
            nn.LayerNorm(8),
        )

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        y = self.sub(x.unsqueeze(1))
        b, c, t, d = y.size()
        y = self.out(y.transpose(1, 2).contiguous().view(b, t, c * d))
        n = ((lengths - 1) // 2 - 1) // 2
        pad = torch.arange(t)[None] >= n[:, None]
        y = y + 0.5 * self.ff(y)
        at = torch.arange(t - 1, -t, -1, dtype=torch.float32)[:, None] * torch.exp(
            torch.arange(0, 8, 2) * -(math.log(10000.0) / 8)
        )
        pe = torch.zeros(2 * t - 1, 8)
        pe[:, 0::2], pe[:, 1::2] = at.sin(), at.cos()
        q, k, v = self.qkv(self.norm(y)).view(b, t, 3, 2, 4).unbind(2)
        p = self.pos(pe).view(1, -1, 2, 4).transpose(1, 2)
        ac = (q + self.u).transpose(1, 2) @ k.permute(0, 2, 3, 1)
        bd = (q + self.v).transpose(1, 2) @ p.transpose(-2, -1)
        z = torch.zeros((*bd.size()[:3], 1))
        bd = torch.cat([z, bd], -1).view(b, 2, bd.size(3) + 1, bd.size(2))[:, :, 1:].view_as(bd)[:, :, :, :t]
        s = ((ac + bd) / 2).masked_fill(pad[:, None, None], -1e4).softmax(-1).masked_fill(pad[:, None, None], 0.0)
        y = y + (s @ v.transpose(1, 2)).transpose(1, 2).reshape(b, t, 8)
        h = F.glu(self.pw1(self.norm(y).transpose(1, 2)), 1)
        h = h.masked_fill(pad[:, None], 0.0)
        y = y + self.pw2(F.silu(self.bn(self.dw(h)))).transpose(1, 2)
        return self.norm(y + 0.5 * self.ff(y)), n


class Wav2Vec(nn.Module):
    """Strided convolutions on raw sound, weight-normed position embedding with an even kernel, mean over true
    lengths.
    """

    def __init__(self) -> None:
        super().__init__()
        self.c = nn.ModuleList(
            [nn.Conv1d(1, 6, 10, 5, bias=False), nn.Conv1d(6, 6, 3, 2, bias=False), nn.Conv1d(6, 6, 2, 2, bias=False)]
        )
        self.gn = nn.GroupNorm(6, 6)
        self.ln = nn.LayerNorm(6)
        self.pos = nn.utils.parametrizations.weight_norm(nn.Conv1d(6, 6, 4, padding=2, groups=2), name="weight", dim=2)

    def forward(self, wave: Tensor, lengths: Tensor) -> Any:
        x = (wave - wave.mean(-1, keepdim=True)) / torch.sqrt(wave.var(-1, keepdim=True, unbiased=False) + 1e-5)
        x = x[:, None]
        for n, c in enumerate(self.c):
            x = c(x)
            x = F.gelu(self.gn(x) if n == 0 else x)
            lengths = torch.div(lengths - c.kernel_size[0], c.stride[0], rounding_mode="floor") + 1
        x = self.ln(x.transpose(1, 2))
        mask = torch.zeros(x.shape[:2], dtype=torch.long)
        mask[(torch.arange(mask.shape[0]), lengths - 1)] = 1
        mask = mask.flip([-1]).cumsum(-1).flip([-1]).bool()
        x[~mask] = 0.0
        p = self.pos(x.transpose(1, 2))[:, :, :-1]
        x = x + F.gelu(p).transpose(1, 2)
        return x, (x * mask[..., None]).sum(1) / mask.sum(1).view(-1, 1)


def greedy_ctc(x: Tensor, n: Tensor) -> Any:
    """Return labels of CTC, with blanks and repeats dropped, at the front of each row."""
    best = x.argmax(-1)
    same = torch.cat((torch.zeros_like(best[:, :1], dtype=torch.bool), best[:, 1:] == best[:, :-1]), 1)
    keep = ~same & (best != 0) & (torch.arange(x.shape[1])[None] < n[:, None])
    place = keep.cumsum(1) - 1
    out = torch.full((x.shape[0], x.shape[1] + 1), -1)
    out.scatter_(1, torch.where(keep, place, x.shape[1]), best)
    one = torch.unique_consecutive(best[0])
    return out[:, :-1], keep.sum(1), one[one != 0], x.log_softmax(-1).amax(-1).sum(1)


class GraphNet(nn.Module):
    """Messages along edges: degrees, softmax over neighbours, several reductions, pooled by graph."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.att, self.mix = nn.Linear(4, 6, bias=False), nn.Linear(12, 1), nn.Linear(24, 5)

    def forward(self, x: Tensor, edges: Tensor, graph: Tensor) -> Any:
        n = x.size(0)
        src, dst = edges[0], edges[1]
        loop = torch.arange(n)
        src, dst = torch.cat((src, loop)), torch.cat((dst, loop))
        deg = torch.zeros(n).scatter_add_(0, dst, torch.ones(dst.shape[0]))
        inv = deg.pow(-0.5)
        inv[inv == float("inf")] = 0
        h = self.a(x)
        gcn = torch.zeros(n, 6).index_add_(0, dst, h[src] * (inv[src] * inv[dst])[:, None])
        e = F.leaky_relu(self.att(torch.cat((h[src], h[dst]), -1)), 0.2).squeeze(-1)
        top = torch.full((n,), float("-inf")).scatter_reduce(0, dst, e, "amax", include_self=False)
        p = (e - top[dst]).exp()
        p = p / (torch.zeros(n).index_add(0, dst, p)[dst] + 1e-16)
        gat = torch.zeros(n, 6).scatter_add(0, dst[:, None].expand(-1, 6), h[src] * p[:, None])
        where = dst[:, None].expand(-1, 6)
        mean = torch.zeros(n, 6).scatter_reduce(0, where, h[src], "mean", include_self=False)
        low = torch.zeros(n, 6).scatter_reduce_(0, where, h[src], reduce="amin", include_self=False)
        y = self.mix(torch.cat((gcn, gat, mean, low), -1))
        count = 3
        pooled = y.new_zeros(count, 5).index_reduce_(0, graph, y, "mean", include_self=False)
        return y, pooled, p


def edge_conv(x: Tensor) -> Any:
    """Aggregate neighbours by distance (DGCNN)."""
    inner = -2 * x.transpose(2, 1) @ x
    xx = (x**2).sum(1, keepdim=True)
    d = -xx - inner - xx.transpose(2, 1)
    idx = d.topk(k=3, dim=-1)[1]
    b, c, n = x.shape
    idx = (idx + torch.arange(b).view(-1, 1, 1) * n).view(-1)
    t = x.transpose(2, 1).contiguous()
    near = t.view(b * n, -1)[idx, :].view(b, n, 3, c)
    mid = t.view(b, n, 1, c).repeat(1, 1, 3, 1)
    return torch.cat((near - mid, mid), 3).permute(0, 3, 1, 2).amax(-1)


class Fourier(nn.Module):
    """Spectral convolutions: a few modes with complex weights, transformed back to the input's size."""

    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(3, 3, 2, 2, dtype=torch.cfloat) * 0.3)
        self.w2 = nn.Parameter(torch.randn(3, 3, 2, 2, dtype=torch.cfloat) * 0.3)
        self.skip = nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Any:
        b, _c, h, w = x.shape
        z = torch.fft.rfft2(x)
        out = torch.zeros(b, 3, h, w // 2 + 1, dtype=torch.cfloat)
        out[:, :, :2, :2] = torch.einsum("bixy,ioxy->boxy", z[:, :, :2, :2], self.w1)
        out[:, :, -2:, :2] = torch.einsum("bixy,ioxy->boxy", z[:, :, -2:, :2], self.w2)
        return F.gelu(torch.fft.irfft2(out, s=(h, w)) + self.skip(x)), torch.fft.fft(
            torch.fft.fft(x, dim=-1), dim=-2
        ).real


class Quantiser(nn.Module):
    """Residual vector quantisation with a straight-through gradient, and its perplexity."""

    def __init__(self) -> None:
        super().__init__()
        self.books = nn.ParameterList(torch.randn(7, 4) for _ in range(2))
        self.register_buffer("levels", torch.tensor([5, 3, 4, 6]))

    def forward(self, x: Tensor) -> Any:
        b, c, h, w = x.shape
        z = x.permute(0, 2, 3, 1).reshape(-1, c)
        rest, total, codes = z, torch.zeros_like(z), []
        for book in self.books:
            d = torch.cdist(rest, book)
            k = d.argmin(1)
            q = F.embedding(k, book)
            rest, total = rest - q.detach(), total + q
            codes.append(k.view(b, h, w))
        st = z + (total - z).detach()
        p = F.one_hot(codes[0].flatten(), 7).float().mean(0)
        half = (self.levels - 1) * (1 + 1e-3) / 2
        offset = torch.where(self.levels % 2 == 0, 0.5, 0.0)
        fsq = ((z + (offset / half).atanh()).tanh() * half - offset).round() / (self.levels // 2)
        return (
            st.view(b, h, w, c).permute(0, 3, 1, 2),
            torch.stack(codes, 1),
            torch.exp(-(p * (p + 1e-10).log()).sum()),
            fsq,
            F.mse_loss(total, z),
        )


N = ((2, 5), (1, 1), (3, 7))


def spectrum_parts(x: Tensor) -> tuple[Tensor, ...]:
    """Return both parts of a spectrum; the first and the middle frequency have no imaginary part."""
    z = torch.stft(x, 16, 5, window=torch.hann_window(16), return_complex=True)
    long = torch.fft.rfft(x, 1500)
    return torch.view_as_real(z), z.imag, torch.fft.rfft(x, 32).imag, torch.fft.fft(x, 24).real, long.imag[:, 750]


SIGNALS = [
    program("spectrum_parts", spectrum_parts, f(2, 40), f(1, 33), f(5, 64)),
    program("Deformable", Deformable, *((f(n, s, 8), f(n, s, 2).sigmoid(), f(n, 30, 8)) for n, s in N)),
    program("UNet", UNet, f(2, 3, 13, 11), f(1, 3, 8, 8), f(3, 3, 9, 15)),
    program(
        "Conformer",
        Conformer,
        *((f(n, s, 16), torch.tensor(each)) for n, s, each in ((2, 15, [15, 11]), (1, 9, [9]), (3, 23, [20, 23, 8]))),
    ),
    program(
        "Wav2Vec",
        Wav2Vec,
        *(
            (f(n, s), torch.tensor(each))
            for n, s, each in ((2, 120, [120, 90]), (1, 64, [64]), (3, 203, [203, 111, 50]))
        ),
    ),
    program(
        "greedy_ctc",
        greedy_ctc,
        *((f(n, s, 4), torch.tensor(each)) for n, s, each in ((2, 9, [9, 5]), (1, 1, [1]), (3, 12, [12, 7, 1]))),
    ),
    program(
        "GraphNet",
        GraphNet,
        *((f(n, 4), i(2, e, high=n), i(n, high=3).sort().values) for n, e in ((5, 8), (1, 1), (9, 30))),
    ),
    program("edge_conv", edge_conv, f(2, 3, 6), f(1, 3, 3), f(3, 3, 10)),
    program("Fourier of sizes", Fourier, f(2, 3, 8, 6), f(1, 3, 5, 7), f(3, 3, 9, 4)),
    program("Quantiser", Quantiser, f(2, 4, 3, 5), f(1, 4, 1, 2), f(3, 4, 4, 4)),
]
