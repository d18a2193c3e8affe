"""Inputs that are one value of Python and no tensor: `sr=16000` of the command line, `{"sr": 16000}` from Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from convert.errors import UsageError
from convert.options import DTYPES

if TYPE_CHECKING:
    import numpy as np

_ASSIGNMENT = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<value>.*?)\s*", re.S)
_WORDS = {"true": True, "false": False, "none": None}
_BOUNDS = re.compile(r"\d*\.\.\d*")


def parse_fixed_value(text: str) -> tuple[str, Any] | None:
    """The name and value of `sr=16000`, `flag=true`, `mode=fast`, `size=[2,3]`; None for another text.

    What is no number, `true`, `false`, `none`, quoted text or list of these is text. Raises `UsageError` for bounds
    and for a dtype with dims.
    """
    found = _ASSIGNMENT.fullmatch(text)
    if found is None or re.search(r":[a-z]+\d*\[", text):
        return None
    name, value = found["name"], found["value"]
    if _BOUNDS.match(value) or not value:
        raise UsageError(
            f"cannot read the input specification {text!r}",
            hint="a fixed value is NAME=VALUE, for instance sr=16000; bounds of a dim stand in brackets: x:[n=1..8]",
        )
    if (described := re.match(r"([a-z]+\d*)\[", value)) and described[1] in DTYPES:
        raise UsageError(
            f"{text!r} fixes {name} to a text",
            hint=f"the dtype and the dims of an input stand behind a colon: {name}:{value}; text stands in quotes",
        )
    return name, _value_of(value)


def _value_of(text: str) -> Any:
    found = _literal(text)
    return found if is_fixed_value(found) else text


def parse_model_args(texts: Sequence[str]) -> dict[str, Any]:
    """The keyword arguments of `num_classes=9`, `pretrained=false`, `sizes=[3,4]`: literals of Python, else text.

    Raises `UsageError` for what assigns nothing, and for a name that is given twice.
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
    """True for a value of Python that is no tensor: None, a number, a flag, text, and lists of them."""
    if isinstance(given, (list, tuple)):
        return bool(given) and all(is_fixed_value(item) for item in given)
    return given is None or type(given) in (bool, int, float, str)


def fixed_value_of(name: str | int, given: Any) -> tuple[bool, Any]:
    """Whether an input is given as a fixed value, and which: text without a name describes, and so does most other.

    A list without a name is an array. Raises `UsageError` for text that looks like a dtype and is none.
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


def _holds_text(given: Any) -> bool:
    """True for a list of texts, which describes several inputs."""
    return isinstance(given, (list, tuple)) and any(isinstance(item, str) or _holds_text(item) for item in given)


def tensor_of_value(name: str, value: Any, dtype: np.dtype[Any], dims: Sequence[object] | None) -> np.ndarray:
    """A fixed value as the tensor that an input asks for; one number also where that has dims of 1.

    Raises `UsageError` for a value of another kind or size.
    """
    import numpy as np

    wrong = UsageError(
        f"the input {name} is a tensor of {dtype}, which {shown_value(value)} is not", hint="see --input"
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
    """How a note says it."""
    return value if isinstance(value, str) and value.isidentifier() else repr(value)


def without_fixed_places(values: Mapping[Any, Any], fixed: Mapping[Any, Any]) -> dict[Any, Any]:
    """`values` by places among the inputs that are not fixed."""
    places = [k for k in fixed if isinstance(k, int)]
    return {k - sum(p < k for p in places) if isinstance(k, int) else k: v for k, v in values.items()}
