"""The inputs that callers give: specs, arrays, fixed Python values, and nested inputs.

`make_options` turns the keyword arguments of the API's functions into `Options`.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convert import plugin
from convert.errors import ResourceLimit, UsageError, as_convert_error
from convert.outcome.report import Tensor
from convert.outcome.text import bytes_text
from convert.request.nearest import did_you_mean
from convert.request.options import DTYPES, InputSpec, Options, parse_input
from convert.request.source import Source
from convert.rules.user_files import load_code, load_rules

if TYPE_CHECKING:
    import numpy as np


# -- fixed values ------------------------------------------------------------------------------------------------------

_ASSIGNMENT = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<value>.*?)\s*", re.S)
_WORDS = {"true": True, "false": False, "none": None}
_BOUNDS = re.compile(r"\d*\.\.\d*")


def parse_fixed_value(text: str) -> tuple[str, Any] | None:
    """Return name and value of `sr=16000`, `flag=true`, `mode=fast`, `size=[2,3]`; None for another text.

    Anything but a number, `true`, `false`, `none`, quoted text or a list of these is read as text. Raises `UsageError`
    for bounds and for a dtype with dims.
    """
    found = _ASSIGNMENT.fullmatch(text)
    if found is None or re.search(r":[a-z]+\d*\[", text):
        return None
    name, value = found["name"], found["value"]
    if _BOUNDS.match(value) or not value:
        raise UsageError(
            f"cannot read the input specification {text!r}",
            hint="write a fixed value as NAME=VALUE (sr=16000), and bounds of a dim in brackets (x:[n=1..8])",
        )
    if (described := re.match(r"([a-z]+\d*)\[", value)) and described[1] in DTYPES:
        raise UsageError(
            f"{text!r} fixes {name} to a text",
            hint=f"write dtype and dims behind a colon ({name}:{value}), and text in quotes",
        )
    return name, _value_of(value)


def _value_of(text: str) -> Any:
    found = _literal(text)
    return found if is_fixed_value(found) else text


def parse_model_args(texts: Sequence[str]) -> dict[str, Any]:
    """Return the keyword arguments in `num_classes=9`, `pretrained=false`, `sizes=[3,4]`: Python literals, else text.

    Raises `UsageError` for text without an assignment, and for a name that occurs twice.
    """
    found: dict[str, Any] = {}
    for text in texts:
        assignment = _ASSIGNMENT.fullmatch(text)
        if assignment is None:
            raise UsageError(f"--model-arg {text!r} is not NAME=VALUE", hint="for instance --model-arg num_classes=9")
        if assignment["name"] in found:
            raise UsageError(f"--model-arg gives {assignment['name']} twice", hint="leave one of them out")
        found[assignment["name"]] = _literal(assignment["value"])
    return found


def _literal(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def is_fixed_value(given: Any) -> bool:
    """Return whether a value is a Python value instead of a tensor: None, a number, a bool, text, or a list of
    these.
    """
    if isinstance(given, (list, tuple)):
        return bool(given) and all(is_fixed_value(item) for item in given)
    return given is None or type(given) in (bool, int, float, str)


def fixed_value_of(name: str | int, given: Any) -> tuple[bool, Any]:
    """Return whether an input is given as a fixed value, and that value. Text without a name is usually a spec.

    A list without a name is an array. Raises `UsageError` for text that looks like a misspelled dtype.
    """
    if not isinstance(given, str):
        whole = isinstance(name, str) or not isinstance(given, (list, tuple))
        return whole and is_fixed_value(given) and not _holds_text(given), given
    if isinstance(name, int):
        return False, given
    if given.startswith("="):
        return True, given[1:]
    if re.fullmatch(r"(b?float|u?int|complex)\d+\w*", given) and given not in DTYPES:
        raise UsageError(f"{given!r} is not a dtype", hint=f"dtypes are {', '.join(DTYPES)}; text is '={given}'")
    return given not in DTYPES and re.fullmatch(r"[A-Za-z_][\w-]*", given) is not None, given


def meant_shape(name: object, value: Any) -> str:
    """Return a hint for `x=1,3,224,224`, which fixes a value where a shape was meant; "" for other values."""
    if not isinstance(value, (list, tuple)) or len(value) < 2 or not all(type(n) is int for n in value):
        return ""
    dims = ",".join(map(str, value))
    return f"{name}={dims} sets a fixed value; a shape is written as --input '{name}:[{dims}]'"


def _holds_text(given: Any) -> bool:
    """Return whether a value is a list of texts, which are specs of several inputs."""
    return isinstance(given, (list, tuple)) and any(isinstance(item, str) or _holds_text(item) for item in given)


def tensor_of_value(name: str, value: Any, dtype: np.dtype[Any], dims: Sequence[object] | None) -> np.ndarray:
    """Return a fixed value as the tensor that an input asks for; a single number also fits dims of 1.

    Raises `UsageError` for a value of another kind or size.
    """
    import numpy as np

    wrong = UsageError(
        f"the input {name} is a tensor of {dtype}, which {shown_value(value)} is not",
        hint=meant_shape(name, value) or f"describe it as --input {name}:DTYPE[DIMS], or give a value of that dtype",
    )
    try:
        found = np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise wrong from error
    if value is None or (dtype.kind in "biu" and not np.array_equal(found, np.asarray(value))):
        raise wrong
    if dims is not None and found.size == 1:
        found = found.reshape((1,) * len(dims))
    if dims is not None and (len(dims) != found.ndim or _other_sizes(found.shape, dims)):
        raise wrong
    return found


def _other_sizes(sizes: Sequence[int], dims: Sequence[object]) -> bool:
    return any(isinstance(d, int) and n != d for n, d in zip(sizes, dims, strict=True))


def shown_value(value: Any) -> str:
    """Return a fixed value as notes show it."""
    return value if isinstance(value, str) and value.isidentifier() else repr(value)


def without_fixed_places(values: Mapping[Any, Any], fixed: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return `values` re-indexed by the positions among the inputs that are not fixed."""
    places = [k for k in fixed if isinstance(k, int)]
    return {k - sum(p < k for p in places) if isinstance(k, int) else k: v for k, v in values.items()}


# -- inputs that hold others -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    """The place of one array in a nested input, identified by its name among the inputs of the graph."""

    name: str


@dataclass(frozen=True)
class NestedInput:
    """A nested input as it was given, with a `Leaf` for each array in it."""

    template: Any

    def names(self) -> list[str]:
        """The names of its arrays, in order."""
        return [leaf.name for leaf in _leaves(self.template)]

    def constants(self) -> dict[str, Any]:
        """The numbers, bools and texts in it, by the names that inputs at their places would have."""
        return dict(_constants("", self.template))

    def build(self, values: Mapping[str, Any]) -> Any:
        """Return an equal structure with the arrays in `values`, by name; None for a missing one."""
        return _filled(self.template, values)


def _leaves(template: Any) -> list[Leaf]:
    if isinstance(template, Leaf):
        return [template]
    return [leaf for member in (members_of(template) or {}).values() for leaf in _leaves(member)]


def _constants(name: str, template: Any) -> list[tuple[str, Any]]:
    members = None if is_fixed_value(template) or isinstance(template, Leaf) else members_of(template)
    if members is None:
        return [] if template is None or isinstance(template, Leaf) else [(name, template)]
    return [row for k, m in members.items() for row in _constants(f"{name}_{k}" if name else str(k), m)]


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, Leaf):
        return values.get(template.name)
    members = None if is_fixed_value(template) else members_of(template)
    if members is None:
        return template
    return _like(template, {key: _filled(member, values) for key, member in members.items()})


def _like(given: Any, members: Mapping[Any, Any]) -> Any:
    """Return `members` as an object of the class of `given`; a dict for any other mapping."""
    if isinstance(given, Mapping):
        return dict(members)
    if is_dataclass(given) or hasattr(given, "_fields"):
        return type(given)(**members)
    return list(members.values()) if isinstance(given, list) else tuple(members.values())


def members_of(given: Any) -> dict[Any, Any] | None:
    """Return the members of an input by name or index; None if it has none."""
    if isinstance(given, Mapping):
        return dict(given)
    if is_dataclass(given) and not isinstance(given, (type, InputSpec)):
        return {f.name: getattr(given, f.name) for f in fields(given)}
    if isinstance(given, tuple) and hasattr(given, "_fields"):
        return dict(zip(given._fields, given, strict=True))
    return dict(enumerate(given)) if isinstance(given, (list, tuple)) else None


def holds_arrays(given: Any) -> bool:
    """Return whether an input is no array itself but contains some; a list of numbers is an array."""
    members = None if hasattr(given, "shape") else members_of(given)
    return members is not None and any(hasattr(m, "shape") or holds_arrays(m) for m in members.values())


def leaves_of(name: Any, given: Any, fixing: bool, nested_inputs: dict[str, NestedInput]) -> list[tuple[Any, Any]]:
    """Return the arrays and specs in one input by names joined with "_"; a fixed value is one item.

    `nested_inputs` gets every structure that the names alone do not determine: all but a tuple or a dict of arrays.
    """
    if fixing and is_fixed_value(given):
        return [(name, given)]
    if _members_of_input(given) is None:
        return [(name, given)]
    found: list[tuple[Any, Any]] = []
    template = _template(name, given, found)
    if not _is_said_by_names(given):
        nested_inputs[str(name)] = NestedInput(template)
    return found


def _members_of_input(given: Any) -> dict[Any, Any] | None:
    return None if hasattr(given, "shape") else members_of(given)


def _template(name: Any, given: Any, found: list[tuple[Any, Any]]) -> Any:
    """Return `given` with a `Leaf` in place of each array or spec, which are appended to `found`."""
    if is_fixed_value(given) and not isinstance(given, str):
        return given
    members = _members_of_input(given)
    if members is None:
        found.append((name, given))
        return Leaf(str(name))
    return _like(given, {key: _template(f"{name}_{key}", member, found) for key, member in members.items()})


def _is_said_by_names(given: Any) -> bool:
    """Return whether names such as `batch_mask` and `pair_1_0` determine the structure that contains the arrays."""
    members = list((_members_of_input(given) or {}).items())
    if type(given) is tuple:
        return all(_is_array(m) or (type(m) is tuple and _is_said_by_names(m)) for _, m in members)
    return isinstance(given, Mapping) and all(isinstance(k, str) and _is_array(m) for k, m in members)


def _is_array(given: Any) -> bool:
    return _members_of_input(given) is None and (isinstance(given, str) or not is_fixed_value(given))


def parameter_names(model: Any) -> list[str]:
    """Return the names of the parameters of an object's forward by position; empty if it has none."""
    try:
        taken = inspect.signature(model.forward).parameters.values()
    except (AttributeError, TypeError, ValueError):
        return []
    return [p.name for p in taken if p.kind is p.POSITIONAL_OR_KEYWORD]


# -- keyword arguments -------------------------------------------------------------------------------------------------

READ_OPTIONS = {
    "model": "--model", "model_args": "--model-arg", "code": "--code", "outputs": "--outputs",
    "signature": "--signature", "trace": "--trace",
}  # fmt: skip
"""Options of sources, each of which some kinds only have a use for: those that a frontend's `READS` names.

By the fields of `Options`, each with the option of the command line."""

_NOT_KEYWORDS = {
    "inputs", "examples", "fixed", "nested_inputs", "rules", "dump_passes", "widen", "narrow", "single_size_branch",
    "extra",
}  # fmt: skip
"""Fields of `Options` that are no keywords of their own."""


def make_options(
    inputs: Any,
    options: Mapping[str, Any],
    rules: Sequence[str | Path] = (),
    fixing: bool | str = False,
    source: Source | None = None,
) -> Options:
    """Return `Options` from keyword arguments; `inputs` are divided into specs, example arrays and fixed values.

    Raises `UsageError`.

    fixing: whether the model's inputs may have fixed values; if False, Python numbers are arrays. `assigned`: only as
    text. source: the source that the inputs belong to; a nested input gets its name from the source's forward. options:
    by the names of `Options`, and of what frontends and backends declare. rules: the user's rule files, which are
    loaded, as are those of the option `code`; `BadInput` if one is missing or fails.
    """
    own, extra = _divided_options(options)
    specs: list[InputSpec] = []
    examples: dict[Any, Any] = {}
    fixed: dict[Any, Any] = {}
    nested_inputs: dict[str, NestedInput] = {}
    names = parameter_names(source.model) if source is not None else []
    for name, given in _named_inputs(inputs, fixing is True, names, nested_inputs):
        if isinstance(given, InputSpec):
            specs.append(given)
        elif assignment := _fixed_input(name, given, fixing):
            fixed[assignment[0]] = assignment[1]
        elif isinstance(given, str):
            spec = parse_input(given)
            specs.append(InputSpec(name, spec.dtype, spec.shape) if isinstance(name, str) else spec)
        else:
            examples[name] = _array(given)
    return Options(
        inputs=tuple(specs),
        examples=without_fixed_places(examples, fixed),
        fixed=fixed,
        nested_inputs=nested_inputs,
        no_inputs=isinstance(inputs, (list, tuple, Mapping)) and not inputs,
        rules=load_rules(rules),
        extra=extra,
        **own,
    )


def _divided_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of `Options` among the options, and those that frontends and backends declare, both checked."""
    declared, own = plugin.options(), {f.name for f in fields(Options)} - _NOT_KEYWORDS
    known = own | {*declared}
    unknown = sorted(set(options) - known)
    if unknown:
        raise UsageError(
            f"there is no option {unknown[0]!r}",
            hint=f"{did_you_mean(unknown[0], known)}options: {', '.join(sorted(known))}",
        )
    options = {name: _from_file(value, declared.get(name)) for name, value in options.items()}
    for name, value in options.items():
        # The requested format determines which ways of storing numbers exist.
        if name in declared and not declared[name].stores:
            declared[name].check(value)
    extra = {name: value for name, value in options.items() if name not in own}
    options = {name: value for name, value in options.items() if name in own}
    options["code"] = load_code(options.get("code", ()))
    if (args := options.get("model_args")) and not isinstance(args, Mapping):
        raise UsageError(f"model_args is a {type(args).__name__}", hint="give them by name: {'num_classes': 9}")
    return options, extra


def _fixed_input(name: Any, given: Any, fixing: bool | str) -> tuple[Any, Any] | None:
    """Return the name and value of an input with a fixed value, such as `sr=16000`; None for any other input.

    fixing: as for `make_options`. Raises `UsageError` if the model's inputs cannot have fixed values.
    """
    is_value, value = fixed_value_of(name, given) if fixing is True else (False, None)
    assignment = parse_fixed_value(given) if isinstance(given, str) and isinstance(name, int) else None
    if not is_value and not assignment:
        return None
    name, value = assignment or (name, value)
    if not fixing:
        raise UsageError(
            f"{given!r} is a fixed value, which only inputs of PyTorch and ONNX models may have",
            hint=meant_shape(name, value)
            or f"leave it out, and {name} stays an input; to fix it, convert to ONNX first, then the ONNX file "
            f"with --input {name}={value}",
        )
    return name, value


def _from_file(value: Any, option: plugin.Option[Any] | None) -> Any:
    """Return arrays by name if an option of arrays names a file, as on the command line."""
    if option is None or not isinstance(option.default, dict) or not isinstance(value, (str, Path)):
        return value
    return arrays_in(Path(value), option.help)


def arrays_in(path: Path, hint: str) -> dict[Any, Any]:
    """Return the arrays in an `.npz` or a folder of `.npy`, by name.

    Raises `UsageError`, with `hint`, if the path does not exist, and `BadInput` if it cannot be read.
    """
    from convert.files.missing import near_path
    from convert.request.given_arrays import load_inputs

    if not path.exists():
        near = near_path(path)
        suggestion = f"did you mean {near}? " if near else ""
        raise UsageError(f"there is no file or folder {path}", hint=f"{suggestion}{hint}")
    return dict(load_inputs(path))


def inputs_in_file(inputs: Any) -> dict[Any, Any] | None:
    """Return the arrays in the file that `inputs` names; None for specs, arrays and everything else.

    A path names a file, and so does text that ends in `.npz` or that names a folder of `.npy`.
    """
    if isinstance(inputs, str) and not inputs.endswith(".npz") and not Path(inputs).is_dir():
        return None
    if not isinstance(inputs, (str, Path)):
        return None
    return arrays_in(
        Path(inputs), "`inputs` is a file of arrays by name, arrays, or specs such as 'x:float32[batch,3]'"
    )


_LARGE = 1 << 30
"""Bytes of one input that lead where memory runs out."""


@contextmanager
def naming_large_inputs(options: Options, known: Sequence[Tensor]) -> Iterator[None]:
    """Context manager: an error for lack of memory names the inputs of more than 1 GB: those in `options`, or the
    `known` ones.
    """
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
    """Return an input's name for messages, and its bytes; named dims count as one."""
    bits = int(next(iter(re.findall(r"\d+", dtype or "float32")), 8))
    text = f"the input {name or ''}".rstrip() + f" ({dtype or 'float32'}[{','.join(map(str, dims))}])"
    return text, prod(dim for dim in dims if isinstance(dim, int)) * bits // 8


def _named_inputs(
    inputs: Any, fixing: bool, names: Sequence[str], nested_inputs: dict[str, NestedInput]
) -> Iterable[tuple[Any, Any]]:
    if inputs is None:
        return []
    if isinstance(inputs, Mapping):
        return [row for name, given in inputs.items() for row in leaves_of(name, given, fixing, nested_inputs)]
    listed = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    found: list[tuple[Any, Any]] = []
    by_name = any(map(holds_arrays, listed))
    for place, given in enumerate(listed):
        nested = holds_arrays(given)
        if nested and place >= len(names):
            raise UsageError(
                f"the input {place} is a {type(given).__name__} with inputs in it, whose name is not known",
                hint="give it by the name that forward has for it: {'name': ...}",
            )
        name = names[place] if by_name and place < len(names) else place
        found += leaves_of(name, given, fixing, nested_inputs) if nested else [(name, given)]
    return found


def _array(given: Any) -> Any:
    import ml_dtypes
    import numpy as np

    if hasattr(given, "detach"):
        given = given.detach().cpu()
        narrow = getattr(ml_dtypes, str(given.dtype).removeprefix("torch."), None)
        if narrow is not None:  # numpy has no dtype of its own for these; float32 holds all of their numbers
            return np.asarray(given.float()).astype(narrow)
    from convert.graph.tensors import plain_array

    try:
        return plain_array(np.asarray(given))
    except Exception as error:
        raise UsageError(f"an input of type {type(given).__name__} is neither a spec nor an array") from error


def unread_options(options: Options, source: Source) -> list[str]:
    """Return a sentence for each option about the source that this kind of source does not use."""
    reads = getattr(plugin.frontend_for(source), "READS", None)
    if reads is None:  # this frontend does not declare it
        return []
    names = [name for name in READ_OPTIONS if getattr(options, name) and source.kind not in reads.get(name, ())]
    return [f"{READ_OPTIONS[name]} has no effect on a source of kind {source.kind}" for name in names]
