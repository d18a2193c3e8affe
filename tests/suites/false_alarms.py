"""Verify correct conversions of real networks with default settings, and count those that do not PASS.

    python tests/suites/false_alarms.py [--only NAME …] [--seconds N] [--json]

The networks are small ones of the zoo (timm, torchvision, segmentation-models, transformers, with random weights) and
of keras.applications. `onnx`, `tf`, `keras`, `tflite` and `caffe2` are targets; `onnx:tf` and `onnx:onnx` read the ONNX
file and convert it again, `ts:onnx` converts the TorchScript of the network.

A line for each pair is printed, then the counts. A FAIL or an error is a false alarm, and so is an INCONCLUSIVE that is
not listed with its reason. A refusal by a backend is no verdict. The exit code is 1 after a false alarm, or if fewer
than 100 pairs passed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import planted
import zoo_models
import zoo_worker

_CONVOLUTIONAL = "onnx tf keras caffe2 onnx:tf"
_SEQUENTIAL = "onnx tf onnx:tf"

# Networks of the zoo, and the targets of each.
NETWORKS: dict[str, str] = {
    **dict.fromkeys(("resnet18", "mobilenetv3_small_050", "regnety_002", "densenet121", "repvgg_a0"), _CONVOLUTIONAL),
    **dict.fromkeys(("tf_efficientnetv2_b0", "mobilenetv4_conv_small_035", "starnet_s1", "ghostnetv2_100"),
                    "onnx tf tflite ts:onnx"),
    **dict.fromkeys(("convnextv2_atto", "vit_tiny_patch16_224", "poolformer_s12", "smp-unet", "smp-fpn"),
                    "onnx tf keras onnx:onnx"),
    **dict.fromkeys(("mobilevit_xxs", "pvt_v2_b0", "levit_128s", "xcit_nano_12_p16_224"), "onnx tf tflite"),
    **dict.fromkeys(("bert", "roberta-qa", "distilbert", "gpt2", "llama", "t5", "mamba", "whisper", "clip"),
                    _SEQUENTIAL),
    **dict.fromkeys(("hf-vit", "segformer", "lstm-tagger", "wav2vec2", "detr"), "onnx tf"),
}  # fmt: skip

# Networks of keras.applications, from a .keras file.
KERAS = dict.fromkeys(("MobileNetV2", "MobileNetV3Small", "small_convnext"), "onnx tf")

# Pairs that may be INCONCLUSIVE, each with the reason.
UNDECIDED: dict[tuple[str, str], str] = {}


@dataclass
class Judged:
    """One pair: its verdict, the largest noise floor, error over floor, and float64 distance of the graph."""

    name: str
    target: str
    status: str
    seconds: float = 0.0
    floor: float = 0.0
    ratio: float = 0.0
    twin: float = 0.0
    reference: str = ""
    reason: str = ""


def judged(names: Sequence[str], seconds: int) -> Iterator[Judged]:
    """Judge each network in a process of its own, within `seconds`."""
    entries = zoo_models.entries()
    zoo_worker.preload()
    context = multiprocessing.get_context("fork")
    for name in names:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(theirs, name, entries.get(name)))
        process.start()
        theirs.close()
        targets = (NETWORKS | KERAS)[name].split()
        limit = time.perf_counter() + seconds
        while targets:
            try:
                if not ours.poll(max(0.0, limit - time.perf_counter())):
                    process.kill()
                    yield Judged(name, targets.pop(0), "ERROR", reason=f"not done after {seconds} s")
                    break
                row = ours.recv()
            except EOFError:
                process.join()
                yield Judged(name, targets.pop(0), "ERROR", reason=f"the process ended with {process.exitcode}")
                break
            targets.remove(row.target)
            yield row
        process.join()


def _work(connection: Connection, name: str, entry: Any) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    with tempfile.TemporaryDirectory(prefix="convert-alarms-") as place:
        folder = Path(place)
        built = _keras_file(name, folder) if entry is None else entry.build()
        for target in (NETWORKS | KERAS)[name].split():
            start = time.perf_counter()
            row = _judge(name, built, target, folder)
            row.seconds = round(time.perf_counter() - start, 1)
            connection.send(row)


def _keras_file(name: str, folder: Path) -> Any:
    from tests.support.keras_helper import create

    create(name).save(folder / "model.keras")
    return zoo_models.Built(folder / "model.keras")


def _judge(name: str, built: Any, target: str, folder: Path) -> Judged:
    import convert
    from convert.errors import ConvertError, ParityError, Unsupported
    from convert.parity.verify import unavailable_reason

    *_, form = target.split(":")
    missing = unavailable_reason("caffe2") if form == "caffe2" else ""
    if missing:
        return Judged(name, target, "SKIPPED", reason=missing)
    options: Mapping[str, Any] = built.options
    source, inputs = built.module, built.inputs
    try:
        if target.startswith("onnx:"):
            source, inputs, options = folder / "model.onnx", None, {}
        elif target.startswith("ts:"):
            source = _scripted(built, folder)
        made = convert.convert(source, form, folder / f"model{target.replace(':', '-')}.{form}" if ":" in target
                               else folder / f"model.{form}", inputs=inputs, verify=True, **options)  # fmt: skip
    except ParityError as error:
        return Judged(name, target, "FAIL", reason=error.message)
    except Unsupported as error:
        return Judged(name, target, "REFUSED", reason=error.message)
    except ConvertError as error:
        return Judged(name, target, "ERROR", reason=error.message)
    except Exception as error:
        return Judged(name, target, "ERROR", reason=f"{type(error).__name__}: {' '.join(str(error).split())}"[:300])
    verdict = made.verdict
    assert verdict is not None
    rows = verdict.outputs
    return Judged(
        name, target, verdict.status, floor=max((r.floor for r in rows), default=0.0),
        ratio=max((r.error / r.floor for r in rows if r.floor), default=0.0),
        twin=max((r.twin or 0.0 for r in rows), default=0.0), reference=verdict.reference, reason=verdict.reason,
    )  # fmt: skip


def _scripted(built: Any, folder: Path) -> Path:
    import torch

    shape = [2 if not d.isdigit() else int(d) for d in str(built.inputs).partition("[")[2].rstrip("]").split(",")]
    path = folder / "model.ts"
    torch.jit.trace(built.module, torch.randn(shape), check_trace=False).save(path)
    return path


def main() -> None:
    """Print a line for each pair and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*NETWORKS, *KERAS])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = []
    with planted.warm():
        for row in judged(args.only or [*NETWORKS, *KERAS], args.seconds):
            rows.append(row)
            text = f"{row.name:<28} {row.target:<10} {row.status:<13} {row.seconds:6.1f} s  floor {row.floor:.1e}"
            text += f"  error/floor {row.ratio:5.2f}  graph {row.twin:.0e}  {row.reference}  {row.reason}"
            print(json.dumps(asdict(row)) if args.json else text, flush=True)
    counts = Counter(row.status for row in rows)
    print(
        f"{len(rows)} pairs of {len({r.name for r in rows})} networks: "
        + ", ".join(f"{n} {s}" for s, n in counts.items())
    )
    alarms = [r for r in rows if r.status in ("FAIL", "ERROR")]
    alarms += [r for r in rows if r.status == "INCONCLUSIVE" and (r.name, r.target) not in UNDECIDED]
    print("false alarms: " + ("; ".join(f"{r.name} → {r.target}" for r in alarms) or "none"))
    few = not args.only and counts["PASS"] < 100
    sys.exit(bool(alarms) or few)


if __name__ == "__main__":
    main()
