"""What differs at the edge of numbers and stays so: by source and target, operators with the reason.

What a target's runtime does is declared in `DIFFERENCES` of its backend, which `convert ops` and reports show.
"""

from __future__ import annotations

from convert import plugin

_KERNEL = "PyTorch's fused kernel gives 0 where the formula gives NaN; declared"
_TIES = "of equal elements PyTorch takes any; declared"
_OVERFLOW = "numbers beyond 1e30 overflow on the way, or do not"
_SERIES = "polynomials near the largest float, and special functions of NaN"

KNOWN: dict[tuple[str, str], dict[str, str]] = {
    ("pytorch", "onnx"): {
        "scaled_dot_product_attention": _KERNEL,
        **dict.fromkeys(("topk", "kthvalue", "sort", "argsort", "mode", "median.dim", "nanmedian.dim"), _TIES),
        **dict.fromkeys(("amax", "amin", "max", "min", "max.dim", "min.dim", "aminmax", "argmax", "argmin"),
                        "onnxruntime passes over NaN; declared"),
        **dict.fromkeys(("sum", "mean", "prod"), "onnxruntime sums integers in float64; declared"),
        **dict.fromkeys(("var", "std", "var_mean", "std_mean", "lerp", "add", "histc", "i0", "special_i0"), _OVERFLOW),
        "prelu": "a slope of NaN",
        **dict.fromkeys(("bucketize", "searchsorted"), "edges that are not sorted, which the feeds make of them"),
        "gcd": "of the least integer, which has no absolute value, the sign is undefined in PyTorch's, too",
        "bincount": "of nothing, with weights, PyTorch gives integers",
    },
}  # fmt: skip

ENDED_BY_NOTHING = {
    "Dequantize": "TensorFlow's process ends (2.21)",
    **dict.fromkeys(("Einsum", "Unique"), "onnxruntime's process ends, which its backend declares"),
}
"""Operators that are not fed arrays without elements, and why not."""


def is_known(source: str, target: str, operator: str) -> bool:
    """Whether a difference of this operator is known, by the table or because the backend declares it."""
    if operator in KNOWN.get((source, target), {}):
        return True
    kinds = {form.name: form.kind for form in plugin.formats().values()}
    declared = plugin.differences("onnx", kinds[target])
    return source == "onnx" and any(operator in d.operators for d in declared)
