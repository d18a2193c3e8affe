"""Run the operators of the tables on special values, and compare the conversion with the source framework.

    python tests/suites/special_values.py pytorch onnx
    python tests/suites/special_values.py tensorflow onnx
    python tests/suites/special_values.py onnx tf|keras|tflite|torch|caffe2 [--only clamp sort]

It prints a line for each row and input that differs, and the counts. `--only` selects operators. The exit code is 1 if
an operator differs that `KNOWN` does not name.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from special_feeds import arrays_of, difference, edge_cases, with_arrays
from special_known import ENDED_BY_NOTHING, ENDLESS, KNOWN, is_known
from special_targets import RUNS, caffe2_results, onnxruntime_run, reference_run, results

from tests.support.cases import Case, rows_of_package


@dataclass(frozen=True)
class Found:
    """The outcome of one row on one input set, and whether a note of the report mentions a difference.

    It is `same`, `differs`, `source refuses`, `refused` or `ended` (the process crashed).
    """

    operator: str
    label: str
    outcome: str
    detail: str = ""
    noted: bool = True


def compared(case: Case, got: Sequence[Any], want: Sequence[np.ndarray], wide: Sequence[Any] = ()) -> Found:
    """Return the outcome of one case; `wide` are the source's results in float64, if there are any."""
    exact = [*wide, *[None] * len(want)]
    pairs = zip(got, want, exact, strict=False)
    fault = "; ".join(filter(None, (difference(np.asarray(g), np.asarray(w), e) for g, w, e in pairs)))
    return Found(case.operator, case.label, "differs" if fault else "same", fault)


def with_note(found: Found, model: Any, kind: str) -> Found:
    """Return the outcome, with whether the report of `model`, read from a source of this kind, has a note about it."""
    if found.outcome != "differs":
        return found
    from convert import plugin
    from convert.runtimes.differences import differences_in

    return replace(found, noted=bool(differences_in(model, plugin.differences(kind, "onnx"))))


def _refused(case: Case, error: Exception) -> Found:
    return Found(case.operator, case.label, "refused", f"{type(error).__name__}: {' '.join(str(error).split())[:150]}")


def _wider(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype in (np.float16, np.float32) else array


def pytorch_to_onnx(row: Case) -> Iterator[Found]:
    """Run each feed through PyTorch and through the ONNX model that its rule emits, in onnxruntime.

    If a rule refuses unknown sizes, or unknown ones next to a length of 0, it runs again with the known sizes.
    """
    from convert.errors import Unsupported
    from tests.frontends.pytorch.ops.support import arrays_in, expected

    for case in edge_cases(row):
        if _ends_process(case):
            continue
        if case.operator == "lcm":  # the least integer divided by -1 crashes PyTorch
            case = with_arrays(case, lambda a: np.maximum(a, -np.iinfo(a.dtype).max) if a.dtype.kind == "i" else a)
        if "_polynomial_" in case.operator:  # PyTorch takes as many steps as the degree says: 3e38 have no end
            degrees = tuple(
                np.minimum(n, n.dtype.type(64)) if isinstance(n, np.ndarray) else n for n in case.inputs[1:]
            )
            case = replace(case, inputs=(case.inputs[0], *degrees))
        try:
            want = expected(case)
        except Exception as error:
            yield Found(case.operator, case.label, "source refuses", str(error)[:80])
            continue
        try:
            wide = expected(with_arrays(case, _wider))
        except Exception:
            wide = []
        empty = any(not a.size for a in arrays_in([case.inputs, list(case.attributes.values())]))
        try:
            try:
                model, kept, got = _of_rule(case, case.dynamic_inputs)
            except Exception as error:
                if not (case.dynamic_inputs and (empty or isinstance(error, Unsupported))):
                    raise
                model, kept, got = _of_rule(case, 0)
        except Exception as error:
            yield _refused(case, error)
            continue
        found = compared(case, got, [want[i] for i in kept], [wide[i] for i in kept] if wide else [])
        yield with_note(found, model, "torch-module")


def _of_rule(case: Case, dynamic: int) -> tuple[Any, list[int], Sequence[Any]]:
    """Return a rule's graph, with unknown sizes of the first `dynamic` inputs, and the indices of its results."""
    from convert.backends.onnx import to_proto

    from convert.request.options import Options
    from tests.frontends.pytorch.ops.support import arrays_in, lowered

    model, kept = lowered(case, dynamic=dynamic)
    arrays = arrays_in([case.inputs, list(case.attributes.values())])
    names = {str(v.name) for v in model.graph.inputs}
    feed = {f"x{i}": np.array(a) for i, a in enumerate(arrays) if f"x{i}" in names}
    try:
        return model, kept, onnxruntime_run(to_proto(model, Options()))(feed)
    except Exception as error:
        if not any(words in str(error) for words in _NO_KERNEL):
            raise
        return model, kept, reference_run(model)(feed)


_NO_KERNEL = ("NOT_IMPLEMENTED", "Could not find an implementation", "Type Error", "INVALID_GRAPH")


def tensorflow_to_onnx(row: Case) -> Iterator[Found]:
    """Run each feed through TensorFlow and through the graph that the frontend reads, in onnxruntime."""
    import tensorflow as tf
    from convert.frontends import tensorflow as frontend

    from convert.outcome.report import Report
    from convert.request.options import Options
    from convert.request.source import Source
    from tests.frontends.tensorflow.ops.tf_support import concrete_of, run

    for case in edge_cases(row):
        if "BackpropInput" in case.operator:  # TensorFlow crashes if this size differs from the result's
            case = replace(case, inputs=(row.inputs[0], *case.inputs[1:]))
        limits = "extremes" in case.label or "pairs" in case.label
        if _ends_process(case) or (case.operator in ENDLESS and limits):
            continue
        try:
            concrete, arrays = concrete_of(case, dynamic=False)
            want = [value.numpy() for value in concrete(*map(tf.constant, arrays.values())).values()]
        except Exception as error:
            yield Found(case.operator, case.label, "source refuses", str(error)[:80])
            continue
        try:
            model = frontend.read(Source("tf-function-object", model=concrete), Options(), Report("convert"))
            got = list(run(model, arrays).values())
        except Exception as error:
            yield _refused(case, error)
            continue
        yield with_note(compared(case, got, want), model, "tf-function-object")


def onnx_to(target: str) -> Callable[[Case], Iterator[Found]]:
    """Run each feed through the artefact, and through onnxruntime, or the reference executor if onnxruntime has no
    kernel.
    """

    def outcomes(row: Case) -> Iterator[Found]:
        cases = [_divisible(case) for case in edge_cases(row) if not _ends_process(case)]
        wanted = {id(case): want for case, want in results(cases, onnxruntime_run)}
        for case, want in ((c, wanted[id(c)]) for c in cases):
            if isinstance(want, Exception):
                yield Found(case.operator, case.label, "source refuses", str(want)[:80])
        # Sizes that contradict each other crash TensorFlow's process.
        taken = [c for c in cases if not isinstance(wanted[id(c)], Exception)]
        meant = {id(case): want for case, want in results(taken, reference_run)}
        made = caffe2_results(taken) if target == "caffe2" else results(taken, RUNS[target])
        for case, got in made:
            want, other = wanted[id(case)], meant[id(case)]
            if isinstance(got, Exception):
                yield _refused(case, got)
            else:
                # If onnxruntime and the specification differ, either result is accepted.
                exact = [] if isinstance(other, Exception) else [np.asarray(o) for o in other]
                yield compared(case, got, want, exact)

    return outcomes


def _ends_process(case: Case) -> bool:
    return case.operator in ENDED_BY_NOTHING and not all(a.size for a in arrays_of(case))


def _divisible(case: Case) -> Case:
    """Leave out integer quotients that crash the process: by zero, and the least integer by −1."""
    if case.operator not in ("Div", "Mod") or not isinstance(case.inputs[1], np.ndarray):
        return case
    divisor = case.inputs[1]
    if divisor.dtype.kind not in "iu":
        return case
    safe = np.where(divisor == 0, 3, divisor)
    safe = np.where(safe == -1, -2, safe) if divisor.dtype.kind == "i" else safe
    return Case(case.operator, (case.inputs[0], safe.astype(divisor.dtype)), case.attributes, case.label)


RANDOM = ("Random", "Multinomial", "Bernoulli", "Dropout", "rand", "bernoulli", "dropout", "normal", "exponential",
          "empty", "Stateless", "Uniform", "uniform", "geometric", "cauchy", "multinomial")  # fmt: skip
"""Parts of the names of operators that sample random numbers, or that leave results undefined."""


def rows_of(source: str) -> list[Case]:
    """Return the rows of a source's table, without random operators and declared gaps."""
    tables = {"pytorch": "tests.frontends.pytorch.ops", "tensorflow": "tests.frontends.tensorflow.ops",
              "onnx": "tests.backends.tensorflow.ops"}  # fmt: skip
    rows = rows_of_package(tables[source])
    return [r for r in rows if not r.reason and not any(word in r.operator for word in RANDOM)]


def runner_of(source: str, target: str) -> Callable[[Case], Iterator[Found]]:
    """Return the function that computes the outcomes of one row."""
    if source == "onnx":
        return onnx_to(target)
    return {"pytorch": pytorch_to_onnx, "tensorflow": tensorflow_to_onnx}[source]


def preload(target: str) -> None:
    """Import, without starting a thread, what the processes of all rows need, which are forks of this one."""
    import onnxruntime  # noqa: F401

    import convert.reference.executor  # noqa: F401
    from convert import plugin

    plugin.backend_for(target).preload()  # type: ignore[attr-defined]


def isolated(run: Callable[[Case], Iterator[Found]], row: Case) -> Iterator[Found]:
    """Return the outcomes of a row from a process of its own; if a kernel ends that process, the error names the
    row.
    """
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)

    def serve() -> None:
        reader.close()
        for found in run(row):
            writer.send(found)

    child = context.Process(target=serve, daemon=True)
    child.start()
    writer.close()
    last = None
    try:
        while reader.poll(SECONDS):
            last = reader.recv()
            yield last
    except EOFError:
        pass
    else:
        child.kill()
    child.join()
    if child.exitcode:
        after = f", after {last.label!r}" if last else ""
        yield Found(row.operator, row.label, "ended", f"the process ended with {child.exitcode}{after}")


SECONDS = 240.0
"""Time limit for one feed."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", choices=("pytorch", "tensorflow", "onnx"))
    parser.add_argument("target", choices=("onnx", "caffe2", *RUNS))
    parser.add_argument("--only", nargs="*", default=[], help="operators by name")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th row")
    options = parser.parse_args()
    if "onnx" not in (options.source, options.target):
        parser.error("one of both is onnx: what is between two frameworks is the shared graph")
    preload(options.target)
    run, counts, unknown = runner_of(options.source, options.target), Counter[str](), 0
    for row in rows_of(options.source)[:: options.every]:
        if options.only and row.operator not in options.only:
            continue
        for found in isolated(run, row):
            known = found.outcome == "differs" and is_known(options.source, options.target, found.operator, found.noted)
            counts["known to differ" if known else found.outcome] += 1
            if found.outcome in ("differs", "refused", "ended"):
                unknown += found.outcome != "refused" and not known
                word = "known" if known else found.outcome if found.noted else "unsaid"
                print(f"{word:8} {found.operator:28} {found.label:28} {found.detail[:160]}", flush=True)
    print(dict(counts), f"{len(KNOWN)} tables of what is known")
    return int(unknown > 0)


if __name__ == "__main__":
    sys.exit(main())
