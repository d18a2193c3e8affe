"""Rules for classical machine learning operators, as far as Caffe2 can compute them."""

from __future__ import annotations

import numpy as np

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..net import Net
from ..rules import onnx_op


@onnx_op("ai.onnx.ml::ArrayFeatureExtractor")
def array_feature_extractor(net: Net, x: Blob, places: Blob) -> Blob:
    """Select columns by index; a vector gives one row of them."""
    y = net.Gather(x, net.FlattenToVec(places), axis=net.rank(x) - 1)
    return net.ExpandDims(y, dims=[0]) if net.rank(x) == 1 else y


@onnx_op("ai.onnx.ml::Binarizer")
def binarizer(net: Net, x: Blob, *, threshold: float) -> Blob:
    return cast(net, net.GT(widen(net, x, FLOAT), net.const(np.float32(threshold))), x.dtype)
