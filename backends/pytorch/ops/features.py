"""Feature operators of ONNX-ML."""

from __future__ import annotations

import torch

from ..rules import onnx_op


@onnx_op("ai.onnx.ml::ArrayFeatureExtractor")
def array_feature_extractor(t, x, places):
    x = x[None] if x.dim() == 1 else x
    return torch.index_select(x, x.dim() - 1, places.reshape(-1).to(torch.int64))


@onnx_op("ai.onnx.ml::Binarizer")
def binarizer(t, x, *, threshold):
    return (x > threshold).to(x.dtype)
