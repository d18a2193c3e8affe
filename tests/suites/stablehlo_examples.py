"""Read and run the examples of StableHLO's own interpreter, and compare them with the results that they state.

    git clone --depth 1 https://github.com/openxla/stablehlo
    python tests/suites/stablehlo_examples.py stablehlo [--names reduce] [--inputs] [-v]

An example is a function without arguments, whose constants and expected results stand in the file. It is counted as
right, refused (with the reason), wrong, error, or left out: what runs on several devices, and checks of the
interpreter's own. `--inputs` turns floating-point constants into inputs, so that their values are unknown to the
frontend.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from convert.frontends import jax as frontend
from convert.frontends.jax.context import make_context
from convert.frontends.jax.types import complex_constant, constant_array
from jaxlib.mlir import ir as mlir

from convert.errors import BadInput, ResourceLimit, Unsupported
from convert.outcome.report import Report
from convert.reference.executor import run as run_here
from convert.request.options import Options
from convert.request.source import Source

_TYPE = r"tensor<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>"
_CHECK = re.compile(
    rf"check\.(expect_eq_const|expect_almost_eq_const)\s+(%[\w#]+),\s+(dense<.*?>)\s+:\s+({_TYPE})", re.DOTALL
)
_TOLERANCE = 1e-4
"""Tolerance of the interpreter's `expect_almost_eq`."""
_ELSEWHERE = ("interpreter.", "check.expect_serialized_eq", "check.expect_close", "check.expect_eq ", "infeed",
              "outfeed", "check.expect_almost_eq ", "stablehlo.send", "stablehlo.recv")  # fmt: skip


@dataclass
class Example:
    """A module whose main function returns the checked value of an example, and the expected value."""

    name: str
    module: bytes
    feeds: dict[str, np.ndarray]
    expected: list[np.ndarray]
    exact: list[bool]


def examples(folder: Path, names: str = "") -> Iterator[tuple[str, str, int]]:
    """Yield name, text, and the number among the functions with checks, for each example in a checkout."""
    files = sorted((folder / "stablehlo" / "tests" / "interpret").rglob("*.mlir"))
    if not files:
        raise SystemExit(f"{folder} has no stablehlo/tests/interpret: name a checkout of openxla/stablehlo")
    for file in files:
        for number, text in enumerate(re.split(r"^// -----.*$", file.read_text(), flags=re.MULTILINE)):
            for which in range(sum("check." in part for part in text.split("func.func")[1:])):
                name = f"{file.stem}/{number}.{which}"
                if names in name:
                    yield name, text, which


def opened(name: str, text: str, which: int, inputs: bool) -> Example:
    """Turn the checks of a function into the results of one that is called main; others with checks are left out."""
    generic = _CHECK.sub(r'%expected = stablehlo.constant \3 : \4\n"check.\1"(\2, %expected) : (\4, \4) -> ()', text)
    for number in range(generic.count("%expected = ")):
        generic = re.sub(
            r"%expected\b(.*?)%expected\b", rf"%wanted{number}\1%wanted{number}", generic, count=1, flags=re.DOTALL
        )
    context = make_context()
    context.allow_unregistered_dialects = True
    with context, mlir.Location.unknown():
        module = mlir.Module.parse(generic)
        functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
        checked = [f for f in functions if any(o.operation.name.startswith("check.") for o in _body(f))]
        main = checked.pop(which)
        for function in checked:
            function.erase()
        checks = [o.operation for o in _body(main) if o.operation.name.startswith("check.")]
        results = [check.operands[0] for check in checks]
        wanted = [check.operands[1].owner.operation for check in checks]
        expected = [_content(op) for op in wanted]
        exact = ["almost" not in check.name for check in checks]
        for op in (*checks, *wanted):
            op.erase()
        _return(main, results)
        feeds = _constants_as_inputs(main) if inputs else {}
        main.attributes["sym_name"] = mlir.StringAttr.get("main")
        return Example(name, str(module).encode(), feeds, expected, exact)


def _body(function: mlir.Operation) -> list[Any]:
    return list(function.regions[0].blocks[0].operations)


def _return(main: mlir.Operation, results: list[mlir.Value]) -> None:
    end = _body(main)[-1].operation
    mlir.Operation.create("func.return", operands=results, ip=mlir.InsertionPoint(end))
    end.erase()
    _set_type(main, [r.type for r in results])


def _set_type(main: mlir.Operation, results: list[mlir.Type]) -> None:
    arguments = [a.type for a in main.regions[0].blocks[0].arguments]
    main.attributes["function_type"] = mlir.TypeAttr.get(mlir.FunctionType.get(arguments, results))


def _constants_as_inputs(main: mlir.Operation) -> dict[str, np.ndarray]:
    feeds = {}
    block = main.regions[0].blocks[0]
    for op in (o.operation for o in _body(main)):
        if (
            op.name != "stablehlo.constant"
            or str(mlir.RankedTensorType(op.results[0].type).element_type)[0] not in "fb"
        ):
            continue
        argument = block.add_argument(op.results[0].type, op.location)
        feeds[f"arg{len(feeds)}"] = _content(op)
        op.results[0].replace_all_uses_with(argument)
        op.erase()
    _set_type(main, [v.type for v in _body(main)[-1].operation.operands])
    return feeds


def _content(op: mlir.Operation) -> np.ndarray:
    """Return the value of a constant as a NumPy array."""
    if "complex" in str(op.results[0].type):
        return complex_constant(op)
    return constant_array(mlir.DenseElementsAttr(op.attributes["value"]))


def outcome(name: str, text: str, which: int = 0, inputs: bool = False) -> tuple[str, str]:
    """Return `right`, `refused`, `wrong`, `error` or `left out`, and the reason."""
    from tests.frontends.jax.support import run_graph

    if any(word in text for word in _ELSEWHERE):
        return "left out", "several devices, or a check of the interpreter's own"
    try:
        example = opened(name, text, which, inputs)
    except (mlir.MLIRError, Unsupported, ValueError) as error:
        return "refused", f"the example is not parsed by the installed jaxlib: {_line(error)}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "example.mlir"
            path.write_bytes(example.module)
            model = frontend.read(Source("stablehlo", path, written_here=True), Options(), Report("convert"))
            if any(str(e.dtype).startswith(("bfloat16", "float8")) for e in example.expected):
                found = list(run_here(model, example.feeds).values())  # onnxruntime returns no arrays of this dtype
            else:
                found = list(run_graph(model, example.feeds, Path(folder)).values())
    except (Unsupported, ResourceLimit) as error:
        return "refused", _line(error)
    except BadInput as error:
        return "error", _line(error)
    except Exception as error:  # any exception, because it counts as an error
        return "error", f"{type(error).__name__}: {_line(error)}"
    for one, other, exact in zip(found, example.expected, example.exact, strict=True):
        if why := _difference(one, other, exact):
            return "wrong", why
    return "right", ""


def _difference(found: np.ndarray, expected: np.ndarray, exact: bool) -> str:
    if expected.dtype.kind == "c":
        found = found[..., 0] + 1j * found[..., 1]
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    if expected.dtype.kind in "biu" or exact:
        same = np.array_equal(found.astype(expected.dtype), expected, equal_nan=expected.dtype.kind in "fc")
    else:
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        same = np.allclose(found.astype(wide), expected.astype(wide), rtol=0, atol=_TOLERANCE, equal_nan=True)
    return "" if same else f"{_line(found.tolist())}, expected {_line(expected.tolist())}"


def _line(said: object) -> str:
    return " ".join(str(said).split())[:200]


def main() -> int:
    """Print the examples that are not right, then the counts."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("checkout", type=Path)
    options.add_argument("--names", default="", help="only examples whose name has this")
    options.add_argument("--inputs", action="store_true", help="constants of floating numbers as inputs")
    options.add_argument("-v", action="store_true", help="print those that are right, too")
    asked = options.parse_args()
    counts: Counter[str] = Counter()
    for name, text, which in examples(asked.checkout, asked.names):
        status, why = outcome(name, text, which, asked.inputs)
        counts[status] += 1
        if asked.v or status not in ("right", "left out"):
            print(f"{status:8} {name}  {why}", flush=True)
    print(f"{sum(counts.values())} examples: {dict(counts)}")
    return int(bool(counts["wrong"] or counts["error"]))


if __name__ == "__main__":
    sys.exit(main())
