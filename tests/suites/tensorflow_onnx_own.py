"""Run tensorflow-onnx's own tests with `convert` in place of its converter.

    pip download --no-deps --no-binary tf2onnx tf2onnx && tar xzf tf2onnx-*.tar.gz
    pip install --no-deps tf2onnx parameterized requests
    python tests/suites/tensorflow_onnx_own.py tf2onnx-*/tests [--modules test_backend test_loops] [-v]

Each test builds a function, freezes it and runs it in TensorFlow. The graph is converted here, run by onnxruntime and
compared at the tolerances of the test. A relative tolerance of 1e-7, below the precision of float32, counts as 1e-6.
Counts by outcome are printed. The outcome `graph` is a test with right numbers that goes on to check the graph of the
other converter. Tests that give single inputs another layout are left out.
"""

from __future__ import annotations

import argparse
import os
import sys
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import onnxruntime as ort

import convert

MODULES = ("test_backend", "test_cond", "test_loops", "test_string_ops")
"""Modules of tests, without those for recurrent cells, which use classes that Keras 3 does not have."""

OPSET = 18
_OTHER_LAYOUT = ("inputs_as_nchw", "outputs_as_nchw")


class Refused(Exception):
    """The test gives arguments that `convert` does not have."""


def run_case(self: Any, func: Any, feed_dict: Mapping[str, Any], input_names_with_port: Sequence[str],
             output_names_with_port: Sequence[str], rtol: float = 1e-7, atol: float = 1e-5, mtol: float | None = None,
             check_value: bool = True, check_shape: bool = True, check_dtype: bool = True,
             process_args: Mapping[str, Any] | None = None, onnx_feed_dict: Mapping[str, Any] | None = None,
             as_session: bool = False, premade_placeholders: bool = False, **_: Any) -> None:  # fmt: skip
    """Replace the base class's method of the same parameters."""
    if any(name in (process_args or {}) for name in _OTHER_LAYOUT):
        raise unittest.SkipTest("another layout for single inputs")
    names = list(output_names_with_port)
    expected, graph, _tables = self.freeze_and_run_tf(func, feed_dict, names, as_session, premade_placeholders, False)
    # A value with a default that the test feeds remains an input, as if the user had named it.
    fed = {name.split(":")[0] for name in feed_dict}
    kept = [node.name for node in graph.node if node.op == "PlaceholderWithDefault" and node.name in fed]
    try:
        model = convert.to_onnx(graph, kept or None, outputs=names, opset=OPSET, verify=False)
    except convert.ConvertError as error:
        raise Refused(" ".join(str(error).split())) from None
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = {i.name for i in session.get_inputs()}
    feed = {name.split(":")[0]: array for name, array in (onnx_feed_dict or feed_dict).items()}
    found = session.run(None, {name: array for name, array in feed.items() if name in inputs})
    # Complex numbers are pairs of real ones, as a note says.
    expected = [np.stack([y.real, y.imag], -1) if np.iscomplexobj(y) else y for y in expected]
    several = len(found) == 1 and len(expected) > 1  # a test that names the first of an operator's several outputs
    assert several or len(found) == len(expected), f"{len(found)} outputs of {len(expected)}"
    self.assert_results_equal(expected, found, max(rtol, 1e-6), atol, mtol, check_value, check_shape, check_dtype)


def cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Every test of a suite of suites."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases(test)
        else:
            yield test


def outcome(test: unittest.TestCase) -> tuple[str, str]:
    """Return the outcome of a test, and its message."""
    result = unittest.TestResult()
    test.run(result)
    if result.skipped:
        return "skipped", result.skipped[0][1]
    if result.failures:
        return "wrong", " ".join(result.failures[0][1].split())[-400:]
    if not result.errors:
        return "right", ""
    said = result.errors[0][1].strip()
    if "Refused: " in said:
        return "refused", said.rpartition("Refused: ")[2]
    return ("graph" if "AttributeError: 'NoneType' object" in said else "error"), " ".join(said.split())[-400:]


def main() -> None:
    """Print the tests that are not right, and the counts for each module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tests", type=Path, metavar="TESTS", help="the folder tests/ of the unpacked package")
    parser.add_argument("--modules", nargs="+", default=MODULES)
    parser.add_argument("-v", "--verbose", action="store_true", help="print skipped tests too")
    asked = parser.parse_args()
    sys.argv[1:] = []  # the other package's tests read this attribute
    sys.path.insert(0, str(asked.tests))
    os.environ["TF2ONNX_TEST_OPSET"] = str(OPSET)
    warnings.simplefilter("ignore")
    import backend_test_base

    backend_test_base.Tf2OnnxBackendTestBase.run_test_case = run_case
    total: Counter[str] = Counter()
    for module in asked.modules:
        counts: Counter[str] = Counter()
        for test in cases(unittest.TestLoader().loadTestsFromName(module)):
            kind, why = outcome(test)
            counts[kind] += 1
            if kind != "right" and (kind != "skipped" or asked.verbose):
                print(f"{kind:8s} {test.id()}: {why[:300]}", flush=True)
        print(module, dict(counts), flush=True)
        total += counts
    print("all", dict(total))


if __name__ == "__main__":
    main()
