"""The verbs: convert, to_onnx, verify and inspect, the same from Python and from the command line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convert import plugin
from convert.arguments import make_options, naming_large_inputs, unread_options
from convert.destination import destination, exists_error
from convert.errors import ConvertError, ParityError, UsageError, convert_errors
from convert.files.companions import copy_companions
from convert.files.output import atomic_replacement, discard_unfinished, size_of
from convert.files.output_place import check_apart, check_replaceable
from convert.files.scratch import scratch_folder
from convert.files.sniff import sniff
from convert.interpreter import paused_garbage_collection
from convert.model_reading import hold_against_read_file, list_nodes, list_weights, read_model, target_options
from convert.options import Options
from convert.parts import convert_parts
from convert.report import Report, Tensor
from convert.runners import warm
from convert.source import Source
from convert.text import bytes_text

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

    from convert.parity.method import VerifyMethod
    from convert.verdict import Verdict


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
    """Convert `source` (a path, or a model in memory) to format `to` and check that the numbers agree.

    output: where to write; by default the source's stem with the format's suffix, in the current directory.
    inputs: arrays, tensors or specs such as "x:float32[batch,3,224,224]": one, a sequence, or a dict by name.
    verify: None verifies where the runtimes are there, True insists, False does not.
    rules: Python files that register rules for custom operators.
    dump_passes: a new folder for the graph as it was read and after each pass, as 00-read.onnx, 01-….onnx.
    options: the fields of `convert.options.Options`, and the options that frontends and backends declare.

    Raises `UsageError`, `BadInput`, `UnsafeInput`, `Unsupported`, `ResourceLimit`; `ParityError` if the target
    computes something else, in which case nothing is written.

    >>> import convert
    >>> report = convert.convert("mnist_cnn.onnx", "onnx", "older.onnx", opset=13)
    >>> report.verdict.status, [str(tensor) for tensor in report.inputs]
    ('PASS', ['image: float32[batch,1,28,28]'])
    """
    report = report or Report("convert")
    opened = open_source(source)
    chosen = make_options(inputs, options, rules, plugin.takes_fixed_values(opened), opened)
    place, form = destination(opened, to, output)
    single = output is not None and Path(output).name.lower().endswith(form.suffix)
    if parts := plugin.parts_of(opened, chosen, single):
        given = {"inputs": inputs, "verify": verify, "force": force, "skip_existing": skip_existing, "dry_run": dry_run,
                 "rules": rules, "dump_passes": dump_passes, "method": method, **options}  # fmt: skip
        return convert_parts(partial(convert, opened, form.name), parts, form, opened, output, chosen, given, report)
    if single and (parts := plugin.parts_of(opened, chosen)):
        report.note(
            f"one graph, as one file is named for it: a folder as output gets {', '.join(parts)}", code="single-graph"
        )
    report.source, report.kind, report.target, report.format = opened.label, opened.kind, str(place), form.name

    request = _Request(opened, place, form, _fitting_options(chosen, opened, form, report), verify, force, dry_run)
    if not dry_run:
        discard_unfinished(place)
    if skip_existing and place.exists() and not force:
        report.unverified = "the output exists already and was left as it is"
        return report
    request = _with_room(request, dump_passes)
    model, graph = _read(request, report)
    if dry_run:
        _check(request, model, report)
        return report
    graph = _verifiable(request, graph, method, report)
    companions, read = _companions(model), _files_read(request, model)
    with atomic_replacement(place, force=force, read=read) as temporary:
        _write(request, model, temporary, report)
        del model
        if graph is not None:
            _judge(request, temporary, graph, method, report)
    copy_companions(companions, place, report)
    return report


@dataclass(frozen=True)
class _Request:
    """One conversion: a source, the place and form of the output, and the options that both sides read.

    verify, force, dry_run: as `convert` has them.
    """

    source: Source
    place: Path
    form: plugin.Format
    options: Options
    verify: bool | None
    force: bool
    dry_run: bool

    @property
    def verified(self) -> bool:
        """Whether the output is to be verified, if that can be done."""
        return not self.dry_run and self.verify is not False


def _fitting_options(options: Options, source: Source, form: plugin.Format, report: Report) -> Options:
    """Return the options with what the form asks of the reader; options that nobody reads are noted.

    Raises `UsageError` for numbers that the form cannot store.
    """
    _check_narrowing(options, form)
    options = replace(options, one_size_way=form.one_size_way)
    _note_unread_options(options, source, report, form)
    return _with_wider_dtypes(options, form)


def _with_room(request: _Request, dump_passes: str | Path | None) -> _Request:
    """Return the request with an empty folder for the graphs of the passes, if there is to be one.

    Raises `UsageError` where something is in the place of the output that is not to be replaced.
    """
    place, read = request.place, _files_read(request)
    if place.exists() and not request.force and not request.dry_run:
        raise exists_error(place, request.form, request.source)
    check_apart(place, read)
    check_replaceable(place, list(plugin.formats().values()))
    if dump_passes is None:
        return request
    check_apart(Path(dump_passes), read, "give --dump-passes a folder elsewhere")
    if Path(dump_passes).resolve() == place.resolve():
        raise UsageError(f"{place} is the output, and no place for passes", hint="give --dump-passes another one")
    from convert.passes.dump import make_dump_folder

    return replace(request, options=replace(request.options, dump_passes=make_dump_folder(Path(dump_passes))))


def _files_read(request: _Request, model: ir.Model | None = None) -> list[Path]:
    """Return the files that are read: the source, and what its model consists of besides."""
    from convert.graph.metadata import FILES_KEY

    own = [] if request.source.path is None else [request.source.path]
    return own if model is None else [*own, *model.meta.get(FILES_KEY, [])]


def _companions(model: ir.Model) -> Mapping[str, Path]:
    """Return the files beside the source that go with the output, such as a tokenizer, by name."""
    from convert.graph.metadata import COMPANIONS_KEY

    found: Mapping[str, Path] = model.meta.get(COMPANIONS_KEY, {})
    return found


def _read(request: _Request, report: Report) -> tuple[ir.Model, ir.Model | None]:
    """Return the shared graph in the layout asked for, and as it was read if the output is to be verified."""
    source, form, options = request.source, request.form, request.options
    if request.verified:
        _warm_up(report, source.kind, target=form.kind, formats=[form.name])
    with report.stage("read", _size(source)), paused_garbage_collection(), naming_large_inputs(options, ()):
        model = read_model(source, options, report)
    describe(model, report)
    check_apart(request.place, _files_read(request, model))
    _note_differences(model, report, form.kind)
    graph = model.clone() if request.verified else None
    if graph is not None:
        graph.meta.update(model.meta)  # which a clone lacks
    _apply_layout(model, options, report)
    return model, graph


def _check(request: _Request, model: ir.Model, report: Report) -> None:
    """Let the backend find everything that it cannot write, without writing."""
    backend = plugin.backend_for(request.form.name)
    with report.stage("check"), hold_against_read_file(request.source, request.options, model):
        backend.check(model, request.form.name, request.options)
    report.unverified = "nothing was written: a dry run"


def _verifiable(
    request: _Request, graph: ir.Model | None, method: VerifyMethod | None, report: Report
) -> ir.Model | None:
    """Return the graph if the output can be verified here; the report says why not.

    Raises `UsageError` if the user insists.
    """
    if graph is None:
        report.unverified = "verification was switched off"
        return None
    from convert.parity.runs.memory import lack_of_memory
    from convert.parity.verify import unavailable_reason

    missing = unavailable_reason(request.source.kind, request.form.kind)
    if not missing and request.verify is None:
        missing = lack_of_memory(graph, None if method is None else method.limits)
    if missing and request.verify:
        raise UsageError(f"this cannot be verified: {missing}", hint="leave out --verify, or install the runtime")
    if missing:
        report.unverified = missing
        return None
    _warm_up(report, request.form.kind, formats=[request.form.name])
    return graph


def _write(request: _Request, model: ir.Model, path: Path, report: Report) -> None:
    backend, form = plugin.backend_for(request.form.name), request.form
    with (
        report.stage("write", f"{form.name}, {bytes_text(report.weight_bytes)} of weights"),
        paused_garbage_collection(),
        hold_against_read_file(request.source, request.options, model),
    ):
        backend.write(model, path, form.name, request.options, report)
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
    """The model as an ONNX ModelProto in memory (under 2 GB). Arguments and errors as for `convert`.

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
    """Compare two artefacts; the report carries the verdict. `inputs` are arrays by name, or specs.

    A folder of the parts of an encoder with a decoder is compared part by part, and by what they generate together.
    Inputs and outputs are paired by name, else by place where dtypes and shapes allow it, or as `method.pairs` says.
    Raises as `convert` does for what cannot be read or run, and `UsageError` for inputs and outputs that do not pair;
    a mismatch is a verdict, not an exception.

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
    chosen = make_options(inputs, options, rules, one is not None and plugin.takes_fixed_values(one), one)
    if isinstance(left, Parts) or isinstance(right, Parts):
        return verify_parts(verify, left, right, chosen, {"rules": rules, **options}, method, report)
    report.source, report.kind, report.target, report.format = left.label, left.kind, right.label, right.kind
    _note_unread_options(chosen, left, report)
    forms = [form for form in plugin.formats().values() if form.kind == right.kind]
    chosen = replace(chosen, one_size_way=bool(forms) and all(form.one_size_way for form in forms))
    _warm_up(report, left.kind, target=right.kind)
    with report.stage("read", _size(left)), paused_garbage_collection():
        graph = read_model(left, chosen, report)
    _warm_up(report, right.kind)
    describe(graph, report)
    _note_differences(graph, report, right.kind)
    method = method or VerifyMethod(arrays=dict(chosen.examples) or None, target=Options(trust=chosen.trust))
    method = replace(method, target=target_options(right, method.target, chosen))
    with naming_large_inputs(chosen, report.inputs):
        report.verdict = verify_two(left, right, graph, chosen, method, report)
    return report


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
    """What a model is: its kind, inputs, outputs, operators of the shared graph and weights. Executes nothing.

    Of a file of weights without the code that uses them (`model=`), the tensors are listed.
    nodes: a part of a name, or a glob: only the nodes that are called so are listed, as `outputs` takes their names.

    >>> import convert
    >>> [node.operator for node in convert.inspect("mnist_cnn.onnx", nodes="conv2d").nodes]
    ['Conv', 'Conv']
    >>> report = convert.inspect("mnist_cnn.onnx")
    >>> report.kind, report.operators["Conv"], report.parameters
    ('onnx', 2, 38298)
    """
    report = report or Report("inspect")
    opened = open_source(source)
    chosen = make_options(inputs, options, rules, plugin.takes_fixed_values(opened), opened)
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
    """Find out what `source` is, by the content of a path or the class of an object, and execute none of it."""
    if isinstance(source, Source):
        return source
    if isinstance(source, (str, Path)):
        path = Path(source)
        return Source(sniff(path), path)
    return plugin.claim(source)


def _warm_up(report: Report, kind: str, *, target: str = "", formats: Sequence[str] = ()) -> None:
    """Fork what the runs of a `kind` will be forked from, in the process of a command; for a program, start it.

    target, formats: before anything is imported, the kind that `kind` is compared with, and what is written of it. If a
    frontend reads both, what writes and runs it is forked now: a later fork lacks threads that the reader has started.
    """
    if not warm.are_allowed():
        warm.start_program_servers({target: formats, kind: ()} if target else {})
        return
    with report.stage("import"):
        if target:
            warm.warm_up_other_settings(target)
        warm.warm_up(kind, () if target else formats)
        if any({kind, target} <= set(room.KINDS) for room in plugin.frontends().values()):
            warm.warm_up(target, formats)


def _size(source: Source) -> str:
    """What a source is called, and how many bytes it has, for whoever watches."""
    return source.label if source.path is None else f"{source.label}, {bytes_text(size_of(source.path))}"


def describe(model: ir.Model, report: Report) -> None:
    """Put the graph's contract, operators and weights into the report."""
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
    """What the runtimes at both ends make of special values, as far as they are declared and the model has them."""
    from convert.differences import difference_notes

    for note in difference_notes(model, plugin.differences(report.kind, target_kind)):
        report.note(note)


def _apply_layout(model: ir.Model, options: Options, report: Report) -> None:
    """Move inputs and outputs to the layout asked for; the first of the passes, which dumps what was read before it."""
    from convert.passes import run_passes
    from convert.passes.layout.boundary import permute_boundary

    def read(model: ir.Model) -> bool:
        return False

    def move_boundary(model: ir.Model) -> bool:
        moved = permute_boundary(model, options.layout)
        _describe_ends(model, report)
        if moved:
            report.note(
                f"as --layout {options.layout} asks, in the output other than in the source: {', '.join(moved)}",
                code="moved-layout",
            )
        return bool(moved)

    run_passes(model, (read, move_boundary) if options.layout else (read,), options.dump_passes)


def _calibrated_method(method: VerifyMethod | None, graph: ir.Model, options: Options) -> VerifyMethod:
    """Activations in 8 bits are right in the ranges of the calibration data: it is what they are verified on."""
    from convert.parity.inputs.feeds import inputs_from_samples
    from convert.parity.method import VerifyMethod

    method = method or VerifyMethod()
    return (
        method if method.arrays is not None else replace(method, arrays=inputs_from_samples(graph, options.calibrate))
    )


def _note_unread_options(options: Options, source: Source, report: Report, form: plugin.Format | None = None) -> None:
    """Options of other kinds, and in a conversion of other rooms than both its own, are not passed over in silence."""
    for text in unread_options(options, source):
        report.note(text, code="unread-option")
    if form is None:
        return
    read = plugin.options_of([plugin.frontend_for(source), plugin.backend_for(form.name)])
    for name, option in plugin.options().items():
        if name not in read and name in options.extra and option.of(options) not in (option.default, None):
            report.note(
                f"--{name.replace('_', '-')} changes nothing from {source.kind} to {form.name}", code="unread-option"
            )


def _with_wider_dtypes(options: Options, form: plugin.Format) -> Options:
    """Return the options with the dtypes that the source is read in float32 for: all halves with --dtype float32."""
    if options.dtype == "float32":
        return replace(options, dtype="", widen=("float16", "bfloat16"), narrow=form.narrow)
    return replace(options, widen=form.lacks, narrow=form.narrow)


def _check_narrowing(options: Options, form: plugin.Format) -> None:
    declared = [option for option in plugin.options().values() if option.stores]
    asked = {option.name: option.of(options) for option in declared if option.of(options)}
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} contradict each other", hint="give one of them")
    for name in asked.values():
        if name not in form.narrow:
            able = ", ".join(f.name for f in plugin.formats().values() if name in f.narrow)
            raise UsageError(f"{form.name} cannot store {name}", hint=f"formats that can: {able or 'none'}")
    if options.calibrate and not options.quantize:
        raise UsageError("calibration data without a quantization", hint="give --quantize int8 too")


def _compare_weights(verdict: Verdict, target: Source, graph: ir.Model, options: Options) -> None:
    """Read what was written, and hold the weights in it to those of the graph, in place."""
    from convert.parity.pairing.held_numbers import hold_weights

    try:
        with paused_garbage_collection():
            written = read_model(target, Options(rules=options.rules), Report("verify"))
    except ConvertError as error:
        verdict.weights_summary = f"weights not compared, because the target cannot be read: {error.sentence}"
    else:
        hold_weights(verdict, graph, written, "what was written")


def _judge(request: _Request, written: Path, graph: ir.Model, method: VerifyMethod | None, report: Report) -> None:
    """Verify what was written, and read it back: a weight that was changed in places is never PASS.

    Raises `ParityError` if the target computes something else.
    """
    from convert.parity.verify import verify as run_verify
    from convert.verdict import FAIL, PASS

    source, target, options = request.source, Source(request.form.kind, written, own=True), request.options
    if options.calibrate:
        method = _calibrated_method(method, graph, options)
    try:
        with report.stage("verify"), naming_large_inputs(options, report.inputs):
            report.verdict = run_verify(source, target, graph, options, method)
            if report.verdict.status == PASS:
                _compare_weights(report.verdict, target, graph, options)
    except ConvertError as error:
        raise type(error)(
            f"the conversion went through, but could not be verified: {error.sentence}",
            hint=error.hint or "--no-verify writes the output unverified",
        ) from error
    if report.verdict.status == FAIL:
        guilty = f" (the {report.verdict.guilty}'s fault)" if report.verdict.guilty else ""
        raise ParityError(
            f"{report.target} would not compute what {report.source} does{guilty}: {report.verdict.reason}",
            hint="nothing was written; --no-verify writes it all the same. Please report this model",
        )
