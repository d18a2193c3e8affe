"""PyTorch programs of layers: state, hooks, parametrizations, branches on sizes, packed sequences, attention."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize

from tests.suites.programs.torch_program import b, f, i, program

ROWS4 = (f(4, 4), f(1, 4), f(7, 4))
STEPS = (f(2, 5, 4), f(1, 1, 4), f(3, 7, 4))
IMAGES = (f(2, 3, 8, 8), f(1, 3, 8, 8), f(3, 3, 8, 8))


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Cache(nn.Module):
    """Writes a row at a position that it counts."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(6, 4))
        self.register_buffer("at", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.rows[self.at % 6] = x.mean(0)
        self.at += 1
        return x + self.rows.sum(0)


class Momentum(nn.Module):
    """A module that replaces its buffer, and returns the old one too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        old = self.mean
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean, old


class Alias(nn.Module):
    """A buffer that is written through a view of it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(2, 4))

    def forward(self, x: Tensor) -> Tensor:
        row = self.table[1]
        row.add_(x.sum(0))
        self.table.view(-1)[:2].mul_(0.5).add_(1)
        return x @ self.table.t()


class Normalized(nn.Module):
    """A norm that updates its statistics in eval mode, because its owner sets that."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.register_buffer("spread", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.seen, self.spread, training=x.dim() == 2, momentum=0.3)


class Ways(nn.Module):
    """Branches on data, on one path again, and returns an intermediate result or something else."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.rows = nn.Linear(4, 4), nn.Linear(4, 4), nn.Embedding(5, 4)

    def forward(self, x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        h = self.first(x)
        if (n > 2).any():
            h = h + self.rows(n)
            if h.sum() > 0:
                h = self.second(h)
        else:
            h = h * 2
        if h.max().item() > 1:
            return h.relu(), n
        return h, n + 1


def asked_twice(x: Tensor, n: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Branch on a value that is computed a second time, with a constant that is stored twice."""
    first, second = (n * torch.tensor(2) > 3), (n * 2 > 3)
    if first.any():
        return x + second[:, None], x.exp() * 2, x - 1
    return (x * 3).sin() + 1, (x * 4).cos() - second[:, None].float(), (x * 5).tanh().square()


class Counter(nn.Module):
    """Changes its state in different ways, depending on the data."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sums", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            self.sums.add_(x.mean(0))
        else:
            self.sums.mul_(0.5)
        return x + self.sums


class Forces(nn.Module):
    """An energy, and its negative gradient by position."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x.requires_grad_(True)
        with torch.enable_grad():
            total = self.energy(x).square().sum()
            (gradient,) = torch.autograd.grad(total, x)
        return total, -gradient


class Slopes(Forces):
    """Gradients of each row separately, and the Jacobian of a layer."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        slopes = torch.vmap(torch.func.grad(lambda row: self.energy(row).sum()))(x)
        return slopes, torch.vmap(torch.func.jacrev(self.energy[:2]))(x)


class Curvatures(Forces):
    """Second derivatives, and first derivatives in forward mode."""

    def forward(self, x: Tensor, along: Tensor) -> tuple[Tensor, ...]:
        hessian = torch.vmap(torch.func.hessian(lambda row: self.energy(row).squeeze(-1)))(x)
        columns = torch.vmap(torch.func.jacfwd(self.energy[:2]))(x)
        return hessian, columns, *torch.func.jvp(self.energy, (x,), (along,))


class Policy(nn.Module):
    """A distribution, whose class checks its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.mean, self.value = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        seen = torch.tanh(self.body(x))
        chance = torch.distributions.Normal(self.mean(seen), torch.ones(2))
        return chance.mean, chance.log_prob(chance.mean + 0.1).sum(-1), chance.entropy().sum(-1), self.value(seen)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, n: Tensor) -> Tensor:
        return self.out(self.embed(n))


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.fc.register_forward_hook(lambda module, args, out: out * 2)
        self.fc.register_forward_pre_hook(lambda module, args: (args[0] + 1,))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


class Symmetric(nn.Module):
    def forward(self, w: Tensor) -> Tensor:
        return w.triu() + w.triu(1).mT


class Parametrized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = parametrizations.weight_norm(nn.Linear(4, 4))
        self.b = parametrizations.spectral_norm(nn.Linear(4, 4))
        self.c = nn.Linear(4, 4)
        parametrize.register_parametrization(self.c, "weight", Symmetric())
        self.d = nn.utils.weight_norm(nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.d(self.c(self.b(self.a(x))))


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(4, 3), nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        weight, which = self.gate(x).softmax(-1).topk(2, -1)
        each = torch.stack([expert(x) for expert in self.experts], 1)
        return (each.gather(1, which.unsqueeze(-1).expand(-1, -1, 4)) * weight.unsqueeze(-1)).sum(1)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.layer = kind(4, 3, batch_first=True, **options)

    def forward(self, x: Tensor) -> Any:
        return self.layer(x)


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(4, 3, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
        out, _ = self.layer(packed)
        return nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=5)[0]


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor, padded: Tensor) -> tuple[Tensor, Tensor]:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.heads(x, x, x, key_padding_mask=padded & (torch.arange(x.shape[1]) > 0), attn_mask=mask)


class Relative(nn.Module):
    """Attention by hand, with a bias by distance."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.bias = nn.Linear(4, 12), nn.Embedding(33, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (2, 2)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        at = torch.arange(x.shape[1])
        bias = self.bias((at[:, None] - at[None]).clamp(-16, 16) + 16).permute(2, 0, 1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(-2)


class Transformed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True), 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x, mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1]), is_causal=True)


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 6, 3, 2, "valid", groups=3), nn.ConvTranspose2d(6, 3, 3, 2, output_padding=1)
        self.norm, self.mix = nn.GroupNorm(3, 6), nn.PixelShuffle(2)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.norm(self.a(x)).relu_()
        return (
            self.b(y),
            F.max_pool2d(y, 2, ceil_mode=True),
            F.adaptive_avg_pool2d(y, 2),
            self.mix(x.repeat(1, 4, 1, 1)),
        )


class Upper(nn.Module):
    """Python values select its branch and its scale."""

    def __init__(self) -> None:
        super().__init__()
        self.steps, self.kind = 3, "relu"
        self.acts = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})

    def forward(self, x: Tensor) -> dict[str, Any]:
        seen = []
        for step in range(self.steps):
            x = self.acts[self.kind if step % 2 == 0 else "tanh"](x + step)
            seen.append(x)
        return {"last": x, "all": torch.stack(seen), "pair": Pair(seen[0], seen[1])}


class Conditional(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x,))


def counted(x: Tensor) -> tuple[Tensor, Tensor]:
    """Run a while loop whose number of iterations depends on the data."""
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda n, x: n < x.shape[0] + 2, lambda n, x: (n + 1, x * 0.5 + n), (torch.tensor(0), x))


def scanned(x: Tensor) -> tuple[Tensor, Tensor]:
    from torch._higher_order_ops.scan import scan

    return scan(lambda c, row: (c * 0.5 + row, (c + row).clone()), torch.zeros(4), x, dim=0)


def by_size(x: Tensor) -> Tensor:
    return x[:2] * 2 if x.shape[0] >= 2 else x * 3


MODULES = [
    program("cache", Cache, *ROWS4, state={"rows": lambda m: m.rows, "at": lambda m: m.at}),
    program("momentum", Momentum, *ROWS4, state={"mean": lambda m: m.mean}),
    program("alias", Alias, *ROWS4, state={"table": lambda m: m.table}),
    program("statistics in eval", Normalized, f(4, 4), f(2, 4), f(9, 4),
            state={"seen": lambda m: m.seen, "spread": lambda m: m.spread}),
    program("tied", Tied, i(4, high=9), i(1, high=9), i(7, high=9)),
    *(program(c.__name__, c, *ROWS4) for c in (Hooked, Parametrized, Experts, Upper, Conditional)),
    *(program(c.__name__, c, *STEPS) for c in (Relative, Transformed)),
    program("Attends", Attends, (f(2, 5, 4), b(2, 5)), (f(1, 1, 4), b(1, 1)), (f(3, 7, 4), b(3, 7))),
    program("Convolved", Convolved, *IMAGES),
    program("lstm", lambda: Recurrent(nn.LSTM, num_layers=2, proj_size=2), *STEPS, factory=True),
    program("gru", lambda: Recurrent(nn.GRU, bidirectional=True), *STEPS, factory=True),
    program("rnn", lambda: Recurrent(nn.RNN, nonlinearity="relu"), *STEPS, factory=True),
    program("Packed", Packed, (f(2, 5, 4), torch.tensor([3, 5])), (f(3, 5, 4), torch.tensor([1, 5, 2]))),
    program("batch norm of training", lambda x: F.batch_norm(x, None, None, training=True), f(4, 4), f(2, 4)),
    program("custom autograd function", lambda x: Square.apply(x).sum(1), *ROWS4),
    program("while loop", counted, *ROWS4),
    program("scan", scanned, *ROWS4),
    program("vmap", lambda x: torch.vmap(lambda r: r.softmax(0) @ r)(x), *ROWS4),
    program("gradient", lambda x: torch.func.grad(lambda y: (y**3).sum())(x), *ROWS4),
    program("Forces", Forces, *ROWS4),
    program("Policy", Policy, *ROWS4),
    program("Slopes", Slopes, *ROWS4),
    program("Curvatures", Curvatures, *((f(n, 4), f(n, 4, seed=1)) for n in (4, 1, 7))),
    program("checkpoint", lambda x: torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False), *ROWS4),
    program("long enough", by_size, f(4, 4), f(2, 4), f(9, 4)),
    program("even", lambda x: x.reshape(-1, 2, 4).sum(1) if x.shape[0] % 2 == 0 else x, f(4, 4), f(2, 4), f(8, 4)),
    program("last frame", lambda x: F.pad(x, (0, 0, 0, 1))[:, 1:] + x, *STEPS),
    program("losses", lambda x: (F.cross_entropy(x, x.argmax(1)), F.mse_loss(x, x.flip(1)), F.smooth_l1_loss(x, x * 0)),
            *ROWS4),
    program("normalized", lambda x: (F.normalize(x), F.layer_norm(x, (4,)), F.rms_norm(x, (4,))), *ROWS4),
    program("activations", lambda x: (F.gelu(x, approximate="tanh"), F.glu(x), F.hardswish(x), F.softplus(x, 2, 1),
                                      F.elu(x, 0.3), F.celu(x, 0.7), F.mish(x), F.logsigmoid(x),
                                      F.threshold(x, 0.1, 9)),
            *ROWS4),
    program("bilinear", lambda: nn.Sequential(nn.Unflatten(1, (2, 2)), nn.Flatten(), nn.Linear(4, 2)), *ROWS4,
            factory=True),
    program("upsampled", lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(3, 4, 3, padding="same")),
            *IMAGES, factory=True),
    program("pools", lambda x: (F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.lp_pool2d(x, 2, 2),
                                F.max_pool2d(x, 3, 1, 1, 2), F.adaptive_max_pool2d(x, 3)), *IMAGES),
    program("unfold and fold", lambda x: F.fold(F.unfold(x, 2, stride=2), (8, 8), 2, stride=2), *IMAGES),
    program("channels", lambda x: (F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 3), x.permute(0, 2, 3, 1)), *IMAGES),
    program("Ways", Ways, *((x * scale, n * k) for x, n in ((f(4, 4), i(4)), (f(1, 4), i(1)), (f(5, 4, seed=2), i(5)))
                            for scale, k in ((1.0, 1), (-1.0, 1), (9.0, 0), (0.01, 0)))),
    program("asked twice", asked_twice, (f(4, 4), i(4)), (f(2, 4), i(2) * 0), (f(3, 4), i(3) + 3)),
    program("Counter", Counter, f(4, 4).abs(), -f(2, 4).abs(), f(3, 4, seed=3), state={"sums": lambda m: m.sums}),
    program("wider on one way", lambda x: torch.cat([x, x], 1) if x.sum() > 0 else x, f(4, 4).abs(), -f(2, 4).abs()),
    program("segment by where", lambda x, n: torch.stack([torch.where((n == k)[:, None], x, 0).sum(0) for k in (0, 1)]),
            (f(4, 4), i(4)), (f(1, 4), i(1))),
]  # fmt: skip
