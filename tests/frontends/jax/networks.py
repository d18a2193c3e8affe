"""Networks written in JAX, Flax NNX, Flax Linen and Equinox, each with the description of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import nnx
from jax import lax


@dataclass(frozen=True)
class Network:
    """A network to convert, and the specs of its inputs."""

    build: Callable[[], Any]
    inputs: str | list[str]


def weights(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Return random weights, each scaled by its number of inputs."""
    rng = np.random.default_rng(0)
    return [(rng.standard_normal(s) / np.sqrt(s[0] if len(s) > 1 else 4)).astype(np.float32) for s in shapes]


def mlp() -> Any:
    w, b, v, c = weights((8, 16), (16,), (16, 4), (4,))
    return jax.jit(lambda x: jax.nn.softmax(jax.nn.gelu(x @ w + b) @ v + c))


def masked_attention() -> Any:
    q, k, v, o = weights(*[(16, 16)] * 4)

    def split(x: Any, w: Any) -> Any:
        return (x @ w).reshape(x.shape[0], x.shape[1], 4, 4)

    def forward(x: Any, mask: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", split(x, q), split(x, k)) / 2
        scores = jnp.where(mask[:, None, None], scores, jnp.finfo(scores.dtype).min)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), split(x, v))
        return mixed.reshape(x.shape) @ o

    return jax.jit(forward)


def gpt_with_cache() -> Any:
    e, qkv, o, up, down = weights((32, 16), (16, 48), (16, 16), (16, 64), (64, 16))

    def norm(x: Any) -> Any:
        return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)

    def forward(token: Any, place: Any, keys: Any, values: Any) -> Any:
        x = jnp.asarray(e)[token][:, None]
        q, k, v = jnp.split(norm(x) @ qkv, 3, -1)
        zero = jnp.zeros_like(place)
        keys = lax.dynamic_update_slice(keys, k, (zero, place, zero))
        values = lax.dynamic_update_slice(values, v, (zero, place, zero))
        scores = jnp.einsum("bqd,bkd->bqk", q, keys) / 4
        scores = jnp.where(jnp.arange(keys.shape[1]) <= place, scores, -1e9)
        x = x + jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores), values) @ o
        x = x + jax.nn.silu(norm(x) @ up) @ down
        return x[:, 0] @ e.T, keys, values

    return jax.jit(forward)


def lstm() -> Any:
    w, u, b = weights((6, 32), (8, 32), (32,))

    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def forward(x: Any) -> Any:
        start = jnp.zeros((x.shape[0], 8))
        _, found = lax.scan(step, (start, start), x.transpose(1, 0, 2))
        return found.transpose(1, 0, 2)

    return jax.jit(forward)


def mamba() -> Any:
    a, b, c, d, o = weights((8,), (8, 4), (8, 4), (8, 8), (8, 8))

    def forward(x: Any) -> Any:
        delta = jax.nn.softplus(x @ d)
        decay = jnp.exp(-delta[..., None] * jnp.exp(a)[:, None] * jnp.ones(4))
        drive = delta[..., None] * (x @ b)[:, :, None] * x[..., None]
        found, _ = lax.scan(
            lambda h, v: (v[0] * h + v[1],) * 2, jnp.zeros((x.shape[0], 8, 4)),
            (decay.transpose(1, 0, 2, 3), drive.transpose(1, 0, 2, 3)),
        )  # fmt: skip
        states = lax.associative_scan(
            lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (decay, drive), axis=1
        )[1]  # fmt: skip
        return jnp.einsum("btcn,btn->btc", states, x @ c) @ o + found.sum((1, 2))[:, None, None]

    return jax.jit(forward)


def moe() -> Any:
    router, up, down = weights((8, 4), (4, 8, 16), (4, 16, 8))

    def forward(x: Any) -> Any:
        gates, chosen = lax.top_k(jax.nn.softmax(x @ router), 2)
        gates = gates / gates.sum(-1, keepdims=True)
        share = (jax.nn.one_hot(chosen, 4) * gates[..., None]).sum(1)
        each = jnp.einsum("beh,ehd->bed", jax.nn.relu(jnp.einsum("bd,edh->beh", x, up)), down)
        return jnp.einsum("be,bed->bd", share, each)

    return jax.jit(forward)


def gnn() -> Any:
    w, v = weights((6, 8), (8, 8))

    def forward(nodes: Any) -> Any:
        senders, receivers = jnp.array([0, 1, 2, 3, 4, 0]), jnp.array([1, 2, 3, 4, 0, 2])
        h = jnp.tanh(nodes @ w)
        for _ in range(2):
            sums = jax.ops.segment_sum((h @ v)[senders], receivers, 5)
            count = jax.ops.segment_sum(jnp.ones(6), receivers, 5)
            h = jnp.tanh(h + sums / jnp.maximum(count, 1)[:, None])
        return h.mean(0)

    return jax.jit(forward)


class Block(nn.Module):
    """A residual block with batch norms."""

    features: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        h = nn.Conv(self.features, (3, 3), strides=2)(x)
        h = nn.relu(nn.BatchNorm(use_running_average=True)(h))
        h = nn.BatchNorm(use_running_average=True)(nn.Conv(self.features, (3, 3))(h))
        return nn.relu(h + nn.Conv(self.features, (1, 1), strides=2)(x))


class ResNet(nn.Module):
    """Two residual blocks, pools and a head."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.max_pool(nn.relu(nn.Conv(8, (3, 3))(x)), (2, 2), (2, 2))
        x = Block(16)(Block(8)(x))
        return nn.Dense(5)(nn.avg_pool(x, (2, 2), (2, 2)).mean((1, 2)))


class ViT(nn.Module):
    """Patches, a class token and two layers of attention."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Conv(16, (4, 4), (4, 4))(x)
        x = x.reshape(x.shape[0], -1, 16)
        token = self.param("token", nn.initializers.normal(), (1, 1, 16))
        x = jnp.concatenate([jnp.broadcast_to(token, (x.shape[0], 1, 16)), x], 1)
        x = x + self.param("places", nn.initializers.normal(), (1, 17, 16))
        for _ in range(2):
            x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x))
            x = x + nn.Dense(16)(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x))))
        return nn.Dense(5)(nn.LayerNorm()(x)[:, 0])


class UNet(nn.Module):
    """Downsampling, upsampling by a transposed convolution, and a skip connection; with group norm and a time step, as
    in denoisers.
    """

    @nn.compact
    def __call__(self, x: Any, t: Any) -> Any:
        angles = t[:, None] * jnp.exp(-jnp.arange(4) / 2.0)
        time = nn.Dense(8)(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1))
        high = nn.silu(nn.GroupNorm(4)(nn.Conv(8, (3, 3))(x)) + time[:, None, None])
        low = nn.silu(nn.Conv(16, (3, 3), strides=2)(high))
        back = nn.ConvTranspose(8, (2, 2), strides=(2, 2))(low)
        return nn.Conv(3, (3, 3))(jnp.concatenate([high, back], -1))


def linen(module: nn.Module, *inputs: tuple[int, ...]) -> Any:
    """Return a Linen module bound to variables other than the defaults, including statistics of batch norms."""
    variables = module.init(jax.random.key(0), *(jnp.ones(shape) for shape in inputs))
    rng = np.random.default_rng(1)
    moved = jax.tree_util.tree_map(lambda v: v + abs(rng.normal(0, 0.05, v.shape)).astype(np.float32), variables)
    return module.bind(moved)


class NnxMlp(nnx.Module):
    """Dense layers with norms, in NNX."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.first, self.norm = nnx.Linear(8, 16, rngs=rngs), nnx.LayerNorm(16, rngs=rngs)
        self.drop, self.rms = nnx.Dropout(0.1, deterministic=True, rngs=rngs), nnx.RMSNorm(16, rngs=rngs)
        self.last = nnx.Linear(16, 3, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.last(self.rms(self.drop(nnx.gelu(self.norm(self.first(x))))))


class NnxCnn(nnx.Module):
    """Convolutions and pools, in NNX."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.conv, self.norm = nnx.Conv(3, 8, (3, 3), rngs=rngs), nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
        self.head = nnx.Linear(8 * 16, 3, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = nnx.max_pool(nnx.relu(self.norm(self.conv(x))), (2, 2), (2, 2))
        return self.head(x.reshape(x.shape[0], -1))


class EqxNet(eqx.Module):
    """A network of Equinox for a single sample, mapped over the batch."""

    layers: list
    norm: eqx.nn.LayerNorm

    def __init__(self) -> None:
        one, two, three = jax.random.split(jax.random.key(0), 3)
        self.layers = [eqx.nn.Conv2d(3, 8, 3, key=one), eqx.nn.AvgPool2d(2, 2), eqx.nn.Linear(8 * 9, 12, key=two),
                       eqx.nn.MLP(12, 4, 16, 2, key=three)]  # fmt: skip
        self.norm = eqx.nn.LayerNorm(12)

    def one(self, x: Any) -> Any:
        x = self.layers[1](jax.nn.relu(self.layers[0](x)))
        return self.layers[3](self.norm(self.layers[2](x.reshape(-1))))

    def __call__(self, x: Any) -> Any:
        return jax.vmap(self.one)(x)


class EqxGru(eqx.Module):
    """A recurrent cell of Equinox under lax.scan."""

    cell: eqx.nn.GRUCell

    def __call__(self, x: Any) -> Any:
        def one(sequence: Any) -> Any:
            return lax.scan(lambda h, v: (self.cell(v, h),) * 2, jnp.zeros(8), sequence)[1]

        return jax.vmap(one)(x)


def causal_gpt() -> Any:
    """Return two causal blocks for any length, with a bias by distance."""
    embedding, bias, qkv, o, up, down = weights((32, 16), (8,), (16, 48), (16, 16), (16, 64), (64, 16))

    def forward(tokens: Any) -> Any:
        x = jnp.asarray(embedding)[tokens]
        length = jnp.arange(tokens.shape[1])
        far = jnp.clip(length[:, None] - length, 0, 7)
        mask = jnp.where(length[:, None] >= length, jnp.asarray(bias)[far], -1e9)
        for _ in range(2):
            q, k, v = jnp.split(jax.nn.standardize(x) @ qkv, 3, -1)
            mixed = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k) / 4 + mask)
            x = x + jnp.einsum("bqk,bkd->bqd", mixed, v) @ o
            x = x + jax.nn.gelu(jax.nn.standardize(x) @ up) @ down
        return x @ embedding.T

    return jax.jit(forward)


def fourier_mixer() -> Any:
    """Return a mixer with a Fourier transform in place of attention."""
    up, down = weights((8, 16), (16, 8))

    def forward(x: Any) -> Any:
        x = jax.nn.standardize(x + jnp.fft.fft2(x, norm="ortho").real)
        return jax.nn.standardize(x + jax.nn.gelu(x @ up, approximate=False) @ down).mean(1)

    return jax.jit(forward)


def gnn_with_edges() -> Any:
    """Return a graph network whose edges are an input of any number."""
    w, v = weights((6, 8), (8, 8))

    def forward(nodes: Any, senders: Any, receivers: Any) -> Any:
        h = jnp.tanh(nodes @ w)
        for _ in range(2):
            h = jnp.tanh(h + jax.ops.segment_sum((h @ v)[senders % 7], receivers % 7, 7))
        return h.max(0)

    return jax.jit(forward)


class DiffusionBlock(nn.Module):
    """Residual convolutions with the time step in between, and attention over the positions of an image."""

    @nn.compact
    def __call__(self, x: Any, t: Any) -> Any:
        h = nn.Conv(8, (3, 3))(nn.silu(nn.GroupNorm(2)(x)))
        h = h + nn.Dense(8)(nn.silu(t))[:, None, None]
        x = x + nn.Conv(8, (3, 3))(nn.silu(nn.GroupNorm(2)(h)))
        flat = nn.GroupNorm(2)(x).reshape(x.shape[0], -1, 8)
        return x + nn.MultiHeadDotProductAttention(2)(flat).reshape(x.shape)


class MobileNet(nn.Module):
    """Depthwise and pointwise convolutions with batch norms, and a squeeze of channels."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for features, step in ((8, 1), (16, 2)):
            x = nn.Conv(x.shape[-1], (3, 3), strides=step, feature_group_count=x.shape[-1], use_bias=False)(x)
            x = nn.relu6(nn.BatchNorm(use_running_average=True)(x))
            x = nn.hard_swish(nn.BatchNorm(use_running_average=True)(nn.Conv(features, (1, 1), use_bias=False)(x)))
            gate = nn.sigmoid(nn.Dense(features)(nn.relu(nn.Dense(4)(x.mean((1, 2))))))
            x = x * gate[:, None, None]
        return nn.Dense(5)(x.mean((1, 2)))


class Recurrent(nn.Module):
    """Flax's own recurrent layers, one in each direction."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        both = nn.Bidirectional(nn.RNN(nn.LSTMCell(8)), nn.RNN(nn.GRUCell(8)))(x)
        return nn.Dense(3)(both[:, -1])


class NnxTransformer(nnx.Module):
    """An encoder of NNX, with a mask."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.table, self.norm = nnx.Embed(20, 16, rngs=rngs), nnx.LayerNorm(16, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, 16, decode=False, rngs=rngs)
        self.up, self.down = nnx.Linear(16, 32, rngs=rngs), nnx.Linear(32, 16, rngs=rngs)

    def __call__(self, tokens: Any, mask: Any) -> Any:
        x = self.table(tokens)
        x = x + self.attention(self.norm(x), mask=mask[:, None, None])
        return (x + self.down(nnx.silu(self.up(self.norm(x))))).mean(1)


class NnxAutoencoder(nnx.Module):
    """Strided convolutions, then transposed ones."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.down = nnx.Conv(3, 8, (3, 3), strides=2, rngs=rngs)
        self.norm = nnx.GroupNorm(8, num_groups=2, rngs=rngs)
        self.up = nnx.ConvTranspose(8, 3, (4, 4), strides=2, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return nnx.sigmoid(self.up(nnx.leaky_relu(self.norm(self.down(x)))))


class EqxAttention(eqx.Module):
    """Attention and a gated layer of Equinox."""

    attention: eqx.nn.MultiheadAttention
    norm: eqx.nn.RMSNorm
    gate: eqx.nn.Linear

    def __init__(self) -> None:
        one, two = jax.random.split(jax.random.key(0))
        self.attention, self.norm = eqx.nn.MultiheadAttention(2, 8, key=one), eqx.nn.RMSNorm(8)
        self.gate = eqx.nn.Linear(8, 16, key=two)

    def one(self, x: Any) -> Any:
        y = jax.vmap(self.norm)(x)
        x = x + self.attention(y, y, y)
        left, right = jnp.split(jax.vmap(self.gate)(x), 2, -1)
        return left * jax.nn.sigmoid(right)

    def __call__(self, x: Any) -> Any:
        return jax.vmap(self.one)(x)


class EqxUNet(eqx.Module):
    """Convolutions of Equinox, channels first, with a skip connection."""

    layers: list

    def __init__(self) -> None:
        one, two, three = jax.random.split(jax.random.key(0), 3)
        down, up = eqx.nn.Conv2d(3, 8, 3, stride=2, padding=1, key=one), eqx.nn.ConvTranspose2d(8, 4, 2, 2, key=two)
        self.layers = [down, up, eqx.nn.Conv2d(7, 3, 1, key=three)]

    def one(self, x: Any) -> Any:
        up = self.layers[1](jax.nn.gelu(self.layers[0](x)))
        return self.layers[2](jnp.concatenate([x, up]))

    def __call__(self, x: Any) -> Any:
        return jax.vmap(self.one)(x)


def experts() -> Any:
    """Return a network in which each token goes to the expert that its router prefers; the expert's weights are
    gathered.
    """
    router, up, down = weights((8, 4), (4, 8, 16), (4, 16, 8))

    def forward(x: Any) -> Any:
        scores = jax.nn.softmax(x @ router)
        best = jnp.argmax(scores, -1)
        hidden = jax.nn.relu(jnp.einsum("bd,bdh->bh", x, jnp.asarray(up)[best]))
        found = jnp.einsum("bh,bhd->bd", hidden, jnp.asarray(down)[best])
        return found * jnp.take_along_axis(scores, best[:, None], 1)

    return jax.jit(forward)


NETWORKS = {
    "mlp": Network(mlp, "x:float32[batch,8]"),
    "attention with a mask": Network(masked_attention, ["x:float32[batch,tokens,16]", "mask:bool[batch,tokens]"]),
    "gpt with cache": Network(gpt_with_cache, ["token:int32[batch]", "place:int32[]", "keys:float32[batch,8,16]",
                                               "values:float32[batch,8,16]"]),
    "lstm": Network(lstm, "x:float32[batch,5,6]"),
    "mamba": Network(mamba, "x:float32[batch,6,8]"),
    "moe": Network(moe, "x:float32[batch,8]"),
    "gnn": Network(gnn, "nodes:float32[5,6]"),
    "linen resnet": Network(lambda: linen(ResNet(), (1, 32, 32, 3)), "x:float32[batch,32,32,3]"),
    "linen vit": Network(lambda: linen(ViT(), (1, 16, 16, 3)), "x:float32[batch,16,16,3]"),
    "linen unet": Network(lambda: linen(UNet(), (1, 8, 8, 3), (1,)), ["x:float32[batch,8,8,3]", "t:float32[batch]"]),
    "nnx mlp": Network(NnxMlp, "x:float32[batch,8]"),
    "nnx cnn": Network(NnxCnn, "x:float32[batch,8,8,3]"),
    "equinox": Network(EqxNet, "x:float32[batch,3,8,8]"),
    "causal gpt": Network(causal_gpt, "tokens:int32[batch,length]"),
    "fourier mixer": Network(fourier_mixer, "x:float32[batch,6,8]"),
    "gnn with edges": Network(gnn_with_edges, ["nodes:float32[7,6]", "senders:int32[edges]",
                                               "receivers:int32[edges]"]),
    "diffusion block": Network(lambda: linen(DiffusionBlock(), (1, 4, 4, 8), (1, 8)), ["x:float32[batch,4,4,8]",
                                                                                       "t:float32[batch,8]"]),
    "linen mobilenet": Network(lambda: linen(MobileNet(), (1, 8, 8, 3)), "x:float32[batch,8,8,3]"),
    "linen recurrent": Network(lambda: linen(Recurrent(), (1, 5, 6)), "x:float32[batch,5,6]"),
    "nnx transformer": Network(NnxTransformer, ["tokens:int32[batch,6]", "mask:bool[batch,6]"]),
    "nnx autoencoder": Network(NnxAutoencoder, "x:float32[batch,8,8,3]"),
    "equinox attention": Network(EqxAttention, "x:float32[batch,5,8]"),
    "equinox unet": Network(EqxUNet, "x:float32[batch,3,8,8]"),
    "experts": Network(experts, "x:float32[batch,8]"),
    "equinox gru": Network(lambda: EqxGru(eqx.nn.GRUCell(6, 8, key=jax.random.key(0))), "x:float32[batch,5,6]"),
}  # fmt: skip
