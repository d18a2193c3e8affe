"""Turns a module into an ExportedProgram: finds example inputs, decides which dims are dynamic, explains failures."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from convert.errors import Unsupported, UsageError
from convert.outcome.report import Report
from convert.request.given_inputs import meant_shape
from convert.request.options import Options

from ...common.modes import refuse_seeded, watch_seeds
from ...common.state import refuse_assignments, track_assignments
from ...inputs.arguments import arrange_arguments, arranged_shapes
from ...inputs.examples import Call, DynamicDim, candidate_calls, lengthened_call, long_call, note_fixed_dims
from ...inputs.forward_names import restore_names
from ...inputs.output_names import plain_containers
from ...torch_internals import guard_texts, schema_of
from ..decisions.branches import Branch, record_branches
from ..decisions.on_data import decision_of
from ..decisions.shown_by_runs import with_what_runs_show
from ..patch_table import patched
from ..patches.patch import Stage
from ..patches.pytorch.checks import without_checks
from ..patches.pytorch.sparse import dense_weights
from ..patches.speed.repeats import RepeatsDiffer, Traced
from .captured import Capture, admitted_sizes, count_admitted, without_immaterial
from .dims import finite_bound, is_fixed
from .explain import (
    accepts,
    check_runs,
    dtype_hint,
    explain_error,
    is_about_data,
    is_about_symbols,
    location_suffix,
    short_message,
)
from .gradients import below_autograd, has_marks, may_take_gradients
from .guards import BUILT_IN, record_size_messages, specialization_lines
from .prepare import uses_vmap
from .static_dims import Place, with_static_dims

# The size is computed from another one and must be a single number, such as a piece of a chunk of length 1.
_ONE_NUMBER = re.compile(r"\) == \d+$")


def capture(
    module: nn.Module, options: Options, report: Report, static: Collection[Place] = (), longer: bool = False
) -> Capture:
    """Capture a module, with the dims `static` fixed although they could be dynamic, and with `longer` examples.

    Raises `UsageError` if inputs are neither given nor inferable, and `Unsupported` if capture fails.
    """
    first: Exception | None = None
    shape_hint = next(filter(None, (meant_shape(name, value) for name, value in options.fixed.items())), "")
    with inference(module), report.stage("capture"), patched(Stage.MESSAGES) as watching:
        messages = watching[record_size_messages]
        for wished, remarks in candidate_calls(module, options):
            call = with_static_dims(wished, static)
            call = (lengthened_call(call, every=True) or call) if longer else call
            try:
                messages.clear()
                done = _capture_for_most_sizes(module, call, report, messages)
            except (UsageError, Unsupported, RecursionError):
                raise
            except Exception as error:
                # Python refuses symbols at any length, and a loop over 16000 would be written out to find that.
                if (
                    remarks is None
                    or is_about_data(error)
                    or "Constraints violated" in str(error)
                    or (is_about_symbols(error) and accepts(module, call))
                ):
                    check_runs(module, call, shape_hint)
                    raise explain_error(error, call, specialization_lines(messages)) from error
                first = first or error
                continue
            if remarks:
                report.note(remarks, code="assumed-input")
            note_fixed_dims(wished, options, report)
            if dtype_hint(module, call):  # fake tensors of float32 and float16 can be multiplied
                check_runs(module, call, shape_hint)
            return _settled(module, done)
    assert first is not None
    raise UsageError(
        f"no size was found for the inputs of this {type(module).__name__}; "
        f"the first try ended with: {short_message(first)}",
        hint=shape_hint or "describe the inputs, for instance --input x:float32[batch,3,224,224]",
    ) from first


def capture_sizes(module: nn.Module, call: Call, report: Report) -> Capture:
    """Capture a module for sizes with the same decisions as those of the call. Raises what forward or torch.export
    raises.
    """
    with inference(module), patched(Stage.MESSAGES):
        done = _export(module, call, report)
        if uses_vmap(done.program):
            raise Unsupported("associative_scan is written out for one length")
        return _settled(module, done)


def _settled(module: nn.Module, done: Capture) -> Capture:
    """Return the capture without those decisions on sizes that runs of the module show to have no effect."""
    return with_what_runs_show(module, without_immaterial(module, done, partial(decisions_of, module)))


@contextmanager
def inference(module: nn.Module | None) -> Iterator[None]:
    """Use eval mode without gradients and without fused attention kernels; everything is restored afterwards."""
    training = [m for m in module.modules() if getattr(m, "training", False)] if module is not None else []
    renormed = _renormed_weights(module)
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
        with torch.no_grad():
            for weight, before in renormed:
                weight.copy_(before)


def _renormed_weights(module: nn.Module | None) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the weights that layers with a `max_norm` write to when they are called, each with its content."""
    layers = [m for m in module.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))] if module else []
    return [(m.weight, m.weight.detach().clone()) for m in layers if m.max_norm is not None]


# -- sizes of the example ---------------------------------------------------------------------------------------------


def _capture_for_most_sizes(module: nn.Module, call: Call, report: Report, messages: list[str]) -> Capture:
    """Capture, with a much longer example if strided layers reduce a short length to 1.

    If the longer example is no valid input, the graph checks that the length is 1.
    """
    done = _capture_once_or_longer(module, call, report, messages)
    if not any(map(BUILT_IN.match, _guard_codes(done))) or (longest := long_call(call)) is None:
        return done
    try:
        other = _capture_call(module, longest, Report("again"), messages)
    except Exception:
        return done
    return other if _constraint_counts(other) < _constraint_counts(done) else done


def _capture_once_or_longer(module: nn.Module, call: Call, report: Report, messages: list[str]) -> Capture:
    """Capture, with a longer example if a short one represents few lengths: x.chunk(2) of 2 rows gives single rows.

    The second capture is used if it constrains fewer dims, or fixes fewer computed sizes.
    """
    longer = lengthened_call(call)
    if longer is None:
        return _capture_call(module, call, report, messages)
    try:
        done = _capture_call(module, call, report, messages)
    except Exception as error:
        if not ("specialized" in str(error) or "Constraints violated" in str(error)):
            raise
        earlier = list(messages)
        messages.clear()
        try:
            return _capture_call(module, longer, report, messages)
        except Exception:
            messages[:] = earlier
            raise error from None
    narrow = _constraint_counts(done)
    if narrow == (0, 0):
        return done
    try:
        other = _capture_call(module, longer, Report("again"), messages)
    except Exception:
        return done
    again = _constraint_counts(other)
    better = again[0] < narrow[0] or (again[0] == narrow[0] == 0 and again[1] <= narrow[1])
    # A number that an example of few rows gives, such as no elements, may apply to few lengths.
    fewer = again[1] < narrow[1] and count_admitted(done) < count_admitted(other)
    return other if better or fewer or count_admitted(done) == 1 < count_admitted(other) else done


def _constraint_counts(done: Capture) -> tuple[int, int]:
    """Return how many dims that should be dynamic got bounds, and how many computed sizes are fixed."""
    program, call, bounded = done.program, done.call, 0
    for name, example in call.items():
        node = next((n for n in program.graph.nodes if n.op == "placeholder" and n.name == name), None)
        for place, dynamic_dim in example.dynamic_dims.items():
            dim = None if node is None else node.meta["val"].shape[place]
            if (
                dynamic_dim.asked
                and dynamic_dim.low is dynamic_dim.high is None
                and dim is not None
                and not is_fixed(dim)
            ):
                known = program.range_constraints.get(dim.node.expr)
                bounded += known is not None and (
                    finite_bound(known.upper) is not None or (finite_bound(known.lower) or 0) > 2
                )
    return bounded, sum(bool(_ONE_NUMBER.search(code)) for code in _guard_codes(done))


def _guard_codes(done: Capture) -> list[str]:
    return guard_texts(done.program)


# -- one capture ------------------------------------------------------------------------------------------------------


def _capture_call(module: nn.Module, call: Call, report: Report, messages: Sequence[str]) -> Capture:
    """Capture with the dims of `call` dynamic if the model allows it; a dim that it fixes is reported."""
    done = _export(module, call, report)
    fixed = _fixed_dims(done)
    if any(call[name].dynamic_dims[place].required for name, place in fixed):
        raise Unsupported(
            "forward uses associative_scan along a dim that was to be dynamic: it is written out for one length",
            hint="give a number for that dim in --input, or use torch.scan",
        )
    if not fixed:
        return done
    lines = specialization_lines(messages)
    if other := _capture_of_more_sizes(module, call):
        return other
    kept = with_static_dims(call, fixed)
    for name, p in fixed:
        where = location_suffix(lines.get((name, p), ""))
        report.note(
            f"the dim {call[name].dynamic_dims[p].name or p} of {name} is fixed at {kept[name].tensor.shape[p]}: "
            f"forward is written for one size{where}",
            code="fixed-dim",
        )
    return _export(module, kept, report)


def _fixed_dims(done: Capture) -> list[Place]:
    """Return the dims that should be dynamic but that the capture fixes to one size."""
    program, mapped = done.program, uses_vmap(done.program)
    return [
        (name, place)
        for name, example in done.call.items()
        for place in example.dynamic_dims
        if _is_fixed(program, name, place)
        or (mapped and _is_bounded(program, name, place))
        or (
            not example.dynamic_dims[place].required
            and admitted_sizes(done, name, place) == [example.tensor.shape[place]]
        )
    ]


def _capture_of_more_sizes(module: nn.Module, call: Call) -> Capture | None:
    """Return a capture with a longer example, if that keeps every dim dynamic: `y[::2] += 1` of two rows concerns one
    row.
    """
    longer = lengthened_call(call, every=True)
    if longer is None:
        return None
    try:
        done = _export(module, longer, Report("again"))
    except Exception:
        return None
    return None if _fixed_dims(done) else done


def _export(module: nn.Module, call: Call, report: Report) -> Capture:
    args, kwargs, dynamic = _arguments(module, call)
    with _watched(module, report) as watching:
        program = export_program(module, args, kwargs, dynamic)
    _erase_failed_calls(program)
    restore_names(program, module, call)
    for note in watching[without_checks]:
        report.note(note, code="dropped-check")
    refuse_assignments(program, watching[track_assignments], report)
    if watching[watch_seeds]:
        refuse_seeded(program)
    decided = watching[record_branches]
    of_some_data = bool(watching[without_checks]) or any(decision_of(n) is not None for n in program.graph.nodes)
    return Capture(program, call, tuple(decided.branches), decided, of_some_data)


def decisions_of(module: nn.Module, call: Call) -> Sequence[Branch]:
    """Return the decisions on sizes of a capture that is made as far as they need. Raises what torch.export raises."""
    args, kwargs, dynamic = _arguments(module, call)
    with _watched(module, Report("again")) as watching, patched(Stage.CAPTURE, module=module), patched(Stage.LENGTHS):
        try:
            with patched(Stage.BLOCKS, module=module, only_decisions=True):
                torch.export.export(module, args, kwargs, dynamic_shapes=dynamic, strict=False)
            traced = False
        except Traced:
            traced = True
        except Exception as error:
            if not may_take_gradients(error):
                raise
            traced = False
    return tuple(watching[record_branches].branches) if traced else _export(module, call, Report("again")).branches


def _arguments(module: nn.Module, call: Call) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Return the arguments of forward, those with names, and torch.export's description of their dynamic dims."""
    args, kwargs = arrange_arguments(module, {name: example.tensor for name, example in call.items()})
    shapes: dict[str, Any] = {}
    for name, example in call.items():
        shapes[name] = {place: _dim_hint(dynamic_dim) for place, dynamic_dim in example.dynamic_dims.items()} or None
    return args, kwargs, arranged_shapes(module, shapes)


@contextmanager
def _watched(module: nn.Module, report: Report) -> Iterator[Mapping[Any, Any]]:
    """Record decisions and changes of a capture; yield what the patches that record them yield."""
    with (
        warnings.catch_warnings(),
        patched(Stage.WATCH, module=module) as watching,
        plain_outputs(module),
        dense_weights(module, report),
    ):
        warnings.simplefilter("ignore")
        yield watching


def _erase_failed_calls(program: ExportedProgram) -> None:
    """Remove calls that raised an exception which forward caught: their results were not recorded."""
    graph = program.graph_module.graph
    for node in reversed(graph.nodes):
        schema = schema_of(node.target)
        gives_tensors = schema is not None and schema.returns and not schema.is_mutable
        if gives_tensors and not node.users and "tensor_meta" not in node.meta:
            graph.erase_node(node)


@contextmanager
def plain_outputs(module: nn.Module) -> Iterator[None]:
    """Make forward return dicts in place of containers that PyTorch cannot flatten by name."""
    handle = module.register_forward_hook(lambda module, inputs, result: plain_containers(result))
    try:
        yield
    finally:
        handle.remove()


def export_program(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, dynamic: Any = None
) -> ExportedProgram:
    """Call torch.export with functions that it cannot capture replaced by equivalents."""
    with patched(Stage.CAPTURE, module=module), patched(Stage.LENGTHS):
        try:
            program = _export_repeats(module, args, kwargs, dynamic)
            if not has_marks(program):
                return program
            error = None
        except Exception as first:
            if not may_take_gradients(first):
                raise
            error = first
        try:
            return below_autograd(module, args, kwargs, dynamic)
        except Exception as other:
            error = other if error is None or is_about_data(other) else error
            if not may_take_gradients(other):
                raise error from None
    try:
        with patched(Stage.CAPTURE, module=module):  # gradients of a recurrent layer are those of its steps
            return below_autograd(module, args, kwargs, dynamic)
    except Exception:
        raise error from None


def _export_repeats(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None, dynamic: Any
) -> ExportedProgram:
    """Call torch.export with repeated blocks captured once, if they are true repetitions."""
    try:
        with patched(Stage.BLOCKS, module=module, only_decisions=False):
            return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic, strict=False)
    except RepeatsDiffer:
        return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic, strict=False)


def _dim_hint(dynamic_dim: DynamicDim) -> Any:
    """Return a hint that the dim must be dynamic if the user requested that, and may be dynamic otherwise.

    Not a named `Dim`, which rejects guards that always hold but are not proved, such as h // 2 <= h.
    """
    hint = Dim.DYNAMIC if dynamic_dim.asked else Dim.AUTO
    # Lengths of 0 and 1 are always special, so a lower bound of 2 is no real bound.
    low = dynamic_dim.low if dynamic_dim.low is not None and dynamic_dim.low > 2 else None
    return hint if low is None and dynamic_dim.high is None else hint(min=low, max=dynamic_dim.high)


def _is_bounded(program: ExportedProgram, name: str, place: int) -> bool:
    """Return whether a dim holds for some lengths only: those that associative_scan halves equally often."""
    node = next(n for n in program.graph.nodes if n.op == "placeholder" and n.name == name)
    known = program.range_constraints.get(node.meta["val"].shape[place].node.expr)
    return known is not None and finite_bound(known.upper) is not None


def _is_fixed(program: ExportedProgram, name: str, place: int) -> bool:
    node = next((n for n in program.graph.nodes if n.op == "placeholder" and n.name == name), None)
    return node is not None and is_fixed(node.meta["val"].shape[place])
