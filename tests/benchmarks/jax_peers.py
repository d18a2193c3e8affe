"""JAX to ONNX beside jax2onnx, over the networks of the tests: outcome, nodes, error, onnxruntime's latency.

    python tests/benchmarks/jax_peers.py --peer /path/of/a/venv/bin/python [--names mlp,lstm] [--runs 200]

jax2onnx runs in another environment, which also has JAX, Flax and Equinox. It traces functions in memory, so both sides
get the same modules, with a dynamic batch size. Each side writes all networks in one process. The error is the largest
difference from JAX's float32 outputs, relative to the largest output. The latency is a median of runs with one thread
and a batch of 2; the files alternate.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
SIZES = {"batch": 2, "tokens": 5, "length": 5, "edges": 6}


def dims_of(spec: str, named: bool) -> tuple[str, str, list[Any]]:
    """Return name, dtype and dims of a described input; unknown dims as numbers unless `named`."""
    found = re.fullmatch(r"(\w+):(\w+)\[(.*)\]", spec)
    assert found is not None
    dims = [int(d) if d.isdigit() else d if named else SIZES[d] for d in filter(None, found[3].split(","))]
    return found[1], found[2], dims


def specs_of(network: Any) -> list[str]:
    """The descriptions of a network's inputs."""
    return network.inputs if isinstance(network.inputs, list) else [network.inputs]


def feeds_of(network: Any) -> dict[str, np.ndarray]:
    """Return random inputs of a network by name."""
    rng, feeds = np.random.default_rng(0), {}
    for spec in specs_of(network):
        name, dtype, dims = dims_of(spec, named=False)
        whole = rng.integers(0, 2 if dtype == "bool" else 5, dims)
        feeds[name] = (whole if dtype in ("bool", "int32") else rng.standard_normal(dims)).astype(dtype)
    return feeds


def by_the_peer(network: Any, path: Path) -> None:
    """Write a network by jax2onnx, in its own environment."""
    import jax
    from jax import export
    from jax2onnx import to_onnx

    described = [dims_of(spec, named=True) for spec in specs_of(network)]
    inputs = [jax.ShapeDtypeStruct(d, t) if all(isinstance(n, int) for n in d) else tuple(d) for _, t, d in described]
    if any(t != "float32" for _, t, d in described if not all(isinstance(n, int) for n in d)):
        scope = export.SymbolicScope()
        inputs = [jax.ShapeDtypeStruct(export.symbolic_shape(",".join(map(str, d)), scope=scope) if d else (), t)
                  for _, t, d in described]  # fmt: skip
    to_onnx(network.build(), inputs, return_mode="file", output_path=str(path))


def by_us(network: Any, path: Path) -> None:
    """Write a network by convert, without verification."""
    import convert

    convert.convert(network.build(), "onnx", path, inputs=network.inputs, verify=False)


def write_all(side: str, names: list[str], folder: Path) -> None:
    """Write the networks by one side; for a network that fails, write its error into a text file."""
    from tests.frontends.jax.networks import NETWORKS

    for name in names:
        path = folder / f"{name}.{side}.onnx"
        try:
            {"convert": by_us, "jax2onnx": by_the_peer}[side](NETWORKS[name], path)
        except Exception as reason:  # any exception: a network that is not written is a result
            path.unlink(missing_ok=True)
            path.with_suffix(".txt").write_text(f"{type(reason).__name__}: {reason}")


def measured(paths: dict[str, Path], network: Any, expected: list[np.ndarray], runs: int) -> dict[str, dict[str, Any]]:
    """Return nodes, error and latency of each existing file; the files run in turn."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    feeds, found, sessions = list(feeds_of(network).values()), {}, {}
    for side, path in paths.items():
        if not path.exists():
            continue
        try:
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            given = dict(zip([i.name for i in session.get_inputs()], feeds, strict=True))
            outputs = session.run(None, given)
            error = max(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)
                        for a, b in zip(outputs, expected, strict=True))  # fmt: skip
            found[side] = {"nodes": len(onnx.load(path).graph.node), "error": float(error), "times": []}
            sessions[side] = (session, given)
        except Exception as reason:  # any exception: a file that does not run is a result
            found[side] = {"why": " ".join(str(reason).split())[:150]}
    for _ in range(runs):
        for side, (session, given) in sessions.items():
            start = time.perf_counter()
            session.run(None, given)
            found[side]["times"].append(time.perf_counter() - start)
    return found


def reference(name: str) -> list[np.ndarray]:
    """Return JAX's outputs."""
    import jax

    from tests.frontends.jax.networks import NETWORKS

    network = NETWORKS[name]
    return [np.asarray(x) for x in jax.tree_util.tree_leaves(network.build()(*feeds_of(network).values()))]


def compared(name: str, folder: Path, runs: int) -> None:
    """Print a network's row of the table."""
    from tests.frontends.jax.networks import NETWORKS

    paths = {side: folder / f"{name}.{side}.onnx" for side in SIDES}
    found = measured(paths, NETWORKS[name], reference(name), runs)
    cells = [name]
    for side, path in paths.items():
        said = path.with_suffix(".txt")
        row = found.get(side, {"why": " ".join(said.read_text().split())[:150] if said.exists() else "nothing written"})
        if "why" in row:
            cells += [f"fails: {row['why']}", "", "", ""]
        else:
            median = f"{1e6 * float(np.median(row['times'])):.0f}" if row["times"] else ""
            cells += ["runs", str(row["nodes"]), f"{row['error']:.1e}", median]
    print("| " + " | ".join(cells) + " |", flush=True)


SIDES = ("convert", "jax2onnx")


def main() -> None:
    """Print a table of all networks that were asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--peer", help="a Python that has jax2onnx")
    options.add_argument("--names", default="", help="networks, with commas between")
    options.add_argument("--runs", type=int, default=200)
    options.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    from tests.frontends.jax.networks import NETWORKS

    names = asked.names.split(",") if asked.names else list(NETWORKS)
    if asked.side:
        write_all(asked.side, names, asked.out)
        return
    head = ["network"]
    for side in SIDES:
        head += [side, "nodes", "error", "µs"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for side, python in zip(SIDES, (sys.executable, asked.peer), strict=True):
            command = [python, str(Path(__file__)), "--side", side, "--names", ",".join(names), "--out", folder]
            subprocess.run(command, cwd=ROOT, check=False, timeout=7200, stdout=subprocess.DEVNULL)
        for name in names:
            compared(name, Path(folder), asked.runs)


if __name__ == "__main__":
    main()
