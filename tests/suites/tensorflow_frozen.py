"""Convert frozen graphs of small functions to ONNX, run them in onnxruntime and compare them with TensorFlow.

    python tests/suites/tensorflow_frozen.py [--topics lists,text] [--names sum] [--forms open] [-v]

The outcomes are right, refused (a gap that the row declares, or another reason), wrong and error. Only a declared
refusal is accepted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).parents[2]))

import convert
from tests.suites.frozen_graphs.row import FORMS, FrozenGraph, FrozenRow, frozen

TOPICS = ("numbers", "shapes", "axes", "control", "lists", "text", "images", "matrices", "sequences")


def rows(topics: str = "") -> Iterator[tuple[str, FrozenRow, str]]:
    """Yield every row of the topics in every form: topic, row, form."""
    for topic in topics.split(",") if topics else TOPICS:
        for made in importlib.import_module(f"tests.suites.frozen_graphs.{topic}").ROWS:
            for form in made.forms:
                yield topic, made, form


def outcome(made: FrozenRow, form: str) -> tuple[str, str]:
    """Return the outcome of one graph: right, gap, refused, wrong or error, and the message."""
    try:
        graph = frozen(made, form)
    except Exception as error:
        return "error", f"the row itself: {type(error).__name__}: {_line(error)}"
    with tempfile.TemporaryDirectory(prefix="frozen-") as folder:
        source, target = Path(folder) / "graph.pb", Path(folder) / "graph.onnx"
        source.write_bytes(graph.graph.SerializeToString())
        outputs = [o.removesuffix(":0") for o in graph.outputs]
        try:
            convert.convert(source, "onnx", target, inputs=graph.inputs, outputs=outputs, verify=False)
        except convert.ConvertError as error:
            if not isinstance(error, (convert.Unsupported, convert.BadInput, convert.UsageError)):
                return "error", f"{type(error).__name__}: {_line(error)}"
            declared = made.declared(form)
            return "gap" if declared and re.search(declared, str(error)) else "refused", _line(error)
        except Exception as error:
            return "error", f"{type(error).__name__}: {_line(error)}"
        if made.declared(form):
            return "refused", "it converts, though the row declares a gap"
        return _compared(graph, target)


def _compared(graph: FrozenGraph, target: Path) -> tuple[str, str]:
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        model = onnx.load(target)
        if all(v.type.tensor_type.HasField("shape") for v in (*model.graph.input, *model.graph.output)):
            onnx.checker.check_model(model, full_check=True)  # it accepts no unknown ranks
        session = onnxruntime.InferenceSession(str(target), options, providers=["CPUExecutionProvider"])
        given = {i.name for i in session.get_inputs()}
        for feed, expected in zip(graph.feeds, graph.expected, strict=True):
            fed = {n: a for n, a in zip(graph.inputs, feed, strict=True) if n in given}
            for i, (got, want) in enumerate(zip(session.run(None, fed), expected, strict=True)):
                if found := difference(np.asarray(got), np.asarray(want)):
                    return "wrong", f"output {i}: {found}"
    except Exception as error:
        return "error", f"{type(error).__name__}: {_line(error)}"
    return "right", ""


def difference(got: np.ndarray, want: np.ndarray) -> str:
    """Return the error of an output, or "".

    Dtype, shape, integers and text must be equal, floats up to rounding errors.
    """
    if got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.kind in "OSU":
        given, wanted = ([s.decode() if isinstance(s, bytes) else s for s in x.ravel().tolist()] for x in (got, want))
        return "" if given == wanted else f"{given} instead of {wanted}"
    if got.dtype != want.dtype:
        return f"{got.dtype} instead of {want.dtype}"
    if want.dtype.kind != "f":
        return "" if np.array_equal(got, want) else f"{np.count_nonzero(got != want)} of {want.size} elements differ"
    finite = np.isfinite(want)
    if not np.array_equal(finite, np.isfinite(got)) or not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return "other numbers are not finite"
    largest = float(np.abs(want[finite]).max(initial=0.0))
    error = np.abs(got[finite].astype(np.float64) - want[finite])
    unit = {2: 2e-3, 4: 2e-5, 8: 1e-11}[want.dtype.itemsize]
    allowed = unit * np.abs(want[finite]) + unit / 4 * largest
    return "" if np.all(error <= allowed) else f"off by {error.max():.3g}, the largest is {largest:.3g}"


def _line(said: object) -> str:
    return " ".join(str(said).split())[:300]


def main() -> int:
    """Run the selected graphs; print those that are not right one by one, then the counts."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--topics", default="", help=f"some of {','.join(TOPICS)}")
    options.add_argument("--names", default="", help="only rows whose name has this")
    options.add_argument("--forms", default=",".join(FORMS), help="some of the forms")
    options.add_argument("-v", action="store_true", help="tell of those that are right or declared, too")
    asked = options.parse_args()
    counts: Counter[str] = Counter()
    start = time.monotonic()
    for topic, made, form in rows(asked.topics):
        if asked.names not in made.name or form not in asked.forms.split(","):
            continue
        status, said = outcome(made, form)
        counts[status] += 1
        if asked.v or status not in ("right", "gap"):
            print(f"{status:8} {topic}/{made.name}/{form}  {said}", flush=True)
    print(f"{sum(counts.values())} graphs in {time.monotonic() - start:.0f} s: {dict(counts)}")
    return int(any(counts[s] for s in ("refused", "wrong", "error")))


if __name__ == "__main__":
    sys.exit(main())
