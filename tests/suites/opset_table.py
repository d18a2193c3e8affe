"""Write each ONNX operator at each opset, and run the result.

    python tests/suites/opset_table.py --opsets 7 13 --only dft

Each official ONNX case is read and written for the opsets asked for. The result runs in onnxruntime, or in ONNX's
reference evaluator if onnxruntime lacks a kernel. Outputs are compared with those of the case at the suite's own
tolerances; dtypes and shapes must be equal. Inputs that are parameters (axes, shapes) become constants, as in real
models; `--dynamic` keeps them as inputs. A case runs in a process of its own, which may crash.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import multiprocessing.connection
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from convert.backends.onnx.lower import lower
from convert.backends.onnx.options import NEWEST, OLDEST
from convert.backends.onnx.writer import model_proto

from convert.errors import Unsupported
from tests.suites.onnx_node_cases import NodeCase, cases
from tests.suites.onnx_node_frozen import all_frozen
from tests.suites.onnx_node_gaps import CONTRADICTED, UNSTABLE
from tests.suites.onnx_nodes import difference, flat
from tests.support.onnx_support import read

STATUSES = ("same", "other", "refused", "unrun", "wrong", "error")
"""same: the operator stays. other: it is written out. unrun: no runtime here has kernels for it."""

SECONDS = 120


@dataclass(frozen=True)
class Row:
    """The outcome of one case at one opset."""

    case: str
    operator: str
    opset: int
    status: str
    text: str = ""


def measure(case: NodeCase, opsets: Sequence[int]) -> list[Row]:
    """Return one row for each opset."""
    try:
        model = read(case.model)
    except Exception as error:
        return [Row(case.name, case.operator, n, "error", f"{type(error).__name__}: {error}") for n in opsets]
    before = {n.op_type for n in model.graph.all_nodes()}
    rows = []
    for opset in opsets:
        copy = model.clone()
        try:
            lower(copy, opset)
            proto = model_proto(copy)
        except Unsupported as error:
            rows.append(Row(case.name, case.operator, opset, "refused", str(error)))
            continue
        except Exception as error:
            rows.append(Row(case.name, case.operator, opset, "error", f"{type(error).__name__}: {error}"))
            continue
        kept = {n.op_type for n in copy.graph.all_nodes()} <= before
        rows.append(_judged(case, proto, opset, "same" if kept else "other"))
    return rows


def _judged(case: NodeCase, proto: onnx.ModelProto, opset: int, kept: str) -> Row:
    for inputs, wanted in case.data:
        given = {v.name for v in proto.graph.input}
        feeds = {k: x for key, value in inputs.items() for k, x in flat(key, value) if k in given}
        outputs = answers(proto, feeds)
        if isinstance(outputs, str):
            return Row(case.name, case.operator, opset, "unrun", outputs)
        text = difference(replace(case, atol=max(case.atol, _rounding(wanted))), wanted, outputs)
        if text and not (case.name in UNSTABLE or case.name in CONTRADICTED["tf"]):
            return Row(case.name, case.operator, opset, "wrong", text)
    return Row(case.name, case.operator, opset, kept)


def _rounding(wanted: Sequence[Any]) -> float:
    """Return the float32 rounding error of the largest number, for sums that cancel to zero."""
    numbers = [np.abs(y[np.isfinite(y)]) for y in wanted if isinstance(y, np.ndarray) and y.dtype == np.float32]
    return 2.0**-20 * max((float(n.max()) for n in numbers if n.size), default=0.0)


def answers(proto: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any] | str:
    """Return outputs by name from onnxruntime, else from ONNX's reference, or the reason why neither runs the model."""
    import onnxruntime
    from onnx.reference import ReferenceEvaluator

    names = [v.name for v in proto.graph.output]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return dict(zip(names, session.run(None, feeds), strict=True))
    except Exception as first:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return dict(zip(names, ReferenceEvaluator(proto).run(None, feeds), strict=True))
        except Exception as second:
            return (
                f"onnxruntime: {' '.join(str(first).split())[:200]}; reference: {' '.join(str(second).split())[:200]}"
            )


def run_cases(chosen: Sequence[NodeCase], opsets: Sequence[int]) -> list[Row]:
    """Return the rows of all cases, each measured in a child process."""
    rows: list[Row] = []
    context = multiprocessing.get_context("fork")
    for i, case in enumerate(chosen):
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_child, args=(theirs, case, opsets))
        child.start()
        theirs.close()
        try:
            rows += ours.recv() if ours.poll(SECONDS) else _lost(case, opsets, "no answer in time")
        except EOFError:
            child.join()
            rows += _lost(case, opsets, f"the process ended with {child.exitcode}")
        child.kill()
        child.join()
        if i % 100 == 99:
            print(f"{i + 1} of {len(chosen)} cases", file=sys.stderr)
    return rows


def _child(pipe: multiprocessing.connection.Connection, case: NodeCase, opsets: Sequence[int]) -> None:
    pipe.send(measure(case, opsets))


def _lost(case: NodeCase, opsets: Sequence[int], why: str) -> list[Row]:
    return [Row(case.name, case.operator, n, "error", why) for n in opsets]


def table(rows: Sequence[Row], opsets: Sequence[int]) -> str:
    """Return the numbers of cases by operator, opset and outcome, and the names of all others."""
    lines = [f"{'operator (same/other/refused)':34}" + "".join(f"{n:>10}" for n in opsets)]
    for operator in sorted({r.operator for r in rows}):
        cells = []
        for opset in opsets:
            found = Counter(r.status for r in rows if r.operator == operator and r.opset == opset)
            cell = "/".join(str(found[s] or "-") for s in STATUSES[:3])
            bad = sum(found[s] for s in STATUSES[3:])
            cells.append(f"{cell}{f'!{bad}' if bad else '':>10}"[:10].rjust(10))
        lines.append(f"{operator:34}" + "".join(cells))
    for status in STATUSES:
        lines.append(f"{status:34}" + "".join(f"{_count(rows, n, status):>10}" for n in opsets))
    return "\n".join(lines)


def _count(rows: Sequence[Row], opset: int, status: str) -> int:
    return sum(r.opset == opset and r.status == status for r in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 0 if nothing is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opsets", type=int, nargs="+", default=list(range(OLDEST, NEWEST + 1)))
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--dynamic", action="store_true", help="axes, shapes and the like stay inputs")
    parser.add_argument("--every", type=int, default=1, help="every so many-th case")
    parser.add_argument("--show", nargs="+", default=["unrun", "wrong", "error"], help="statuses listed case by case")
    parser.add_argument("--json", type=Path, help="write all rows here")
    chosen = parser.parse_args(arguments)
    found = cases(["node"], chosen.only)
    found = [c for c in found if "_expanded" not in c.name][:: chosen.every]
    found = found if chosen.dynamic else all_frozen(found)
    rows = run_cases(found, chosen.opsets)
    for (status, case), group in itertools.groupby(rows, key=lambda r: (r.status, r.case)):
        if status in chosen.show:
            at = list(group)
            print(f"{status:8} {case} at {[r.opset for r in at]}: {at[0].text[:300]}")
    print(table(rows, chosen.opsets))
    if chosen.json:
        chosen.json.write_text(json.dumps([vars(r) for r in rows]))
    return int(any(r.status in ("wrong", "error") for r in rows))


if __name__ == "__main__":
    sys.exit(main())
