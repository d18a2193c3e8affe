"""Input specs such as `x:float32[batch=1..8,3,h,w]`, and the options of a conversion."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convert.errors import UsageError
from convert.request.nearest import did_you_mean

DTYPES = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "complex64",
    "complex128",
    "string",
]


@dataclass(frozen=True)
class DimSpec:
    """One dim of an input: a `size`, or a named dynamic dim with optional bounds, which are inclusive.

    A name may be a sum of names and numbers: `past+new`. `usual` is the size of a dynamic dim that a configuration
    names: the one to fix if a model does not convert with other sizes.

    >>> str(DimSpec(name="batch", low=1, high=8))
    'batch=1..8'
    """

    size: int | None = None
    name: str | None = None
    low: int | None = None
    high: int | None = None
    usual: int | None = field(default=None, compare=False)

    @property
    def dynamic(self) -> bool:
        return self.size is None

    def __str__(self) -> str:
        if self.size is not None:
            return str(self.size)
        bounds = "" if self.low is None and self.high is None else f"={_or_blank(self.low)}..{_or_blank(self.high)}"
        return (self.name or "?") + bounds


@dataclass(frozen=True)
class InputSpec:
    """One input as the user described it; `dtype` and `shape` are None if they are not given.

    assumed: the shape comes from a configuration file, not from the user.

    >>> spec = parse_input("x:float32[batch,3]")
    >>> spec.name, spec.dtype, [str(dim) for dim in spec.shape]
    ('x', 'float32', ['batch', '3'])
    """

    name: str | None = None
    dtype: str | None = None
    shape: tuple[DimSpec, ...] | None = None
    assumed: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        shape = "" if self.shape is None else "[" + ",".join(map(str, self.shape)) + "]"
        dtype = self.dtype or ""
        text = dtype + shape
        return f"{self.name}:{text}" if self.name and text else (self.name or text)


@dataclass(frozen=True)
class Options:
    """The options of one conversion. Those that single frontends and backends declare are in `extra`.

    inputs: specs, in the order of the model's inputs or matched by name.
    examples: arrays to capture and verify with, by input name.
    fixed: values of inputs that are no tensors (`sr=16000`) and become constants of the graph, by name or place.
    nested_inputs: classes of inputs that hold others (`given_inputs.NestedInput`), by the parameters of forward.
    no_inputs: the model has no inputs (`inputs=()`).
    model: `pkg.mod:factory` (or `file.py:factory`) that builds the module for a file that holds weights only.
    model_args: keyword arguments that the factory of `model` is called with.
    code: Python files, by their whole paths, which define classes that the model's file names.
    outputs: names of the tensors that become the outputs, of a frozen graph or an ONNX model.
    signature: the signature of a SavedModel to convert.
    layout: layout of the inputs and outputs of the artefact, `nchw` or `nhwc`; empty keeps the source's.
    trust: allow executing what the file contains.
    trace: if Python control flow depends on data, convert the path that the example takes.
    dtype: `float16` stores floating weights in half precision; empty keeps theirs.
    widen: dtypes of the source that become float32, because the target's usual runtime does not compute in them.
    narrow: dtypes that the target stores when asked (`Format.narrow`), for hints.
    quantize: `int8` stores weights in 8 bits, `int4` in 4; `int16x8` stores activations in 16 bits besides.
    calibrate: samples by input name; with them `quantize` stores activations in 8 bits too.
    rules: Python files with rules for custom operators, by their whole paths.
    dump_passes: the folder that gets the graph after each pass (`passes.run_passes`).
    check_passes: check the graph after each pass, and name the one that broke it.
    single_size_branch: read only one branch of a model that decides on sizes, because the format has no such branches.
    counterparts: names of the inputs of an artefact that the model is compared with. Inputs that the model computes if
        they are left out (the positions of tokens) are left out unless they are among these names.
    extra: values of other options that frontends and backends declare (`plugin.Option.of` reads them), by name.
    """

    inputs: tuple[InputSpec, ...] = ()
    examples: Mapping[str | int, Any] = field(default_factory=dict)
    fixed: Mapping[str | int, Any] = field(default_factory=dict)
    nested_inputs: Mapping[str, Any] = field(default_factory=dict)
    no_inputs: bool = False
    model: str = ""
    model_args: Mapping[str, Any] = field(default_factory=dict)
    code: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    signature: str = ""
    layout: str = ""
    trust: bool = False
    trace: bool = False
    dtype: str = ""
    widen: tuple[str, ...] = ()
    narrow: tuple[str, ...] = ()
    quantize: str = ""
    calibrate: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    dump_passes: Path | None = None
    check_passes: bool = False
    single_size_branch: bool = False
    counterparts: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


_NAME = r"[^:\[\]]+(?:::[^:\[\]]+)*(?::\d+)?"  # also of a tensor: scope/x:0
_SPEC = re.compile(rf"(?:(?P<name>{_NAME}):)?(?P<dtype>[a-z]+[0-9]*)?(?:\[(?P<shape>[^\]]*)\])?")
_SHAPE = re.compile(
    r"\s*(?:\d+|-1|\?)(?:\s*,\s*(?:\d+|-1|\?|[A-Za-z_]\w*))*\s*"
)  # begins with a digit, which no name does
_DIM = re.compile(r"(?P<name>[A-Za-z_]\w*(?:\+\w+)*)?(?:=?(?P<low>\d+)?\.\.(?P<high>\d+)?)?")


_DTYPE_ALIASES = {
    **dict.fromkeys(("float", "f32", "fp32", "single"), "float32"),
    **dict.fromkeys(("double", "f64", "fp64"), "float64"),
    **dict.fromkeys(("half", "f16", "fp16"), "float16"),
    **dict.fromkeys(("bf16", "bfloat"), "bfloat16"),
    **dict.fromkeys(("long", "int", "i64"), "int64"),
    **dict.fromkeys(("i32", "integer"), "int32"),
    **dict.fromkeys(("byte", "u8"), "uint8"),
    **dict.fromkeys(("boolean", "b"), "bool"),
    **dict.fromkeys(("str", "text"), "string"),
}
"""Names of dtypes in other frameworks and in C."""


def _meant_dtype(word: str) -> str:
    """Return `did you mean NAME? ` for a dtype by another name; else ""."""
    return did_you_mean(_DTYPE_ALIASES.get(word.lower(), word), DTYPES)


def parse_input(text: str) -> InputSpec:
    """Return the spec that a text describes: `name:dtype[dims]`, of which two may be missing.

    A dim is a number, a name (dynamic), `name=lo..hi` (dynamic, bounded), a sum of names (`past+new`) or `?` (dynamic,
    without a name). Dims that begin with a number need no brackets. Raises `UsageError` for anything else.

    >>> [str(parse_input(text)) for text in ("1,3,224,224", "x:int64", "float32[n,10]", "scope/x:0")]
    ['[1,3,224,224]', 'x:int64', 'float32[n,10]', 'scope/x:0']
    """
    hint = "write NAME:DTYPE[DIMS], for instance x:float32[batch,3,224,224] or ids:int64[batch=1..8,seq]"
    match = _SPEC.fullmatch(f"[{text}]" if _SHAPE.fullmatch(text) else text.strip())
    if not match and re.fullmatch(rf"(?!\s){_NAME}(?<!\s)", text):
        return InputSpec(text)
    if not match or not text.strip():
        raise UsageError(f"cannot read the input specification {text!r}", hint=hint)
    name, dtype, shape = match["name"], match["dtype"], match["shape"]
    if dtype is not None and dtype not in DTYPES:
        if name is not None or shape is not None:
            raise UsageError(
                f"{dtype!r} in {text!r} is not a dtype",
                hint=f"{_meant_dtype(dtype)}dtypes are {', '.join(DTYPES)}",
            )
        name, dtype = dtype, None
    dims = None
    if shape is not None:
        dims = tuple(_parse_dim(d.strip(), text, hint) for d in shape.split(",")) if shape.strip() else ()
    return InputSpec(name, dtype, dims)


_MOST_DIGITS = 18
"""Maximum number of digits of a size; some numbers of 19 digits do not fit into 64 bits."""


def _parse_dim(text: str, spec: str, hint: str) -> DimSpec:
    if any(len(digits) > _MOST_DIGITS for digits in re.findall(r"(?<!\w)\d+", text)):
        raise UsageError(f"the dim {text[:40]!r} is too large", hint=hint)
    if re.fullmatch(r"\d+", text):
        return DimSpec(size=int(text))
    if text in ("?", "-1"):
        return DimSpec()
    match = _DIM.fullmatch(text)
    if not match or not text:
        raise UsageError(f"cannot read the dim {text!r} in {spec!r}", hint=hint)
    low = int(match["low"]) if match["low"] else None
    high = int(match["high"]) if match["high"] else None
    if low is not None and high is not None and low > high:
        right = f"{match['name'] or ''}={high}..{low}"
        raise UsageError(
            f"the bounds of {text!r} in {spec!r} are the wrong way round", hint=f"the smaller one first: {right}"
        )
    return DimSpec(name=match["name"], low=low, high=high)


def _or_blank(number: int | None) -> str:
    return "" if number is None else str(number)


def parse_size(text: str) -> int:
    """Return the bytes of `8GB`, `512MiB` or `1000000`. Raises `UsageError`."""
    units = {
        "": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
        "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "g": 2**30, "t": 2**40,
    }  # fmt: skip
    number = text.strip().rstrip("BbGgIiKkMmTt ")
    unit = text.strip()[len(number) :].strip().lower()
    try:
        size = int(float(number) * units[unit])
    except (KeyError, ValueError, OverflowError):
        size = 0
    if not 0 < size < 1 << 63:
        raise UsageError(f"{text[:40]!r} is not an amount of memory", hint="for instance 8GB or 512MiB")
    return size
