"""Measure optimum-cli, torch.onnx and convert on small language models.

    python tests/benchmarks/exporters.py --optimum PYTHON [--only gpt2 t5] [--times 1]

PYTHON is the interpreter of an environment with optimum-onnx. Seven architectures have tiny configurations and random
weights, which measures the work that does not grow with the model. `billion`, a Llama with a billion parameters in
float32, only runs if `--only` names it. The columns are:

- the outcome;
- CPU seconds and peak memory of the process, with imports, the least of several runs;
- bytes of all .onnx files;
- for decoders, tokens per CPU second in onnxruntime on one thread, through the cache. torch.onnx has no figure here,
  because it writes no cache; the files of an encoder with a decoder are loaded within the time.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from clocks import record
from language_models import write_model

from tests.suites.generation import MODELS, PAIRS, prompts
from tests.support.greedy import greedy, greedy_with_encoder
from tests.support.timm_helper import declare_torchvision_operators

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("gpt2", "llama", "qwen3", "gemma2", "t5", "whisper", "bert")
BILLION = "billion"
_TASKS = {"t5": "text2text-generation-with-past", "whisper": "automatic-speech-recognition-with-past",
          "bert": "feature-extraction"}  # fmt: skip
_BERT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_BILLION = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 15}
TOKENS, _SOUND = 32, 3000

_OPTIMUM = """
import sys
from optimum.exporters.onnx import main_export
main_export(sys.argv[1], output=sys.argv[2], task=sys.argv[3], do_validation=False)
"""
_TORCH = """
import sys, torch
from tests.support.timm_helper import declare_torchvision_operators
declare_torchvision_operators()
import transformers
kind = transformers.AutoConfig.from_pretrained(sys.argv[1]).architectures[0]
model = getattr(transformers, kind).from_pretrained(sys.argv[1]).eval()
words = torch.ones(2, 6, dtype=torch.int64)
given = {"input_ids": words, "attention_mask": torch.ones_like(words)}
length = 2 * getattr(model.config, "max_source_positions", 0)
if length:
    given = {"input_features": torch.ones(2, model.config.num_mel_bins, length)}
if model.config.is_encoder_decoder:
    given["decoder_input_ids"] = words
known = {"use_cache": False} if kind != "BertModel" else {}
torch.onnx.export(model, (), sys.argv[2] + "/model.onnx", kwargs={**given, **known}, dynamo=True, verbose=False)
"""
_OURS = """
import sys
from tests.support.timm_helper import declare_torchvision_operators
declare_torchvision_operators()
import convert
task, several = sys.argv[3], sys.argv[4] == "several"
place = sys.argv[2] if several else sys.argv[2] + "/model.onnx"
convert.convert(sys.argv[1], "onnx", place, task=task if several else "", verify=False)
"""


def save(name: str, folder: Path) -> Path:
    """Save a model with random weights; return its folder."""
    import torch
    import transformers

    torch.manual_seed(0)
    if name == BILLION:
        (folder / name).mkdir()
        write_model(_BILLION, "float32", folder / name)
        return folder / name
    if name == "bert":
        model: Any = transformers.BertModel(transformers.BertConfig(**_BERT))
    elif name in PAIRS:
        made = getattr(transformers, PAIRS[name][0])
        # optimum's exporter accepts only Whisper's own length of 30 seconds.
        known = {"max_source_positions": _SOUND // 2} if name == "whisper" else {}
        model = made(made.config_class(**{**PAIRS[name][1], **known}))
    else:
        kind, configuration = MODELS[name]
        classes = (f"{kind}{part}" for part in ("LMHeadModel", "ForCausalLM"))
        made = next(found for part in classes if (found := getattr(transformers, part, None)) is not None)
        model = made(getattr(transformers, f"{kind}Config")(**configuration))
    model.save_pretrained(folder / name)
    return folder / name


def run(python: str, program: str, arguments: list[str]) -> tuple[str, float, float]:
    """Return the last line of an error, if any, and CPU seconds and peak megabytes of a process and its descendants."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
    if python == sys.executable:
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    measured = (
        f"import resource, sys\nexec({program!r})\n"
        "own = resource.getrusage(resource.RUSAGE_SELF)\nprint('PEAK', own.ru_maxrss / 1024)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([python, "-c", measured, *arguments], capture_output=True, text=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peaks = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("PEAK")]
    errors = done.stderr.strip().splitlines()
    return ("" if not done.returncode else (errors or ["no word"])[-1]), seconds, peaks[-1] if peaks else float("nan")


def speed(name: str, out: Path) -> float:
    """Return tokens per CPU second of three rows, generated through the cache; nan for a model without a cache."""
    import onnxruntime as ort

    words, mask = list(prompts())[1]
    start = time.process_time()
    if name in PAIRS:
        if not (out / "decoder_with_past_model.onnx").exists():
            return float("nan")
        given = {"input_ids": words, "attention_mask": mask}
        if name == "whisper":
            given = {"input_features": np.ones((3, 16, _SOUND), np.float32)}
        greedy_with_encoder(out, given, np.zeros((3, 1), np.int64), TOKENS)
    else:
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = 1
        session = ort.InferenceSession(out / "model.onnx", settings)
        if not any(i.name.startswith("past") for i in session.get_inputs()):
            return float("nan")
        start = time.process_time()
        greedy(session, words, mask, TOKENS)
    return 3 * TOKENS / (time.process_time() - start)


def main() -> None:
    """Print a row for each model and writer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--optimum", default="", metavar="PYTHON")
    parser.add_argument("--only", nargs="+", choices=(*NAMES, BILLION), default=NAMES)
    parser.add_argument("--times", type=int, default=1)
    asked = parser.parse_args()
    declare_torchvision_operators()
    print(f"{'model':9s} {'writer':10s} {'CPU s':>7s} {'MB':>7s} {'kB':>8s} {'tokens/s':>9s}  outcome")
    for name in asked.only:
        task = _TASKS.get(name, "text-generation-with-past")
        several = "several" if name in PAIRS else "one"
        writers = {"convert": (sys.executable, _OURS), "torch.onnx": (sys.executable, _TORCH)}
        if asked.optimum:
            writers["optimum"] = (asked.optimum, _OPTIMUM)
        with tempfile.TemporaryDirectory(prefix="models-") as folder:
            source = save(name, Path(folder))
            spent = {}
            for writer, (python, program) in writers.items():
                runs = []
                for time_ in range(asked.times):
                    out = Path(folder) / f"{writer}{time_}"
                    if writer != "convert" or several == "one":
                        out.mkdir()
                    runs.append(run(python, program, [str(source), str(out), task, several]))
                error, seconds, peak = min(runs, key=lambda row: row[1])
                size = sum(f.stat().st_size for f in out.glob("*.onnx*")) / 1e3 if out.is_dir() else 0.0
                fast = float("nan") if error or name == "bert" else speed(name, out)
                spent[writer] = float("nan") if error else seconds
                told = error[:120] or "written"
                print(f"{name:9s} {writer:10s} {seconds:7.1f} {peak:7.0f} {size:8.0f} {fast:9.0f}  {told}", flush=True)
            for writer in [w for w in writers if w != "convert"]:
                record(name, "CPU time with imports", "s", spent["convert"], spent[writer], writer)


if __name__ == "__main__":
    main()
