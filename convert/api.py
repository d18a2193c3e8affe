"""The functions convert, to_onnx, verify and inspect, which the command line calls as well."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convert import plugin
from convert.errors import ConvertError, ParityError, UsageError, convert_errors
from convert.files.companions import copy_companions
from convert.files.output import atomic_replacement, discard_unfinished, size_of
from convert.files.output_place import check_apart, check_replaceable
from convert.files.scratch import scratch_folder
from convert.files.side_files import check_different
from convert.files.sniff import sniff
from convert.outcome.report import Report, Tensor
from convert.outcome.text import bytes_text
from convert.parts import convert_parts
from convert.processes import warm
from convert.processes.interpreter import paused_garbage_collection
from convert.processes.model_reading import (
    blame_read_file,
    list_nodes,
    list_weights,
    read_for_target,
    read_model,
    target_options,
)
from convert.request.destination import destination, exists_error
from convert.request.given_inputs import make_options, naming_large_inputs, unread_options
from convert.request.options import Options
from convert.request.source import Source
from convert.request.storage import IO_DTYPE, POSTPROCESS, REAL_IO

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

    from convert.outcome.verdict import Verdict
    from convert.parity.method import VerifyMethod


@convert_errors()
def convert(
    source: Any,
    to: str | None = None,
    output: str | Path | None = None,
    *,
    inputs: Any = None,
    verify: bool | None = None,
    force: bool = False,
    skip_existing: bool = False,
    dry_run: bool = False,
    rules: Sequence[str | Path] = (),
    dump_passes: str | Path | None = None,
    report: Report | None = None,
    method: VerifyMethod | None = None,
    **options: Any,
) -> Report:
    """Convert a model, check that the numbers agree, and return a `Report` of what was read, written and compared.

    source: a path, or a model in memory (README.md lists the kinds).
    to: the format, such as "onnx" or "tf". None takes it from the suffix of `output`.
    output: the path to write. None is the source's name with the format's suffix, in the current folder.
    inputs: arrays, tensors or specs such as "x:float32[batch,3,224,224]": one, a sequence, or a dict by name. A path
        of arrays ("x.npz", or a folder of `.npy`) gives the inputs of the verification as well.
    verify: None compares the numbers if the runtimes are installed, True requires that, and False does not compare.
    force: replace an existing output. skip_existing: keep it, and return a report without a verdict.
    dry_run: check the operators, and write nothing.
    rules: Python files that register rules for custom operators.
    dump_passes: a new folder for the graph as it was read and after each pass, as 00-read.onnx, 01-….onnx.
    report: a report to fill instead of a new one, for instance one that shows progress.
    method: how to verify; None is `VerifyMethod()`.
    options: fields of `convert.request.options.Options`, and options that frontends and backends declare.

    Raises `UsageError` for arguments that contradict each other and for an output that exists, `BadInput` for a damaged
    file, `UnsafeInput` for one that can only be read by executing it, `Unsupported` with all operators that cannot be
    converted, `ResourceLimit` if time, memory or disk run out, and `ParityError` if the target computes something else.
    After an error nothing is written.

    >>> import convert
    >>> report = convert.convert("mnist_cnn.onnx", "onnx", "older.onnx", opset=13)
    >>> report.verdict.status, [str(tensor) for tensor in report.inputs]
    ('PASS', ['image: float32[batch,1,28,28]'])
    """
    report = report or Report("convert")
    given = {"inputs": inputs, "verify": verify, "force": force, "skip_existing": skip_existing, "dry_run": dry_run,
             "rules": rules, "dump_passes": dump_passes, "method": method}  # fmt: skip
    request = _sniff(source, to, output, given, options, report)
    if request.parts:
        again = partial(convert, request.source, request.form.name)
        return convert_parts(
            again, request.parts, request.form, request.source, output, request.options, request.given, report
        )
    if _is_kept(request, report):
        return report
    _prepare_places(request, report)
    request, model, graph = _read(request, report)
    request = _legalize(request, model, report)
    if dry_run:
        _check(request, model, report)
        return report
    graph = _verifiable(request, graph, report)
    with _rename(request, model, report) as temporary:
        _write(request, model, temporary, report)
        del model
        if graph is not None:
            _judge(request, temporary, graph, report)
    return report


def _from_file(inputs: Any, method: VerifyMethod | None, *, examples: bool = False) -> tuple[Any, VerifyMethod | None]:
    """Return `inputs` and `method`; if `inputs` names a file, `method` verifies on the arrays in it.

    examples: the model is captured with the first set of these arrays. Raises `UsageError` and `BadInput` for the file.
    """
    from convert.parity.inputs.saved import input_sets
    from convert.parity.method import VerifyMethod
    from convert.request.given_inputs import inputs_in_file

    arrays = inputs_in_file(inputs)
    if arrays is None:
        return inputs, method
    return input_sets(arrays)[0] if examples else None, replace(method or VerifyMethod(), arrays=arrays)


@dataclass(frozen=True)
class _Request:
    """One conversion: a source, the place and format of the output, and the options for frontend and backend.

    given: the arguments of `convert`. parts: the options of each file, if the source is written as several. moves: the
    permutation of each input and output that `options.layout` moves.
    """

    source: Source
    place: Path
    form: plugin.Format
    options: Options
    given: Mapping[str, Any]
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    moves: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def method(self) -> VerifyMethod | None:
        """Return how to verify; None is the default method."""
        method: VerifyMethod | None = self.given["method"]
        return method

    @property
    def is_verified(self) -> bool:
        """Return whether the output should be verified, if that is possible."""
        return not self.given["dry_run"] and self.given["verify"] is not False


def _sniff(
    source: Any,
    to: str | None,
    output: str | Path | None,
    given: Mapping[str, Any],
    options: Mapping[str, Any],
    report: Report,
) -> _Request:
    """Return the request: what the source is, where the output goes, and options that fit both. Nothing is read yet.

    If the source has parts, the request is that of all of them, and `given` has the other options too.
    """
    opened = open_source(source)
    inputs, method = _from_file(given["inputs"], given["method"], examples=True)
    given = {**given, "inputs": inputs, "method": method}
    chosen = make_options(inputs, options, given["rules"], plugin.fixed_value_support(opened), opened)
    place, form = destination(opened, to, output, chosen)
    single = output is not None and Path(output).name.lower().endswith(form.suffix)
    if parts := plugin.parts_of(opened, chosen, single):
        return _Request(opened, place, form, chosen, {**given, **options}, parts)
    if single and (parts := plugin.parts_of(opened, chosen)):
        report.note(
            f"written as one graph, because the output is one file; a folder gets {', '.join(parts)}",
            code="single-graph",
        )
    report.source, report.kind, report.target, report.format = opened.label, opened.kind, str(place), form.name
    dump = None if given["dump_passes"] is None else Path(given["dump_passes"])
    options_that_fit = replace(_fitting_options(chosen, opened, form, report), dump_passes=dump)
    return _Request(opened, place, form, options_that_fit, given)


def _is_kept(request: _Request, report: Report) -> bool:
    """Return whether the output exists and stays, as `skip_existing` asks; the report then says so."""
    if not request.given["dry_run"]:
        discard_unfinished(request.place)
    if not request.given["skip_existing"] or request.given["force"] or not request.place.exists():
        return False
    report.unverified = "the output exists already and was left as it is"
    return True


def _fitting_options(options: Options, source: Source, form: plugin.Format, report: Report) -> Options:
    """Return the options with those that the format needs from the reader; add a note about options that nobody reads.

    Raises `UsageError` for numbers that the format cannot store.
    """
    _check_narrowing(options, form)
    options = replace(options, single_size_branch=form.single_size_branch)
    _note_unread_options(options, source, report, form)
    if POSTPROCESS.name not in plugin.options_declared_by([plugin.backend_for(form.name)]):
        options = replace(options, extra={k: v for k, v in options.extra.items() if k != POSTPROCESS.name})
    return _with_wider_dtypes(options, form)


def _prepare_places(request: _Request, report: Report) -> None:
    """Check the places of all outputs, and create the folder for the graphs of the passes.

    Raises `UsageError` if one of them holds something that must not be replaced.
    """
    place, read, dump = request.place, _files_read(request), request.options.dump_passes
    check_different([("the output", place), *_files_beside(request, report)])
    check_apart(place, read)
    if place.exists() and not request.given["force"] and not request.given["dry_run"]:
        raise exists_error(place, request.form, request.source)
    check_replaceable(place, list(plugin.formats().values()))
    if dump is not None:
        check_apart(dump, read, "give --dump-passes a folder elsewhere")
        from convert.passes.dump import make_dump_folder

        make_dump_folder(dump)


def _files_beside(request: _Request, report: Report) -> list[tuple[str, Path]]:
    """Return the files and the folder that are written beside the output, each with the option that names it."""
    from convert.parity.locate.reduced_files import reduced_files

    found, method, dump = list(report.side_files), request.method, request.options.dump_passes
    if method is not None and method.save is not None:
        found.append(("--save-inputs", Path(method.save)))
    if method is not None and method.reduce is not None:
        found += [("--reduce", path) for path in reduced_files(Path(method.reduce))]
    return found if dump is None else [*found, ("--dump-passes", dump)]


def _files_read(request: _Request, model: ir.Model | None = None) -> list[Path]:
    """Return the files to read: the source, and the other files of its model."""
    from convert.graph.metadata import FILES_KEY

    own = [] if request.source.path is None else [request.source.path]
    return own if model is None else [*own, *model.meta.get(FILES_KEY, [])]


@contextmanager
def _rename(request: _Request, model: ir.Model, report: Report) -> Iterator[Path]:
    """Context manager: yield a temporary place, and afterwards rename what was written there to its place.

    Companions, such as a tokenizer, are copied beside it. After an error the disk is as it was.
    """
    from convert.graph.metadata import COMPANIONS_KEY

    meta, read = model.meta, _files_read(request, model)  # a backend adds companions while it writes
    del model  # the caller frees it after writing
    with atomic_replacement(request.place, force=request.given["force"], read=read) as temporary:
        yield temporary
    companions = meta.get(COMPANIONS_KEY, {})
    if report.companions is None:
        copy_companions(companions, request.place, report)
    else:
        report.companions.update(companions)


def _read(request: _Request, report: Report) -> tuple[_Request, ir.Model, ir.Model | None]:
    """Return the shared graph, and, if the output will be verified, a copy of it to verify with.

    Also returns the request with the options that the source is run with.
    """
    source, form, options = request.source, request.form, request.options
    if request.is_verified:
        _warm_up(report, source.kind, target=form.kind, formats=[form.name])
    with report.stage("read", _size(source)), paused_garbage_collection(), naming_large_inputs(options, ()):
        options, model = read_for_target(source, options, report)
    plugin.restrict_inputs(model, form, options)
    describe(model, report)
    check_apart(request.place, _files_read(request, model))
    _note_differences(model, report, form.kind)
    graph = model.clone() if request.is_verified else None
    if graph is not None:
        graph.meta.update(model.meta)  # a clone lacks this file
    return replace(request, options=options), model, graph


def _legalize(request: _Request, model: ir.Model, report: Report) -> _Request:
    """Move the model's inputs and outputs to the requested layout; the backend runs the other passes when it writes.

    Returns the request with its samples in the layout of the source.
    """
    from convert.passes.layout.boundary import boundary_permutations
    from convert.request.samples import fit_samples

    moves = boundary_permutations(model, request.options.layout)
    options = replace(request.options, calibrate=fit_samples(model, request.options.calibrate, moves))
    _apply_layout(model, options, report)
    return replace(request, options=options, moves=moves)


def _check(request: _Request, model: ir.Model, report: Report) -> None:
    """Let the backend raise its refusals before it writes anything."""
    backend = plugin.backend_for(request.form.name)
    with report.stage("check"), blame_read_file(request.source, request.options, model):
        backend.check(model, request.form.name, request.options)
    report.unverified = "nothing was written: a dry run"


def _verifiable(request: _Request, graph: ir.Model | None, report: Report) -> ir.Model | None:
    """Return the graph if the output can be verified here; otherwise the report says why not.

    Raises `UsageError` if the user requires a verification.
    """
    if graph is None:
        report.unverified = "verification was switched off"
        return None
    from convert.parity.runs.memory import lack_of_memory
    from convert.parity.verify import unavailable_reason

    missing, required = unavailable_reason(request.source.kind, request.form.kind), request.given["verify"]
    if not missing and required is None:
        missing = lack_of_memory(graph, None if request.method is None else request.method.limits)
    if missing and required:
        raise UsageError(f"this cannot be verified: {missing}", hint="leave out --verify, or install the runtime")
    if missing:
        report.unverified = missing
        return None
    _warm_up(report, request.form.kind, formats=[request.form.name])
    return graph


def _write(request: _Request, model: ir.Model, path: Path, report: Report) -> None:
    from convert.request.samples import moved_samples

    backend, form = plugin.backend_for(request.form.name), request.form
    with (
        report.stage("write", f"{form.name}, {bytes_text(report.weight_bytes)} of weights"),
        paused_garbage_collection(),
        blame_read_file(request.source, request.options, model),
    ):
        samples = moved_samples(request.options.calibrate, request.moves)
        backend.write(model, path, form.name, replace(request.options, calibrate=samples), report)
    report.output_bytes = size_of(path)


def to_onnx(
    source: Any,
    inputs: Any = None,
    *,
    outputs: Sequence[str] | None = None,
    opset: int = 20,
    verify: bool | None = None,
    **options: Any,
) -> onnx.ModelProto:
    """Return the model as an `onnx.ModelProto` in memory, which holds at most 2 GB.

    outputs: tensors that become the outputs, of a frozen graph or ONNX. opset: from 7 to 28. The other arguments and
    the errors are those of `convert`.

    >>> import convert, torch
    >>> proto = convert.to_onnx(torch.nn.Linear(3, 2), "float32[batch,3]", verify=False)
    >>> [node.op_type for node in proto.graph.node], [value.name for value in proto.graph.input]
    (['Gemm'], ['input'])
    """
    import onnx

    with scratch_folder() as folder:
        path = folder / "model.onnx"
        convert(
            source, "onnx", path, inputs=inputs, verify=verify, opset=opset, outputs=tuple(outputs or ()), **options
        )
        return onnx.load(path)


@convert_errors()
def verify(
    source: Any,
    target: Any,
    *,
    inputs: Any = None,
    rules: Sequence[str | Path] = (),
    method: VerifyMethod | None = None,
    report: Report | None = None,
    **options: Any,
) -> Report:
    """Compare two models numerically, and return a `Report` whose `verdict` is PASS, FAIL or INCONCLUSIVE.

    source, target: paths, or models in memory; the source is the one that is right. Folders with the parts of an
        encoder and a decoder are compared part by part, and by the text that they generate.
    inputs: arrays by name, a file of arrays, or specs as for `convert`. None generates inputs.
    method: how to compare: seeds, tolerances, pairs of names. Inputs and outputs are paired by `method.pairs`, by name,
        or by place if dtypes and shapes allow it.
    rules, report, options: as for `convert`.

    A mismatch is a verdict, not an exception. Raises the errors of `convert` for a model that cannot be read or run,
    and `UsageError` for inputs and outputs that do not pair.

    >>> import convert, onnx
    >>> model = onnx.load("mnist_cnn.onnx")
    >>> model.graph.node[-1].op_type = "Softmax"
    >>> onnx.save(model, "changed.onnx")
    >>> report = convert.verify("mnist_cnn.onnx", "changed.onnx")
    >>> report.verdict.status, report.verdict.outputs[0].name, report.exit_code
    ('FAIL', 'log_probs', 3)
    """
    from convert.parity.method import VerifyMethod
    from convert.parity.parts import Parts, open_side, verify_parts
    from convert.parity.two_artefacts import verify_two

    report = report or Report("verify")
    left, right = open_side(source, open_source), open_side(target, open_source)
    one = left if isinstance(left, Source) else None
    given, (inputs, method) = method, _from_file(inputs, method)
    chosen = make_options(inputs, options, rules, one is not None and plugin.fixed_value_support(one), one)
    if isinstance(left, Parts) or isinstance(right, Parts):
        return verify_parts(verify, left, right, chosen, {"rules": rules, **options}, method, report)
    report.source, report.kind, report.target, report.format = left.label, left.kind, right.label, right.kind
    _note_unread_options(chosen, left, report)
    chosen = _as_counterpart(chosen, right)
    _warm_up(report, left.kind, target=right.kind)
    with report.stage("read", _size(left)), paused_garbage_collection():
        chosen, graph = read_for_target(left, chosen, report)
    _warm_up(report, right.kind)
    describe(graph, report)
    _note_differences(graph, report, right.kind)
    if given is None:
        arrays = dict(chosen.examples) or (method.arrays if method is not None else None)
        method = VerifyMethod(arrays=arrays, target=Options(trust=chosen.trust))
    assert method is not None
    method = replace(method, target=target_options(right, method.target, chosen))
    with naming_large_inputs(chosen, report.inputs):
        report.verdict = verify_two(left, right, graph, chosen, method, report)
    return report


def _as_counterpart(options: Options, other: Source) -> Options:
    """Return the options for reading a source that is compared with `other`."""
    forms = [form for form in plugin.formats().values() if form.kind == other.kind]
    single = bool(forms) and all(form.single_size_branch for form in forms)
    return replace(options, single_size_branch=single, counterparts=_declared_inputs(other))


def _declared_inputs(side: Source) -> tuple[str, ...]:
    """Return the names of the inputs that an artefact declares, as far as its runner reads them without running it."""
    tell = getattr(plugin.runner_for(side.kind), "declared_signature", None)
    try:
        found = tell(side) if tell is not None else None
    except ConvertError:  # its own reader reports what is wrong with it
        return ()
    return tuple(tensor.name for tensor in found.inputs) if found is not None else ()


@convert_errors()
def inspect(
    source: Any,
    *,
    inputs: Any = None,
    rules: Sequence[str | Path] = (),
    nodes: str = "",
    report: Report | None = None,
    **options: Any,
) -> Report:
    """Return a `Report` of a model: its kind, inputs, outputs, operators and number of parameters. Executes nothing.

    `report.operators` counts the operators of the shared graph, which `report.graph` holds. For a file of weights
    without the code that uses them (`model=`), `report.weights` lists its tensors instead.

    nodes: a part of a name, or a glob. `report.nodes` then lists the nodes with such names, as `outputs=` takes them,
        and nothing else is read.
    inputs, rules, report, options: as for `convert`.

    Raises the errors of `convert` for a file that cannot be read, and `UsageError` if no node has such a name.

    >>> import convert
    >>> [node.operator for node in convert.inspect("mnist_cnn.onnx", nodes="conv2d").nodes]
    ['Conv', 'Conv']
    >>> report = convert.inspect("mnist_cnn.onnx")
    >>> report.kind, report.operators["Conv"], report.parameters
    ('onnx', 2, 38298)
    """
    report = report or Report("inspect")
    opened = open_source(source)
    chosen = make_options(inputs, options, rules, plugin.fixed_value_support(opened), opened)
    report.source, report.kind = opened.label, opened.kind
    _note_unread_options(chosen, opened, report)
    if nodes:
        with report.stage("read", _size(opened)):
            report.nodes = list_nodes(opened, chosen, report, nodes)
        return report
    tensors = None if chosen.model else list_weights(opened, chosen, report)
    if tensors is not None:
        report.weights = tensors
        return report
    with report.stage("read", _size(opened)), paused_garbage_collection():
        report.graph = read_model(opened, chosen, report)
    describe(report.graph, report)
    return report


def open_source(source: Any) -> Source:
    """Return a `Source` with the kind of `source`: by the content of a path, or the class of an object.

    Executes nothing. Raises `BadInput` for a file that is no model, and `UsageError` for an object that no frontend
    reads.

    >>> open_source("mnist_cnn.onnx").kind
    'onnx'
    """
    if isinstance(source, Source):
        return source
    if isinstance(source, (str, Path)):
        path = Path(source)
        return Source(sniff(path), path)
    return plugin.source_for_object(source)


def _warm_up(report: Report, kind: str, *, target: str = "", formats: Sequence[str] = ()) -> None:
    """Fork the process from which runs of a `kind` will be forked; in a program that calls the API, start a new one.

    target, formats: known before anything is imported: the kind that `kind` is compared with, and the formats that will
    be written. If one frontend reads both, the process that writes and runs the target is forked now, because the
    reader's threads would be missing in a later fork.
    """
    if not warm.are_allowed():
        warm.start_program_servers({target: formats, kind: ()} if target else {})
        return
    with report.stage("import"):
        if target:
            warm.warm_up_other_settings(target)
        warm.warm_up(kind, () if target else formats)
        if any({kind, target} <= set(frontend.KINDS) for frontend in plugin.frontends().values()):
            warm.warm_up(target, formats)


def _size(source: Source) -> str:
    """Return the name of a source and its size in bytes, for progress."""
    return source.label if source.path is None else f"{source.label}, {bytes_text(size_of(source.path))}"


def describe(model: ir.Model, report: Report) -> None:
    """Add the graph's inputs, outputs, operators and weights to the report."""
    from convert.graph.metadata import DIMS_KEY, GUARDS_KEY
    from convert.parity.compare.randomness import describe_randomness

    _describe_ends(model, report)
    bounds = json.loads(model.metadata_props.get(DIMS_KEY, "{}"))
    report.bounds = {n: [low if low != 1 else None, high] for n, (low, high) in bounds.items() if low != 1 or high}
    report.conditions = json.loads(model.metadata_props.get(GUARDS_KEY, "[]"))
    counts = Counter(f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in model.graph.all_nodes())
    report.operators = dict(counts.most_common())
    weights = [v.const_value for v in model.graph.initializers.values() if v.const_value is not None]
    report.parameters = sum(w.size for w in weights if w.dtype.is_floating_point())
    report.weight_bytes = sum(w.nbytes for w in weights)
    for text in describe_randomness(model):
        report.note(text, code="random-output")


def _describe_ends(model: ir.Model, report: Report) -> None:
    from convert.graph.tensors import dtype_name
    from convert.graph.values import known_dims

    for described, values in ((report.inputs, model.graph.inputs), (report.outputs, model.graph.outputs)):
        described[:] = [Tensor(str(v.name), dtype_name(v.dtype), known_dims(v)) for v in values]


def _note_differences(model: ir.Model, report: Report, target_kind: str) -> None:
    """Add notes on special values that the source's and the target's runtimes treat differently, if the model uses such
    operators.
    """
    from convert.runtimes.differences import difference_notes

    for note in difference_notes(model, plugin.differences(report.kind, target_kind)):
        report.note(note)


def _apply_layout(model: ir.Model, options: Options, report: Report) -> None:
    """Move inputs and outputs to the requested layout. This is the first pass; the graph before it is dumped as
    read.
    """
    from convert.passes import run_passes
    from convert.passes.layout.boundary import permute_boundary

    def read(model: ir.Model) -> bool:
        return False

    def move_boundary(model: ir.Model) -> bool:
        moved = permute_boundary(model, options.layout)
        _describe_ends(model, report)
        if moved:
            report.note(
                f"--layout {options.layout} changes the layout of {', '.join(moved)}",
                code="moved-layout",
            )
        return bool(moved)

    run_passes(model, (read, move_boundary) if options.layout else (read,), options)


def _calibrated_method(method: VerifyMethod | None, graph: ir.Model, options: Options) -> VerifyMethod:
    """Return a method that verifies on the calibration data, because 8-bit activations are right in its ranges only."""
    from convert.parity.inputs.feeds import inputs_from_samples
    from convert.parity.method import VerifyMethod

    method = method or VerifyMethod()
    return (
        method if method.arrays is not None else replace(method, arrays=inputs_from_samples(graph, options.calibrate))
    )


def _with_real_io(method: VerifyMethod | None) -> VerifyMethod:
    """Return the method with a target that gets and returns real numbers at its integer inputs and outputs."""
    from convert.parity.method import VerifyMethod

    method = method or VerifyMethod()
    return replace(method, target=replace(method.target, extra={**method.target.extra, REAL_IO: True}))


def _note_unread_options(options: Options, source: Source, report: Report, form: plugin.Format | None = None) -> None:
    """Add notes about options that nobody reads: those of other kinds, and in a conversion those of other packages."""
    for text in unread_options(options, source):
        report.note(text, code="unread-option")
    if form is None:
        return
    read = plugin.options_declared_by([plugin.frontend_for(source), plugin.backend_for(form.name)])
    for name, option in plugin.options().items():
        if name not in read and name in options.extra and option.of(options) not in (option.default, None):
            report.note(
                f"--{name.replace('_', '-')} has no effect from {source.kind} to {form.name}", code="unread-option"
            )


def _with_wider_dtypes(options: Options, form: plugin.Format) -> Options:
    """Return the options with the dtypes that are read in float32 instead: with --dtype float32, all half-precision
    ones.
    """
    if options.dtype == "float32":
        return replace(options, dtype="", widen=("float16", "bfloat16"), narrow=form.narrow)
    return replace(options, widen=form.missing_dtypes, narrow=form.narrow)


def _check_narrowing(options: Options, form: plugin.Format) -> None:
    declared = [option for option in plugin.options().values() if option.stores]
    asked = {option.name: option.of(options) for option in declared if option.of(options)}
    if len(asked) > 1:
        both = " and ".join(f"--{name}" for name in asked)
        raise UsageError(f"{both} contradict each other", hint="give one of them")
    for name in asked.values():
        if name not in form.narrow:
            able = ", ".join(f.name for f in plugin.formats().values() if name in f.narrow)
            raise UsageError(f"{form.name} cannot store {name}", hint=f"formats that can: {able or 'none'}")
    if options.quantize == "int16x8" and not options.calibrate:
        raise UsageError("activations in 16 bits need their ranges", hint="give samples with --calibrate")
    if options.quantize == "int8-weights" and options.calibrate:
        raise UsageError("weights alone need no samples", hint="--quantize int8 rounds activations, in their ranges")
    if options.calibrate and not options.quantize:
        raise UsageError("calibration data without a quantization", hint="give --quantize int8 too")


def _compare_weights(verdict: Verdict, target: Source, graph: ir.Model, options: Options) -> Verdict:
    """Return the verdict after comparing the weights in the written file with those of the graph."""
    from convert.parity.pairing.weight_contents import judge_weights

    try:
        with paused_garbage_collection():
            written = read_model(target, Options(rules=options.rules), Report("verify"))
    except ConvertError as error:
        summary = f"weights not compared, because the target cannot be read: {error.sentence}"
        return replace(verdict, weights_summary=summary)
    return judge_weights(verdict, graph, written, "what was written")


def _what_to_do(verdict: Verdict) -> str:
    """Return what a user can do about a failed conversion: another quantization, or a report."""
    from convert.graph.values import MOVES
    from convert.outcome.verdict import Reduced

    # A node that moves values loses nothing itself: another step rounds what it moves.
    if worst := next((layer for layer in verdict.layers if layer.operator not in MOVES), None):
        return (
            f"{worst.operator} {worst.module or worst.node!r} loses most in 8 bits: give more samples, keep it in "
            f"float (tflite: --keep-float {worst.operator}), or choose other ranges (tflite: --calibration-method mse)"
        )
    if isinstance(verdict.reduced, Reduced):
        return f"Please report {verdict.reduced.model} and {verdict.reduced.inputs}: {verdict.reduced} still fails"
    return f"Please report this model{f' ({verdict.reduced})' if verdict.reduced else ''}"


def _judge(request: _Request, written: Path, graph: ir.Model, report: Report) -> None:
    """Verify what was written, and read it back: an artefact with changed weights is never PASS.

    Raises `ParityError` if the target computes something else.
    """
    from convert.outcome.verdict import FAIL, PASS
    from convert.parity.verify import verify as run_verify

    source, target, options = request.source, Source(request.form.kind, written, written_here=True), request.options
    method = request.method
    if options.calibrate:
        method = _calibrated_method(method, graph, options)
    if IO_DTYPE.of(options) != IO_DTYPE.default:
        method = _with_real_io(method)
    try:
        with report.stage("verify"), naming_large_inputs(options, report.inputs):
            report.verdict = run_verify(source, target, graph, options, method)
            if report.verdict.status == PASS:
                report.verdict = _compare_weights(report.verdict, target, graph, options)
    except ConvertError as error:
        raise type(error)(
            f"the conversion went through, but could not be verified: {error.sentence}",
            hint=error.hint or "--no-verify writes the output unverified",
        ) from error
    if report.verdict.status == FAIL:
        at_fault = f" (caused by the {report.verdict.at_fault})" if report.verdict.at_fault else ""
        raise ParityError(
            f"{report.target} would not compute what {report.source} does{at_fault}: {report.verdict.reason}",
            hint=f"nothing was written; --no-verify writes it anyway. {_what_to_do(report.verdict)}",
        )
