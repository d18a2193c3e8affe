"""Measure the conversion of a decoder of billions of parameters to ONNX, beside a copy of its weights.

    python tests/benchmarks/language_models.py [--billions 2 6] [--dtype bfloat16] [--folder DIR]

A Llama with random weights is written shard by shard. It is converted without verification, in a process that has
converted a tiny one before, so that imports are not counted. `private` is the peak of memory that belongs to no file,
above that at the start; the system can drop pages of mapped files. A tiny model with as many layers shows the cost of
Python per layer, and `cp` the cost of the disk. The figures are wall seconds of one run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clocks import child, measured, record

_SHAPES: dict[float, dict[str, int]] = {
    0.5: {"hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 11},
    2: {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 31},
    3: {"hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28},
    6: {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 31},
}
"""Llamas by billions of parameters."""
_TINY = {"hidden_size": 64, "intermediate_size": 128}
_SHARD = 1 << 30


def _declare_operators() -> None:
    """Let transformers import a torchvision whose compiled part does not load."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.support.timm_helper import declare_torchvision_operators

    declare_torchvision_operators()


def write_model(shape: dict[str, int], dtype: str, folder: Path) -> int:
    """Write a Llama with random weights into `folder`; return the bytes of its weights."""
    import torch
    from safetensors.torch import save_file

    _declare_operators()
    from transformers import LlamaConfig, LlamaForCausalLM

    heads = 16
    config = LlamaConfig(
        vocab_size=32000, num_attention_heads=heads, num_key_value_heads=heads // 4, dtype=dtype, **shape
    )
    config.architectures = ["LlamaForCausalLM"]
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    config.save_pretrained(folder)
    block = (torch.randn(1 << 22, generator=torch.Generator().manual_seed(0)) / 50).to(getattr(torch, dtype))
    shard: dict[str, Any] = {}
    index: dict[str, str] = {}
    held = total = count = 0
    for name, tensor in [*model.state_dict().items(), ("", None)]:
        if shard and (tensor is None or held > _SHARD):
            count += 1
            file = f"model-{count:05d}.safetensors"
            save_file(shard, folder / file, {"format": "pt"})
            index |= dict.fromkeys(shard, file)
            shard, held = {}, 0
        if tensor is not None:
            size = tensor.numel()
            shard[name] = block.repeat(-(-size // len(block)))[:size].reshape(tensor.shape).clone()
            held, total = held + size * block.itemsize, total + size * block.itemsize
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": index})
    (folder / "model.safetensors.index.json").write_text(text)
    return total


@contextmanager
def private_memory(found: dict[str, float]) -> Iterator[None]:
    """Context manager: fill in `private`, the peak of anonymous memory in MiB above that at the start, sampled every 5
    ms.
    """
    over = threading.Event()
    start = peak = _anonymous()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.005):
            peak = max(peak, _anonymous())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        found["private"] = peak - start


def _anonymous() -> float:
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("RssAnon"))
    return int(line.split()[1]) / 1024


def convert_one(source: Path, tiny: Path, output: Path) -> dict[str, float]:
    """Convert in this process, after the tiny model."""
    _declare_operators()
    import convert

    convert.convert(tiny, "onnx", output / "tiny.onnx", verify=False)
    began = time.monotonic()
    with measured() as found, private_memory(found):
        convert.convert(source, "onnx", output / "large.onnx", verify=False)
    return found | {"wall": time.monotonic() - began}


def row(billions: float, dtype: str, folder: Path) -> None:
    """Print the row of one model."""
    shape = _SHAPES[billions]
    large, tiny, layers = folder / "large", folder / "tiny", folder / "layers"
    for place in (large, tiny, layers):
        place.mkdir()
    total = int(child(__file__, "--make", json.dumps(shape), dtype, str(large))["bytes"])
    child(__file__, "--make", json.dumps(_TINY | {"num_hidden_layers": 1}), dtype, str(tiny))
    child(__file__, "--make", json.dumps(_TINY | {"num_hidden_layers": shape["num_hidden_layers"]}), dtype, str(layers))
    subprocess.run(["sync"], check=True)
    began = time.monotonic()
    shutil.copytree(large, folder / "copy")
    copied = time.monotonic() - began
    shutil.rmtree(folder / "copy")
    (folder / "out").mkdir()
    python = child(__file__, "--one", str(layers), str(tiny), str(folder / "out"))
    shutil.rmtree(folder / "out")
    (folder / "out").mkdir()
    found = child(__file__, "--one", str(large), str(tiny), str(folder / "out"))
    mib = total / 2**20
    case = f"Llama, {billions:g} billion, {dtype}"
    record(case, "wall time of a conversion", "s", found["wall"], 2 * copied + python["wall"], "2 copies and Python")
    record(case, "memory that is of no file", "MiB", found["private"], mib, "the weights")
    print(
        f"{billions:>4g} {dtype:<9} {total / 1e9:6.2f} GB  cp {copied:6.1f} s  Python {python['wall']:5.1f} s  "
        f"convert {found['wall']:6.1f} s ({found['seconds']:.1f} CPU)  "
        f"private {found['private']:7.0f} MiB = {found['private'] / mib:.2f} of the weights  "
        f"resident {found['memory']:7.0f} MiB",
        flush=True,
    )


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--billions", type=float, nargs="*", default=[2, 6], choices=list(_SHAPES))
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--folder", help="where the models are written")
    parser.add_argument("--make", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        print(json.dumps({"bytes": write_model(json.loads(args.make[0]), args.make[1], Path(args.make[2]))}))
    elif args.one:
        print(json.dumps(convert_one(*map(Path, args.one))))
    else:
        for billions in args.billions:
            with tempfile.TemporaryDirectory(dir=args.folder) as folder:
                row(billions, args.dtype, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
