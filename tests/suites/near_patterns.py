"""Convert small programs that almost match the patterns of runtimes' optimizers, with other numbers, dims or operands.

    python -m tests.suites.near_patterns [--forms onnx tf tf-frozen keras] [--match TEXT] [--onednn 1|0]

TensorFlow's optimizer with oneDNN, and onnxruntime's, recognize a GELU, a layer norm or a LeakyRelu by its operators,
and do not always check the constants. One of them took max(x, 1.5 · x) for a LeakyRelu; another computed the wrong
product for a transposed matrix times a vector. Each program is converted, run as its users run it (Keras in a graph) in
a process with oneDNN on, and compared with PyTorch.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[2]
FORMS = ("onnx", "tf", "tf-frozen", "keras")
ERROR = 2e-5
"""Tolerance relative to the largest element, or to 1: above the roundings of 256 products."""

Function = Callable[..., Tensor]
Program = tuple[Function, tuple[Tensor, ...]]


def _drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape)))


ROWS, MAPS = _drawn(3, 5, 8), _drawn(2, 4, 9, 8)
GAIN, BIAS, MATRIX, SEVEN = _drawn(8), _drawn(1, 8)[0], _drawn(8, 7), _drawn(7)
KERNEL, SIX = _drawn(6, 4, 3, 3), _drawn(6)
COLUMNS = _drawn(16, 3)

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda y: y,
    "relu": F.relu,
    "relu6": F.relu6,
    "relu3": lambda y: F.relu(y).clamp(max=3),
    "clamp": lambda y: y.clamp(-0.5, 0.7),
    "hardtanh": lambda y: F.hardtanh(y, -2, 0.5),
    "leaky_relu": F.leaky_relu,
    "leaky_relu 1.5": lambda y: F.leaky_relu(y, 1.5),
    "maximum 0.2": lambda y: torch.maximum(y, y * 0.2),
    "maximum 1.5": lambda y: torch.maximum(y * 1.5, y),
    "maximum / 0.5": lambda y: torch.maximum(y, y / 0.5),
    "minimum 0.5": lambda y: torch.minimum(y, y * 0.5),
    "prelu": lambda y: F.prelu(y, torch.full((1,), 0.2)),
    "elu": F.elu,
    "celu": F.celu,
    "selu": F.selu,
    "gelu": F.gelu,
    "mish": F.mish,
    "silu": F.silu,
    "silu 1.7": lambda y: y * torch.sigmoid(1.7 * y),
    "silu of another": lambda y: (y + 1) * torch.sigmoid(y),
    "mish of another": lambda y: (y + 1) * torch.tanh(F.softplus(y)),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softplus": F.softplus,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardswish of 1 and 4": lambda y: y * F.relu6(y + 1) / 4,
}


def gelus() -> Iterator[tuple[str, Function]]:
    """Return GELUs by erf and by tanh, with the right constants and with others."""
    for scale, half, one in itertools.product((math.sqrt(0.5), 0.7), (0.5, 0.4), (1.0, 0.9)):
        name = f"erf {scale:.3g} {half} {one}"
        yield name, lambda x, s=scale, h=half, o=one: x * h * (o + torch.erf(x * s))
        yield f"{name}, divided", lambda x, s=scale, h=half, o=one: x * (o + torch.erf(x / (1 / s))) * h
    for scale, cubed, half, power in itertools.product(
        (math.sqrt(2 / math.pi), 0.5), (0.044715, 0.1), (0.5, 0.3), (3, 2)
    ):
        name = f"tanh {scale:.3g} {cubed} {half} {power}"
        yield name, lambda x, s=scale, c=cubed, h=half, p=power: h * x * (1 + torch.tanh(s * (x + c * x**p)))


def norms() -> Iterator[tuple[str, Function]]:
    """Return layer and RMS norms written out, along other dims, with other epsilons and powers."""
    for dim, epsilon in itertools.product((-1, 1, (1, 2)), (1e-5, 0.1)):
        for root in ("** -0.5", "rsqrt", "1 / sqrt"):
            name = f"{dim} {epsilon} {root}"
            yield f"layer norm {name}", lambda x, d=dim, e=epsilon, r=root: _layer_norm(x, d, e, r, 0)
            yield f"layer norm in two {name}", lambda x, d=dim, e=epsilon, r=root: _layer_norm(x, d, e, r, 1)
            yield (
                f"layer norm of a sum {name}",
                lambda x, d=dim, e=epsilon, r=root: _layer_norm(x + BIAS, d, e, r, 0) + x,
            )
            yield f"rms norm {name}", lambda x, d=dim, e=epsilon, r=root: x * _root(x * x, d, e, r) * GAIN


def _root(squares: Tensor, dim: Any, epsilon: float, root: str) -> Tensor:
    mean = squares.mean(dim, keepdim=True) + epsilon
    return mean**-0.5 if root == "** -0.5" else torch.rsqrt(mean) if root == "rsqrt" else 1 / torch.sqrt(mean)


def _layer_norm(x: Tensor, dim: Any, epsilon: float, root: str, form: int) -> Tensor:
    mean = x.mean(dim, keepdim=True)
    factor = _root((x - mean).pow(2), dim, epsilon, root) * GAIN
    return x * factor + (BIAS - mean * factor) if form else (x - mean) * factor + BIAS


def products() -> Iterator[tuple[str, Function]]:
    """Return products of transposed, scaled and divided operands, with matrices and with vectors on either side."""
    for perm, scale in itertools.product(((0, 2, 1), (1, 0, 2), (2, 1, 0), (0, 1, 2)), (1.0, 0.5)):
        name, (*_, rows, columns) = f"{perm} {scale}", ROWS.permute(perm).shape
        turned = lambda x, p=perm: x.permute(p)  # noqa: E731
        right, left, last, first = _drawn(columns, 4), _drawn(4, rows), _drawn(columns), _drawn(rows)
        yield f"by itself {name}", lambda x, t=turned, s=scale: t(x) @ t(x).mT * s
        yield f"by a matrix {name}", lambda x, t=turned, s=scale, w=right: (t(x) * s) @ w
        yield f"of a matrix {name}", lambda x, t=turned, s=scale, w=left: w @ (t(x) / s)
        yield f"by a vector {name}", lambda x, t=turned, s=scale, w=last: t(x) @ w / s
        yield f"of a vector {name}", lambda x, t=turned, s=scale, w=first: w @ t(x) * s


def behind_layers() -> Iterator[tuple[str, Function, Tensor]]:
    """Return each activation after a layer, its bias, and a sum with another layer's output."""
    for name, act in ACTIVATIONS.items():
        yield f"{name} of a product", lambda x, a=act: a(x @ MATRIX + SEVEN), ROWS
        yield f"{name} of a sum of products", lambda x, a=act: a(x @ MATRIX + SEVEN + (x * 2) @ MATRIX), ROWS
        yield f"{name} of a convolution", lambda x, a=act: a(F.conv2d(x, KERNEL, SIX)), MAPS
        yield f"{name} of none with a bias", lambda x, a=act: a(F.conv2d(x, KERNEL)), MAPS
        yield f"{name} of a sum", lambda x, a=act: a(F.conv2d(x, KERNEL, SIX) + F.conv2d(x * 2, KERNEL)), MAPS
        yield f"{name} of a sum and a number", lambda x, a=act: a(F.conv2d(x, KERNEL, SIX) + 0.5), MAPS
        yield f"{name} of a scaled one", lambda x, a=act: a(F.conv2d(x, KERNEL) * SIX[:, None, None] + 0.5), MAPS
        yield f"{name} of one in three dims", lambda x, a=act: a(F.conv3d(x[:, :, None], KERNEL[:, :, None], SIX)), MAPS


def behind_activations() -> Iterator[tuple[str, Function, Tensor]]:
    """Return each activation after each fused activation; no kernel fuses two."""
    fused = ("relu", "relu6", "clamp", "leaky_relu", "elu", "gelu", "mish", "silu", "sigmoid", "tanh", "hardswish")
    for first, second in itertools.product(fused, ACTIVATIONS):
        one, other = ACTIVATIONS[first], ACTIVATIONS[second]
        yield f"{second} of {first} of a map", lambda x, f=one, g=other: g(f(F.conv2d(x, KERNEL, SIX))), MAPS
        yield f"{second} of {first} of a product", lambda x, f=one, g=other: g(f(x @ MATRIX + SEVEN)), ROWS[0]


def behind_biases() -> Iterator[tuple[str, Function, Tensor]]:
    """Return constants of other shapes after layers with a bias; an optimizer may swap the two."""
    line, volume = MAPS[:, :, 0], MAPS[:, :, None]
    layers: dict[str, tuple[Function, Tensor]] = {
        "a product": (lambda x: F.linear(x, MATRIX.T, SEVEN), ROWS[0]),
        "products": (lambda x: F.linear(x, MATRIX.T, SEVEN), ROWS),
        "a line": (lambda x: F.conv1d(x, KERNEL[..., 0], SIX), line),
        "a map": (lambda x: F.conv2d(x, KERNEL, SIX), MAPS),
        "groups": (lambda x: F.conv2d(x, KERNEL[:, :1].repeat(4, 1, 1, 1)[:12], SIX.repeat(2), groups=4), MAPS),
        "a volume": (lambda x: F.conv3d(x, KERNEL[:, :, None], SIX), volume),
        "a transposed one": (lambda x: F.conv_transpose2d(x, KERNEL.transpose(0, 1), SIX), MAPS),
    }
    for place, (layer, x) in layers.items():
        dims = layer(x).shape
        ones = [(1,) * n for n in range(1, len(dims) + 2)]
        long = [tuple(n if i == at else 1 for i, n in enumerate(dims)) for at in range(len(dims))]
        for shape in dict.fromkeys([*ones, *long, dims[-1:], dims[1:], dims]):
            constant = _drawn(*shape)
            other = constant.abs() + 0.5
            yield f"{place} and {shape}", lambda x, f=layer, c=constant: f(x) + c, x
            yield f"{shape} less {place}", lambda x, f=layer, c=constant: c - f(x), x
            yield f"{place} by {shape}", lambda x, f=layer, c=other: (f(x) - c) / c, x
            yield f"{place} and {shape} twice", lambda x, f=layer, c=constant: F.relu((c + f(x)) + c * 2), x


def behind_pads() -> Iterator[tuple[str, Function]]:
    """Return convolutions and pools behind pads of every dim."""
    spatial = ((1, 2, 0, 1), (2, 2, 2, 2), (-1, 0, 0, 1))
    others = ((0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 1, 1), (1, 0, 0, 1, 2, 0), (0, 0, 0, 0, 0, 0, 1, 0))
    for pads, value in itertools.product((*spatial, *others), (0.0, 1.0)):
        more = sum(pads[4:6])
        kernel, name = _drawn(6, 4 + more, 3, 3), f"{pads} {value}"
        padded = lambda x, p=pads, v=value: F.pad(x, p, value=v)  # noqa: E731
        yield f"a convolution {name}", lambda x, p=padded, k=kernel: F.conv2d(p(x), k, SIX)
        yield f"a padded one {name}", lambda x, p=padded, k=kernel: F.relu(F.conv2d(p(x), k, SIX, padding=1))
        yield f"in three dims {name}", lambda x, p=padded, k=kernel: F.conv3d(p(x)[:, :, None], k[:, :, None], SIX)
        yield f"a maximum {name}", lambda x, p=padded: F.max_pool2d(p(x), 2)
        yield f"a mean {name}", lambda x, p=padded: F.avg_pool2d(p(x), 3, 2, 1, ceil_mode=True)
        yield f"a mean without pads {name}", lambda x, p=padded: F.avg_pool2d(p(x), 3, 1, 1, count_include_pad=False)
    volumes = ((1, 1, 0, 0, 2, 0), (0, 0, 0, 0, 0, 0, 1, 0), (0, 0, 1, 1, 0, 0, 0, 2))
    for pads in volumes:
        kernel = _drawn(6, 4 + sum(pads[6:8]), 3, 3, 3)
        yield (
            f"a padded volume {pads}",
            lambda x, p=pads, k=kernel: F.conv3d(F.pad(x[:, :, None], p), k, SIX, padding=1),
        )


def behind_sizes() -> Iterator[tuple[str, Function, Tensor]]:
    """Return operators that do nothing to a dim of 1, after padded convolutions that would give such a dim without
    pads.
    """
    readers: dict[str, Callable[[Tensor], Tensor]] = {
        "a slice": lambda y: y[:, :, :1],
        "a slice of another dim": lambda y: y[:, :, :, :1],
        "a mean": lambda y: y.mean(2, keepdim=True),
        "a softmax": lambda y: F.softmax(y[:, :, :1], 2),
        "half": lambda y: y.chunk(2, 2)[0],
        "repeated": lambda y: y[:, :, -1:].expand(-1, -1, 3, *y.shape[3:]),
        "turned": lambda y: y[:, :, :1].movedim(1, -1),
    }
    uses: dict[str, Callable[[Tensor], Tensor]] = {
        "twice": lambda y: y * 2,
        "as rows": lambda y: y.reshape(y.shape[0], -1),
        "multiplied": lambda y: y @ COLUMNS[: y.shape[-1]],
    }
    for dims, bias, strides in itertools.product((2, 3), (None, SIX), (2, (2, 1, 1))):
        kernel, x = _drawn(6, 2, *(3,) * dims), _drawn(2, 2, *(3, 4, 3)[:dims])
        function = F.conv2d if dims == 2 else F.conv3d
        steps = strides if isinstance(strides, int) else strides[:dims]
        layer = lambda x, f=function, k=kernel, b=bias, s=steps: f(x, k, b, s, padding=1)  # noqa: E731
        for (what, read), (how, use) in itertools.product(readers.items(), uses.items()):
            name = f"{what} {how} of {dims} dims {'with' if bias is not None else 'without'} a bias {strides}"
            yield name, lambda x, f=layer, r=read, u=use: u(r(f(x))), x


def programs() -> dict[str, Program]:
    """Return every program by name, with its inputs."""
    found: dict[str, Program] = {}
    for kind, made, x in (("gelu", gelus(), ROWS), ("norm", norms(), ROWS), ("product", products(), ROWS)):
        found |= {f"{kind}: {name}": (function, (x,)) for name, function in made}
    found |= {f"layer: {name}": (function, (x,)) for name, function, x in behind_layers()}
    found |= {f"pair: {name}": (function, (x,)) for name, function, x in behind_activations()}
    found |= {f"bias: {name}": (function, (x,)) for name, function, x in behind_biases()}
    found |= {f"size: {name}": (function, (x,)) for name, function, x in behind_sizes()}
    return found | {f"pad: {name}": (function, (MAPS,)) for name, function in behind_pads()}


class Net(nn.Module):
    """A function of tensors as a module; the tensors that it reads are constants."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


REFUSED = "refused: "


def difference(name: str, form: str, folder: Path) -> str:
    """Return the error of a program in a format, or "". A refusal begins with `REFUSED`."""
    import convert
    from convert.errors import Unsupported
    from tests.support.run_targets import SUFFIXES

    function, inputs = programs()[name]
    want = function(*inputs).detach().numpy()
    path = folder / f"m.{SUFFIXES[form]}"
    try:
        convert.convert(Net(function).eval(), form, path, inputs=inputs, verify=False, force=True)
    except Unsupported as error:
        return f"{REFUSED}{error.message}"
    except convert.ConvertError as error:
        return error.message
    try:
        found = _run(form, path, inputs[0].numpy())
    except Exception as error:  # any error of the runtime
        return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    if found.shape != want.shape:
        return f"{found.shape} instead of {want.shape}"
    error = float(np.abs(found - want).max() / max(1.0, float(np.abs(want).max())))
    return f"{error:.3g} off" if not error <= ERROR else ""


def _run(form: str, path: Path, x: np.ndarray) -> np.ndarray:
    from tests.support.run_targets import run_target

    if form != "keras":
        return next(iter(run_target(form, path, [{"x": x}])[0].values()))
    import keras
    import tensorflow as tf

    model = keras.saving.load_model(path)
    call = tf.function(lambda value: model(value, training=False), autograph=False)  # in a graph, as `predict` runs it
    found = call(tf.constant(x))
    return np.asarray(next(iter(found.values())) if isinstance(found, dict) else found)


def run_child(form: str, names: list[str]) -> None:
    """Print a line of JSON for each program: its name, and what is wrong."""
    with tempfile.TemporaryDirectory(prefix="near-") as folder:
        for name in names:
            print(json.dumps([name, None]), flush=True)
            print(json.dumps([name, difference(name, form, Path(folder))]), flush=True)


def wrong_programs(form: str, names: list[str], onednn: str = "1") -> dict[str, str]:
    """Return the errors of these programs in a format, run in processes that may crash, with oneDNN on or off."""
    variables = {"TF_ENABLE_ONEDNN_OPTS": onednn, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}
    found: dict[str, str] = {}
    left = list(names)
    while left:
        command = [sys.executable, "-m", "tests.suites.near_patterns", "--child", form]
        told = subprocess.run(
            command, input=json.dumps(left), env={**os.environ, **variables}, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
        )  # fmt: skip
        lines = [json.loads(line) for line in told.stdout.splitlines() if line.startswith("[")]
        found |= {name: said for name, said in lines if said}
        ended = {name for name, said in lines if said is not None}
        begun = [name for name, _ in lines if name not in ended]
        found |= dict.fromkeys(begun, f"the process ended with {told.returncode}")
        if not lines:
            return found | dict.fromkeys(left, f"no process runs: {told.returncode}")
        left = [name for name in left if name not in ended and name not in begun]
    return found


def main() -> None:
    """Print what is wrong; the exit code is 1 if anything is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--forms", nargs="*", default=list(FORMS), choices=FORMS)
    parser.add_argument("--match", default="", help="only programs with this in their names")
    parser.add_argument("--onednn", default="1", choices=("1", "0"))
    parser.add_argument("--child", choices=FORMS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run_child(given.child, json.loads(sys.stdin.read()))
        return
    names = [name for name in programs() if given.match in name]
    bad = 0
    for form in given.forms:
        wrong = wrong_programs(form, names, given.onednn)
        refused = sum(said.startswith(REFUSED) for said in wrong.values())
        bad += len(wrong) - refused
        counts = f"{form}: {len(names)} programs, {refused} refused, {len(wrong) - refused} wrong"
        print("\n".join([*(f"{form} {name}: {said}" for name, said in wrong.items()), counts]), flush=True)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
