"""Feeds every operator of the tables values at the edge, and compares each target with the source framework.

`python tests/suites/special_values.py pytorch onnx [--only clamp …]` prints what differs, a line each.
"""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from special_feeds import difference, edge_cases, with_arrays

from tests.support.cases import Case, rows_of_package


@dataclass(frozen=True)
class Found:
    """What became of one row on one feed: `same`, `differs`, `source refuses` or `refused`."""

    operator: str
    label: str
    outcome: str
    detail: str = ""
    reference: str = ""
    """Of what differs: how our own executor of the graph differs; nothing where it is the runtime alone."""


def forked(work: Callable[[Any], Iterable[Found]], item: Any, seconds: int = 40) -> Iterator[Found]:
    """What `work(item)` yields in a child process; a crash ends the child only."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(seconds)
        try:
            with os.fdopen(write, "wb") as stream:
                for found in work(item):
                    pickle.dump(found, stream)
                    stream.flush()
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        last = None
        while True:
            try:
                last = pickle.load(stream)
            except EOFError:
                break
            if last.outcome != "trying":
                yield last
    _, status = os.waitpid(child, 0)
    if status:
        at = last or Found(str(item), "", "")
        yield Found(at.operator, at.label, "differs", f"the process died with status {status}")


def pytorch_to_onnx(row: Case) -> Iterator[Found]:
    import onnxruntime
    from convert.backends.onnx import to_proto

    from convert.errors import Unsupported
    from convert.options import Options
    from convert.reference.executor import run as evaluate
    from tests.frontends.pytorch.ops.support import arrays_in, expected, lowered

    def session(model):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        return onnxruntime.InferenceSession(to_proto(model, Options()).SerializeToString(), options)

    def widened(case):
        try:
            return expected(
                with_arrays(case, lambda x: x.astype(np.float64) if x.dtype in (np.float16, np.float32) else x)
            )
        except Exception:
            return [None] * 9

    for case in edge_cases(row):
        yield Found(case.operator, case.label, "trying")
        try:
            want = expected(case)
            wide = widened(case)
        except Exception as error:
            yield Found(case.operator, case.label, "source refuses", str(error)[:80])
            continue
        feeds = {f"x{i}": np.array(a) for i, a in enumerate(arrays_in([case.inputs, list(case.attributes.values())]))}
        try:
            model, kept = lowered(case, dynamic=case.dynamic_inputs)
        except Exception as error:
            try:
                model, kept = lowered(case)
            except Exception as error:
                outcome = "refused" if isinstance(error, Unsupported) else "differs"
                yield Found(case.operator, case.label, outcome, f"{type(error).__name__}: {str(error)[:200]}")
                continue
        names = {v.name for v in model.graph.inputs}
        feeds = {k: v for k, v in feeds.items() if k in names}
        try:
            reference = list(evaluate(model, feeds).values())
            judged = "; ".join(
                filter(None, (difference(np.asarray(r), want[i], wide[i]) for i, r in zip(kept, reference)))
            )
        except Exception as error:
            judged = f"reference: {type(error).__name__}: {str(error)[:200]}"
        try:
            got = session(model).run(None, feeds)
            fault = "; ".join(filter(None, (difference(np.asarray(r), want[i], wide[i]) for i, r in zip(kept, got))))
        except Exception as error:
            fault = f"{type(error).__name__}: {str(error)[:200]}"
            if (
                "NOT_IMPLEMENTED" in fault
                or "Could not find an impl" in fault
                or "Type Error" in fault
                or "InvalidGraph" in fault
            ):
                fault = judged
        if fault or judged:
            yield Found(case.operator, case.label, "differs" if fault else "reference differs", fault, judged)
        else:
            yield Found(case.operator, case.label, "same")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--skip", nargs="*", default=[])
    options = parser.parse_args()
    sys.path.insert(0, ".")
    if (options.source, options.target) == ("pytorch", "onnx"):
        rows, work = rows_of_package("tests.frontends.pytorch.ops"), pytorch_to_onnx
        import onnxruntime, torch  # noqa
        import convert.backends.onnx, convert.reference.executor, onnx.reference  # noqa
        import tests.frontends.pytorch.ops.support  # noqa

        torch.set_num_threads(1)
    counts: dict[str, int] = {}
    for row in rows:
        if row.reason or (options.only and row.operator not in options.only):
            continue
        for found in forked(work, row):
            counts[found.outcome] = counts.get(found.outcome, 0) + 1
            if found.outcome not in ("same", "source refuses"):
                print(
                    f"{found.outcome:10} {found.operator:28} {found.label:24} {found.detail[:150]} || {found.reference[:90]}",
                    flush=True,
                )
    print(counts)
