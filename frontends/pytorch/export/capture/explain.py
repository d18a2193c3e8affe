"""Explains what capture could not do, where, and what the user can do."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Collection, Iterator, Mapping
from inspect import Parameter, signature

from torch import nn

from convert.errors import ConvertError, Unsupported, UsageError
from convert.request.nearest import names_hint

from ...common.locate import TORCH, shown_path
from ...inputs.arguments import arrange_arguments
from ...inputs.examples import Call
from ...inputs.layout_hint import channels_first_hint
from ...inputs.trial_runs import output_shapes
from ...torch_internals import is_of_dynamo
from .. import FOLDER
from .gradients import call_with_gradients_if_asked
from .guards import Place

CHOICES = (
    "rewrite it with torch.cond, torch.while_loop or torch.scan; or torch.jit.script the module, whose branches and "
    "loops convert; or give --trace to convert only the path that the example takes"
)

_SIZE = re.compile(r"L\['(?P<input>\w+)'\]\.size\(\)\[(?P<place>\d+)\]")
_DATA_DEPENDENT = (
    "GuardOnDataDependentSymNode",
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "UncapturedHigherOrderOpError",
)


def accepts(module: nn.Module, call: Call) -> bool:
    """Return whether forward runs on the inputs of the call."""
    return output_shapes(module, {name: example.tensor for name, example in call.items()}) is not None


def check_runs(module: nn.Module, call: Call, hint: str = "") -> None:
    """Raise `UsageError`, with `hint` if it is given, if forward rejects the inputs: capture is not to blame then."""
    args, kwargs = arrange_arguments(module, {name: example.tensor for name, example in call.items()})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call_with_gradients_if_asked(module, args, kwargs)
    except Exception as error:
        if is_of_dynamo(error):
            return
        shown = ", ".join(f"{n} {list(e.tensor.shape)}" for n, e in call.items())
        at = _user_line(error)
        raise UsageError(
            f"forward does not run on inputs as described ({shown}){f' at {at}' if at else ''}: {short_message(error)}",
            hint=hint or dtype_hint(module, call) or _layout_hint(module, call) or _inputs_hint(module, call),
        ) from error


def _inputs_hint(module: nn.Module, call: Call) -> str:
    """Return a hint at the inputs that forward takes, and at dims with one name if the call has them."""
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    names = [parameter.name for parameter in signature(module.forward).parameters.values() if parameter.kind in kinds]
    unknown = [name for name in call if name not in names]
    if unknown and names:
        return names_hint(unknown[0], names)
    dims = [
        dynamic_dim.name
        for example in call.values()
        for dynamic_dim in example.dynamic_dims.values()
        if dynamic_dim.name
    ]
    same = "; dims with the same name have the same size, a sum is written as in mask:int64[batch,past+new]"
    return "describe inputs that forward takes: --input NAME:DTYPE[DIMS]" + same * (len(dims) > len(set(dims)))


def _layout_hint(module: nn.Module, call: Call) -> str:
    """Return a hint if the inputs were described with channels last."""
    dims = {
        name: [e.dynamic_dims[i].name if i in e.dynamic_dims else size for i, size in enumerate(e.tensor.shape)]
        for name, e in call.items()
    }

    def run_moved(names: Collection[str]) -> object:
        tensors = {n: e.tensor.movedim(-1, 1) if n in names else e.tensor for n, e in call.items()}
        args, kwargs = arrange_arguments(module, tensors)
        return call_with_gradients_if_asked(module, args, kwargs)

    return channels_first_hint(dims, {name: e.tensor.dtype for name, e in call.items()}, run_moved)


def dtype_hint(module: nn.Module, call: Call) -> str:
    """Return a hint if the floating-point weights have one dtype and the inputs another; else ""."""
    weights = {str(p.dtype).removeprefix("torch.") for p in module.parameters() if p.is_floating_point()}
    if len(weights) != 1:
        return ""
    (dtype,) = weights
    others = [n for n, e in call.items() if e.tensor.is_floating_point() and str(e.tensor.dtype) != f"torch.{dtype}"]
    if not others:
        return ""
    dims = ",".join(map(str, call[others[0]].tensor.shape))
    return f"the weights of the module are {dtype}: describe its inputs so too, --input {others[0]}:{dtype}[{dims}]"


def is_about_data(error: Exception) -> bool:
    names = {type(e).__name__ for e in _exception_chain(error)}
    return bool(names & set(_DATA_DEPENDENT)) or "data-dependent" in str(error) or "_is_tracing" in str(error)


_ONE_SIZE = "forward takes only one size"
_NUMBER = "give a number for that dim in --input, or rewrite that line so that it does not need the number"


def loops_in_python(error: ConvertError) -> bool:
    """Return whether PyTorch reports the error as a Python loop that a size or data ends. It also reports other
    decisions like this.
    """
    return error.message.startswith(_ONE_SIZE) or is_about_data(error)


def is_about_symbols(error: Exception) -> bool:
    """Return whether Python refused a symbolic size where it would take a number: as a key, or in numpy."""
    return isinstance(error, TypeError) and "SymInt" in str(error)


def explain_error(error: Exception, call: Call, lines: Mapping[Place, str]) -> Exception:
    """Return an error that explains what capture could not do, where, and what the user can do."""
    where = _user_line(error)
    at = f" at {where}" if where else ""
    if is_about_data(error):
        return Unsupported(
            f"forward decides in Python on the value of a tensor{at}, and a graph holds only one way",
            hint=_scalar_hint(call) + CHOICES,
        )
    if "torch._C.Generator" in str(error):  # up to PyTorch 2.12, which does not treat it as a constant
        return generator_refusal(at)
    asked = [(n, p) for n, e in call.items() for p, w in e.dynamic_dims.items() if w.asked and (n, p) in lines]
    if "specialized" in str(error) and asked:
        listed = "; ".join(f"{_dim_name(call, n, p)} of {n}{location_suffix(lines[n, p])}" for n, p in asked)
        return Unsupported(
            f"{_ONE_SIZE} of a dim that was to be dynamic: {listed}",
            hint=_NUMBER,
        )
    text = _SIZE.sub(lambda m: _dim_name(call, m["input"], int(m["place"])), short_message(error))
    if is_about_symbols(error):
        return Unsupported(
            f"{_ONE_SIZE} of a dim that was to be dynamic{at}, because Python needs a number there: {text}",
            hint=_NUMBER,
        )
    if "Constraints violated" in str(error) or "specialized" in str(error):
        return Unsupported(
            f"forward does not take every size of a dim that was to be dynamic{at}: {text}",
            hint="give a number for that dim in --input, or bounds that hold",
        )
    return Unsupported(
        f"torch.export could not capture forward{at}: {text}",
        hint="check that forward runs on these inputs; --trace records the operators of one run instead",
    )


def generator_refusal(where: str) -> Unsupported:
    """Return the refusal of a forward that draws from a Generator; `where` names it, or its line."""
    return Unsupported(
        f"forward draws from a torch.Generator{where}, whose state a graph does not have",
        hint="draw without generator= in forward, or draw once in __init__ and keep the numbers in a buffer",
    )


def _scalar_hint(call: Call) -> str:
    """Return a hint to make scalar inputs constant, if there are any: they may decide."""
    scalars = {n: e.tensor for n, e in call.items() if e.tensor.dim() == 0}
    listed = " ".join(f"--input {n}={t.item()}" for n, t in scalars.items())
    them = "it" if len(scalars) == 1 else "them"
    return f"if {' or '.join(scalars)} decides, {listed} makes a constant of {them}; else " if scalars else ""


def location_suffix(line: str) -> str:
    return f", at {line}" if line else ""


def _dim_name(call: Call, label: str, place: int) -> str:
    """Return the user's name of a dim that PyTorch calls L['x'].size()[2]."""
    dynamic_dim = call[label].dynamic_dims.get(place) if label in call else None
    return dynamic_dim.name if dynamic_dim is not None and dynamic_dim.name else f"{label}.shape[{place}]"


def _exception_chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _user_line(error: Exception) -> str:
    """Return file:line of the user's innermost frame, with the line itself."""
    for e in reversed(list(_exception_chain(error))):
        for frame in reversed(traceback.extract_tb(e.__traceback__)):
            if not frame.filename.startswith((TORCH, FOLDER, "<")) and "contextlib" not in frame.filename:
                return (
                    f"{shown_path(frame.filename)}:{frame.lineno} ({frame.line})"
                    if frame.line
                    else f"{frame.filename}:{frame.lineno}"
                )
    return ""


def short_message(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:500]}"
