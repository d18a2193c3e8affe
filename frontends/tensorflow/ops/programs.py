"""Programs of StableHLO that jax2tf puts into graphs."""

from __future__ import annotations

from convert.errors import Unsupported

from ..graph.programs import lower_program
from ..rules import tf_op


@tf_op("XlaCallModule")
def xla_call_module(
    g, args, *, version, module, Sout, dim_args_spec=(), platforms=(), function_list=(), has_token_input_output=False,
    disabled_checks=(), use_shardy_partitioner=False,
):  # fmt: skip
    """`Sout` repeats types that the program has; the checks concern the platform and the fed shapes."""
    if int(version) < 5 or dim_args_spec:
        raise Unsupported(f"a program of version {version}, whose sizes are arguments: 5 is the oldest that is read")
    if function_list or has_token_input_output:
        raise Unsupported("a program that calls functions of TensorFlow, or has effects")
    return lower_program(g, module.encode("utf-8", "surrogateescape"), args, str(g.location), platforms)
