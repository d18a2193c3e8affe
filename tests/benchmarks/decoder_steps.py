"""Measure the prefill and the step of ONNX decoders with a cache, side by side.

    python tests/benchmarks/decoder_steps.py FIRST.onnx OTHER.onnx … [--runs 40]

Each file runs in onnxruntime on one thread, in turn with the others: 128 tokens without a cache, and one token beside
128 earlier ones. The figures are CPU milliseconds, the least and the median; the ratio is that of the least to the
first file's.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import onnxruntime as ort

LENGTH = 128
_DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


def opened(path: str) -> ort.InferenceSession:
    """Return a session that uses one thread."""
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    return ort.InferenceSession(path, settings)


def feed(session: ort.InferenceSession, new: int, past: int, dims: dict[str, list[int]]) -> dict[str, np.ndarray]:
    """Return inputs of one row. dims: heads and head size of each input of the cache."""
    rng = np.random.default_rng(0)
    made = {
        "input_ids": rng.integers(3, 99, (1, new)),
        "attention_mask": np.ones((1, past + new), np.int64),
        "position_ids": np.arange(past, past + new)[None],
    }
    return {
        i.name: made[i.name] if i.name in made else
        rng.standard_normal((1, dims[i.name][0], past, dims[i.name][1])).astype(_DTYPES[i.type])
        for i in session.get_inputs()
    }  # fmt: skip


def cache_dims(session: ort.InferenceSession, size: int) -> dict[str, list[int]]:
    """Return heads and head size of each input of the cache; `size` where a file declares a name."""
    return {
        i.name: [i.shape[1], i.shape[3] if isinstance(i.shape[3], int) else size]
        for i in session.get_inputs()
        if len(i.shape) == 4
    }


def main() -> None:
    """Print a row for each kind of call and file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--head-size", type=int, default=64)
    asked = parser.parse_args()
    sessions = [opened(path) for path in asked.files]
    for what, new, past, runs in (("prefill", LENGTH, 0, 7), ("step", 1, LENGTH, asked.runs)):
        feeds = [feed(s, new, past, cache_dims(s, asked.head_size)) for s in sessions]
        spent: list[list[float]] = [[] for _ in sessions]
        for run in range(runs + 1):
            for place, (session, given) in enumerate(zip(sessions, feeds, strict=True)):
                start = time.process_time()
                session.run(None, given)
                if run:
                    spent[place].append(1000 * (time.process_time() - start))
        for path, times in zip(asked.files, spent, strict=True):
            ratio = min(times) / min(spent[0])
            print(f"{what:8s} {min(times):8.2f} {np.median(times):8.2f} {ratio:6.3f}  {path}", flush=True)


if __name__ == "__main__":
    main()
