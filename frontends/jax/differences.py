"""Where XLA (jaxlib 0.10, on the CPU) differs from the shared graph at the limits of number ranges."""

from __future__ import annotations

from convert.runtimes.differences import Difference

DIFFERENCES = (
    Difference(
        ("MaxPool",),
        "XLA's windows of the largest element pass over NaN where it does not come first",
        integers=False,
        nonfinite=True,
    ),
)
