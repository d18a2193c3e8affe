"""Audio codecs of transformers, whose paddings are tensors of one number, against transformers itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.support.pytorch_tools import read, run
from tests.support.timm_helper import declare_torchvision_operators

declare_torchvision_operators()
transformers: Any = pytest.importorskip("transformers", reason="the codecs are transformers'")


class Padded(nn.Module):
    """A convolution that pads like those of transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 7, stride=3)
        self.register_buffer("kernel_size", torch.tensor(7), persistent=False)
        self.register_buffer("stride", torch.tensor(3), persistent=False)
        self.register_buffer("padding_total", torch.tensor(4), persistent=False)
        self.padding_left = torch.tensor(2, device="meta")  # as in Mimi loaded from a folder, whose forward ignores it

    def _get_extra_padding_for_conv1d(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[-1]
        steps = torch.ceil((length - self.kernel_size + self.padding_total) / self.stride + 1).to(torch.int64) - 1
        return steps * self.stride + self.kernel_size - self.padding_total - length

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        extra = self._get_extra_padding_for_conv1d(x)
        if x.shape[-1] <= max(self.padding_total, extra):
            x = F.pad(x, (0, 4))
        found: torch.Tensor = self.conv(F.pad(x, (self.padding_total, extra), "reflect"))  # type: ignore[arg-type]
        return found


@pytest.mark.slow
def test_paddings_follow_the_length() -> None:
    module = Padded().eval()
    model = read(module, "x:float32[batch,2,length]")
    for length in (9, 12, 22, 35):
        x = torch.randn(2, 2, length)
        np.testing.assert_allclose(run(model, x.numpy())[0], module(x).detach(), rtol=1e-6, atol=1e-6)
    assert dict(module.named_buffers()).keys() == {"kernel_size", "stride", "padding_total"}
    assert module.padding_left.is_meta
    assert not {"kernel_size", "_get_extra_padding_for_conv1d"} & set(vars(module))


@pytest.mark.slow
def test_encodec() -> None:
    sizes = {"num_filters": 4, "hidden_size": 16, "codebook_dim": 16, "codebook_size": 32, "num_lstm_layers": 1}
    kernels = {"kernel_size": 3, "last_kernel_size": 3, "num_residual_layers": 1, "target_bandwidths": [1.5]}
    torch.manual_seed(0)
    module = transformers.EncodecModel(transformers.EncodecConfig(**sizes, **kernels)).eval()
    for name, buffer in module.named_buffers():
        if name.endswith("embed"):
            buffer.copy_(torch.randn_like(buffer) / 10)
    model = read(module, "input_values:float32[batch,1,1500]")
    for batch in (1, 3):
        x = torch.randn(batch, 1, 1500)
        wanted = module(x)
        codes, sound = run(model, x.numpy())
        np.testing.assert_array_equal(codes, wanted.audio_codes)
        np.testing.assert_allclose(sound, wanted.audio_values.detach(), rtol=1e-5, atol=1e-6)
