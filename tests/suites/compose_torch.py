"""PyTorch programs of `compose.py`: generate them, run them, make modules of them, print them as scripts."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.suites import compose_torch_layers  # noqa: F401  (adds its rows)
from tests.suites.compose_judge import COPIES, FREE, MEANS, SHARES, UNDECLARED, moved, seeds
from tests.suites.compose_program import (
    LARGEST,
    MOST_ELEMENTS,
    Draw,
    Input,
    NoSuchValue,
    Program,
    Step,
    chosen_outputs,
    draw_inputs,
)
from tests.suites.compose_torch_ops import ROWS


def fixed(seed: int, *shape: int) -> nn.Parameter:
    """A constant of the model."""
    return nn.Parameter(torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)))


def table(seed: int, high: int, *shape: int) -> nn.Buffer:
    """A constant of integers."""
    return nn.Buffer(torch.from_numpy(np.random.default_rng(seed).integers(0, high, shape)))


def made(code: str, seed: int) -> nn.Module:
    """Return a layer whose weights and statistics are not trivial."""
    torch.manual_seed(seed)
    layer = eval(code, NAMES)
    for name, tensor in [*getattr(layer, "named_buffers", dict)()]:
        if name.endswith("running_mean"):
            tensor.normal_(0, 0.3)
        elif name.endswith("running_var"):
            tensor.uniform_(0.5, 1.5)
    for m in getattr(layer, "modules", list)():
        if hasattr(m, "running_mean") and m.affine:
            m.weight.data.uniform_(0.5, 1.5)
            m.bias.data.normal_(0, 0.3)
    return layer.eval() if isinstance(layer, nn.Module) else layer


MAY_BE_EMPTY = {"narrow", "permute", "flatten", "binary", "cat"}
NAMES = {"torch": torch, "nn": nn, "F": F, "fixed": fixed, "table": table}


class Net(nn.Module):
    """A program as a module; `walk` gives all values."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        for step in program.steps:
            for name, code in step.layers:
                if not hasattr(self, name):
                    setattr(self, name, made(code, int(name[1:])))
        self.names = [i.name for i in program.inputs]
        self.outputs = program.outputs
        lines = [f"    {s.name} = {s.code}" for s in program.steps]
        text = "\n".join(
            [f"def run(self, {', '.join(self.names)}):", *lines, f"    return ({', '.join(self.outputs)},)"]
        )
        space = dict(NAMES)
        exec(compile(text, "<program>", "exec"), space)
        # A separate class, whose forward names the inputs.
        self.__class__ = type("Net", (Net,), {"forward": space["run"]})
        self.steps = [(s, compile(s.code, "<step>", "eval")) for s in program.steps]

    def walk(
        self, feed: dict[str, torch.Tensor], seed: int | None = None, declared: Mapping[str, float] = UNDECLARED
    ) -> dict[str, torch.Tensor]:
        """Return all values.

        With a seed, each value computed in float64 is perturbed, by the error that is declared for the ONNX operator of
        the same name if there is one.
        """

        def settled(value: torch.Tensor, operator: str = "", whole: bool = False, code: str = "") -> torch.Tensor:
            copied = not whole and (not operator or operator in COPIES)
            if seed is None or (copied and seed >= FREE) or value.dtype != torch.float64 or not value.numel():
                return value
            return torch.from_numpy(moved(value.numpy(), seed, operator, whole, _declared_of(code, declared)))

        env: dict[str, Any] = {name: settled(value) for name, value in feed.items()}
        for step, code in self.steps:
            free = seed is not None and seed >= FREE and step.operator in MEANS
            read = {name: settled(env[name], whole=True) for name in step.uses} if free else {}
            value = eval(code, {**NAMES, "self": self, **env, **read})
            env[step.name] = settled(value, step.operator, any(share in step.code for share in SHARES), step.code)
        return env


def _declared_of(code: str, declared: Mapping[str, float]) -> float:
    return max((amount for name, amount in declared.items() if f"{name.lower()}(" in code), default=0.0)


def tensors(feed: dict[str, np.ndarray], wide: bool = False) -> dict[str, torch.Tensor]:
    """Return a feed as tensors."""
    return {k: torch.from_numpy(v.astype(np.float64) if wide and v.dtype.kind == "f" else v) for k, v in feed.items()}


def references(
    program: Program, runs: int, declared: Mapping[str, float] = UNDECLARED
) -> list[dict[str, list[np.ndarray]]]:
    """Return the source's outputs for each input set: in float64, in float32, and perturbed in float64.

    declared: by ONNX operator, the error that a backend declares for negative results.
    """
    net = Net(program).eval()
    wide = copy.deepcopy(net).double()
    for norm in (m for m in wide.modules() if isinstance(m, nn.RMSNorm) and m.eps is None):
        norm.eps = torch.finfo(torch.float32).eps  # without a number this is the dtype's own
    found = []
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for feed in program.feeds:
            plain = net.walk(tensors(feed))
            torch.set_default_dtype(torch.float64)
            try:
                many = [wide.walk(tensors(feed, True), seed, declared) for seed in (None, *seeds(runs))]
            finally:
                torch.set_default_dtype(torch.float32)
            found.append({name: [v[name].numpy() for v in (many[0], plain, *many[1:])] for name in program.outputs})
    return found


def grown(rng: np.random.Generator, count: int) -> Program:
    """Generate a program of about `count` steps."""
    inputs, feeds = draw_inputs(rng)
    draw = Draw(rng, [dict(tensors(f)) for f in feeds])
    steps: list[Step] = []
    holder = nn.Module().eval()
    names, weights = list(ROWS), np.array([ROWS[n][1] for n in ROWS])
    tries = 0
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while len(steps) < count and tries < 60 * count:
            tries += 1
            row = names[int(rng.choice(len(names), p=weights / weights.sum()))]
            draw.begin()
            try:
                code = ROWS[row][0](draw)
                for name, text in draw.new.items():
                    if not hasattr(holder, name):
                        setattr(holder, name, made(text, int(name[1:])))
                found = [_step(code, holder, env) for env in draw.env]
            except Exception:  # any exception of PyTorch: these operands do not suit this operator
                found = []
            code, found = _tamed(code, found) if found else ("", [])
            if not found or not _sane(found, row):
                for name in set(draw.new) - set(draw.layers):
                    if hasattr(holder, name):
                        delattr(holder, name)
                continue
            name = f"v{len(steps)}"
            steps.append(Step(name, code, tuple(dict.fromkeys(draw.used)), tuple(draw.new.items()), row))
            draw.keep()
            draw.names.append(name)
            for env, value in zip(draw.env, found, strict=True):
                env[name] = value
    return Program("pytorch", inputs, tuple(steps), chosen_outputs(rng, steps), feeds)


def _step(code: str, holder: nn.Module, env: dict[str, torch.Tensor]) -> torch.Tensor:
    found = eval(code, {**NAMES, "self": holder, **env})
    if not isinstance(found, torch.Tensor) or found.dtype not in (torch.float32, torch.int64, torch.bool):
        raise NoSuchValue
    return found


def _tamed(code: str, found: list[torch.Tensor]) -> tuple[str, list[torch.Tensor]]:
    """Return the step, with large numbers scaled down."""
    if found[0].dtype != torch.float32:
        return code, found
    largest = max((float(v.abs().max()) for v in found if v.numel()), default=0.0)
    if largest <= LARGEST:
        return code, found
    if largest < 1e5:
        return f"({code}) * {4 / largest:.2g}", [v * float(f"{4 / largest:.2g}") for v in found]
    return f"torch.tanh({code})", [torch.tanh(v) for v in found]


def _sane(found: list[torch.Tensor], row: str) -> bool:
    empty = [not v.numel() for v in found]
    if all(empty) or (row not in MAY_BE_EMPTY and any(empty)):
        return False
    if any(v.numel() > MOST_ELEMENTS for v in found) or len({(v.dtype, v.ndim) for v in found}) != 1:
        return False
    if found[0].dtype == torch.int64:
        return all(not v.numel() or int(v.abs().max()) < 10000 for v in found)
    if found[0].dtype != torch.float32:
        return True
    return all(bool(torch.isfinite(v).all()) for v in found) and (
        not found[0].numel() or float(found[0].square().mean().sqrt()) > 1e-3
    )


def source(program: Program) -> nn.Module:
    """Return the module in a form that `convert` accepts."""
    return Net(program).eval()


def value_at(program: Program, name: str) -> list[np.ndarray]:
    """Return the value of a step in float32 for each feed."""
    net = Net(program).eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [net.walk(tensors(feed))[name].numpy() for feed in program.feeds]


def script(program: Program) -> list[str]:
    """Return lines of Python that build `module` and `inputs`."""
    layers = dict(pair for step in program.steps for pair in step.layers)
    return [
        "import torch, torch.nn as nn, torch.nn.functional as F",
        "from tests.suites.compose_torch import fixed, made, table",
        "class Net(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        *(f"        self.{name} = made({code!r}, {int(name[1:])})" for name, code in layers.items()),
        f"    def forward(self, {', '.join(i.name for i in program.inputs)}):",
        *(f"        {s.name} = {s.code}" for s in program.steps),
        f"        return {', '.join(program.outputs)},",
        "source = Net().eval()",
    ]


def specs(inputs: tuple[Input, ...]) -> list[str]:
    """Return the specs of the inputs by name."""
    return [i.spec() for i in inputs]
