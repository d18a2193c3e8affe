"""Operators without a rule, each with the reason."""

from __future__ import annotations

from ..rules import stablehlo_op

stablehlo_op.gap(
    "it needs several devices, and a graph runs on one",
    "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "cross-replica-sum",
    "partition_id", "reduce_scatter", "replica_id", "send", "recv", "async_start", "async_done",
)  # fmt: skip
stablehlo_op.gap(
    "it runs code of the program that made it",
    "@xla_python_cpu_callback", "@xla_ffi_python_cpu_callback", "@xla_ffi_partitioned_python_cpu_callback",
)  # fmt: skip
stablehlo_op.gap("it reads and writes what is no input or output", "infeed", "outfeed")
stablehlo_op.gap("it is for training", "batch_norm_grad", "batch_norm_training")
stablehlo_op.gap("tensors that are shorter than the space allocated for them", "set_dimension_size")
stablehlo_op.gap("tuples are not read: JAX writes none", "tuple", "get_tuple_element")
stablehlo_op.gap("random bits of a shape that depends on sizes of inputs", "@stablehlo.dynamic_rng_bit_generator")
stablehlo_op.gap(
    "a decomposition without a form in ONNX's operators",
    *(f"@lapack_{dtype}{name}_ffi" for name in ("geev", "gees", "gehrd", "geqp3") for dtype in "sdcz"),
    *(f"@lapack_{name}_ffi" for name in ("ssytrd", "dsytrd", "chetrd", "zhetrd")), "@tridiagonal_solve_perturbed_ffi",
)  # fmt: skip
stablehlo_op.gap(
    "a decomposition of complex matrices",
    *(f"@lapack_{dtype}{name}_ffi" for name in ("potrf", "trsm", "getrf", "geqrf", "ungqr", "unmqr", "heevd", "gesdd",
                                                "gesvd", "gtsv") for dtype in "cz"),
)  # fmt: skip
