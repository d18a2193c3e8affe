"""The keyword arguments of the verbs as `Options`: specs and example arrays told apart, nested inputs by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from math import prod
from pathlib import Path
from typing import Any

from convert import plugin
from convert.errors import ResourceLimit, UsageError, as_convert_error
from convert.fixed_values import fixed_value_of, parse_fixed_value, without_fixed_places
from convert.nearest import did_you_mean
from convert.nested_inputs import Structure, holds_arrays, leaves_of, parameter_names
from convert.options import InputSpec, Options, parse_input
from convert.report import Tensor
from convert.rules.user_files import load_code, load_rules
from convert.source import Source
from convert.text import bytes_text

READ_OPTIONS = {
    "model": "--model", "model_args": "--model-arg", "code": "--code", "outputs": "--outputs",
    "signature": "--signature", "trace": "--trace",
}  # fmt: skip
"""Options of sources, each of which some kinds only have a use for: those that a frontend's `READS` names.

By the fields of `Options`, each with the option of the command line."""

_NOT_KEYWORDS = {
    "inputs", "examples", "fixed", "structures", "rules", "dump_passes", "widen", "narrow", "one_size_way", "extra",
}  # fmt: skip
"""Fields of `Options` that are no keywords of their own."""


def make_options(
    inputs: Any,
    options: Mapping[str, Any],
    rules: Sequence[str | Path] = (),
    fixing: bool | str = False,
    source: Source | None = None,
) -> Options:
    """`Options` from keyword arguments; `inputs` are divided into specs, example arrays and fixed values.

    Raises `UsageError`.

    fixing: the model's inputs may have fixed values; numbers of Python are arrays without. `assigned`: as text only.
    source: what the inputs are those of; one that holds others is called as its forward calls it.
    options: by the names of `Options`, and of what frontends and backends declare.
    rules: files of the user's, which are loaded, as those of the option `code` are; `BadInput` if one is missing or
    fails.
    """
    declared, own = plugin.options(), {f.name for f in fields(Options)} - _NOT_KEYWORDS
    known = own | {*declared}
    unknown = sorted(set(options) - known)
    if unknown:
        raise UsageError(
            f"there is no option {unknown[0]!r}",
            hint=f"{did_you_mean(unknown[0], known)}options: {', '.join(sorted(known))}",
        )
    for name, value in options.items():
        # Which ways to store numbers there are, the format says that is asked for.
        if name in declared and not declared[name].stores:
            declared[name].check(value)
    extra = {name: value for name, value in options.items() if name not in own}
    options = {name: value for name, value in options.items() if name in own}
    options["code"] = load_code(options.get("code", ()))
    if (args := options.get("model_args")) and not isinstance(args, Mapping):
        raise UsageError(f"model_args is a {type(args).__name__}", hint="give them by name: {'num_classes': 9}")
    specs: list[InputSpec] = []
    examples: dict[Any, Any] = {}
    fixed: dict[Any, Any] = {}
    structures: dict[str, Structure] = {}
    names = parameter_names(source.model) if source is not None else []
    for name, given in _named_inputs(inputs, fixing is True, names, structures):
        if isinstance(given, InputSpec):
            specs.append(given)
            continue
        is_value, value = fixed_value_of(name, given) if fixing is True else (False, None)
        assignment = parse_fixed_value(given) if isinstance(given, str) and isinstance(name, int) else None
        if is_value or assignment:
            name, value = assignment or (name, value)
            if not fixing:
                raise UsageError(
                    f"{given!r} is a fixed value, which inputs of PyTorch and ONNX models only may have",
                    hint="describe the input as NAME:DTYPE[DIMS]",
                )
            fixed[name] = value
        elif isinstance(given, str):
            spec = parse_input(given)
            specs.append(InputSpec(name, spec.dtype, spec.shape) if isinstance(name, str) else spec)
        else:
            examples[name] = _array(given)
    return Options(
        inputs=tuple(specs),
        examples=without_fixed_places(examples, fixed),
        fixed=fixed,
        structures=structures,
        without_inputs=isinstance(inputs, (list, tuple, Mapping)) and not inputs,
        rules=load_rules(rules),
        extra=extra,
        **options,
    )


_LARGE = 1 << 30
"""Bytes of one input that lead where memory runs out."""


@contextmanager
def naming_large_inputs(options: Options, known: Sequence[Tensor]) -> Iterator[None]:
    """Inside, a lack of memory names the inputs of more than 1 GB: those in `options`, or that are `known`."""
    try:
        yield
    except (ResourceLimit, MemoryError, RuntimeError) as error:
        problem = as_convert_error(error)
        specs = [(spec.name, spec.dtype, [d.size or str(d) for d in spec.shape or ()]) for spec in options.inputs]
        inputs = [*((t.name, t.dtype, t.shape or ()) for t in known), *specs]
        large = {size: text for text, size in (_size_of_input(*given) for given in inputs) if size > _LARGE}
        if not isinstance(problem, ResourceLimit) or "memory" not in problem.message or not large:
            raise
        size, text = max(large.items())
        raise ResourceLimit(
            f"{problem.sentence}: {text} alone has {bytes_text(size)}",
            hint=f"describe it with smaller dims: --input; or {problem.hint or 'give a larger --memory'}",
        ) from error


def _size_of_input(name: str | None, dtype: str | None, dims: Sequence[object]) -> tuple[str, int]:
    """How messages call an input, and its bytes; named dims count as one."""
    bits = int(next(iter(re.findall(r"\d+", dtype or "float32")), 8))
    text = f"the input {name or ''}".rstrip() + f" ({dtype or 'float32'}[{','.join(map(str, dims))}])"
    return text, prod(dim for dim in dims if isinstance(dim, int)) * bits // 8


def _named_inputs(
    inputs: Any, fixing: bool, names: Sequence[str], structures: dict[str, Structure]
) -> Iterable[tuple[Any, Any]]:
    if inputs is None:
        return []
    if isinstance(inputs, Mapping):
        return [row for name, given in inputs.items() for row in leaves_of(name, given, fixing, structures)]
    listed = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    found: list[tuple[Any, Any]] = []
    by_name = any(map(holds_arrays, listed))
    for place, given in enumerate(listed):
        nested = holds_arrays(given)
        if nested and place >= len(names):
            raise UsageError(
                f"the input {place} is a {type(given).__name__} that holds others, of an unknown name",
                hint="give it by the name that forward has for it: {'name': ...}",
            )
        name = names[place] if by_name and place < len(names) else place
        found += leaves_of(name, given, fixing, structures) if nested else [(name, given)]
    return found


def _array(given: Any) -> Any:
    import ml_dtypes
    import numpy as np

    if hasattr(given, "detach"):
        given = given.detach().cpu()
        narrow = getattr(ml_dtypes, str(given.dtype).removeprefix("torch."), None)
        if narrow is not None:  # numpy has no such dtype of its own; float32 holds every number of them
            return np.asarray(given.float()).astype(narrow)
    from convert.graph.tensors import plain_array

    try:
        return plain_array(np.asarray(given))
    except Exception as error:
        raise UsageError(f"an input of type {type(given).__name__} is neither a spec nor an array") from error


def unread_options(options: Options, source: Source) -> list[str]:
    """A sentence for each option that says something of a source and that this kind of it has no use for."""
    reads = getattr(plugin.frontend_for(source), "READS", None)
    if reads is None:  # it does not say
        return []
    names = [name for name in READ_OPTIONS if getattr(options, name) and source.kind not in reads.get(name, ())]
    return [f"{READ_OPTIONS[name]} changes nothing in what is read from {source.kind}" for name in names]
