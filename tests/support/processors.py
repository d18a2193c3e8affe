"""Environment variables that make libraries compute as on another processor."""

from __future__ import annotations

import numpy as np


def _numpy_features(kept: tuple[str, ...] = ()) -> str:
    """Return the CPU features that numpy uses here beyond its baseline, except `kept`."""
    internals = np._core._multiarray_umath  # type: ignore[attr-defined]
    here = [f for f in internals.__cpu_dispatch__ if internals.__cpu_features__.get(f)]
    return " ".join(f for f in here if f not in kept)


PROCESSORS: dict[str, dict[str, str]] = {
    "this one": {},
    "AVX2": {
        "NPY_DISABLE_CPU_FEATURES": _numpy_features(("X86_V3", "AVX2", "FMA3", "AVX", "F16C")),
        "OPENBLAS_CORETYPE": "Haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    "AVX-512": {
        "OPENBLAS_CORETYPE": "SkylakeX",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
    },
    "SSE3": {"OPENBLAS_CORETYPE": "Prescott"},
    "SSE4": {
        "NPY_DISABLE_CPU_FEATURES": _numpy_features(),
        "OPENBLAS_CORETYPE": "Nehalem",
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "MKL_CBWR": "COMPATIBLE",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable",
    },
    "one thread": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
}
"""Settings of numpy, its matrix products, PyTorch, oneDNN, MKL, TensorFlow and the C library.

Libraries ignore unknown names: on a processor without AVX-512 the second setting equals the first.
"""
