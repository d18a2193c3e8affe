"""Measure size and speed of ONNX in 16, 8 and 4 bits, beside float32.

    python tests/benchmarks/narrow.py [--runs 20] [--hidden 512] [--layers 4]

The networks are a decoder of Hugging Face with random weights, and ResNet-18 if torchvision is installed. Printed are
the bytes of each file, the CPU milliseconds of a run on one thread in onnxruntime (the best of all runs, the files in
turn), and the distance of the outputs from those in float32, relative to their root mean square.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import onnxruntime as ort
from clocks import record

import convert
from tests.support.timm_helper import declare_torchvision_operators

WAYS: dict[str, dict[str, Any]] = {
    "float32": {},
    "float16": {"dtype": "float16", "keep_io": True},
    "bfloat16": {"dtype": "bfloat16"},
    "int8": {"quantize": "int8"},
    "int8, calibrated": {"quantize": "int8", "calibrate": True},
    "int4": {"quantize": "int4"},
}


def decoder(folder: Path, hidden: int, layers: int) -> Path:
    """Save a Llama of `layers` layers; return its folder."""
    declare_torchvision_operators()  # transformers needs these names, and torchvision may lack them
    from transformers import LlamaConfig, LlamaForCausalLM

    size = {"hidden_size": hidden, "intermediate_size": 3 * hidden, "num_hidden_layers": layers}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=4000, num_attention_heads=8, num_key_value_heads=4, **size))
    model.save_pretrained(folder / "llama")
    return folder / "llama"


def feeds_of(session: ort.InferenceSession, tokens: int) -> dict[str, np.ndarray]:
    """Return the inputs of one row: tokens and an empty cache, or a picture."""
    rng, sizes = (
        np.random.default_rng(0),
        dict.fromkeys(("sequence_length", "past_sequence_length+sequence_length"), tokens)
        | {"past_sequence_length": 0},
    )
    found = {}
    for value in session.get_inputs():
        shape = [d if isinstance(d, int) else sizes.get(d, 1) for d in value.shape]
        whole = {"attention_mask": np.ones(shape, np.int64), "position_ids": np.arange(tokens)[None]}
        drawn = rng.integers(0, 4000, shape) if "int" in value.type else rng.normal(size=shape).astype(np.float32)
        found[value.name] = whole.get(value.name, drawn)
    return found


def measure(name: str, source: Any, folder: Path, runs: int, inputs: Any = None) -> None:
    """Print a row for each storage format of one model."""
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = 1
    sessions: dict[str, ort.InferenceSession] = {}
    files, feeds = {}, {}
    for number, (way, options) in enumerate(WAYS.items()):
        place = folder / f"{name}{number}.onnx"
        if options.get("calibrate"):
            options = {**options, "calibrate": feeds}
        convert.convert(source, "onnx", place, verify=False, inputs=inputs, **options)
        files[way] = place
        sessions[way] = ort.InferenceSession(place, settings)
        feeds = feeds or feeds_of(sessions[way], 32)
    outputs = {way: session.run(None, feeds)[0].astype(np.float64) for way, session in sessions.items()}
    best = dict.fromkeys(sessions, float("inf"))
    for _ in range(runs):
        for way, session in sessions.items():
            start = time.process_time()
            session.run(None, feeds)
            best[way] = min(best[way], time.process_time() - start)
    exact = outputs["float32"]
    for way in sessions:
        off = np.sqrt(np.mean((outputs[way] - exact) ** 2) / np.mean(exact**2))
        size, plain = (files[w].stat().st_size / 1e6 for w in (way, "float32"))
        record(f"{name}, {way}", "size of the ONNX file", "MB", size, plain, "float32")
        record(f"{name}, {way}", "CPU time of a run", "ms", best[way] * 1e3, best["float32"] * 1e3, "float32")
        print(f"{name:9s} {way:17s} {files[way].stat().st_size / 1e6:8.2f} MB {best[way] * 1e3:8.1f} ms  off {off:.1e}")


def main() -> None:
    """Convert the models in every way and print their rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="narrow-") as folder:
        measure("llama", decoder(Path(folder), asked.hidden, asked.layers), Path(folder), asked.runs)
        try:
            from torchvision.models import resnet18
        except ImportError:
            return
        measure("resnet18", resnet18(weights=None).eval(), Path(folder), asked.runs, "float32[1,3,224,224]")


if __name__ == "__main__":
    main()
