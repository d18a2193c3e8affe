"""Models of the zoo whose outputs are images or boxes: segmentation, detection, optical flow, diffusion, video."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from zoo_models import Built, Entry, images, pictures, stirred
from zoo_torchvision import give_kernels

from tests.support.timm_helper import calibrated

# -- segmentation -----------------------------------------------------------------------------------------------------


def segmentation(name: str, size: int = 64, **options: Any) -> Built:
    """A network of segmentation-models-pytorch with two classes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import segmentation_models_pytorch as smp

        torch.manual_seed(0)
        options = {"encoder_name": "resnet18", "encoder_weights": None, "classes": 2} | options
        return pictures(getattr(smp, name)(**options), size)


class _Out(nn.Module):
    """Return the entry `out` of the dict that torchvision's networks return."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)["out"]


def torchvision_segmentation(name: str) -> Built:
    from torchvision.models import segmentation as models

    torch.manual_seed(0)
    return pictures(_Out(getattr(models, name)(weights=None, weights_backbone=None, num_classes=4)), 64)


class UNet(nn.Module):
    """A U-Net of two scales, with transposed convolutions and concatenated halves."""

    def __init__(self) -> None:
        super().__init__()

        def block(a: int, b: int) -> nn.Module:
            return nn.Sequential(nn.Conv2d(a, b, 3, 1, 1), nn.InstanceNorm2d(b, affine=True), nn.LeakyReLU(0.01))

        self.a, self.b, self.c = block(3, 8), block(8, 16), block(16, 32)
        self.up_b, self.up_a = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.join_b, self.join_a = block(32, 16), block(16, 8)
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = self.b(nn.functional.max_pool2d(a, 2))
        c = self.c(nn.functional.max_pool2d(b, 2))
        b = self.join_b(torch.cat([self.up_b(c), b], 1))
        return self.out(self.join_a(torch.cat([self.up_a(b), a], 1))).softmax(1)


def unet() -> Built:
    torch.manual_seed(0)
    return Built(UNet().eval(), "x:float32[batch,3,height=16..,width=16..]")


# -- detection --------------------------------------------------------------------------------------------------------


class _OnePicture(nn.Module):
    """torchvision's detectors take a list of pictures and give a list of dicts."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        found = self.detector([image])[0]
        return found["boxes"], found["scores"], found["labels"]


def detector(name: str, size: int = 96, **options: Any) -> Built:
    """Return a detector of torchvision from image to boxes, non-maximum suppression included."""
    give_kernels()
    from torchvision.models import detection

    torch.manual_seed(0)
    module = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=5, **options)
    # Heads with random weights give scores of about 0 or 1. Weights that keep the scale of activations give scores in
    # between, which float32 can distinguish, and boxes inside the image.
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for path, parameter in module.named_parameters():
            if parameter.ndim > 1 and "backbone" not in path:
                gain = 0.2 if "bbox" in path or "regression" in path else 1.0
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.copy_(gain / parameter[0].numel() ** 0.5 * noise)
    calibrated(module.backbone, torch.stack([module.transform.normalize(image) for image in images(size)]))
    # The network's Python reads the number of boxes, so one run of it is traced.
    return Built(_OnePicture(module.eval()), f"image:float32[3,{size},{size}]", {"trace": True})


# -- the rest ---------------------------------------------------------------------------------------------------------


class _Pair(nn.Module):
    """RAFT's last estimate of the flow."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return self.module(first, second, num_flow_updates=2)[-1]


def optical_flow() -> Built:
    from torchvision.models.optical_flow import raft_small

    torch.manual_seed(0)
    shape = "float32[batch,3,128,128]"
    return Built(_Pair(raft_small(weights=None)).eval(), [f"first:{shape}", f"second:{shape}"])


def video() -> Built:
    from torchvision.models.video import r3d_18

    torch.manual_seed(0)
    module = calibrated(r3d_18(weights=None, num_classes=5), torch.randn(4, 3, 4, 32, 32))
    return Built(module, "x:float32[batch,3,4,32,32]")


def diffusion(name: str, inputs: list[str], **config: Any) -> Built:
    """Return a small denoiser or autoencoder of diffusers, with random weights."""
    import diffusers

    torch.manual_seed(0)
    module = getattr(diffusers, name)(**config)
    return Built(_Sample(stirred(module, 0.02)), inputs)


class _Sample(nn.Module):
    """Return diffusers' outputs without their class."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, sample: torch.Tensor, timestep: torch.Tensor | None = None,
                encoder_hidden_states: torch.Tensor | None = None) -> torch.Tensor:  # fmt: skip
        if timestep is None:
            return self.module(sample, return_dict=False)[0]
        if encoder_hidden_states is None:
            return self.module(sample, timestep, return_dict=False)[0]
        named = {"timestep": timestep, "encoder_hidden_states": encoder_hidden_states}
        return self.module(sample, **named, return_dict=False)[0]


NOISY = ["sample:float32[batch,4,16,16]", "timestep:int64[batch]"]
TEXT = "encoder_hidden_states:float32[batch,6,16]"
BLOCKS = {"block_out_channels": (16, 32), "norm_num_groups": 8, "layers_per_block": 1}
DENOISERS: dict[str, Callable[[], Built]] = {
    "unet-2d": partial(diffusion, "UNet2DModel", NOISY, sample_size=16, in_channels=4, out_channels=4,
                       down_block_types=("DownBlock2D", "AttnDownBlock2D"), attention_head_dim=8,
                       up_block_types=("AttnUpBlock2D", "UpBlock2D"), **BLOCKS),
    "unet-2d-condition": partial(diffusion, "UNet2DConditionModel", [*NOISY, TEXT], sample_size=16,
                                 cross_attention_dim=16, attention_head_dim=4,
                                 down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                                 up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), **BLOCKS),
    "autoencoder-kl": partial(diffusion, "AutoencoderKL", ["sample:float32[batch,3,32,32]"],
                              down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
                              latent_channels=4, **BLOCKS),
    "pixart": partial(diffusion, "PixArtTransformer2DModel", [*NOISY, TEXT], sample_size=16,
                               num_layers=2, num_attention_heads=4, attention_head_dim=8, in_channels=4,
                               out_channels=4, cross_attention_dim=32, caption_channels=16, patch_size=2,
                               use_additional_conditions=False),
}  # fmt: skip

ENTRIES = [
    *(Entry(f"smp-{name.lower()}", "segmentation", partial(segmentation, name))
      for name in ("Unet", "FPN", "PSPNet", "DeepLabV3Plus", "Linknet", "UnetPlusPlus", "UPerNet")),
    Entry("smp-pan", "segmentation", partial(segmentation, "PAN", 128)),  # the pyramid halves the size three times
    *(Entry(name.replace("_", "-"), "segmentation", partial(torchvision_segmentation, name))
      for name in ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "fcn_resnet50")),
    Entry("unet", "segmentation", unet),
    # Means that float32 represents exactly: a traced run rounds 0.485, the source in float64 does not.
    Entry("fasterrcnn", "detection",
          partial(detector, "fasterrcnn_mobilenet_v3_large_320_fpn", min_size=96, max_size=96,
                  box_detections_per_img=20, image_mean=[0.5] * 3, image_std=[0.25] * 3)),
    Entry("ssdlite", "detection", partial(detector, "ssdlite320_mobilenet_v3_large", 320, detections_per_img=20)),
    Entry("raft", "optical flow", optical_flow),
    Entry("r3d-18", "video", video),
    *(Entry(name, "diffusion", build) for name, build in DENOISERS.items()),
]  # fmt: skip
