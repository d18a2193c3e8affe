"""Measure our TensorFlow Lite files for phones beside those of onnx2tf, litert-torch and TensorFlow, on the same
networks and inputs.

python tests/benchmarks/phone.py --folder FOLDER [--by ours onnx2tf …] [--networks mobilenetv2 …] [--seconds S]
        [--onnx2tf PYTHON] [--onnx2tf-tf PYTHON] [--litert PYTHON] [--again run]

| `--by` | what |
|---|---|
| `ours` | from the ONNX file |
| `ours-nhwc` | likewise, with `--layout nhwc`: pictures have their channels last, as those of onnx2tf |
| `onnx2tf` | from the ONNX file, with `flatbuffer_direct` |
| `onnx2tf-tf` | from the ONNX file, with `tf_converter`, by an environment with TensorFlow |
| `litert-torch` | from the module; its environment needs timm too |
| `tensorflow` | TensorFlow's converter, from the network in Keras as we write it from the ONNX file |

PYTHON is the interpreter of an environment that has the peer. Each converter runs in its own process, first in float,
then in 8 bits, calibrated with the same 16 samples. Seconds are wall time, ours without the verdict; the first
conversion includes the imports. LiteRT runs each file on 4 inputs that no calibration used. The largest error and the
SQNR are relative to the module in float64, over all outputs. Latency is the shortest CPU time of 60 runs with one
thread, in milliseconds; the files of a network alternate.

FOLDER keeps the files and results, so that a run continues where another one ended. `--again` does steps again (`run`
measures errors and latency, as on a quieter machine; or a name of `--by`). Without a step to do, the script prints the
table of FOLDER, in Markdown.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

SAMPLES, TESTS, RUNS, LIMIT = 16, 4, 60, 900
FORMS = ("float", "int8")
HEADS = ("network", "by", "form", "max error", "SQNR dB", "kB", "operators", "ms", "s to convert")


def prepare(name: str, folder: Path) -> None:
    """Write the weights, the ONNX file, samples, inputs, and the outputs of the module in float64."""
    import numpy as np
    import phone_networks
    import torch

    from tests.support.timm_helper import declare_torchvision_operators

    declare_torchvision_operators()
    module, inputs = phone_networks.build(name)
    torch.save(module.state_dict(), folder / "weights.pt")
    rng = np.random.default_rng(0)

    def draw(count: int) -> dict[str, Any]:
        arrays = {}
        for place, (shape, words) in enumerate(inputs):
            sizes = (count, *shape[1:])
            drawn = rng.integers(0, words, sizes) if words else rng.standard_normal(sizes).astype(np.float32)
            arrays["x" if len(inputs) == 1 else f"x{place}"] = drawn
        return arrays

    samples, tests = draw(SAMPLES), draw(TESTS)
    np.savez(folder / "samples.npz", **samples)
    given = [[torch.from_numpy(array[i : i + 1]) for array in tests.values()] for i in range(TESTS)]
    with torch.no_grad():
        torch.onnx.export(
            module, tuple(given[0]), str(folder / "net.onnx"), dynamo=True, external_data=False,
            verbose=False, input_names=list(tests),
        )  # fmt: skip
        exact = [module.double()(*(x.double() if x.is_floating_point() else x for x in row)) for row in given]
    rows = [[o.numpy() for o in (out if isinstance(out, tuple) else (out,))] for out in exact]
    np.savez(
        folder / "tests.npz", **tests, **{f"y{i}": np.concatenate(o) for i, o in enumerate(zip(*rows, strict=True))}
    )


def samples_of(folder: Path) -> dict[str, Any]:
    """Return the samples for calibration by the names of the inputs."""
    import numpy as np

    with np.load(folder / "samples.npz") as data:
        return {name: data[name] for name in sorted(data.files)}


def by_us(name: str, folder: Path, form: str, by: str = "ours", **options: Any) -> float:
    import convert

    calibrated = {"quantize": "int8", "calibrate": samples_of(folder)} if form == "int8" else {}
    made = folder / f"{by}.{form}.tflite"
    made.unlink(missing_ok=True)  # of an earlier run, which no conversion replaces
    start = time.perf_counter()
    convert.convert(folder / "net.onnx", "tflite", made, verify=False, **calibrated, **options)
    return time.perf_counter() - start


def by_us_last(name: str, folder: Path, form: str) -> float:
    return by_us(name, folder, form, "ours-nhwc", layout="nhwc")


def by_onnx2tf(name: str, folder: Path, form: str, backend: str = "flatbuffer_direct", by: str = "onnx2tf") -> float:
    import numpy as np
    import onnx2tf

    os.chdir(folder)
    # These replace images that it would download.
    np.save("calibration_image_sample_data_20x128x128x3_float32.npy", np.zeros((20, 128, 128, 3), np.float32))
    options: dict[str, Any] = {}
    if form == "int8":
        data = []
        for key, array in samples_of(folder).items():
            last = np.moveaxis(array, 1, -1) if array.ndim == 4 else array
            np.save(folder / f"last_{key}.npy", last)
            none = [[[[0.0] * last.shape[-1]]]] if last.ndim == 4 else 0.0
            one = [[[[1.0] * last.shape[-1]]]] if last.ndim == 4 else 1.0
            data.append([key, str(folder / f"last_{key}.npy"), none, one])
        options = {"output_integer_quantized_tflite": True, "custom_input_op_name_np_data_path": data}
    start = time.perf_counter()
    onnx2tf.convert(
        input_onnx_file_path=str(folder / "net.onnx"), output_folder_path=str(folder / f"{by}-{form}"),
        non_verbose=True, tflite_backend=backend, **options,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    made = "net_integer_quant.tflite" if form == "int8" else "net_float32.tflite"
    (folder / f"{by}-{form}" / made).rename(folder / f"{by}.{form}.tflite")
    shutil.rmtree(folder / f"{by}-{form}")
    return seconds


def by_onnx2tf_tf(name: str, folder: Path, form: str) -> float:
    return by_onnx2tf(name, folder, form, "tf_converter", "onnx2tf-tf")


def by_tensorflow(name: str, folder: Path, form: str) -> float:
    """Convert the network in Keras; its inputs and outputs have the module's layout."""
    import keras
    import tensorflow as tf

    import convert

    network = folder / "net.keras"
    if not network.exists():
        convert.convert(folder / "net.onnx", "keras", network, verify=False)
    samples = samples_of(folder)
    start = time.perf_counter()
    converter = tf.lite.TFLiteConverter.from_keras_model(keras.models.load_model(network))
    if form == "int8":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: (
            [array[i : i + 1] for array in samples.values()] for i in range(SAMPLES)
        )
    (folder / f"tensorflow.{form}.tflite").write_bytes(converter.convert())
    return time.perf_counter() - start


def by_litert(name: str, folder: Path, form: str) -> float:
    import litert_torch
    import phone_networks
    import torch

    module, _ = phone_networks.build(name, str(folder / "weights.pt"))
    arrays = [torch.from_numpy(array) for array in samples_of(folder).values()]
    first = tuple(array[:1] for array in arrays)
    options: dict[str, Any] = {}
    start = time.perf_counter()
    if form == "int8":
        from litert_torch.quantize.pt2e_quantizer import PT2EQuantizer, get_symmetric_quantization_config
        from litert_torch.quantize.quant_config import QuantConfig
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        quantizer = PT2EQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=False))
        prepared = prepare_pt2e(torch.export.export(module, first).module(), quantizer)
        for i in range(SAMPLES):
            prepared(*(array[i : i + 1] for array in arrays))
        module = convert_pt2e(prepared, fold_quantize=False)
        options = {"quant_config": QuantConfig(pt2e_quantizer=quantizer)}
    litert_torch.convert(module, first, **options).export(str(folder / f"litert-torch.{form}.tflite"))
    return time.perf_counter() - start


def run(folder: Path) -> dict[str, Any]:
    """Return errors, SQNR, size and latency of each file."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    found: dict[str, Any] = {}
    interpreters = {}
    with np.load(folder / "tests.npz") as data:
        tests = [data[name] for name in sorted(data.files) if name.startswith("x")]
        exact = [data[f"y{i}"] for i in range(len(data.files) - len(tests))]
    for path in sorted(folder.glob("*.tflite")):
        try:
            interpreter = Interpreter(model_path=str(path), num_threads=1)
            interpreter.allocate_tensors()
            rows = [
                outputs(interpreter, [x[i : i + 1] for x in tests], [e[i : i + 1] for e in exact]) for i in range(TESTS)
            ]
            got = [np.concatenate(column) for column in zip(*rows, strict=True)]
            apart = [float(np.abs(g - e).max() / np.sqrt(np.mean(e**2))) for g, e in zip(got, exact, strict=True)]
            noise = [np.sum(e**2) / max(np.sum((g - e) ** 2), 1e-300) for g, e in zip(got, exact, strict=True)]
            sqnr = float(10 * np.log10(min(noise)))
            count = len(interpreter._get_ops_details())
            size = path.stat().st_size
            found[path.stem] = {"error": max(apart), "sqnr": sqnr, "bytes": size, "operators": count, "times": []}
            interpreters[path.stem] = interpreter
        except (RuntimeError, ValueError) as error:
            found[path.stem] = {"failed": str(error).strip().splitlines()[-1][:80]}
    for turn in range(RUNS + 2):
        for stem in sorted(interpreters, reverse=bool(turn % 2)):
            start = time.process_time()
            interpreters[stem].invoke()
            if turn > 1:
                found[stem]["times"].append(1000 * (time.process_time() - start))
    return found


def outputs(interpreter: Any, inputs: list[Any], exact: list[Any]) -> list[Any]:
    """Return a file's outputs for the module's inputs, in the module's layout, matched by shape and nearness.

    The converters call inputs `x0`, `x1` or `args_0`, `args_1`, so that the order of their names is the module's.
    """
    import numpy as np

    for given, x in zip(sorted(interpreter.get_input_details(), key=lambda d: d["name"]), inputs, strict=True):
        if list(given["shape"]) != list(x.shape):
            x = np.moveaxis(x, 1, -1)
            if list(given["shape"][1:]) != list(x.shape[1:]):
                raise ValueError(f"its input is {list(given['shape'])}")
        if given["dtype"] != x.dtype and x.dtype.kind == "f":
            (scale, zero), limits = given["quantization"], np.iinfo(given["dtype"])
            x = np.clip(np.round(x / scale) + zero, limits.min, limits.max)
        interpreter.set_tensor(given["index"], np.ascontiguousarray(x.astype(given["dtype"])))
    interpreter.invoke()
    made = [real(interpreter.get_tensor(d["index"]), d["quantization"]) for d in interpreter.get_output_details()]
    found = []
    for wanted in exact:
        fitting = [
            array.transpose(order)
            for array in made
            if array.ndim == wanted.ndim
            for order in itertools.permutations(range(array.ndim))
            if tuple(array.shape[i] for i in order) == wanted.shape
        ]
        if not fitting:
            raise ValueError(f"no output is {list(wanted.shape)}")
        found.append(min(fitting, key=lambda array: float(np.sum((array - wanted) ** 2))))
    return found


def real(array: Any, steps: tuple[float, int]) -> Any:
    """Return the real numbers that the integers of an output represent."""
    return array if array.dtype.kind == "f" else (array.astype("float32") - steps[1]) * steps[0]


def child(python: str, *words: str) -> str:
    """Return the last line that a step prints, or `!` and the reason why it prints no result."""
    command = [python, __file__, "--step", *words]
    environment = {**os.environ, "PATH": f"{Path(python).parent}:{os.environ['PATH']}"}  # programs that a peer starts
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT, env=environment)
    except subprocess.TimeoutExpired:
        return f"!no end after {LIMIT} s"
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).strip().splitlines() if line.strip()]
        return "!" + (lines[-1].strip()[:100] if lines else f"exit code {done.returncode}")
    return done.stdout.strip().splitlines()[-1]


def rows(name: str, folder: Path) -> Iterator[list[str]]:
    """Yield the rows of the table for a network."""
    measured = folder / "run.json"
    found = json.loads(measured.read_text()) if measured.exists() else {}
    for by, form in itertools.product(STEPS, FORMS):
        told = folder / f"{by}.json"
        if not told.exists():
            continue
        seconds = json.loads(told.read_text())
        spent = str(seconds[form] if isinstance(seconds, dict) else seconds)
        row = found.get(f"{by}.{form}", {"failed": spent.lstrip("!") if spent.startswith("!") else "not measured"})
        if "failed" in row:
            yield [name, by, form, row["failed"].replace("|", " "), *["–"] * 5]
            continue
        errors = [f"{row['error']:.1e}", f"{row['sqnr']:.1f}", f"{row['bytes'] / 1000:,.0f}", str(row["operators"])]
        took = "–" if spent.startswith("!") else f"{float(spent):.1f}"  # another form may have ended the process
        yield [name, by, form, *errors, f"{min(row['times']):.3f}", took]


def work(name: str, folder: Path, pythons: Mapping[str, str], again: Collection[str]) -> None:
    """Do the steps of a network that are not done, and write the result of each."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "tests.npz").exists():
        failed = child(sys.executable, "prepare", name, str(folder))
        if failed.startswith("!"):
            print(f"{name}: {failed}", flush=True)
            return
    changed = "run" in again or not (folder / "run.json").exists()
    for by, python in pythons.items():
        if by in again or not (folder / f"{by}.json").exists():
            line = child(python, by, name, str(folder))
            (folder / f"{by}.json").write_text(json.dumps(line) if line.startswith("!") else line)
            changed = True
    if changed:
        answer = child(sys.executable, "run", name, str(folder))
        if answer.startswith("!"):
            print(f"{name}: {answer}", flush=True)
        else:
            (folder / "run.json").write_text(answer)


def main() -> None:
    """Do the steps that are left, then print the table; or do one step of it."""
    import phone_networks

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--by", nargs="*", choices=STEPS, default=["ours"])
    parser.add_argument("--again", nargs="+", choices=("run", *STEPS), default=[])
    parser.add_argument("--onnx2tf", metavar="PYTHON", default=sys.executable)
    parser.add_argument("--onnx2tf-tf", metavar="PYTHON", default=sys.executable)
    parser.add_argument("--litert", metavar="PYTHON", default=sys.executable)
    parser.add_argument("--networks", nargs="+", choices=phone_networks.NAMES, default=phone_networks.NAMES)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    args = parser.parse_args()
    environments = {"onnx2tf": args.onnx2tf, "onnx2tf-tf": args.onnx2tf_tf, "litert-torch": args.litert}
    pythons = {by: environments.get(by, sys.executable) for by in args.by}
    began = time.monotonic()
    for name in args.networks:
        if time.monotonic() - began > args.seconds:
            print(f"{name}: no time was left", flush=True)
        else:
            work(name, args.folder.resolve() / name, pythons, args.again)
    print("| " + " | ".join(HEADS) + " |\n" + "|---" * len(HEADS) + "|")
    for name in args.networks:
        for row in rows(name, args.folder / name):
            print("| " + " | ".join(row) + " |")


def both_forms(convert_with: Callable[[str, Path, str], float], name: str, folder: Path) -> dict[str, Any]:
    """Return the seconds of each form; if there is no file, `!` and the reason."""
    found: dict[str, Any] = {}
    for form in FORMS:
        try:
            found[form] = convert_with(name, folder, form)
        except Exception as error:  # any exception class of a peer
            first: BaseException = error
            while (before := first.__cause__ or first.__context__) is not None:
                first = before
            found[form] = "!" + " ".join(str(first).split())[:100]
    return found


STEPS: dict[str, Callable[[str, Path, str], float]] = {
    "ours": by_us,
    "ours-nhwc": by_us_last,
    "onnx2tf": by_onnx2tf,
    "onnx2tf-tf": by_onnx2tf_tf,
    "litert-torch": by_litert,
    "tensorflow": by_tensorflow,
}
"""What converts a network: (name, folder, form) to seconds."""


def step(what: str, name: str, folder: str) -> None:
    """Do one step in this process, and print its result."""
    here = Path(__file__).resolve()
    sys.path.insert(0, str(here.parents[2]))
    if what == "prepare":
        prepare(name, Path(folder))
        print("prepared")
    elif what == "run":
        print(json.dumps(run(Path(folder))))
    else:
        print("\n" + json.dumps(both_forms(STEPS[what], name, Path(folder))))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        step(*sys.argv[2:])
    else:
        main()
