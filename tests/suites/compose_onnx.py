"""ONNX programs of `compose.py`: generate them, run them, make models of them, print them as scripts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.suites import compose_onnx_layers  # noqa: F401  (adds its rows)
from tests.suites.compose_judge import COPIES, FREE, MEANS, SHARES, UNDECLARED, moved, seeds
from tests.suites.compose_onnx_ops import ROWS
from tests.suites.compose_program import (
    LARGEST,
    MOST_ELEMENTS,
    Draw,
    Input,
    NoSuchValue,
    Program,
    Step,
    chosen_outputs,
    draw_inputs,
)

OPSET = 21
Values = dict[str, np.ndarray]


def node(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    """Return a node, named after its output."""
    return helper.make_node(operator, inputs, outputs, name=f"node_{outputs[0]}", **attributes)


def body(name: str, inputs: list[tuple[str, int]], nodes: list[onnx.NodeProto], outputs: list[tuple[str, int]]) -> Any:
    """Return a subgraph. Inputs and outputs have names and dtypes, and unknown shapes."""
    ends = [[helper.make_tensor_value_info(n, t, None) for n, t in side] for side in (inputs, outputs)]
    for value, (_, dtype) in zip(ends[0], inputs, strict=True):
        if dtype in (TensorProto.INT64, TensorProto.BOOL) and value.name.endswith(("_i", "_c")):
            value.CopyFrom(helper.make_tensor_value_info(value.name, dtype, []))
    return helper.make_graph(nodes, name, *ends)


def floats(seed: int, *shape: int) -> np.ndarray:
    """Return a constant of about unit size."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


NAMES = {"node": node, "body": body, "INT64": TensorProto.INT64, "BOOL": TensorProto.BOOL, "np": np, "floats": floats}


def nodes_of(step: Step, wide: bool = False) -> list[onnx.NodeProto]:
    """Return the nodes of a step; in a wide one, casts to float become casts to double."""
    return list(eval(step.code, {**NAMES, "FLOAT": TensorProto.DOUBLE if wide else TensorProto.FLOAT}))


def constants(step: Step, wide: bool = False) -> Values:
    """Return the values that its nodes read and that no node computes."""
    found = {name: np.asarray(eval(code, NAMES)) for name, code in step.layers}
    return {k: v.astype(np.float64) if wide and v.dtype == np.float32 else v for k, v in found.items()}


def _model(nodes: list[onnx.NodeProto], values: Values, weights: Values, outputs: list[str]) -> onnx.ModelProto:
    ends = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), [None] * v.ndim)
        for k, v in values.items()
    ]
    graph = helper.make_graph(
        nodes, "step", ends, [onnx.ValueInfoProto(name=o) for o in outputs],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


@cache
def _settings() -> onnxruntime.SessionOptions:
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return settings


def by_runtime(step: Step, values: list[Values]) -> list[np.ndarray]:
    """Run a step in ONNX Runtime, without optimization."""
    given = [{k: v[k] for k in step.uses} for v in values]
    model = _model(nodes_of(step), given[0], constants(step), [step.name])
    session = onnxruntime.InferenceSession(model.SerializeToString(), _settings(), providers=["CPUExecutionProvider"])
    return [np.asarray(session.run([step.name], feed)[0]) for feed in given]


def by_reference(step: Step, values: list[Values]) -> list[np.ndarray]:
    """Run a step in ONNX's own evaluator in float64."""
    given = [{k: v[k] for k in step.uses} for v in values]
    model = _model(nodes_of(step, wide=True), given[0], constants(step, wide=True), [step.name])
    evaluator = ReferenceEvaluator(model)
    return [np.asarray(evaluator.run([step.name], feed)[0]) for feed in given]


def widened(feed: Values) -> Values:
    """With float64 for float32."""
    return {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in feed.items()}


def _moved_values(values: Values, seed: int, operator: str = "", within: float = 0.0, whole: bool = False) -> Values:
    """Return results of a row, or inputs, with floats perturbed.

    Seed 0 perturbs nothing; independent runs keep copies.
    """
    copied = not operator or operator in COPIES
    seed = 0 if copied and seed >= FREE else seed
    free = {k for k, v in values.items() if seed and v.dtype == np.float64 and v.size}
    return {k: moved(v, seed, operator, whole, within) if k in free else v for k, v in values.items()}


def _read_values(step: Step, values: Values, seed: int) -> Values:
    """Return the inputs of a step in a run, perturbed for rows in `MEANS`."""
    if seed < FREE or step.operator not in MEANS:
        return values
    return {k: moved(v, seed, whole=True) if v.dtype == np.float64 else v for k in step.uses for v in [values[k]]}


def references(
    program: Program, runs: int, declared: Mapping[str, float] = UNDECLARED
) -> list[dict[str, list[np.ndarray]]]:
    """Return the source's outputs for each input set: in float64, in float32, and perturbed in float64.

    declared: by ONNX operator, the error that a backend declares for negative results.
    """
    plain, moves = [dict(f) for f in program.feeds], [0, *seeds(runs)]
    many = [[_moved_values(widened(f), seed) for seed in moves] for f in program.feeds]
    flat = [values for row in many for values in row]
    for step in program.steps:
        for env, value in zip(plain, by_runtime(step, plain), strict=True):
            env[step.name] = value
        read = [_read_values(step, env, moves[place % len(moves)]) for place, env in enumerate(flat)]
        share = any(share in step.code for share in SHARES)
        within = max((declared.get(n.op_type, 0.0) for n in nodes_of(step)), default=0.0)
        for place, (env, value) in enumerate(zip(flat, by_reference(step, read), strict=True)):
            env |= _moved_values({step.name: value}, moves[place % len(moves)], step.operator, within, share)
    return [
        {name: [row[0][name], env[name], *(m[name] for m in row[1:])] for name in program.outputs}
        for env, row in zip(plain, many, strict=True)
    ]


def grown(rng: np.random.Generator, count: int) -> Program:
    """Generate a program of about `count` steps."""
    inputs, feeds = draw_inputs(rng)
    draw = Draw(rng, [dict(f) for f in feeds])
    wide = [widened(f) for f in feeds]
    steps: list[Step] = []
    names, weights = list(ROWS), np.array([ROWS[n][1] for n in ROWS])
    tries = 0
    while len(steps) < count and tries < 40 * count:
        tries += 1
        row = names[int(rng.choice(len(names), p=weights / weights.sum()))]
        draw.begin()
        draw.name = f"v{len(steps)}"
        try:
            last = ROWS[row][0](draw)
            step = _written(draw, last, row)
            found = by_runtime(step, draw.env)
            step, found = _tamed(step, found, draw.env)
            exact = by_reference(step, wide)
        except Exception:  # any exception of the runtimes: these operands do not suit this operator
            continue
        if not _sane(found, exact, row):
            continue
        steps.append(step)
        draw.keep()
        draw.names.append(step.name)
        for env, other, value, double in zip(draw.env, wide, found, exact, strict=True):
            env[step.name], other[step.name] = value, double
    return Program("onnx", inputs, tuple(steps), chosen_outputs(rng, steps), feeds)


def _written(draw: Draw, last: str, row: str) -> Step:
    """Return the nodes that a row emitted, with the last value renamed to the step's name."""
    code = "[" + ", ".join(draw.nodes).replace(f"'{last}'", f"'{draw.name}'") + "]"
    if last not in draw.made:
        raise NoSuchValue
    return Step(draw.name, code, tuple(dict.fromkeys(draw.used)), tuple(draw.new.items()), row)


def _tamed(step: Step, found: list[np.ndarray], env: list[Values]) -> tuple[Step, list[np.ndarray]]:
    """Return the step, with large numbers squashed."""
    if found[0].dtype != np.float32 or max((float(np.abs(v).max()) for v in found if v.size), default=0.0) <= LARGEST:
        return step, found
    inner = f"{step.name}_large"
    code = step.code.replace(f"['{step.name}']", f"['{inner}']")[:-1] + f", node('Tanh', ['{inner}'], ['{step.name}'])]"
    step = Step(step.name, code, step.uses, step.layers, step.operator)
    return step, by_runtime(step, env)


def _sane(found: list[np.ndarray], exact: list[np.ndarray], row: str) -> bool:
    if any(v.size > MOST_ELEMENTS for v in found) or len({(v.dtype, v.ndim) for v in found}) != 1:
        return False
    if found[0].dtype.name not in ("float32", "int64", "bool"):
        return False
    if all(not v.size for v in found) or (
        any(not v.size for v in found) and row not in ("slice", "transpose", "concat", "binary")
    ):
        return False
    for value, double in zip(found, exact, strict=True):
        if value.shape != double.shape:
            return False
        if value.dtype != np.float32:
            if value.dtype != double.dtype or not np.array_equal(value, double):
                return False
        elif value.size and not np.allclose(value, double, rtol=1e-3, atol=1e-3):  # the evaluators differ
            return False
        if value.dtype == np.int64 and value.size and np.abs(value).max() >= 10000:
            return False
    if found[0].dtype != np.float32:
        return True
    return all(np.isfinite(v).all() for v in found) and (
        not found[0].size or float(np.sqrt(np.mean(found[0] ** 2))) > 1e-3
    )


def source(program: Program) -> onnx.ModelProto:
    """Return the model in a form that `convert` accepts."""
    plain = [dict(program.feeds[0])]
    for step in program.steps:
        plain[0][step.name] = by_runtime(step, plain)[0]
    return model_of(
        [n for step in program.steps for n in nodes_of(step)], [(i.name, i.dtype, i.dims) for i in program.inputs],
        {name: array for step in program.steps for name, array in constants(step).items()},
        {name: (plain[0][name].dtype.name, plain[0][name].ndim) for name in program.outputs},
    )  # fmt: skip


def model_of(
    nodes: list[onnx.NodeProto], inputs: list[Any], weights: Values, outputs: dict[str, Any]
) -> onnx.ModelProto:
    """Return a checked model whose outputs are described by dtype and rank."""

    def end(name: str, dtype: str, dims: Any) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), dims)

    graph = helper.make_graph(
        nodes, "program", [end(*i) for i in inputs], [end(n, t, [None] * r) for n, (t, r) in outputs.items()],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model


def value_at(program: Program, name: str) -> list[np.ndarray]:
    """Return the value of a step in float32 for each feed."""
    plain = [dict(f) for f in program.feeds]
    for step in program.steps:
        for env, value in zip(plain, by_runtime(step, plain), strict=True):
            env[step.name] = value
    return [env[name] for env in plain]


def script(program: Program) -> list[str]:
    """Return lines of Python that build `source`."""
    weights = dict(pair for step in program.steps for pair in step.layers)
    outputs = {name: (v[0].dtype.name, v[0].ndim) for name in program.outputs for v in [value_at(program, name)]}
    return [
        "from tests.suites.compose_onnx import *",
        "FLOAT, INT64, BOOL = 1, 7, 9",
        "nodes = [",
        *(f"    *{step.code}," for step in program.steps),
        "]",
        f"inputs = {[(i.name, i.dtype, i.dims) for i in program.inputs]}",
        f"weights = {{{', '.join(f'{k!r}: {v}' for k, v in weights.items())}}}",
        f"source = model_of(nodes, inputs, weights, {outputs})",
    ]


def specs(inputs: tuple[Input, ...]) -> list[str]:
    """Return no specs: the model declares its inputs."""
    return []
