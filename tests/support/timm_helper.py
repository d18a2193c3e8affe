"""timm's networks with random weights for tests, seeded and calibrated so that their outputs depend on their inputs."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn

NETWORKS = (
    "resnet18",
    "resnet50",
    "mobilenetv2_100",
    "mobilenetv3_small_100",
    "efficientnet_b0",
    "densenet121",
    "vgg11_bn",
    "convnext_atto",
    "vit_tiny_patch16_224",
    "regnetx_002",
)

# Operators of torchvision's compiled part; a CUDA build does not load with a CPU-only PyTorch.
_TORCHVISION_OPS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


@cache
def declare_torchvision_operators() -> None:
    """Declare the operators that `import torchvision` looks up, unless its compiled part loads and registers them.

    Registering an operator twice ends the process.
    """
    if _loads_compiled_part():
        return
    library = torch.library.Library("torchvision", "DEF")
    for schema in _TORCHVISION_OPS:
        library.define(schema)
    _kept.append(library)


_kept: list[torch.library.Library] = []


def _loads_compiled_part() -> bool:
    """Load the compiled part of torchvision; return False if it is missing or built for another PyTorch."""
    found = find_spec("torchvision")
    if found is None or found.origin is None:
        return False
    for library in Path(found.origin).parent.glob("_C*.so"):
        try:
            torch.ops.load_library(library)
        except OSError:
            continue
        return True
    return False


def create(name: str, size: int | None = None) -> nn.Module:
    """Return a network of timm in eval mode, for images [N, 3, size, size], with the same weights every time.

    One pass in train mode sets the statistics of its batch norms. Without it, activations of random networks grow or
    shrink until the output no longer depends on the input. Parameters that start at zero (layer scale, the last norm of
    a residual branch) become small random numbers, so that every branch counts.
    """
    declare_torchvision_operators()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import timm

        torch.manual_seed(0)
        module = timm.create_model(name, pretrained=False)
    size = size or module.default_cfg["input_size"][-1]
    generator = torch.Generator().manual_seed(2)
    # The distributions that `convert verify` samples. A random network amplifies rounding on other inputs.
    normal, uniform = (f(4, 3, size, size, generator=generator) for f in (torch.randn, torch.rand))
    return calibrated(module, torch.cat([normal, uniform]))


def calibrated(module: nn.Module, images: torch.Tensor) -> nn.Module:
    """Return `module` in eval mode, with batch statistics from `images` and no parameter that is all zero."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim <= 2 and parameter.abs().max() < 1e-5:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
        norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        momenta = [m.momentum for m in norms]
        for norm in norms:
            norm.momentum = None  # the plain average over all passes
            norm.reset_running_stats()
        module.train()
        if norms:
            module(images)
        module.eval()
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
    return module
