"""Score the verifier on planted defects and on clean pairs, judged by our method and by fixed bounds.

    python tests/suites/planted.py [--only NETWORK] [--targets torchscript,onnx,tf,keras,tflite,caffe2] [--json]
                                   [--readers NAME …]

Each network is converted from PyTorch to ONNX, each defect is planted in the file, and the pair is judged on three sets
of inputs. A defect that changes the output by less than 1e-12 in float64 is equivalent, not a miss. Clean pairs are the
conversions to every target that runs here, and PyTorch's own TorchScript of the network. For each method the table has
false alarms among clean pairs and misses among defects. The errors of `planted_readers.py` are planted in the
frontends, whose graph is then converted and judged against the source.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import planted_readers
from planted_defects import DEFECTS, is_equivalent
from planted_networks import NETWORKS, UNDECIDED, build

Outputs = list[dict[str, np.ndarray]]

TARGETS = ("torchscript", "onnx", "tf", "tf-frozen", "keras", "tflite", "caffe2")
PLANTED = "planted.onnx"
METHODS = ("ours", "atol 1e-5", "rtol 1e-3 atol 1e-5", "cosine 0.999", "psnr 40 dB")


@dataclass
class Pair:
    """A network with its inputs, the source's outputs in both precisions, and the graph's in float64."""

    name: str
    source: Any
    options: Any
    graph: Any
    feeds: Sequence[Any]
    outputs: dict[str, Outputs]
    twin: Outputs
    file: Path


def prepare(name: str, folder: Path) -> Pair:
    """Convert the network to an ONNX file and run all sides except the target."""
    import convert
    from convert import api, plugin
    from convert.outcome.report import Report
    from convert.parity.inputs import feeds as inputs
    from convert.parity.inputs.uneven import far_feed, longest_feed, offset_feed, uneven_feed, with_unusual_rows
    from convert.request.options import Options, parse_input

    module, spec = build(name), NETWORKS[name][1]
    options = Options(inputs=(parse_input(spec),))
    source = api.open_source(module)
    graph = plugin.frontend_for(source).read(source, options, Report("planted"))
    usual = with_unusual_rows(graph, inputs.generate_feeds(graph, 3))
    unusual = (far_feed(graph, 5), offset_feed(graph, 7), uneven_feed(graph, 4), longest_feed(graph, 6))
    feeds = [*usual, *(feed for feed in unusual if feed is not None)]
    file = folder / f"{name.replace(' ', '_')}.onnx"
    convert.convert(module, "onnx", file, inputs=spec, verify=False)
    found, twin = without_target(source, options, graph, feeds)
    return Pair(name, source, options, graph, feeds, found, twin, file)


def without_target(source: Any, options: Any, graph: Any, feeds: Sequence[Any]) -> tuple[dict[str, Outputs], Outputs]:
    """Run the source in both precisions and the graph in float64, in this process."""
    from convert import plugin
    from convert.request.options import Options
    from convert.request.source import Source

    arrays = [f.arrays for f in feeds]
    runner = plugin.runner_for(source.kind)
    assert runner is not None
    found = {p: runner.run(source, arrays, precision=p, options=options) for p in ("float32", "float64")}
    twin = plugin.runners()["onnx"].run(
        Source("onnx-object", model=graph), arrays, precision="float64", options=Options()
    )
    return found, twin


def judged(pair: Pair, kind: str, path: Path) -> dict[str, bool]:
    """Return by method whether the target is accepted; no method accepts a target that does not run."""
    from convert.errors import ConvertError
    from convert.parity.evidence import RunOutputs
    from convert.parity.verify import _narrowed_outputs, _placed_weights, _storage_format
    from convert.request.source import Source

    try:
        target = run_target(kind, path, pair.feeds)
    except ConvertError as error:
        print(f"{pair.name}: {path.name} does not run: {error.message}", file=sys.stderr)
        return dict.fromkeys(METHODS, False)

    stored = _storage_format(Source(kind, path), pair.graph)

    placed = _placed_weights(pair.graph, Source(kind, path), stored)
    narrowed = _narrowed_outputs(pair.graph, [f.arrays for f in pair.feeds], stored, placed)
    runs = RunOutputs(pair.outputs, target, pair.twin, narrowed, placed=placed)
    verdict = concluded(pair.graph, pair.feeds, runs)
    right = "INCONCLUSIVE" if pair.name in UNDECIDED and path.name != PLANTED else "PASS"
    accepted = {"ours": verdict.status == right}
    pairs = [
        (np.asarray(a), np.asarray(b))
        for want, got in zip(pair.outputs["float32"], target, strict=True)
        for a, b in zip(want.values(), got.values(), strict=False)
    ]
    whole = all(len(a) == len(b) for a, b in zip(pair.outputs["float32"], target, strict=True))
    for method in METHODS[1:]:
        accepted[method] = whole and all(a.shape == b.shape and _close(method, a, b) for a, b in pairs)
    return accepted


def concluded(graph: Any, feeds: Sequence[Any], runs: Any) -> Any:
    """Return the verdict of `convert.parity.verify`."""
    from convert.parity.explain.rounding import Estimates
    from convert.parity.judge import Evidence, judge, without_foreign_float64
    from convert.parity.method import VerifyMethod

    runs = without_foreign_float64(graph, runs)
    return judge(Evidence(graph, feeds, runs, VerifyMethod(), Estimates(graph, feeds)))


def _close(method: str, a: np.ndarray, b: np.ndarray) -> bool:
    a, b = a.astype(np.float64), b.astype(np.float64)
    if method == "atol 1e-5":
        return bool(np.allclose(a, b, rtol=0, atol=1e-5))
    if method == "rtol 1e-3 atol 1e-5":
        return bool(np.allclose(a, b, rtol=1e-3, atol=1e-5))
    if method == "cosine 0.999":
        return bool((a * b).sum() >= 0.999 * np.sqrt((a * a).sum() * (b * b).sum()))
    error = np.mean((a - b) ** 2)
    return bool(error == 0 or 10 * np.log10(np.ptp(a) ** 2 / error) >= 40)


def clean(pair: Pair, target: str, folder: Path) -> tuple[str, Path] | str:
    """Return kind and path of the network correctly converted to a target format, or the reason why that fails."""
    import torch

    import convert
    from convert import plugin
    from convert.parity.verify import unavailable_reason

    module = build(pair.name)
    if target == "torchscript":
        if not isinstance(module, torch.nn.Module):
            return "the network is an ONNX model"
        example = [torch.from_numpy(np.asarray(a)) for a in pair.feeds[0].arrays.values()]
        torch.jit.trace(module, example, check_trace=False).save(folder / "clean.ts")
        return "torchscript", folder / "clean.ts"
    form = plugin.formats()[target]
    if unavailable_reason(form.kind):
        return f"it does not run here: {unavailable_reason(form.kind)}"
    path = folder / f"clean-{target}{form.suffix}"
    try:
        convert.convert(module, target, path, inputs=NETWORKS[pair.name][1], verify=False)
    except convert.Unsupported as error:
        return error.message
    return form.kind, path


def plant(pair: Pair, name: str, folder: Path) -> Path | None:
    """Return a copy of the file with the defect, or None if the network has no place for it."""
    import onnx

    model = copy.deepcopy(onnx.load(pair.file))
    if not DEFECTS[name](model):
        return None
    path = folder / PLANTED
    onnx.save(model, path)
    return path


def run_target(kind: str, path: Path, feeds: Sequence[Any]) -> Outputs:
    """Return the outputs of an artefact in its own runtime, or raise `ConvertError` if it does not run.

    ONNX Runtime runs in this process, because most targets are ONNX files, and the others in processes of their own.
    """
    from convert import plugin
    from convert.processes.process import execute
    from convert.request.options import Options
    from convert.request.source import Source

    source, arrays = Source(kind, path), [f.arrays for f in feeds]
    runner = plugin.runner_for(kind)
    assert runner is not None
    if kind == "onnx":
        return runner.run(source, arrays, precision="float32", options=Options())
    outputs = execute(source, arrays, ("float32",), Options()).results()["float32"]
    assert isinstance(outputs, list)
    return outputs


def score_reader(name: str) -> list[dict[str, Any]]:
    """Return rows {network, what, planted, accepted by method} of a source read correctly, and with each error."""
    from convert import api, plugin
    from convert.errors import ConvertError, Unsupported
    from convert.outcome.report import Report
    from convert.parity.compare.outputs import float64_error
    from convert.parity.evidence import RunOutputs
    from convert.parity.inputs import feeds as inputs
    from convert.request.options import Options, parse_input
    from convert.request.source import Source

    make, spec, errors = planted_readers.READERS[planted_readers.ONLY_FLOAT32.get(name, name)]
    executor = plugin.runners()["onnx"]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="convert-") as place:
        folder = Path(place)
        source = api.open_source(make(folder))
        options = Options(inputs=(parse_input(spec),) if spec else ())
        frontend, runner = plugin.frontend_for(source), plugin.runner_for(source.kind)
        assert runner is not None

        def run_source(feeds: Sequence[Any], precision: str) -> Any:
            if precision == "float64" and name in planted_readers.ONLY_FLOAT32:
                return Unsupported("no float64, for the sake of the test")
            try:
                return runner.run(source, [f.arrays for f in feeds], precision=precision, options=options)
            except Unsupported as error:
                return error

        right = frontend.read(source, options, Report("planted"))
        feeds = inputs.generate_feeds(right, 3)
        known = {p: run_source(feeds, p) for p in ("float32", "float64")}
        exact = _in_float64(executor, right, feeds)

        def add(what: str, graph: Any, changed: bool) -> None:
            api.convert(graph.clone(), "onnx", folder / "read.onnx", verify=False, force=True)
            target = Source("onnx", folder / "read.onnx")

            def run(feeds: Sequence[Any], source: dict[str, Any] | None = None) -> RunOutputs:
                made = executor.run(target, [f.arrays for f in feeds], precision="float32", options=Options())
                found = source or {p: run_source(feeds, p) for p in known}
                return RunOutputs(found, made, _in_float64(executor, graph, feeds))

            verdict = concluded(graph, feeds, run(feeds, known))
            passes = "INCONCLUSIVE" if name in planted_readers.UNDECIDED and not changed else "PASS"
            accepted = {"ours": verdict.status == passes}
            rows.append({"network": name, "what": what, "planted": changed, "accepted": accepted,
                         "status": verdict.status, "reason": verdict.reason})  # fmt: skip

        add("read as it is", right, False)
        for what, error in errors.items():
            with error() as changed:
                wrong = frontend.read(source, options, Report("planted"))
            if not changed:
                continue
            try:
                found = _in_float64(executor, wrong, feeds)
            except ConvertError as failed:  # if the graph does not run and its source does, the frontend is at fault
                rows.append({"network": name, "what": what, "planted": True, "accepted": {"ours": False},
                             "status": "FAIL", "reason": failed.message})  # fmt: skip
                continue
            pairs = [(a[k], b[k]) for a, b in zip(exact, found, strict=True) for k in a]
            if any(float64_error(a, b) > 1e-12 for a, b in pairs):
                add(what, wrong, True)
    return rows


def _in_float64(executor: Any, graph: Any, feeds: Sequence[Any]) -> Outputs:
    from convert.request.options import Options
    from convert.request.source import Source

    source = Source("onnx-object", model=graph)
    found: Outputs = executor.run(source, [f.arrays for f in feeds], precision="float64", options=Options())
    return found


def main() -> None:
    """Print the table, with --json after a line for each pair; return 1 after a false alarm or miss of our method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=NETWORKS, action="append")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--readers", nargs="+", metavar="NAME", help="only these sources, and no networks")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    read = score_readers(args.readers or (() if args.only else planted_readers.NAMES))
    targets = args.targets.split(",")
    with warm() if set(targets) - {"onnx"} else nullcontext():
        rows = score(args.only or list(NETWORKS), targets, args.json) if not args.readers else []
    clean, planted = ([r for r in rows if r["planted"] is p] for p in (False, True))
    print(f"{len(clean)} clean pairs, {len(planted)} planted defects of {len({r['what'] for r in planted})} kinds")
    print(f"{'method':<22} {'false alarms':>12} {'misses':>8}")
    for method in METHODS:
        alarms = sum(not r["accepted"][method] for r in clean)
        misses = sum(r["accepted"][method] for r in planted)
        print(f"{method:<22} {alarms:>12} {misses:>8}")
    wrong = [f"{r['network']}: {r['what']}" for r in (*rows, *read) if r["accepted"]["ours"] is r["planted"]]
    print("ours is wrong on: " + ("; ".join(wrong) or "none"))
    sys.exit(bool(wrong))


def score_readers(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of each source, and print a line of the table for each."""
    from convert.parity.verify import unavailable_reason

    rows: list[dict[str, Any]] = []
    print(f"{'read wrongly':<28} {'errors':>6} {'misses':>6} {'false alarms':>12} {'FAIL':>5} {'INCONCLUSIVE':>12}")
    for name in names:
        if name == "caffe2" and (missing := unavailable_reason("caffe2")):
            print(f"{name:<28} {missing}")
            continue
        found = score_reader(name)
        wrong = [r for r in found if r["planted"]]
        misses = sum(r["accepted"]["ours"] for r in wrong)
        alarms = sum(not r["accepted"]["ours"] for r in found if not r["planted"])
        fails, unsure = (sum(r["status"] == status for r in wrong) for status in ("FAIL", "INCONCLUSIVE"))
        print(f"{name:<28} {len(wrong):>6} {misses:>6} {alarms:>12} {fails:>5} {unsure:>12}", flush=True)
        rows += found
    return rows


@contextmanager
def warm() -> Iterator[None]:
    """Run models in forks of one process that has imported the frameworks, because imports take most of the time."""
    from convert.batch.fork_server_pool import fork_server_socket
    from convert.processes.fork_client import ADDRESS
    from convert.processes.marks import MARK, new_mark

    kinds = ("onnx", "torchscript", "savedmodel", "keras")
    with fork_server_socket(kinds, ("onnx", "tf", "keras", "tflite", "caffe2")) as address:
        os.environ |= {ADDRESS: address, MARK: new_mark()}
        try:
            yield
        finally:
            os.environ[ADDRESS] = ""


def score(networks: Sequence[str], targets: Sequence[str], talk: bool = False) -> list[dict[str, Any]]:
    """Return rows {network, what, planted, accepted by method} of all clean pairs and planted defects."""
    rows: list[dict[str, Any]] = []

    def add(**row: Any) -> None:
        rows.append(row)
        if talk:
            print(json.dumps(row), flush=True)

    for name in networks:
        with tempfile.TemporaryDirectory(prefix="convert-") as place:
            folder = Path(place)
            pair = prepare(name, folder)
            for target in targets:
                written = clean(pair, target, folder)
                if isinstance(written, str):
                    print(f"{name} → {target}: {written}", file=sys.stderr)
                    continue
                add(network=name, what=f"clean {target}", planted=False,
                    accepted=judged(pair, *written))  # fmt: skip
            for defect in DEFECTS:
                spoiled = plant(pair, defect, folder)
                if spoiled is None or is_equivalent(pair.file, spoiled, pair.feeds):
                    continue
                add(network=name, what=defect, planted=True,
                    accepted=judged(pair, "onnx", spoiled))  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
