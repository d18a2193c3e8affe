"""JAX to ONNX beside jax2onnx, over the tests' networks and functions: outcome, nodes, error, onnxruntime's latency.

    python tests/benchmarks/jax_peers.py FOLDER --peer /path/of/a/venv/bin/python [--list functions] [--names mlp,lstm]
    python tests/benchmarks/jax_peers.py FOLDER --measure --runs 1000

jax2onnx runs in another environment, which also has JAX, Flax and Equinox. jax2onnx 0.17.1 accepts every JAX since
0.8.1, but uses names that JAX 0.12 has removed: pip install "jax2onnx==0.17.1" "jax==0.10.2" "jaxlib==0.10.2"

It traces functions in memory, so both sides get the same modules, with a dynamic batch size. Each side writes all
models in one process. The error is the largest difference from JAX's float32 outputs, relative to the largest output.
The latency is a median of runs with one thread and a batch of 2; the files alternate.

FOLDER keeps the models, and the errors of those that failed. The same command continues after a stop, because it
writes no model twice. `--measure` measures the models in FOLDER, and writes none.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
SIZES = {"batch": 2, "tokens": 5, "length": 5, "edges": 6}
SIDES = ("convert", "jax2onnx")
LISTS = ("networks", "functions")


@dataclass(frozen=True)
class Case:
    """A network or function, the specs of its inputs, and the range of floating-point inputs.

    Without a range, they are normally distributed.
    """

    build: Callable[[], Any]
    specs: list[str]
    between: tuple[float, float] | None = None


def cases(which: str) -> dict[str, Case]:
    """Return the networks or the functions of the tests, by name."""
    if which == "networks":
        from tests.frontends.jax.networks import NETWORKS

        return {n: Case(w.build, w.inputs if isinstance(w.inputs, list) else [w.inputs]) for n, w in NETWORKS.items()}
    import jax

    from tests.frontends.jax import functions

    one, two = ["x:float32[batch,4]"], ["x:float32[batch,4]", "y:float32[batch,1]"]
    whole = ["x:int32[batch,4]", "y:int32[batch,4]"]
    groups = [(functions.UNARY, one, (-2.0, 2.0)), (functions.POSITIVE, one, (0.1, 2.0)),
              (functions.INSIDE, one, (-0.9, 0.9)), (functions.BINARY, two, (-2.0, 2.0)),
              (functions.INTEGERS, whole, None)]  # fmt: skip
    return {
        f"{name} int32" if specs is whole else name: Case(lambda f=function: jax.jit(f), specs, between)
        for group, specs, between in groups for name, function in group.items()
    }  # fmt: skip


def dims_of(spec: str, named: bool) -> tuple[str, str, list[Any]]:
    """Return name, dtype and dims of a described input; unknown dims as numbers unless `named`."""
    found = re.fullmatch(r"(\w+):(\w+)\[(.*)\]", spec)
    assert found is not None
    dims = [int(d) if d.isdigit() else d if named else SIZES[d] for d in filter(None, found[3].split(","))]
    return found[1], found[2], dims


def feeds_of(case: Case) -> dict[str, np.ndarray]:
    """Return random inputs by name."""
    rng, feeds = np.random.default_rng(0), {}
    for spec in case.specs:
        name, dtype, dims = dims_of(spec, named=False)
        if dtype in ("bool", "int32"):
            content = rng.integers(0, 2 if dtype == "bool" else 5, dims)
        else:
            content = rng.uniform(*case.between, dims) if case.between else rng.standard_normal(dims)
        feeds[name] = content.astype(dtype)
    return feeds


def by_the_peer(case: Case, path: Path) -> None:
    """Write a model by jax2onnx, in its own environment."""
    import jax
    from jax import export
    from jax2onnx import to_onnx

    described = [dims_of(spec, named=True) for spec in case.specs]
    inputs = [jax.ShapeDtypeStruct(d, t) if all(isinstance(n, int) for n in d) else tuple(d) for _, t, d in described]
    if any(t != "float32" for _, t, d in described if not all(isinstance(n, int) for n in d)):
        scope = export.SymbolicScope()
        inputs = [jax.ShapeDtypeStruct(export.symbolic_shape(",".join(map(str, d)), scope=scope) if d else (), t)
                  for _, t, d in described]  # fmt: skip
    to_onnx(case.build(), inputs, return_mode="file", output_path=str(path))


def by_us(case: Case, path: Path) -> None:
    """Write a model by convert, without verification."""
    import convert

    convert.convert(case.build(), "onnx", path, inputs=case.specs, verify=False)


def place(folder: Path, name: str, side: str) -> Path:
    """Return where a side writes a model; its error is in a text file beside it."""
    return folder / f"{name.replace(' ', '_')}.{side}.onnx"


def write_all(side: str, which: str, names: list[str], folder: Path) -> None:
    """Write the models by one side; for a model that fails, write its error into a text file."""
    known = cases(which)
    for name in names:
        path = place(folder, name, side)
        if path.exists() or path.with_suffix(".txt").exists():
            continue
        unfinished = path.with_name("unfinished.onnx")
        unfinished.unlink(missing_ok=True)
        try:
            {"convert": by_us, "jax2onnx": by_the_peer}[side](known[name], unfinished)
            unfinished.rename(path)
        except Exception as reason:  # any exception: a model that is not written is a result
            path.with_suffix(".txt").write_text(f"{type(reason).__name__}: {reason}")


def relative_error(outputs: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """Return the largest difference, relative to the largest output. Raises ValueError for other shapes or dtypes."""
    worst = 0.0
    for found, wanted in zip(outputs, expected, strict=True):
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            raise ValueError(f"{found.dtype}{list(found.shape)} instead of {wanted.dtype}{list(wanted.shape)}")
        found, wanted = found.astype(np.float64), wanted.astype(np.float64)
        finite = np.isfinite(wanted)
        if not np.array_equal(found[~finite], wanted[~finite], equal_nan=True):
            raise ValueError("other infinities or NaN")
        found, wanted = found[finite], wanted[finite]
        if wanted.size:
            worst = max(worst, float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-30)))
    return worst


def measured(paths: dict[str, Path], case: Case, runs: int) -> dict[str, dict[str, Any]]:
    """Return nodes, error and latency of each existing file; the files run in turn."""
    import jax
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    feeds, found, sessions = list(feeds_of(case).values()), {}, {}
    expected = [np.asarray(x) for x in jax.tree_util.tree_leaves(case.build()(*feeds))]
    for side, path in paths.items():
        if not path.exists():
            said = path.with_suffix(".txt")
            found[side] = {"why": said.read_text() if said.exists() else "nothing written"}
            continue
        try:
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            given = dict(zip([i.name for i in session.get_inputs()], feeds, strict=True))
            error = relative_error(session.run(None, given), expected)
            found[side] = {"nodes": len(onnx.load(path).graph.node), "error": error, "times": []}
            sessions[side] = (session, given)
        except Exception as reason:  # any exception: a file that does not run is a result
            found[side] = {"why": f"its file fails: {reason}"}
    for _ in range(runs):
        for side, (session, given) in sessions.items():
            start = time.perf_counter()
            session.run(None, given)
            found[side]["times"].append(time.perf_counter() - start)
    return found


def compared(name: str, case: Case, folder: Path, runs: int) -> list[str]:
    """Print a row of the table, and return the outcome of each side."""
    found = measured({side: place(folder, name, side) for side in SIDES}, case, runs)
    cells, outcomes = [name], []
    for side in SIDES:
        row = found[side]
        outcomes.append(f"{side}: {'fails' if 'why' in row else 'wrong' if row['error'] > 1e-3 else 'right'}")
        if "why" in row:
            cells += ["fails: " + " ".join(row["why"].split())[:150], "", "", ""]
        else:
            median = f"{1e6 * float(np.median(row['times'])):.0f}" if row["times"] else ""
            cells += ["runs", str(row["nodes"]), f"{row['error']:.1e}", median]
    print("| " + " | ".join(cells) + " |", flush=True)
    return outcomes


def main() -> None:
    """Print a table of what was asked for, then the counts of outcomes; errors above 1e-3 count as wrong."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--peer", help="a Python that has jax2onnx; without it, only convert writes")
    options.add_argument("--list", choices=LISTS, default="networks", help="default: networks")
    options.add_argument("--names", default="", help="names of the list, with commas between")
    options.add_argument("--runs", type=int, default=200, help="runs of each model; 0 for no latency")
    options.add_argument("--measure", action="store_true", help="measure what is in the folder, and write nothing")
    options.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    asked = options.parse_args()
    known = cases(asked.list)
    names = asked.names.split(",") if asked.names else list(known)
    folder = asked.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if asked.side:
        write_all(asked.side, asked.list, names, folder)
        return
    for side, python in zip(SIDES, (sys.executable, asked.peer), strict=True):
        if python and not asked.measure:
            command = [python, __file__, str(folder), "--side", side, "--list", asked.list, "--names", ",".join(names)]
            subprocess.run(command, cwd=ROOT, check=False, timeout=7200, stdout=subprocess.DEVNULL)
    head = [asked.list.removesuffix("s")]
    for side in SIDES:
        head += [side, "nodes", "error", "µs"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    outcomes: Counter[str] = Counter()
    for name in names:
        outcomes.update(compared(name, known[name], folder, asked.runs))
    print(dict(sorted(outcomes.items())))


if __name__ == "__main__":
    main()
