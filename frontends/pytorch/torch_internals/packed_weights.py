"""Packs the weights of quantized transposed convolutions for kernels that compute them right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_ENGINE = "qnnpack"
"""The kernels that compute these layers right."""


@contextmanager
def exact_transposed_convolutions(loaded: Any) -> Iterator[None]:
    """Give quantized ConvTranspose2d layers of a module weights that are packed for QNNPACK, for the time of a run.

    PyTorch 2.13 packs them for oneDNN on processors with VNNI, and for FBGEMM on others. oneDNN's results are wrong by
    many steps (4 → 6 channels, kernel and stride 2: 0.63 of 3.2), and so are FBGEMM's after loading from a file.
    """
    replaced: list[tuple[Any, torch.ScriptObject]] = []
    backend = torch.backends.quantized
    before = backend.engine
    if isinstance(loaded, torch.nn.Module) and _ENGINE in backend.supported_engines:
        for module in loaded.modules():
            packed = getattr(module, "_packed_params", None)
            if isinstance(packed, torch.ScriptObject) and _is_transposed(packed):
                replaced.append((module, packed))
    try:
        backend.engine = _ENGINE if replaced else before
        for module, packed in replaced:
            module._packed_params = _packed_again(packed)
        backend.engine = before
        yield
    finally:
        backend.engine = before
        for module, packed in replaced:
            module._packed_params = packed


def _is_transposed(packed: Any) -> bool:
    """Return whether packed weights are those of a transposed convolution of pictures."""
    return "Conv2d" in str(packed._type()) and bool(packed.transpose())


def _packed_again(packed: Any) -> Any:
    """Return the same weights, packed for the current engine."""
    weight, bias = torch.ops.quantized.conv_transpose2d_unpack(packed)
    how = packed.stride(), packed.padding(), packed.output_padding(), packed.dilation(), packed.groups()
    return torch.ops.quantized.conv_transpose2d_prepack(weight, bias, *how)
