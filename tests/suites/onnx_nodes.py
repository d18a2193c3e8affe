"""Run the official ONNX test cases through a backend.

    python tests/suites/onnx_nodes.py --backend tf --jobs 2

Each case is converted with nothing frozen: all inputs stay inputs, unless `--freeze` makes axes, shapes and the like
constants. The artefact runs in a child process. Outputs are compared at the suite's own tolerances, dtypes and shapes
must be equal. `--backend caffe2` uses the interpreter that CONVERT_CAFFE2_PYTHON names, whose onnx has an older set of
cases: `--sets onnx-1.8.1`. Keras takes axes and shapes as numbers only, so use `--backend keras --freeze`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from convert.request.options import DimSpec, InputSpec
from tests.suites import onnx_node_caffe2
from tests.suites.onnx_node_cases import OLD_SET, SETS, NodeCase, cases
from tests.suites.onnx_node_frozen import all_frozen
from tests.suites.onnx_node_gaps import CONTRADICTED, GAPS, RANDOM, UNSTABLE
from tests.suites.onnx_node_worker import Answer, run_all

STATUSES = ("pass", "gap", "refused", "error", "wrong", "crash", "timeout")
"""gap: refused and declared. error: an exception during the conversion or the run."""

FORMATS = {name: name for name in ("tf", "tf-frozen", "tflite", "keras", "caffe2", "onnx", "torch")}


@dataclass(frozen=True)
class Result:
    """The outcome of one case."""

    case: str
    operator: str
    status: str
    text: str = ""


def run_cases(chosen: Sequence[NodeCase], backend: str, *, onednn: bool = True, jobs: int = 1) -> list[Result]:
    """Return the results of the cases in order."""
    if backend == "caffe2":
        answers = onnx_node_caffe2.run_all((c.name, request(c, FORMATS[backend])) for c in chosen)
        return [judged(case, answers[case.name], backend) for case in chosen]
    by_name = {case.name: case for case in chosen}
    results: dict[str, Result] = {}
    environment = {"TF_ENABLE_ONEDNN_OPTS": str(int(onednn)), "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}

    def done(name: str, answer: Answer) -> None:
        results[name] = judged(by_name[name], answer, backend)
        if len(results) % 100 == 0:
            print(f"{len(results)} of {len(chosen)} cases", file=sys.stderr)

    run_all([(c.name, request(c, FORMATS[backend])) for c in chosen], jobs, environment, done)
    return [results[case.name] for case in chosen]


def request(case: NodeCase, form: str) -> tuple[Any, ...]:
    """Return the request to the worker. Sequences and optionals are passed element by element, under derived names."""
    feeds = [{name: x for key, given in inputs.items() for name, x in flat(key, given)} for inputs, _ in case.data]
    nested = any(not v.type.HasField("tensor_type") for v in case.model.graph.input)
    specs = [spec(name, x) for name, x in feeds[0].items()] if nested else []
    return case.model.SerializeToString(), feeds, specs, form


def flat(name: str, value: Any) -> list[tuple[str, Any]]:
    """Return a value by name; the elements of a sequence as `name_0`, `name_1` …; nothing for an absent optional."""
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [pair for i, inner in enumerate(value) for pair in flat(f"{name}_{i}", inner)]
    return [(name, np.asarray(value))]


def spec(name: str, value: np.ndarray) -> InputSpec:
    """Return dtype and rank of an input array; every dim is dynamic."""
    kind = "string" if value.dtype.kind in "OUS" else value.dtype.name
    return InputSpec(name, kind, tuple(DimSpec() for _ in value.shape))


def judged(case: NodeCase, answer: Answer, backend: str) -> Result:
    """Return the status of a case."""
    if answer.status != "ran":
        reason = declared(case.name, backend) if answer.status in ("refused", "error") else ""
        if answer.status == "refused":
            reason = reason or declared_by_room(answer, backend)
        return Result(case.name, case.operator, "gap" if reason else answer.status, reason or answer.text)
    for (_, wanted), got in zip(case.data, answer.outputs, strict=True):
        text = difference(case, wanted, got)
        if text and case.name in UNSTABLE:
            return Result(case.name, case.operator, "gap", UNSTABLE[case.name])
        if text and case.name in CONTRADICTED.get(backend, {}):
            return Result(case.name, case.operator, "gap", CONTRADICTED[backend][case.name])
        if text:
            return Result(case.name, case.operator, "wrong", text)
    return Result(case.name, case.operator, "pass")


def declared(name: str, backend: str) -> str:
    """Return the reason of the row that declares the case as a gap of the backend, or ""."""
    return next((reason for pattern, reason in GAPS.get(backend, {}).items() if fnmatchcase(name, pattern)), "")


def declared_by_room(answer: Answer, backend: str) -> str:
    """Return the reason of a refusal that the backend's own table declares, or ""."""
    if backend == "caffe2":
        return onnx_node_caffe2.declared(answer.text)
    if backend == "torch":
        from convert.backends.pytorch import ops  # noqa: F401  (fills the table)
        from convert.backends.pytorch.rules import onnx_op

        reasons = {*onnx_op.gaps.values(), *onnx_op.limits.values()}
        return "; ".join(why for _, why in answer.problems) if all(why in reasons for _, why in answer.problems) else ""
    if backend != "keras":
        return ""
    from convert.backends.keras.limits import declared_reasons as declared_by_keras

    return declared_by_keras(answer.problems)


def difference(case: NodeCase, wanted: Sequence[Any], got: dict[str, Any]) -> str:
    """Return the difference of the outputs, or ""."""
    names = [v.name for v in case.model.graph.output]
    expected = dict(pair for name, value in zip(names, wanted, strict=True) for pair in flat(name, value))
    found = dict(pair for name, value in got.items() for pair in flat(name, value))
    if set(found) != set(expected):
        return f"outputs are called {sorted(found)}, not {sorted(expected)}"
    random = any(fnmatchcase(case.name, pattern) for pattern in RANDOM)
    for name, value in expected.items():
        text = drawn_unlike(found[name], value, case) if random else unlike(found[name], value, case)
        if text:
            return f"{name}: {text}"
    return ""


def unlike(got: np.ndarray, want: np.ndarray, case: NodeCase) -> str:
    """Return the difference of one array from the expected one, or ""."""
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    if want.dtype.kind in "OUS":
        texts = [x.decode() if isinstance(x, bytes) else str(x) for x in got.ravel()]
        return "" if texts == [str(x) for x in want.ravel()] else f"{texts[:5]} instead of {want.ravel()[:5]}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype} instead of {want.dtype}"
    rtol = max(case.rtol, 2**-6) if got.dtype.name == "bfloat16" else case.rtol
    if got.dtype.kind not in "fciub":  # dtypes of ml_dtypes do not promote with Python's numbers
        got, want = got.astype(np.float32), want.astype(np.float32)
    try:
        np.testing.assert_allclose(got, want, rtol=rtol, atol=case.atol)
    except AssertionError as error:
        return " ".join(str(error).split())[:300]
    return ""


def drawn_unlike(got: np.ndarray, want: np.ndarray, case: NodeCase) -> str:
    """Compare random outputs by dtype, shape, and the values that the input and the operator allow."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if "bernoulli" in case.name or got.dtype == bool:
        return "" if np.isin(got, (0, 1)).all() else "numbers other than 0 and 1"
    # Dropout scales the kept elements by one factor, and sets the rest to zero.
    x = next(iter(case.data[0][0].values()))
    kept = got != 0
    factors = got[kept] / x[kept]
    return "" if kept.any() and not kept.all() and np.ptp(factors) < 1e-3 else "not a scaled choice of the input"


def counted(results: Iterable[Result]) -> dict[str, int]:
    """Return the number of results by status."""
    found = Counter(r.status for r in results)
    return {status: found[status] for status in STATUSES}


def table(results: Sequence[Result]) -> str:
    """Return counts for operators that do not pass all cases, then the totals."""
    operators = sorted({r.operator for r in results})
    lines = [f"{'operator':34}" + "".join(f"{s:>9}" for s in STATUSES)]
    for operator in operators:
        counts = counted(r for r in results if r.operator == operator)
        if sum(counts.values()) > counts["pass"]:
            lines.append(f"{operator:34}" + "".join(f"{counts[s] or '':>9}" for s in STATUSES))
    full = sum(all(r.status == "pass" for r in results if r.operator == o) for o in operators)
    lines.append(f"{full} of {len(operators)} operators and sets pass everywhere")
    totals = counted(results)
    lines.append(f"{'total':34}" + "".join(f"{totals[s]:>9}" for s in STATUSES))
    lines.append(f"{totals['pass']} of {len(results)} cases pass: {totals['pass'] / max(len(results), 1):.1%}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite; return 0 if every case passes or is a declared gap."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=FORMATS, default="tf")
    parser.add_argument("--no-onednn", action="store_true", help="switch TensorFlow's oneDNN kernels off")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--sets", nargs="+", choices=(*SETS, OLD_SET), default=list(SETS))
    parser.add_argument("--freeze", action="store_true", help="inputs that say how and not what become constants")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args(arguments)
    found = cases(chosen.sets, chosen.only)
    found = all_frozen(found) if chosen.freeze else found
    results = run_cases(found, chosen.backend, onednn=not chosen.no_onednn, jobs=chosen.jobs)
    if chosen.json:
        print(json.dumps({"totals": counted(results), "cases": [vars(r) for r in results]}, ensure_ascii=False))
    else:
        for result in results:
            if result.status not in ("pass", "gap"):
                print(f"{result.status:8} {result.case}: {result.text.splitlines()[0] if result.text else ''}")
        print(table(results))
    return int(any(r.status not in ("pass", "gap") for r in results))


if __name__ == "__main__":
    sys.exit(main())
