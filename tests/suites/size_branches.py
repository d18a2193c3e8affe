"""Convert modules that branch on sizes with dynamic dims, and run them at twelve sizes: no wrong numbers may come out.

    python -m tests.suites.size_branches [NAME …]

Each module is converted to ONNX, and run at each of `SIZES` by PyTorch and by onnxruntime. At each size the artefact
must be right or raise an error; a module may also be refused as a whole, with an `Unsupported`. Anything else is
silent: other numbers or another shape without an error. The last column counts the silent sizes; the exit code is 1 if
there are any.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import nn

import convert
from convert.errors import ConvertError

SIZES = [
    (1, 1, 1), (1, 4, 4), (2, 2, 3), (2, 7, 5), (3, 8, 8), (4, 5, 12), (5, 6, 1), (6, 1, 9), (8, 16, 16), (9, 3, 32),
    (1, 33, 17), (7, 64, 3),
]  # fmt: skip
"""Sizes of x:float32[b,h,w]; y:float32[b,n,w] has n = 1 + 3 h % 8."""

ONE = {
    # -- odd and even -------------------------------------------------------------------------------------------------
    "both odd": "return x * 2 if x.shape[1] % 2 and x.shape[2] % 2 else x * 3",
    "either odd": "return x * 2 if x.shape[1] % 2 or x.shape[2] % 2 else x * 3",
    "padded to even": "return F.pad(x, (0, x.shape[2] % 2, 0, x.shape[1] % 2)) * 2",
    "cut to even": "h, w = x.shape[1] // 2 * 2, x.shape[2] // 2 * 2\nreturn x[:, :h, :w] * 2",
    "halves": "n = x.shape[1] // 2\nreturn torch.cat([x[:, n:], x[:, :n]], 1)",
    "a middle": "m = x.shape[1] // 2\nreturn x[:, m] if x.shape[1] % 2 else (x[:, m - 1] + x[:, m]) / 2",
    "alternating": "s = 1 if x.shape[0] % 2 == 0 else -1\nreturn s * x.flip(0)",
    "odd negative": "return x * 2 if -x.shape[1] % 2 else x * 3",
    # -- remainders ---------------------------------------------------------------------------------------------------
    "windows of four": "p = (4 - x.shape[2] % 4) % 4\nx = F.pad(x, (0, p))\n"
    "return x.reshape(x.shape[0], x.shape[1], -1, 4).amax(-1)",
    "padded when needed": "r = x.shape[2] % 4\nif r:\n    x = F.pad(x, (0, 4 - r))\n"
    "return x.unflatten(2, (-1, 4)).mean(-1)",
    "shifted windows": "s = 2 if x.shape[1] > 4 else 0\nreturn torch.roll(x, (-s,), (1,)) if s else x * 1.5",
    "roll by a remainder": "return torch.roll(x, x.shape[1] % 3, 1)",
    "reflected": "p = 3 - x.shape[2] % 3\nreturn F.pad(x, (0, p), 'reflect') if p < x.shape[2] else F.pad(x, (0, p))",
    "stride by size": "return x[:, :: 2 if x.shape[1] % 2 == 0 else 1]",
    "equal remainders": "return x + 1 if x.shape[1] % 3 == x.shape[2] % 3 else x - 1",
    "remainder of dims": "return x + x.shape[2] % x.shape[1]",
    # -- two dims -----------------------------------------------------------------------------------------------------
    "landscape": "return x.mT if x.shape[2] > x.shape[1] else x * 1",
    "letterbox": "h, w = x.shape[1:]\nd = abs(h - w)\n"
    "return F.pad(x, (0, 0, d // 2, d - d // 2)) if w > h else F.pad(x, (d // 2, d - d // 2))",
    "same dims": "return x @ x if x.shape[1] == x.shape[2] else x @ x.mT",
    "three dims": "b, h, w = x.shape\nreturn x + 1 if b < h < w else x - 1",
    "longest": "return x.mean(max(range(3), key=lambda i: x.shape[i]), keepdim=True)",
    "largest area": "return x + 1 if x.shape[0] * x.shape[1] > x.shape[1] * x.shape[2] else x - 1",
    "sum of dims": "return x * 2 if x.shape[0] + x.shape[1] == x.shape[2] else x * 3",
    "aspect": "r = x.shape[1] / x.shape[2]\nreturn x * r if r > 1 else x / r",
    "aspect rounded": "return x * round(x.shape[1] / x.shape[2], 1)",
    # -- min and max --------------------------------------------------------------------------------------------------
    "top k of few": "return x.topk(min(5, x.shape[2]), -1)[0]",
    "at least eight": "n = max(8, x.shape[1])\nreturn F.pad(x, (0, 0, 0, n - x.shape[1]))",
    "square crop": "n = min(x.shape[1:])\nreturn x[:, :n, :n] * 2",
    "kernel by size": "k = min(3, x.shape[2])\nreturn F.avg_pool1d(x, k, 1)",
    "groups": "g = min(4, x.shape[1])\nreturn x.reshape(x.shape[0], g, -1) if x.shape[1] % g == 0 else x * 2",
    "clamped": "return x.clamp(max=min(x.shape[1], 3) / 4)",
    "scale by most": "return x / max(x.shape[1] - 1, 1)",
    "cut and grown": "n = min(max(x.shape[1], 3), 9)\nx = x[:, :n]\nreturn F.pad(x, (0, 0, 0, n - x.shape[1]))",
    "least above two": "return x * min((n for n in x.shape if n > 2), default=-1)",
    "a ratio's minimum": "return x * min(x.shape[1] / 3, x.shape[2] / 2)",
    # -- lists --------------------------------------------------------------------------------------------------------
    "pieces in a list": "return torch.stack([p.sum((1, 2)) for p in x.split(4, 1)], 1)",
    "first and last piece": "p = x.split(4, 2)\nreturn p[0].sum(-1) + p[-1].sum(-1) * len(p)",
    "two pieces": "p = x.chunk(2, 1)\nreturn p[0] if len(p) == 1 else p[0].sum(1) + p[1].sum(1)",
    "rows in turn": "y = torch.zeros_like(x[:, 0])\nfor r in x.unbind(1):\n    y = y * 0.5 + r\nreturn y",
    "every second row": "return torch.stack([x[i] for i in range(0, x.shape[0], 2)])",
    "unfolded": "return x.unfold(2, 3, 2).sum(-1) if x.shape[2] >= 3 else x * 2",
    "number of windows": "y = x.unfold(2, 2, 2) if x.shape[2] > 1 else x[..., None]\nreturn y.sum(-1) / y.shape[2]",
    "pieces by dims": "return torch.cat([p.flip(1) for p in torch.tensor_split(x, 3, 1)], 1)",
    "positions": "return x + torch.cat([torch.full((1,), float(i)) for i in range(x.shape[2])])",
    # -- inner tensors ------------------------------------------------------------------------------------------------
    "pooled to one": "while x.shape[2] > 4:\n    x = F.max_pool1d(x, 2)\nreturn x",
    "pooled once": "y = F.max_pool1d(x, 2) if x.shape[2] > 1 else x\nreturn y * 2 if y.shape[2] % 2 else y * 3",
    "convolved": "y = F.conv1d(x.reshape(-1, 1, x.shape[2]), torch.ones(1, 1, 3), stride=2, padding=1)\n"
    "return y * 2 if y.shape[2] > 3 else y * 3",
    "down and up": "y = F.interpolate(F.avg_pool1d(x, 2, ceil_mode=True), scale_factor=2.0)\n"
    "return x + (y if y.shape == x.shape else y[..., : x.shape[2]])",
    "flattened": "y = x.flatten(1)\nreturn y * 2 if y.shape[1] > 20 else y * 3",
    "sliced": "y = x[:, 2:]\nreturn y.sum(1) if y.shape[1] else x.sum(1) * 5",
    "stepped": "y = x[:, ::3]\nreturn y + 1 if y.shape[1] * 3 == x.shape[1] else y - 1",
    "joined": "y = torch.cat([x, x[:, :2]], 1)\nreturn y + 1 if y.shape[1] % 4 == 0 else y - 1",
    "repeated": "y = x.repeat(1, 3, 1)\nreturn y + 1 if len(y[0]) % 2 else y - 1",
    "transposed": "y = x.mT\nreturn y + y.shape[1] if y.shape[1] > y.shape[2] else y - y.shape[2]",
    "squeezed": "y = x.squeeze()\nreturn y.sum() if y.dim() == 3 else y.sum() * 2",
    "squeezed one": "y = x.squeeze(2)\nreturn y.sum() * y.dim()",
    "written columns": "y = x.clone()\ny[:, :, 1:3] = 7\nreturn y",
    "written behind": "y = x.clone()\ny[:, 4:] += y[:, 4:].shape[1]\nreturn y",
    "written every second": "y = x.clone()\ny[:, ::2] = 5\ny[..., 1::2] *= 2\nreturn y",
    "counted columns": "y = x[:, : x.shape[2]]\nreturn y * y.shape[1]",
    "a whole shape": "return x * 2 if x.size() == torch.Size([1, 4, 4]) else x * 3",
    # -- views or copies, and writes to them --------------------------------------------------------------------------
    "a flat row": "x = x.clone()\nx[:, 0].flatten()[::2] = 7\nreturn x",
    "a copied row": "x = x.clone()\ny = x[:, :1].contiguous()\ny += 5\nreturn x",
    "a copied row's source": "x = x.clone()\ny = x[:, :1].contiguous()\nx += 5\nreturn y",
    "some copied rows": "x = x.clone()\ny = x[:, : min(4, x.shape[1])].contiguous()\ny += 5\nreturn x",
    "half of the rows": "x = x.clone()\ny = x[:, : x.shape[1] // 2].contiguous()\ny += 5\nreturn x",
    "every second row, flat": "x = x.clone()\ny = x[:, ::2].flatten()\ny += 5\nreturn x",
    "a turned picture": "x = x.clone()\ny = x.mT.contiguous()\ny += 5\nreturn x",
    "a turned picture, flat": "x = x.clone()\ny = x.mT.reshape(-1)\ny += 5\nreturn x",
    "a column": "x = x.clone()\nx[..., 0].reshape(-1).fill_(3)\nreturn x",
    "dims exchanged": "x = x.clone()\ny = x.permute(1, 0, 2).flatten(0, 1)\ny[::2] = 1\nreturn x",
    "in another format": "x = x.clone()\ny = x.mT.to(memory_format=torch.contiguous_format)\ny += 1\nreturn x",
    "contiguous rows": "y = x[:, : min(4, x.shape[1])]\nreturn x * 2 if y.is_contiguous() else x * 3",
    # -- computed numbers ---------------------------------------------------------------------------------------------
    "scaled by root": "return x * x.shape[2] ** -0.5",
    "a temperature": "return x / (1 + x.shape[1] / 10)",
    "an exponent": "return x * 0.5 ** x.shape[0]",
    "centre": "return x - (x.shape[2] - 1) / 2",
    "grid": "h, w = x.shape[1:]\nreturn x + torch.linspace(-1, 1, h)[:, None] + torch.linspace(0, w - 1, w) / w",
    "steps": "return x + torch.arange(0, x.shape[2]) * (2 / x.shape[2])",
    "a step of a range": "return x.mean() + torch.arange(0, 12, x.shape[0])",
    "a mask": "return x.masked_fill(torch.ones(x.shape[1], x.shape[2]).triu(x.shape[2] - x.shape[1] + 1).bool(), -1)",
    "a diagonal": "return x.tril(x.shape[2] - x.shape[1])",
    "one hot": "return x.sum(1) @ F.one_hot(torch.arange(x.shape[2]) % 3, 3).float()",
    "a name of the size": "return x * 2 if len(str(x.shape[1])) > 1 else x * 3",
    "a key with the size": "return x * {'1': 2.0, '4': 3.0}.get(f'{x.shape[1]}', 5.0)",
    "a formatted size": "return x * {'01': 2.0, '04': 3.0}.get('{:02}'.format(x.shape[1]), 5.0)",
    "the text of a shape": "return x * 2 if '3' in repr(x.shape) else x * 3",
    "bits": "return x * 2 if x.shape[1].bit_length() > 3 else x * 3",
    "power of two": "n = x.shape[1]\nreturn x * 2 if n & (n - 1) == 0 else x * 3",
    "next power of two": "n = 1\nwhile n < x.shape[2]:\n    n *= 2\nreturn F.pad(x, (0, n - x.shape[2]))",
    "a default of keys": "return x * {1: 2.0, 7: 3.0}.get(x.shape[1], 5.0)",
    "different sizes": "return x * len(set(x.shape))",
    "quotient and rest": "q, r = divmod(x.shape[1], 3)\nreturn x * q + r",
    "hash of a shape": "return x * {(1, 4, 4): 5.0, (2, 7, 5): 6.0}.get(tuple(x.shape), 7.0)",
    "a size kept": "self.seen = x.shape[1]\nreturn x * 2 if self.seen > 4 else x * 3",
    "contiguous": "return x * 2 if x.mT.is_contiguous() else x * 3",
    "strides": "return x * 2 if x.mT.stride(1) == 1 else x * 3",
    "order of dims": "return x * 2 if x.mT.dim_order() == (0, 2, 1) else x * 3",
    "order of turned dims": "return x * 2 if x.permute(2, 0, 1).dim_order()[0] == 1 else x * 3",
    "sizes by identity": "return x * 2 if x.shape[1] is x.shape[2] else x * 3",
    "addresses of sizes": "return x * len({id(n) for n in x.shape[1:]})",
    "a condition by identity": "return x * 2 if (x.shape[1] == x.shape[2]) is True else x * 3",
    "elements": "return x * 2 if x.nelement() > 50 else x * 3",
    "bytes": "return x * 2 if x.nbytes > 200 else x * 3",
    "view or reshape": "y = x.mT\nreturn (y.view(-1) if y.is_contiguous() else y.reshape(-1)) * 2",
    "a view that fails": "try:\n    return x.view(x.shape[0], 2, -1) * 2\nexcept RuntimeError:\n    return x * 3",
    "a view in fours that fails": "try:\n    return x.view(x.shape[0], -1, 4).sum(-1)\n"
    "except RuntimeError:\n    return x.sum(-1)",
    "a sum that fails": "try:\n    return x + x.mT\nexcept RuntimeError:\n    return x * 3",
}
"""Modules of one input, x:float32[b,h,w]."""

NUMBERS = {
    "new_tensor": "return x.sum() + x.new_tensor([h * w / 2, h // 3 + w ** 2])",
    "new_tensor scalar": "return x + x.new_tensor(h / 2)",
    "new_tensor nested": "return x.sum() + x.new_tensor([[h, w], [w, 2.5]])",
    "new_tensor dtype": "return x.sum() + x.new_tensor([h, w], dtype=torch.int64)",
    "tensor": "return x.sum() + torch.tensor([h * w / 2, h // 3 + w ** 2])",
    "tensor one": "return x + torch.tensor(h)",
    "tensor float": "return x + torch.tensor(h / 3)",
    "tensor dtype": "return x.sum() + torch.tensor([h, w], dtype=torch.float32)",
    "tensor of shape": "return x.sum() + torch.tensor(x.shape)",
    "tensor of bool": "return x.sum() + torch.tensor([h > 4, w > 4])",
    "as_tensor": "return x.sum() + torch.as_tensor([h, w])",
    "as_tensor one": "return x + torch.as_tensor(h * 0.5)",
    "asarray": "return x.sum() + torch.asarray([h, w])",
    "scalar_tensor": "return x + torch.scalar_tensor(h / 2)",
    "full": "return x + torch.full((w,), h / 2)",
    "full int": "return x + torch.full((1,), h * w)",
    "full_like": "return x + torch.full_like(x, h + 0.5)",
    "new_full": "return x + x.new_full((h, 1), w)",
    "fill_": "return x + torch.zeros(w).fill_(h)",
    "fill": "return x + torch.fill(torch.zeros(w), h / 2)",
    "masked_fill": "return x.masked_fill(x > 0, h / w)",
    "where": "return torch.where(x > 0, x, h / w)",
    "index_fill": "return x.index_fill(1, torch.tensor([0]), h / w)",
    "linspace": "return x + torch.linspace(0, h - 1, w)",
    "linspace frac": "return x + torch.linspace(-h / 2, h / 2, w)",
    "logspace": "return x + torch.logspace(0, 1 / h, w)",
    "arange end": "return x.sum() + torch.arange(h)",
    "arange frac": "return x.sum() + torch.arange(0, h, 0.5)",
    "arange step": "return x.sum() + torch.arange(0, 1, 1 / h)",
    "arange start": "return x.sum() + torch.arange(h, h + w)",
    "arange mul": "return x + torch.arange(w) * (h / w)",
    "range": "return x.sum() + torch.range(1, h)",
    "pad value": "return F.pad(x, (1, 1), value=h / 2)",
    "pad value int": "return F.pad(x, (h % 3, 1), value=w)",
    "clamp": "return x.clamp(-1 / h, w / 9)",
    "clamp_max": "return (x * 9).clamp_max(h)",
    "add alpha": "return torch.add(x, x, alpha=h)",
    "addcmul": "return torch.addcmul(x, x, x, value=1 / h)",
    "baddbmm": "return torch.baddbmm(x @ x.mT, x, x.mT, beta=h, alpha=1 / w)",
    "lerp": "return torch.lerp(x, x * 2, 1 / h)",
    "pow": "return x.abs() ** (1 / h)",
    "rpow": "return h ** x",
    "remainder": "return torch.remainder(x * 9, h)",
    "fmod": "return torch.fmod(x * 9, h)",
    "floor_divide": "return torch.floor_divide(x * 99, h)",
    "threshold": "return F.threshold(x, 1 / h, w)",
    "hardtanh": "return F.hardtanh(x, -1 / h, 1 / w)",
    "leaky": "return F.leaky_relu(x, 1 / h)",
    "elu": "return F.elu(x, 1 / h)",
    "celu": "return F.celu(x, 1.0 + h)",
    "softplus": "return F.softplus(x, h, w)",
    "softshrink": "return F.softshrink(x, 1 / h)",
    "hardshrink": "return F.hardshrink(x, 1 / h)",
    "nan_to_num": "return (x / (x > 0)).nan_to_num(h, w, -w)",
    "layer_norm eps": "return F.layer_norm(x, (w,), eps=1 / h)",
    "normalize": "return F.normalize(x, eps=h, dim=1)",
    "norm p": "return x.norm(p=h, dim=1)",
    "sdpa scale": "return F.scaled_dot_product_attention(x, x, x, scale=1 / h)",
    "gather idx": "return x[:, torch.tensor([h - 1, 0])]",
    "index put": "y = x.clone()\ny[:, h - 1] = w\nreturn y",
    "setitem": "y = x.clone()\ny[:] = h / 2\nreturn y",
    "eye": "return x @ torch.eye(w, h)",
    "one_hot": "return F.one_hot(torch.tensor([h - 1]), h) * x.sum()",
    "bincount": "return x.sum() + torch.bincount(torch.arange(3), minlength=h)",
    "ones times": "return x * (torch.ones(1) * h)",
    "tensor math": "return x / torch.tensor(w).sqrt()",
    "LongTensor": "return x.sum() + torch.LongTensor([h, w])",
    "FloatTensor": "return x.sum() + torch.FloatTensor([h, w])",
    "Tensor": "return x.sum() + torch.Tensor([h, w])",
    "hamming": "return x * torch.hamming_window(w)",
    "hann": "return x * torch.hann_window(w, periodic=False)",
    "hann of signal": "return x * torch.signal.windows.hann(w)",
    "correction": "return x.std(1, correction=b - 1)",
    "complex": "return torch.view_as_real(torch.complex(x, x * h))",
    "isclose": "return torch.isclose(x, x + 1 / h, atol=1 / w).float()",
    "eq": "return (torch.arange(w) == h).float() + x",
    "bucketize": "return torch.bucketize(x, torch.tensor([0, h])).float()",
    "dropout": "return F.dropout(x, 1 / h, False)",
    "cosine": "return F.cosine_similarity(x, x * 2, 1, eps=h)",
    "huber": "return F.huber_loss(x, x * 3, delta=h)",
    "smooth": "return F.smooth_l1_loss(x, x * 3, beta=h)",
    "margin": "return F.margin_ranking_loss(x, x * 2, x.sign(), margin=h)",
    "min": "return x * min(1, h / 10)",
}
"""Modules of one input whose arguments are Python numbers computed from its sizes b, h and w."""

TWO = {
    "as long": "return x + y if x.shape[1] == y.shape[1] else x * 3",
    "cut to the other": "n = min(x.shape[1], y.shape[1])\nreturn x[:, :n] * y[:, :n]",
    "padded to the other": "d = x.shape[1] - y.shape[1]\nreturn x + F.pad(y, (0, 0, 0, d)) if d >= 0 else x * 3",
    "resized to the other": "y = y if y.shape[1] == x.shape[1] else F.interpolate(y.mT, x.shape[1]).mT\nreturn x + y",
    "broadcast": "return x * y if y.shape[1] in (1, x.shape[1]) else x.sum(1) * y.sum(1)",
    "offset": "d = (y.shape[1] - x.shape[1]) // 2\n"
    "return torch.cat([x, y[:, d:]], 1) if d > 0 else torch.cat([x, y], 1)",
    "shapes": "return x - y if x.shape == y.shape else x * 2",
    "ranks of a sum": "return torch.cat([x, y], 1) * (2 if (x.shape[1] + y.shape[1]) % 2 else 3)",
}
"""Modules of two inputs, x:float32[b,h,w] and y:float32[b,n,w]."""

_SIZED = "b, h, w = x.shape\n"
_HEAD = """
import math

import torch
from torch import nn
from torch.nn import functional as F


class Made(nn.Module):
    def forward(self, {}):
"""


def made(name: str) -> nn.Module:
    """Return the module of this name."""
    body, arguments = (
        (TWO[name], "x, y") if name in TWO else (ONE[name] if name in ONE else _SIZED + NUMBERS[name], "x")
    )
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(
        compile(_HEAD.format(arguments) + "".join(f"        {line}\n" for line in body.split("\n")), "<made>", "exec"),
        names,
    )
    return names["Made"]().eval()


@dataclass
class Outcome:
    """The numbers of right, refused and silent sizes, and the reason if all are refused."""

    right: int = 0
    refused: int = 0
    silent: tuple[Any, ...] = ()
    why: str = ""


def outcome(name: str) -> Outcome:
    """Convert a module and run it at all sizes that its forward accepts."""
    module = made(name)
    inputs = ["x:float32[b,h,w]"] + ["y:float32[b,n,w]"] * (name in TWO)
    try:
        proto = convert.to_onnx(module, inputs, verify=False)
    except ConvertError as error:
        return Outcome(why=str(error))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    draw, found = np.random.default_rng(0), Outcome()
    for b, h, w in SIZES:
        shapes = {"x": (b, h, w), "y": (b, 1 + 3 * h % 8, w)}
        feeds = {i.name: draw.standard_normal(shapes[i.name]).astype(np.float32) for i in session.get_inputs()}
        given = [
            torch.from_numpy(feeds.get(n, np.zeros(shapes[n], np.float32)).copy())
            for n in ("xy" if name in TWO else "x")
        ]
        try:
            want = module(*given).numpy()
        except Exception:
            continue  # sizes that forward rejects are skipped
        try:
            (got,) = session.run(None, feeds)
        except Exception:
            found.refused += 1
            continue
        if got.shape == want.shape and np.allclose(got, want, 1e-5, 1e-5, equal_nan=True):
            found.right += 1
        else:
            found.silent += ((b, h, w),)
    return found


def main() -> int:
    """Print a row for each module, and return 1 if one of them is silent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of modules; all where none is given")
    names = parser.parse_args().names or [*ONE, *NUMBERS, *TWO]
    warnings.simplefilter("ignore")
    silent = refused = partly = 0
    for name in names:
        found = outcome(name)
        silent, refused = silent + bool(found.silent), refused + bool(found.why)
        partly += bool(found.refused and not found.silent)
        print(
            f"{name:24} right {found.right:2}  refused {found.refused:2}  silent {found.silent or 0}  {found.why[:99]}",
            flush=True,
        )
    print(f"{len(names)} modules: {refused} refused, {partly} refuse some sizes, {silent} silent")
    return int(bool(silent))


if __name__ == "__main__":
    sys.exit(main())
