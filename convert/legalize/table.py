"""The table of lowerings: how each operator is written out, and why ONNX's function body is not used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from convert.graph import Graph
from convert.legalize import older_forms, optimizers, plain_forms
from convert.legalize.attention import attention
from convert.legalize.bits import bitwise, bitwise_not
from convert.legalize.fourier import dft, mel_weight_matrix, stft
from convert.legalize.pools import global_lp_pool, lp_pool
from convert.legalize.quantize import (
    conv_integer,
    dequantize,
    dynamic_quantize,
    matmul_integer,
    qlinear_conv,
    qlinear_matmul,
    quantize,
)
from convert.legalize.recurrent import recurrent
from convert.legalize.regions import max_roi_pool, roi_align
from convert.legalize.replacement import Results
from convert.legalize.resize import resize
from convert.legalize.rotary import rotary_embedding
from convert.legalize.sampling import affine_grid, deform_conv, grid_sample
from convert.legalize.scatter import max_unpool, scatter_elements, scatter_nd, tensor_scatter
from convert.numerics import decision_trees, learners, lookups


@dataclass(frozen=True)
class Lowering:
    """How an operator is written out: `lower(g, node)` builds it in `g` and returns a value for each output.

    It returns None, or raises `Unsupported` with the reason, for a node that it does not accept. It builds at the opset
    of `g`, which is the node's own.
    """

    lower: Callable[[Graph, ir.Node], Results]
    why: str


NO_BODY = "ONNX has no function body for it"
_SAME = "as ONNX's function body, in the dtype and with the constants that runtimes use"
_VARIANCE = "ONNX's function body computes E[x²] − E[x]², which cancels far from zero"

LEARNERS: dict[str, Lowering] = {
    f"ai.onnx.ml::{name}": Lowering(lower, NO_BODY)
    for name, lower in {
        "ArrayFeatureExtractor": lookups.array_feature_extractor,
        "Binarizer": lookups.binarizer,
        "FeatureVectorizer": learners.feature_vectorizer,
        "Imputer": learners.imputer,
        "LabelEncoder": lookups.label_encoder,
        "LinearClassifier": learners.linear_classifier,
        "LinearRegressor": learners.linear_regressor,
        "Normalizer": learners.normalizer,
        "OneHotEncoder": learners.one_hot_encoder,
        "SVMClassifier": learners.support_vector_classifier,
        "SVMRegressor": learners.support_vector_regressor,
        "Scaler": learners.scaler,
        "TreeEnsemble": decision_trees.tree_ensemble,
        "TreeEnsembleClassifier": decision_trees.tree_classifier,
        "TreeEnsembleRegressor": decision_trees.tree_regressor,
    }.items()
}
"""Operators of ONNX-ML. If the attributes of such a node contradict each other, the file is damaged."""

_TRAINING = "ai.onnx.preview.training"

LOWERINGS: dict[str, Lowering] = {
    "AffineGrid": Lowering(affine_grid, "ONNX's function body chooses the rank when it runs, by an If"),
    "ArgMax": Lowering(older_forms.arg_last, "select_last_index only: " + NO_BODY),
    "ArgMin": Lowering(older_forms.arg_last, "select_last_index only: " + NO_BODY),
    "Attention": Lowering(attention, "ONNX's function body has sixty nodes"),
    "BitwiseAnd": Lowering(bitwise, NO_BODY),
    "BitwiseNot": Lowering(bitwise_not, NO_BODY),
    "BitwiseOr": Lowering(bitwise, NO_BODY),
    "BitwiseXor": Lowering(bitwise, NO_BODY),
    "CenterCropPad": Lowering(older_forms.center_crop_pad, "ONNX's function body computes sizes that are known"),
    "Col2Im": Lowering(older_forms.col2im, NO_BODY),
    "ConvInteger": Lowering(conv_integer, NO_BODY),
    "ConstantOfShape": Lowering(older_forms.constant_of_shape, NO_BODY),
    "DFT": Lowering(dft, NO_BODY),
    "DeformConv": Lowering(deform_conv, NO_BODY),
    "DequantizeLinear": Lowering(dequantize, NO_BODY),
    "DynamicQuantizeLinear": Lowering(dynamic_quantize, "ONNX's function body divides by 0 for zeros"),
    "Equal": Lowering(older_forms.equal, "floating numbers only: " + NO_BODY),
    "Erf": Lowering(older_forms.erf, NO_BODY),
    "GRU": Lowering(recurrent, NO_BODY),
    "Gelu": Lowering(plain_forms.gelu, _SAME),
    "GridSample": Lowering(grid_sample, NO_BODY),
    "GlobalLpPool": Lowering(global_lp_pool, NO_BODY),
    "GroupNormalization": Lowering(plain_forms.group_normalization, _VARIANCE),
    "HardSwish": Lowering(plain_forms.hard_swish, _SAME),
    "LSTM": Lowering(recurrent, NO_BODY),
    "LayerNormalization": Lowering(plain_forms.layer_normalization, _VARIANCE),
    "LpPool": Lowering(lp_pool, NO_BODY),
    "MatMulInteger": Lowering(matmul_integer, NO_BODY),
    "MaxRoiPool": Lowering(max_roi_pool, NO_BODY),
    "MaxUnpool": Lowering(max_unpool, NO_BODY),
    "MeanVarianceNormalization": Lowering(plain_forms.mean_variance_normalization, _VARIANCE),
    "MelWeightMatrix": Lowering(mel_weight_matrix, NO_BODY),
    "Mish": Lowering(plain_forms.mish, _SAME),
    "Mod": Lowering(plain_forms.mod, "floating numbers with fmod=0 only: " + NO_BODY),
    "QLinearConv": Lowering(qlinear_conv, NO_BODY),
    "QLinearMatMul": Lowering(qlinear_matmul, NO_BODY),
    "QuantizeLinear": Lowering(quantize, NO_BODY),
    "RMSNormalization": Lowering(plain_forms.rms_normalization, _SAME),
    "RNN": Lowering(recurrent, NO_BODY),
    "Resize": Lowering(resize, NO_BODY),
    "RoiAlign": Lowering(roi_align, NO_BODY),
    "RotaryEmbedding": Lowering(rotary_embedding, "ONNX's function body computes sizes that are known"),
    "STFT": Lowering(stft, NO_BODY),
    "ScatterElements": Lowering(scatter_elements, "reductions only: " + NO_BODY),
    "ScatterND": Lowering(scatter_nd, "reductions only: " + NO_BODY),
    "Swish": Lowering(plain_forms.swish, _SAME),
    "TensorScatter": Lowering(tensor_scatter, NO_BODY),
    "Trilu": Lowering(plain_forms.trilu, NO_BODY),
    f"{_TRAINING}::Adagrad": Lowering(optimizers.adagrad, NO_BODY),
    f"{_TRAINING}::Adam": Lowering(optimizers.adam, NO_BODY),
    f"{_TRAINING}::Momentum": Lowering(optimizers.momentum, NO_BODY),
    **LEARNERS,
}
"""Lowerings by operator.

`convert.passes.opset` uses them for old opsets, `write_out` for nodes that a backend declines.
"""
