"""Count the defects that get a PASS because random inputs seldom reach them: a changed row, a clamp, a window, a
branch.

    python tests/suites/planted_blind.py [--only CLASS …] [--targets onnx,tf,torch] [--out rows.jsonl]

Each row is a source, a target with one defect, and the verdict of `convert.verify` on the two files with default
settings. The defect is planted in the ONNX file of the source; for other formats that file is converted without
verification. Each defect has a clean pair beside it.

A line is printed for each defect that passes and each clean pair that does not, then the counts by class. The exit code
is 1 if more than one defect in twenty passes, or if a clean pair fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

F32, I64 = ir.DataType.FLOAT, ir.DataType.INT64
SUFFIX = {"onnx": ".onnx", "tf": ".savedmodel", "tflite": ".tflite", "keras": ".keras", "torch": ".pt2"}
Build = Callable[[Graph, Any], None]


@dataclass(frozen=True)
class Row:
    """A defect: its class, name, and a function that builds the source (from None) or the target (from a parameter)."""

    kind: str
    name: str
    build: Build
    defect: Any
    clean: Any = None


def rng_of(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _positions(g: Graph, x: ir.Value, axis: int = 1) -> ir.Value:
    length = g.Squeeze(g.Shape(x, start=axis, end=axis + 1), [0])
    return g.Range(np.int64(0), length, np.int64(1))


# -- numbers that no drawn input reads --------------------------------------------------------------------------------


def text_classifier(g: Graph, row: int | None) -> None:
    """Return an embedding of 20,000 rows, a mean and a dense layer; the defect changes a row."""
    table = rng_of(20_000, 16)
    if row is not None:
        table[row] = -table[row]
    ids = g.input("ids", I64, ["n", "t"])
    g.output(g.MatMul(g.ReduceMean(g.Gather(table, ids), [1], keepdims=0), rng_of(16, 5, seed=1)), "y")


def positions_table(g: Graph, row: int | None) -> None:
    """Return token embeddings plus a table of 2,048 positions; the defect changes a row."""
    table = rng_of(2048, 16, seed=2)
    if row is not None:
        table[row] *= 3
    ids = g.input("ids", I64, ["n", "t"])
    end = g.Shape(ids, start=1, end=2)
    g.output(g.Add(g.Gather(rng_of(100, 16), ids), g.Slice(table, [0], end, [0])), "y")


def class_labels(g: Graph, place: int | None) -> None:
    """Return the label of the largest of 1,000 scores, from a table of integers; the defect changes one label."""
    labels = np.arange(1000, 2000)
    if place is not None:
        labels[place] = 7
    x = g.input("x", F32, ["n", 16])
    scores = g.MatMul(x, rng_of(16, 1000, seed=3))
    g.output(g.Gather(labels, g.ArgMax(scores, axis=1, keepdims=0)), "label")
    g.output(scores, "scores")


def codebook(g: Graph, code: int | None) -> None:
    """Return codes looked up in a table of 4,096 rows and projected; the defect changes a code by a thousandth."""
    table = rng_of(4096, 8, seed=4)
    if code is not None:
        table[code] += 0.5
    codes = g.input("codes", I64, ["n", "t"])
    g.output(g.MatMul(g.Gather(table, codes), rng_of(8, 3, seed=5)), "y")


# -- constants that the target alone has ------------------------------------------------------------------------------


def clamped_steps(g: Graph, most: int | None) -> None:
    """Return sines of time steps; the defect clamps the steps."""
    t = g.input("t", I64, ["n"])
    t = t if most is None else g.Min(t, np.int64(most))
    angles = g.Mul(g.Unsqueeze(g.Cast(t, to=F32), [1]), np.exp(-np.arange(8)).astype(np.float32))
    g.output(g.MatMul(g.Concat(g.Sin(angles), g.Cos(angles), axis=1), rng_of(16, 4)), "y")


def clamped_pixels(g: Graph, most: float | None) -> None:
    """Return a convolution of pixels; the defect clamps them."""
    x = g.input("x", F32, ["n", 3, "h", "w"])
    x = x if most is None else g.Min(x, np.float32(most))
    g.output(g.ReduceMean(g.Relu(g.Conv(x, rng_of(8, 3, 3, 3))), [2, 3], keepdims=0), "y")


def clamped_places(g: Graph, most: int | None) -> None:
    """Return embeddings of tokens and positions; the defect clamps the positions."""
    ids = g.input("ids", I64, ["n", "t"])
    places = _positions(g, ids)
    places = places if most is None else g.Min(places, np.int64(most))
    angles = g.Mul(g.Unsqueeze(g.Cast(places, to=F32), [1]), np.exp(-np.arange(8)).astype(np.float32))
    g.output(g.Add(g.Gather(rng_of(50, 8), ids), g.Sin(angles)), "y")


def threshold(g: Graph, at: float | None) -> None:
    """Return a dense layer; the defect adds 1 if a sum of the inputs is above a threshold."""
    x = g.input("x", F32, ["n", 8])
    y = g.MatMul(x, rng_of(8, 8))
    if at is not None:
        y = g.Add(y, g.Cast(g.Greater(x, np.float32(at)), to=F32))
    g.output(y, "y")


def padding_token(g: Graph, token: int | None) -> None:
    """Return embeddings; the defect treats a token as padding."""
    ids = g.input("ids", I64, ["n", "t"])
    y = g.Gather(rng_of(3000, 8), ids)
    if token is not None:
        y = g.Where(g.Unsqueeze(g.Equal(ids, np.int64(token)), [2]), np.float32(0), y)
    g.output(y, "y")


# -- lengths ----------------------------------------------------------------------------------------------------------


def zeros_from(g: Graph, step: int | None) -> None:
    """Return an LSTM; the defect sets its outputs to zero from a step on."""
    x = g.input("x", F32, ["t", "n", 8])
    y = g.LSTM(x, rng_of(1, 32, 8), rng_of(1, 32, 8), hidden_size=8, outputs=3)[0]
    y = g.Squeeze(y, [1])
    if step is not None:
        near = g.Less(_positions(g, y, 0), np.int64(step))
        y = g.Where(g.Unsqueeze(near, [1, 2]), y, np.float32(0))
    g.output(y, "y")


def attention_window(g: Graph, window: int | None) -> None:
    """Return causal attention of one head; the defect limits it to the last steps."""
    x = g.input("x", F32, ["n", "t", 8])
    q, k, v = (g.MatMul(x, rng_of(8, 8, seed=s) / 3) for s in range(3))
    steps = _positions(g, x)
    apart = g.Sub(g.Unsqueeze(steps, [1]), g.Unsqueeze(steps, [0]))
    seen = g.Less(np.int64(-1), apart)
    if window is not None:
        seen = g.And(seen, g.Less(apart, np.int64(window)))
    scores = g.Where(seen, g.MatMul(q, g.Transpose(k, perm=[0, 2, 1])), np.float32(-1e9))
    g.output(g.MatMul(g.Softmax(scores, axis=-1), v), "y")


def cut_sequence(g: Graph, end: int | None) -> None:
    """Return a sum along a sequence; the defect leaves out everything after a position."""
    x = g.input("x", F32, ["n", "t", 8])
    kept = x if end is None else g.Slice(x, np.array([0]), np.array([end]), np.array([1]))
    g.output(g.MatMul(g.ReduceSum(kept, [1], keepdims=0), rng_of(8, 4)), "y")


def clamped_tokens(g: Graph, most: int | None) -> None:
    """Return embeddings of 3,000 tokens; the defect clamps the tokens."""
    ids = g.input("ids", I64, ["n", "t"])
    ids = ids if most is None else g.Min(ids, np.int64(most))
    g.output(g.Gather(rng_of(3000, 8), ids), "y")


# -- tables of ONNX-ML ------------------------------------------------------------------------------------------------


def trees(g: Graph, leaf: int | None) -> None:
    """Return 64 trees of depth 1 on 8 features; the defect changes a leaf."""
    count = 64
    features = np.arange(count) % 8
    values = rng_of(count, seed=6)
    weights = rng_of(2 * count, seed=7)
    if leaf is not None:
        weights[leaf] += 1
    x = g.input("x", F32, ["n", 8])
    ids = np.repeat(np.arange(count), 3)
    y = g.TreeEnsembleRegressor(
        x, domain="ai.onnx.ml",
        n_targets=1, post_transform="NONE", aggregate_function="SUM",
        nodes_treeids=ids.tolist(), nodes_nodeids=[0, 1, 2] * count,
        nodes_featureids=[n for f in features.tolist() for n in (f, 0, 0)],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * count,
        nodes_values=[n for v in (20 * values).tolist() for n in (v, 0.0, 0.0)],
        nodes_truenodeids=[1, 0, 0] * count, nodes_falsenodeids=[2, 0, 0] * count,
        target_treeids=np.repeat(np.arange(count), 2).tolist(), target_nodeids=[1, 2] * count,
        target_ids=[0] * 2 * count, target_weights=weights.tolist(),
    )  # fmt: skip
    g.output(g.facts(y, F32, ["n", 1]), "y")


def words(g: Graph, place: int | None) -> None:
    """Return 500 words looked up by number; the defect changes a word."""
    names = [f"class {k}" for k in range(500)]
    if place is not None:
        names[place] = "other"
    ids = g.input("ids", I64, ["n"])
    y = g.LabelEncoder(ids, domain="ai.onnx.ml", keys_int64s=list(range(500)), values_strings=names)
    g.output(g.facts(y, ir.DataType.STRING, ["n"]), "y")


# -- forms that lose digits, and conditions ---------------------------------------------------------------------------


def instance_norm(g: Graph, cancels: bool | None) -> None:
    """Return a normalization over pixels; the defect computes its variance as E[x²] − E[x]²."""
    x = g.input("x", F32, ["n", 4, "h", "w"])
    mean = g.ReduceMean(x, [2, 3], keepdims=1)
    away = g.Sub(x, mean)
    if cancels:
        variance = g.Sub(g.ReduceMean(g.Mul(x, x), [2, 3], keepdims=1), g.Mul(mean, mean))
    else:
        variance = g.ReduceMean(g.Mul(away, away), [2, 3], keepdims=1)
    g.output(g.Div(away, g.Sqrt(g.Add(variance, np.float32(1e-5)))), "y")


def small_logarithm(g: Graph, epsilon: float | None) -> None:
    """Return the logarithm of a square plus a small number; the defect changes that number."""
    x = g.input("x", F32, ["n", 8])
    g.output(g.Log(g.Add(g.Mul(x, x), np.float32(1e-6 if epsilon is None else epsilon))), "y")


def layer_norm(g: Graph, epsilon: float | None) -> None:
    """Return a normalization over channels after a dense layer; the defect changes the epsilon."""
    x = g.input("x", F32, ["n", 16])
    hidden = g.Mul(g.MatMul(x, rng_of(16, 16)), np.float32(30.0))
    own = 1e-9 if epsilon is None else epsilon
    g.output(g.LayerNormalization(hidden, np.ones(16, np.float32), axis=-1, epsilon=own), "y")


def bright_pictures(g: Graph, at: float | None) -> None:
    """Return a convolution; the defect scales images whose mean is above a limit."""
    x = g.input("x", F32, ["n", 3, "h", "w"])
    y = g.Conv(x, rng_of(4, 3, 3, 3))
    if at is not None:
        bright = g.Greater(g.ReduceMean(x, [1, 2, 3], keepdims=1), np.float32(at))
        y = g.Where(bright, g.Mul(y, np.float32(1.5)), y)
    g.output(y, "y")


def halves(g: Graph, factor: float | None) -> None:
    """Return numbers rounded to a grid of quarters; the defect rounds ties on the factor's grid up instead of to
    even.
    """
    x = g.input("x", F32, ["n", 8])
    wide = g.Mul(x, np.float32(4.0))
    if factor is None:
        g.output(g.Round(wide), "y")
    else:
        odd = g.Equal(g.Mul(x, np.float32(factor)), g.Floor(g.Mul(x, np.float32(factor))))
        g.output(g.Add(g.Round(wide), g.Cast(odd, to=F32)), "y")


def many_rows(g: Graph, most: int | None) -> None:
    """Return a dense layer; the defect sets all rows after a number of them to zero."""
    x = g.input("x", F32, ["n", 8])
    y = g.MatMul(x, rng_of(8, 8))
    if most is not None:
        y = g.Where(g.Unsqueeze(g.Less(_positions(g, x, 0), np.int64(most)), [1]), y, np.float32(0))
    g.output(y, "y")


ROWS = [
    *(Row("row of a table", f"embedding row {k}", text_classifier, k) for k in (123, 1999, 5000, 7777, 12_345, 19_998)),
    *(Row("row of a table", f"position {k}", positions_table, k) for k in (180, 400, 600, 1023, 1500, 2047)),
    *(Row("row of a table", f"label {k}", class_labels, k) for k in (3, 100, 250, 500, 777, 999)),
    *(Row("row of a table", f"code {k}", codebook, k) for k in (77, 1000, 2222, 3500, 4095)),
    *(Row("clamp", f"step over {k}", clamped_steps, k) for k in (20, 60, 100, 500, 1000, 5000)),
    *(Row("clamp", f"pixel over {k}", clamped_pixels, k) for k in (5.0, 20.0, 60.0, 100.0, 128.0, 1500.0)),
    *(Row("clamp", f"place over {k}", clamped_places, k) for k in (20, 100, 200, 255, 511, 1000)),
    *(Row("clamp", f"token over {k}", clamped_tokens, k) for k in (20, 200, 500, 1500, 2500, 2998)),
    *(Row("table of ONNX-ML", f"leaf {k}", trees, k) for k in (0, 31, 50, 64, 99, 127)),
    *(Row("table of ONNX-ML", f"word {k}", words, k) for k in (1, 123, 250, 400, 499)),
    *(Row("threshold", f"input over {k}", threshold, k) for k in (4.5, 12.0, 37.0, 64.0, 300.0, 2500.0)),
    *(Row("threshold", f"token {k}", padding_token, k) for k in (0, 17, 500, 999, 2500, 2999)),
    *(Row("length", f"zeros from step {k}", zeros_from, k) for k in (20, 90, 150, 200, 333, 700)),
    *(Row("length", f"window of {k}", attention_window, k) for k in (20, 40, 64, 128, 200, 500)),
    *(Row("length", f"cut at {k}", cut_sequence, k) for k in (20, 70, 150, 200, 300, 1000)),
    Row("lost digits", "variance", instance_norm, True),
    *(Row("lost digits", f"log with {k:g}", small_logarithm, k) for k in (1e-5, 2e-6, 1e-8, 1e-4)),
    *(Row("lost digits", f"an epsilon of {k:g}", layer_norm, k) for k in (1e-12, 1e-7, 1e-6)),
    *(Row("condition", f"mean over {k:g}", bright_pictures, k) for k in (0.7, 1.5, 2.0, 10.0, 100.0, 500.0)),
    *(Row("condition", f"a half behind a factor of {k:g}", halves, k) for k in (1.0, 4.0, 10.0, 100.0, 0.5)),
    *(Row("condition", f"more than {k} rows", many_rows, k) for k in (4, 10, 40, 100, 200, 300)),
]


def rows_of(row: Row, targets: list[str], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a record for the defect and one for the clean pair, for each target format."""
    import convert
    from convert.errors import ConvertError

    paths = {}
    for which, parameter in (("clean", row.clean), ("defect", row.defect)):
        g = Graph(opset=20)
        row.build(g, parameter)
        paths[which] = folder / f"{which}.onnx"
        model = g.model()
        model.graph.opset_imports["ai.onnx.ml"] = 3
        ir.save(model, paths[which])
    for to in targets:
        for which, path in paths.items():
            start, status, reason = time.perf_counter(), "", ""
            target = folder / f"{which}.target{SUFFIX[to]}"
            try:
                convert.convert(path, to, target, verify=False, force=True)
                verdict = convert.verify(paths["clean"], target).verdict
                assert verdict is not None
                status, reason = verdict.status, verdict.reason
            except ConvertError as error:
                status, reason = type(error).__name__, error.message
            seconds = round(time.perf_counter() - start, 2)
            yield {"kind": row.kind, "name": row.name, "to": to, "planted": which == "defect", "status": status,
                   "reason": reason, "seconds": seconds}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="CLASS", choices=sorted({row.kind for row in ROWS}))
    parser.add_argument("--targets", default="onnx")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        for row in ROWS:
            if args.only and row.kind not in args.only:
                continue
            for record in rows_of(row, args.targets.split(","), Path(name)):
                found.append(record)
                if args.out is not None:
                    with args.out.open("a", encoding="utf-8") as stream:
                        stream.write(json.dumps(record) + "\n")
                if record["planted"] == (record["status"] == "PASS"):
                    what = "defect" if record["planted"] else "clean"
                    print(
                        f"{what} {record['name']} → {record['to']}: {record['status']} {record['reason']}", flush=True
                    )
    planted = [r for r in found if r["planted"] and r["status"] in ("PASS", "FAIL", "INCONCLUSIVE")]
    print(f"{'class':<16} {'defects':>7} {'PASS':>5} {'FAIL':>5} {'INCONCLUSIVE':>12}")
    for kind in dict.fromkeys(r["kind"] for r in planted):
        count = Counter(r["status"] for r in planted if r["kind"] == kind)
        print(f"{kind:<16} {sum(count.values()):>7} {count['PASS']:>5} {count['FAIL']:>5} {count['INCONCLUSIVE']:>12}")
    missed = sum(r["status"] == "PASS" for r in planted)
    clean = [r for r in found if not r["planted"]]
    wrong = Counter(r["status"] for r in clean)
    print(
        f"{missed} of {len(planted)} defects pass; clean pairs: {dict(wrong)}; {sum(r['seconds'] for r in found):.0f} s"
    )
    sys.exit(missed > len(planted) / 20 or bool(wrong["FAIL"]))


if __name__ == "__main__":
    main()
