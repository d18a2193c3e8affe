"""Turns a module into an ExportedProgram: finds example inputs, decides which dims are dynamic, explains failures."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from convert.errors import Unsupported, UsageError
from convert.options import Options
from convert.report import Report

from .arguments import arranged, arranged_shapes
from .dims import finite, is_fixed
from .examples import Call, Wish, calls
from .guards import Place, fixing_lines, recording
from .locate import shown_path
from .masks import masks_as_given
from .prepare import uses_vmap
from .recurrent import whole_layers
from .replaced import capturable
from .state import refuse_assignments, watching

CHOICES = (
    "rewrite it with torch.cond, torch.while_loop or torch.scan; or torch.jit.script the module, whose branches and "
    "loops convert; or give --trace to convert only the path that the example takes"
)


def capture(module: nn.Module, options: Options, report: Report) -> tuple[ExportedProgram, Call]:
    """The captured module and the call that it was captured with.

    Raises `UsageError` where inputs are neither given nor to be inferred, `Unsupported` where capture fails.
    """
    first: Exception | None = None
    with inference(module), report.stage("capture"), recording() as messages:
        for call, said in calls(module, options):
            try:
                messages.clear()
                program, call = _captured(module, call, report, messages)
            except (UsageError, Unsupported):
                raise
            except Exception as error:
                if said is None or _is_about_data(error) or "Constraints violated" in str(error):
                    _check_runs(module, call)
                    raise _explained(error, call, fixing_lines(messages)) from error
                first = first or error
                continue
            if said:
                report.note(said)
            return program, call
    assert first is not None
    raise UsageError(
        f"no size was found for the inputs of this {type(module).__name__}; the first try ended with: {_short(first)}",
        hint="describe the inputs, for instance --input x:float32[batch,3,224,224]",
    ) from first


@contextmanager
def inference(module: nn.Module | None) -> Iterator[None]:
    """Eval mode without gradients and without fused attention kernels; everything is as before afterwards."""
    training = [m for m in module.modules() if getattr(m, "training", False)] if module is not None else []
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    for m in training:
        m.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for m in training:
            m.training = True


# -- one capture ------------------------------------------------------------------------------------------------------


def _captured(module: nn.Module, call: Call, report: Report, messages: Sequence[str]) -> tuple[ExportedProgram, Call]:
    """Capture with the dims of `call` dynamic where the model allows it; a dim that it ties to its size is reported."""
    program = _export(module, call, report)
    mapped = uses_vmap(program)
    fixed = [
        (name, place)
        for name, example in call.items()
        for place in example.wishes
        if _is_fixed(program, name, place) or (mapped and _is_bounded(program, name, place))
    ]
    if any(call[name].wishes[place].asked for name, place in fixed):
        raise Unsupported(
            "forward uses associative_scan along a dim that was to be dynamic: it is written out for one length",
            hint="give a number for that dim in --input, or use torch.scan",
        )
    if not fixed:
        return program, call
    kept = {}
    lines = fixing_lines(messages)
    for name, example in call.items():
        wishes = {p: w for p, w in example.wishes.items() if (name, p) not in fixed}
        tensor = example.tensor
        for p, wish in example.wishes.items():
            if (name, p) in fixed:
                tensor = tensor if wish.fixed is None else tensor.narrow(p, 0, wish.fixed)
                size = tensor.shape[p]
                where = f", at {lines[name, p]}" if lines.get((name, p)) else ""
                report.note(
                    f"the dim {wish.name or p} of {name} is fixed at {size}: forward is written for one size{where}"
                )
        kept[name] = replace(example, tensor=tensor, wishes=wishes)
    return _export(module, kept, report), kept


def _export(module: nn.Module, call: Call, report: Report) -> ExportedProgram:
    args, kwargs = arranged(module, {name: example.tensor for name, example in call.items()})
    shapes: dict[str, Any] = {}
    for name, example in call.items():
        shapes[name] = {place: _dim(wish) for place, wish in example.wishes.items()} or None
    dynamic = arranged_shapes(module, shapes)
    with warnings.catch_warnings(), watching(module) as assigned:
        warnings.simplefilter("ignore")
        program = exported(module, args, kwargs, dynamic)
    refuse_assignments(program, assigned, report)
    return program


def exported(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, dynamic: Any = None
) -> ExportedProgram:
    """torch.export, with functions that it cannot capture replaced by their equals."""
    with capturable(), whole_layers(), masks_as_given():
        return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic, strict=False)


def _dim(wish: Wish) -> Any:
    """A dim that has to be dynamic where the user asked for that, else one that is if torch.export finds it possible.

    Not a named `Dim`: that refuses guards which always hold but are not proved, such as h // 2 <= h.
    """
    hint = Dim.DYNAMIC if wish.asked else Dim.AUTO
    # Lengths of 0 and 1 are always treated apart, so 2 is no bound of its own.
    low = wish.low if wish.low is not None and wish.low > 2 else None
    return hint if low is None and wish.high is None else hint(min=low, max=wish.high)


def _is_bounded(program: ExportedProgram, name: str, place: int) -> bool:
    """True for a dim that holds for some lengths only: those for which associative_scan halves as often."""
    node = next(n for n in program.graph.nodes if n.op == "placeholder" and n.name == name)
    known = program.range_constraints.get(node.meta["val"].shape[place].node.expr)
    return known is not None and finite(known.upper) is not None


def _is_fixed(program: ExportedProgram, name: str, place: int) -> bool:
    node = next((n for n in program.graph.nodes if n.op == "placeholder" and n.name == name), None)
    return node is not None and is_fixed(node.meta["val"].shape[place])


# -- failures ---------------------------------------------------------------------------------------------------------

_SIZE = re.compile(r"L\['(?P<input>\w+)'\]\.size\(\)\[(?P<place>\d+)\]")
_DATA_DEPENDENT = (
    "GuardOnDataDependentSymNode",
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "UncapturedHigherOrderOpError",
)


def _check_runs(module: nn.Module, call: Call) -> None:
    """Raise `UsageError` if it is the inputs that forward does not take, rather than capture that fails."""
    args, kwargs = arranged(module, {name: example.tensor for name, example in call.items()})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module(*args, **kwargs)
    except Exception as error:
        if type(error).__module__.startswith("torch._dynamo"):
            return
        shown = ", ".join(f"{n} {list(e.tensor.shape)}" for n, e in call.items())
        at = _user_line(error)
        raise UsageError(
            f"forward does not run on inputs as described ({shown}){f' at {at}' if at else ''}: {_short(error)}",
            hint="describe the inputs that this model takes with --input NAME:DTYPE[DIMS]",
        ) from error


def _is_about_data(error: Exception) -> bool:
    names = {type(e).__name__ for e in _chain(error)}
    return bool(names & set(_DATA_DEPENDENT)) or "data-dependent" in str(error) or "_is_tracing" in str(error)


def _explained(error: Exception, call: Call, lines: Mapping[Place, str]) -> Exception:
    """What capture could not do, where, and what there is to do about it."""
    where = _user_line(error)
    at = f" at {where}" if where else ""
    if _is_about_data(error):
        return Unsupported(
            f"forward decides in Python on the value of a tensor{at}, and a graph holds only one way", hint=CHOICES
        )
    asked = [(n, p) for n, e in call.items() for p, w in e.wishes.items() if w.asked and (n, p) in lines]
    if "specialized" in str(error) and asked:
        listed = "; ".join(f"{_dim_name(call, n, p)} of {n}, at {lines[n, p]}" for n, p in asked)
        return Unsupported(
            f"forward takes only one size of a dim that was to be dynamic: {listed}",
            hint="give a number for that dim in --input, or rewrite that line so that it does not need the number",
        )
    text = _SIZE.sub(lambda m: _dim_name(call, m["input"], int(m["place"])), _short(error))
    if "Constraints violated" in str(error) or "specialized" in str(error):
        return Unsupported(
            f"forward does not take every size of a dim that was to be dynamic{at}: {text}",
            hint="give a number for that dim in --input, or bounds that hold",
        )
    return Unsupported(
        f"torch.export could not capture forward{at}: {text}",
        hint="check that forward runs on these inputs; --trace records the operators of one run instead",
    )


def _dim_name(call: Call, label: str, place: int) -> str:
    """The user's name of a dim that PyTorch calls L['x'].size()[2]."""
    wish = call[label].wishes.get(place) if label in call else None
    return wish.name if wish is not None and wish.name else f"{label}.shape[{place}]"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _user_line(error: Exception) -> str:
    """file:line of the user's innermost frame, with the line itself."""
    torch_folder, own = str(Path(torch.__file__).parent), str(Path(__file__).parent)
    for e in reversed(list(_chain(error))):
        for frame in reversed(traceback.extract_tb(e.__traceback__)):
            if not frame.filename.startswith((torch_folder, own)) and "contextlib" not in frame.filename:
                return (
                    f"{shown_path(frame.filename)}:{frame.lineno} ({frame.line})"
                    if frame.line
                    else f"{frame.filename}:{frame.lineno}"
                )
    return ""


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:500]}"
