"""Operators that differ on special values and will stay so, by source and target, with the reason.

Differences of a runtime are declared in `DIFFERENCES` of its backend or frontend; `convert ops` and reports show them.
If a reason here ends in "declared", `special_values.py` checks that the report of the model has such a note.
"""

from __future__ import annotations

from convert import plugin

_KERNEL = "PyTorch's fused kernel gives 0 where the formula gives NaN; declared"
_TIES = "of equal elements PyTorch takes any; declared"
_OVERFLOW = "numbers beyond 1e30 overflow on the way, or do not"
_FLOAT32 = ("Lgamma", "Digamma", "Polygamma", "Zeta", "Igamma", "Igammac", "Betainc", "Ndtri", "BesselI0", "BesselI1",
            "BesselJ1", "BesselY0", "BesselY1", "BesselK0", "BesselK1", "BesselK0e", "BesselK1e")  # fmt: skip
"""Operators that TensorFlow computes in float32 internally."""

_RANGE = "the scale and the zero point of a range with NaN or an infinity are any"
_HALVES = "onnxruntime, which runs ONNX's function, adds 1e-9 to a deviation in float16, and divides 0 by 0"

_ENDS = "limits of integers, whose difference is more than they hold"

KNOWN: dict[tuple[str, str], dict[str, str]] = {
    ("pytorch", "onnx"): {
        "scaled_dot_product_attention": _KERNEL,
        **dict.fromkeys(("topk", "kthvalue", "sort", "argsort", "mode", "median.dim", "nanmedian.dim"), _TIES),
        **dict.fromkeys(("amax", "amin", "max", "min", "max.dim", "min.dim", "aminmax", "argmax", "argmin"),
                        "onnxruntime passes over NaN; declared"),
        **dict.fromkeys(("sum", "mean", "prod"), "onnxruntime sums integers in float64; declared"),
        **dict.fromkeys(("var", "std", "var_mean", "std_mean", "var_mean.default", "std_mean.default",
                         "lerp", "add", "histc", "i0", "special_i0"), _OVERFLOW),
        "prelu": "a slope of NaN",
        **dict.fromkeys(("silu_backward", "mish_backward"), "the rounding of a slope near 0 by a gradient of 3e38"),
        "_cdist_backward": _OVERFLOW,
        **dict.fromkeys(("bucketize", "searchsorted"), "edges that are not sorted, which the feeds make of them"),
        "gcd": "of the least integer, which has no absolute value, the sign is undefined in PyTorch's, too",
        "bincount": "of nothing, with weights, PyTorch gives integers",
        **dict.fromkeys(("qr", "linalg_qr", "geqrf", "orgqr", "ormqr", "linalg_householder_product", "linalg_lu",
                         "linalg_lu_factor", "linalg_lu_factor_ex", "linalg_cholesky_ex", "cholesky_inverse", "inverse",
                         "linalg_inv", "linalg_inv_ex", "linalg_solve", "linalg_solve_ex", "_linalg_solve_ex",
                         "linalg_lu_solve", "lu_solve", "linalg_tensorinv", "linalg_pinv", "linalg_pinv.default",
                         "linalg_pinv.atol_rtol_float", "linalg_pinv.atol_rtol_tensor", "linalg_pinv.rcond_tensor",
                         "pinverse", "linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_ldl_solve"),
                        "what LAPACK leaves beside NaN, infinities and pivots of 0; declared"),
        "linalg_multi_dot": "from the left where sizes are unknown: which of two infinities meet",
        **dict.fromkeys(("fake_quantize_per_tensor_affine", "fake_quantize_per_tensor_affine.tensor_qparams",
                         "fake_quantize_per_channel_affine", *(f"quantized_decomposed::{n}" for n in
                         ("fake_quant_per_channel", "quantize_per_tensor", "quantize_per_tensor.tensor"))),
                        "a level for NaN, infinities and zero points outside of the range; declared"),
        **dict.fromkeys((f"quantized_decomposed::choose_qparams{end}" for end in
                         (".tensor", "_symmetric.tensor", "_per_token", "_per_token_asymmetric")),
                        "onnxruntime passes over NaN, and the integer that NaN is cast to is any; declared"),
        "_grouped_mm": f"{_OVERFLOW}; ends of groups that are no places",
        "embedding_bag": "onnxruntime passes over NaN; declared",
        **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), "places that are NaN; declared"),
        **dict.fromkeys(("upsample_linear1d", "upsample_linear1d.vec", "upsample_bilinear2d", "upsample_trilinear3d"),
                        "onnxruntime multiplies by a weight of 0; declared"),
        "histogram": "bins of the width 0 beside numbers near the largest float",
        **dict.fromkeys(("igamma", "igammac"), "of a shape of 1e15 PyTorch is 1.6e-9 off, which mpmath is not"),
        **dict.fromkeys(("polygamma", "special_polygamma"), "at the poles, where PyTorch divides by a rounding"),
        **dict.fromkeys(("sym_int", "sym_ceil", "sym_floor", "sym_round"), "an integer of more than 64 bits"),
        "unique_consecutive": "of rows without elements PyTorch's inverse has none",
        **dict.fromkeys((f"special_{kind}_polynomial_{name}" for kind, names in
                         (("chebyshev", "uw"), ("shifted_chebyshev", "tuw"), ("laguerre", "l"), ("legendre", "p"))
                         for name in names), "of NaN PyTorch gives 0, or any number"),
        **dict.fromkeys(("native_layer_norm", "native_group_norm", "batch_norm", "_native_batch_norm_legit_functional"),
                        "statistics of infinities, and of numbers whose squares overflow"),
        **dict.fromkeys(("fractional_max_pool2d", "fractional_max_pool3d"), "which of several NaN is the largest"),
        **dict.fromkeys((f"{kind}_pool{n}d{end}" for kind in ("max", "adaptive_max") for n in (1, 2, 3)
                         for end in ("", "_with_indices")), "onnxruntime passes over NaN; declared"),
        **dict.fromkeys((f"{lead}adaptive_avg_pool{n}d" for lead in ("", "_") for n in (1, 2, 3)),
                        "a product with a constant matrix; declared"),
        "special_zeta": "of numbers whose powers overflow",
        **dict.fromkeys(("lstm", "lstm.input", "gru", "gru.input"),
                        "onnxruntime's cells make numbers of NaN; declared"),
        "rnn_relu": "onnxruntime's RNN makes 0 of NaN where its activation is Relu; declared",
        **dict.fromkeys(("scatter_reduce", "index_reduce"),
                        "onnxruntime's larger or smaller of two passes over NaN; declared"),
        **dict.fromkeys((f"_upsample_{kind}2d_aa{end}" for kind in ("bilinear", "bicubic") for end in ("", ".vec")),
                        "a product with a constant matrix; declared"),
        "segment_reduce": "onnxruntime passes over NaN, and of no rows PyTorch gives what lies in memory; declared",
        **dict.fromkeys(("conv3d", "conv_transpose2d", "cosine_similarity", "group_norm", "instance_norm"), _OVERFLOW),
        **dict.fromkeys(("linalg_svdvals", "linalg_eigvalsh"), "rounding beside numbers near the largest float"),
        "pixel_unshuffle": "of nothing PyTorch gives the input's own shape",
    },
    ("tensorflow", "onnx"): {
        **dict.fromkeys(("Ceil", "Sign", "Log", "Rsqrt", "Cast", "FloorMod", "FloorDiv", "Pow", "DivNoNan", "MulNoNan",
                         "Xdivy", "Xlogy", "Xlog1py", "ReluGrad", "Atan2"),
                        "TensorFlow takes denormal numbers for 0; declared"),
        **dict.fromkeys(("BatchMatMulV2", "BatchMatMulV3", "LRN"), _OVERFLOW),
        **dict.fromkeys(("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel",
                         "QuantizeV2", *(f"QuantizeAndDequantize{v}" for v in ("V2", "V3", "V4"))),
                        "of NaN any level, and of an infinite range any; declared"),
        **dict.fromkeys(("Conv2D", "Conv3D", "DepthwiseConv2dNative", "Conv2DBackpropInput", "Conv3DBackpropInputV2"),
                        "a NaN of the weights times padding, sums beyond the largest float, an empty batch; declared"),
        **dict.fromkeys(("FFT", "IFFT", "FFT2D", "IFFT2D", "RFFT", "IRFFT", "RFFT2D", "IRFFT2D"),
                        "which parts of a row with an infinity are NaN; declared"),
        **dict.fromkeys(("MaxPool", "MaxPoolV2", "MaxPool3D", "Dilation2D", "TensorScatterMax", "TensorScatterMin",
                         "Softmax", "NonMaxSuppression", "ResizeBilinear"), "what TensorFlow makes of NaN; declared"),
        **dict.fromkeys(("TanhGrad", "SigmoidGrad"), "numbers that neither function gives, whose squares overflow"),
        **dict.fromkeys(("ResizeArea", "ResizeBicubic", "ScaleAndTranslate", "CumulativeLogsumexp", "Cumprod",
                         "MatrixTriangularSolve", "Cholesky", "Lu", "Qr", "RGBToHSV", "AdjustHue", "AdjustSaturation",
                         *_FLOAT32), "TensorFlow's kernels; declared"),
        **dict.fromkeys(("Max", "Min", "ArgMax", "ArgMin", "Sum", "UniqueV2"), "onnxruntime's kernels; declared"),
        **dict.fromkeys(("TopKV2", *(f"NonMaxSuppressionV{n}" for n in "2345")), "TensorFlow and NaN; declared"),
        "SelfAdjointEigV2": "rounding of numbers near the largest float",
        **dict.fromkeys(("LowerBound", "UpperBound"), "rows that are not sorted, which the feeds make of them"),
        "SparseReshape": "places outside of the shape",
        "QuantizedAvgPool": "oneDNN rounds the mean, and Eigen's kernel, which is converted, cuts it off",
    },
    ("onnx", "torch"): {
        **dict.fromkeys(("Conv", "ConvTranspose", "Det", "Gemm", "GroupNormalization", "MatMul", "RNN"), _OVERFLOW),
        "Loop": "a body that declares sizes which the feed's have not",
        "DynamicQuantizeLinear": _RANGE,
        "DeformConv": _OVERFLOW,
    },
    ("onnx", "tf"): {"DynamicQuantizeLinear": _RANGE, "MeanVarianceNormalization": _HALVES},
    ("onnx", "keras"): {"DynamicQuantizeLinear": _RANGE, "Range": _ENDS},
    ("onnx", "tflite"): {
        "DynamicQuantizeLinear": _RANGE, "MeanVarianceNormalization": _HALVES, "Range": _ENDS,
        **dict.fromkeys(("QLinearMatMul", "QLinearConv"), "a scale that is NaN"),
    },
    ("onnx", "caffe2"): dict.fromkeys(("Attention", "Gemm"), _OVERFLOW),
}  # fmt: skip

ENDED_BY_NOTHING = {
    "Dequantize": "TensorFlow's process ends (2.21)",
    **dict.fromkeys((f"Quantized{n}" for n in ("AvgPool", "MaxPool", "Conv2D", "MatMul")), "oneDNN ends the process"),
    "_weight_norm": "PyTorch's process ends (2.13)",
    **dict.fromkeys(("Einsum", "Unique"), "onnxruntime's process ends, which its backend declares"),
}
"""Operators that are not fed arrays without elements, and why not."""

ENDLESS = ("RaggedRange", "RaggedTensorToTensor")
"""Operators that are not fed the limits of integers: they make as many numbers as these say, and TensorFlow's process
(2.21) ends at 2**31 - 1 of them."""


def is_known(source: str, target: str, operator: str, noted: bool = True) -> bool:
    """Return whether a difference of this operator is known, from the table or because the backend declares it.

    noted: whether the report of its model has a note of a declared difference.
    """
    if operator in KNOWN.get((source, target), {}):
        return noted or not KNOWN[source, target][operator].endswith("declared")
    kinds = {form.name: form.kind for form in plugin.formats().values()}
    declared = plugin.differences("onnx", kinds[target])
    return source == "onnx" and any(operator in d.operators for d in declared)
