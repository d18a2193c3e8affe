"""Where PyTorch 2.13 on the CPU differs from ONNX at the limits of number ranges."""

from __future__ import annotations

from convert.runtimes.differences import Difference

_PYTORCH = (
    Difference(("Gelu",), "PyTorch's kernel makes NaN of +∞", integers=False, nonfinite=True),
    Difference(
        ("Gelu",),
        "PyTorch's Gelu is up to 1.1e-6 off below 0 where the processor has AVX-512",
        integers=False,
        excuses=False,
        within=1.1e-6,
    ),
    Difference(
        ("GridSample", "Resize"), "NaN and infinities reach neighbours: 0 · ∞ is NaN", integers=False, nonfinite=True
    ),
    Difference(("NonMaxSuppression",), "boxes of NaN stay or go", integers=False),
    Difference(("Mod",), "PyTorch's remainder by a denormal number is NaN", integers=False),
    Difference(("Cast",), "NaN and numbers out of range become any integer", integers=False),
)

DIFFERENCES = {"torch": _PYTORCH, "torch-script": _PYTORCH, "torch-code": _PYTORCH}
