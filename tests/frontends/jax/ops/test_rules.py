"""The table of the JAX frontend: every rule has a row that reaches it, and operators without a rule are listed with
their place.
"""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from convert.frontends import jax as frontend
from convert.frontends.jax.files.parsing import parse_module
from convert.frontends.jax.rules import stablehlo_op
from convert.frontends.jax.walker import Walker
from jax import export

from convert.errors import Unsupported
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.jax.ops import test_complex, test_functions, test_modules, test_random, test_structure
from tests.frontends.jax.support import check, exported, read, row
from tests.support.cases import f32

pytestmark = pytest.mark.not_core


@pytest.mark.slow
def test_every_rule_has_a_case() -> None:
    modules = [(exported(r).mlir_module_serialized, r.name)
               for r in (*test_functions.ROWS, *test_structure.ROWS, *test_complex.ROWS,
                         *test_random.ROWS, *test_random.DRAWN)]  # fmt: skip
    modules += [
        (r.text.encode(), r.name)
        for r in (*test_modules.ROWS, *test_modules.SCANS, *(row for row, _ in test_modules.OLDER))
    ]
    found = set()
    for data, name in modules:
        module = parse_module(data, name)
        with module.context:
            walker = Walker(module)
            found |= {operator for operator, _ in walker.operators(walker.main())}
    # These need several devices, or float64, because jaxlib calls LAPACK's double functions only for float64.
    places = ("@lapack_d", "@SPMD", "@Sharding", "@Layout", "@annotate", "@xla")
    elsewhere = {name for name in stablehlo_op.entries if name.startswith(places)}
    assert sorted(set(stablehlo_op.entries) - found - elsewhere) == []


def test_everything_that_has_no_rule_is_listed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "module.mlir"
    path.write_text(
        "func.func @main(%x: tensor<ui32>) -> tensor<ui32> {\n%0 = stablehlo.replica_id : tensor<ui32>\n"
        "%1 = stablehlo.partition_id : tensor<ui32>\n%2 = stablehlo.add %0, %1 : tensor<ui32>\n"
        "return %2 : tensor<ui32>\n}"
    )
    with pytest.raises(Unsupported) as caught:
        frontend.read(Source("stablehlo", path, written_here=True), Options(), Report("convert"))
    operators = {problem.at.operator for problem in caught.value.problems}
    assert operators == {"stablehlo.replica_id", "stablehlo.partition_id"}


def test_nodes_are_called_by_the_name_stack() -> None:
    def function(x: jax.Array) -> jax.Array:
        with jax.named_scope("block"), jax.named_scope("attn"):
            return jnp.tanh(x) + 1

    model = read(exported(row("scopes", function, f32(4))))
    tanh = next(n for n in model.graph if n.op_type == "Tanh")
    assert str(tanh.name).startswith("block/attn/tanh")
    assert tanh.metadata_props["convert.module"] == "block/attn"
    assert "test_rules.py:" in tanh.metadata_props["convert.source"]


def test_inputs_and_outputs_are_called_by_their_paths(tmp_path: Path) -> None:
    def function(params: dict, x: jax.Array, *, scale: jax.Array) -> dict:
        return {"logits": x @ params["w"][0] * scale, "aux": [x, x]}

    shape = jax.ShapeDtypeStruct((4, 4), np.float32)
    program = export.export(jax.jit(function))({"w": [shape]}, shape, scale=jax.ShapeDtypeStruct((), np.float32))
    model = read(program)
    assert [v.name for v in model.graph.inputs] == ["params.w.0", "x", "scale"]
    assert [v.name for v in model.graph.outputs] == ["aux.0", "aux.1", "logits"]


def test_an_argument_that_nothing_depends_on_is_an_input(tmp_path: Path) -> None:
    check(row("unused", lambda x, unused: x + 1, f32(3), f32(2)), tmp_path)


def test_symbolic_dims_are_named(tmp_path: Path) -> None:
    case = row("dims", lambda x, y: jnp.concatenate([x, y]).reshape(-1, 2), f32(3, 4), f32(6, 4), dims=["b,4", "2*b,4"])
    model = read(exported(case))
    assert [str(v.shape) for v in model.graph.inputs] == ["[b,4]", "[2*b,4]"]
    assert str(model.graph.outputs[0].shape) == "[6*b,2]"
    check(case, tmp_path)
