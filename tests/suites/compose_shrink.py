"""Reduce a failing program of `compose.py`: fewer outputs and steps, with inputs in place of the steps removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from tests.suites.compose_program import Input, Program, without_dead
from tests.suites.compose_targets import KINDS


def shrunk(program: Program, fails: Callable[[Program], bool], most: int = 60) -> Program:
    """Return the smallest program found in at most `tries` tries for which `fails` is still true."""
    tries = 0
    found = True
    while found and tries < most:
        found = False
        for candidate in smaller(program):
            tries += 1
            if fails(candidate):
                program, found = candidate, True
                break
            if tries >= most:
                break
    return program


def smaller(program: Program) -> Iterator[Program]:
    """Yield smaller candidates, the smallest first."""
    seen = {_key(program)}
    for candidate in _candidates(program):
        if candidate.steps and candidate.outputs and _key(candidate) not in seen:
            seen.add(_key(candidate))
            yield candidate


def _key(program: Program) -> tuple[object, ...]:
    return program.inputs, program.steps, program.outputs, len(program.feeds)


def _candidates(program: Program) -> Iterator[Program]:
    outputs = program.outputs
    if len(outputs) > 1:
        if len(outputs) > 3:
            half = len(outputs) // 2
            yield without_dead(replace(program, outputs=outputs[half:]))
            yield without_dead(replace(program, outputs=outputs[:half]))
        for name in outputs:
            yield without_dead(replace(program, outputs=(name,)))
        for name in outputs:
            yield without_dead(replace(program, outputs=tuple(o for o in outputs if o != name)))
        return
    last = program.steps[-1].name
    if len(program.steps) > 1:
        # An earlier value as the output; then values in the middle as inputs, the latest first.
        for step in program.steps[-2::-1][:4]:
            yield without_dead(replace(program, outputs=(step.name,)))
        places = range(len(program.steps) - 2, -1, -1)
        for place in sorted(places, key=lambda i: abs(i - len(program.steps) // 2)):
            if program.steps[place].name != last and (cut := _as_input(program, place)):
                yield cut
        for place in range(len(program.steps) - 1):
            yield from _bypassed(program, place)
    if len(program.feeds) > 1:
        for feed in program.feeds:
            yield replace(program, feeds=[feed])
    if len(program.feeds) == 1 and any(isinstance(d, str) for i in program.inputs for d in i.dims):
        feed = program.feeds[0]
        yield replace(program, inputs=tuple(replace(i, dims=feed[i.name].shape) for i in program.inputs))


def _as_input(program: Program, place: int) -> Program | None:
    """Return the program with a step's value as an input; dims that change with the feeds are named by how they
    change.
    """
    step = program.steps[place]
    values = [np.ascontiguousarray(v) for v in KINDS[program.kind].value_at(program, step.name)]
    if values[0].dtype.name not in ("float32", "int64", "bool"):
        return None
    names: dict[tuple[int, ...], str] = {}
    for spec in program.inputs:
        for axis, dim in enumerate(spec.dims):
            if isinstance(dim, str):
                names.setdefault(tuple(f[spec.name].shape[axis] for f in program.feeds), dim)
    dims: list[int | str] = []
    for sizes in zip(*(v.shape for v in values), strict=True):
        dynamic = len(set(sizes)) > 1 or (len(sizes) == 1 and sizes in names)
        dims.append(names.setdefault(sizes, f"d{len(names)}") if dynamic else sizes[0])
    new = Input(step.name, values[0].dtype.name, tuple(dims))
    steps = program.steps[:place] + program.steps[place + 1 :]
    feeds = [{**feed, step.name: value} for feed, value in zip(program.feeds, values, strict=True)]
    return without_dead(replace(program, inputs=(*program.inputs, new), steps=steps, feeds=feeds))


def _bypassed(program: Program, place: int) -> Iterator[Program]:
    """Return the program with a step replaced by its operand."""
    step = program.steps[place]
    for used in step.uses:
        code = {"pytorch": used, "onnx": f"[node('Identity', ['{used}'], ['{step.name}'])]"}[program.kind]
        if step.code == code or (program.kind == "pytorch" and step.code.isidentifier()):
            continue
        new = replace(step, code=code, uses=(used,), layers=())
        yield without_dead(replace(program, steps=(*program.steps[:place], new, *program.steps[place + 1 :])))
