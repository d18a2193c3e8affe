"""Convert tiny Hugging Face folders of many architectures, and print a table of what became of each.

    python -m tests.suites.folders [--only llama clip] [--kinds decoders vision] [--rows FILE] [--again refused]

Each folder is made and converted to ONNX by a process of its own, with the verdict. Decoders, and encoders with a
decoder, also generate in onnxruntime. Their tokens are compared with those of transformers, for one row and for three
rows, two of them padded on the left. An interrupted run continues: folders whose row is in FILE are not converted
again, unless `--again` names their outcome. The outcomes are

    right         the verdict is PASS, and the tokens are the same
    inconclusive  the verdict is INCONCLUSIVE
    refused       the message names what is lacking (exit codes 2, 4 and 5)
    dropped       the file lacks weights of the model, and no note says so
    wrong         other tokens, or a FAIL
    failed        any other error; so is a process that takes too long
    not made      transformers cannot build or save the model
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import onnx
import torch
import transformers
from convert.frontends import pytorch as frontend

import convert
from convert.outcome.report import Report
from convert.outcome.verdict import PASS
from convert.parity.method import VerifyMethod
from convert.processes.warm import allow_warm_processes
from tests.suites import folder_models as models
from tests.suites.generation import decoder_outcome, parts_outcome, saved_model, task_of_pair
from tests.support.timm_helper import create, declare_torchvision_operators

KINDS: dict[str, tuple[str, ...]] = {
    "decoders": tuple(models.DECODERS),
    "encoders": tuple(models.ENCODERS),
    "encoders with a decoder": tuple(models.ENCODER_DECODERS),
    "vision": tuple(models.VISION),
    "speech": tuple(models.SPEECH),
    "time series": tuple(models.SERIES),
    "several kinds": tuple(models.TOGETHER),
    "sentence-transformers": tuple(models.SENTENCES),
    "timm": models.TIMM,
}
OUTCOMES = ("right", "inconclusive", "refused", "dropped", "wrong", "failed", "not made")
_REFUSALS = (convert.Unsupported, convert.BadInput, convert.UsageError)
_CACHE = ("past_key_values.", "past_conv.", "past_ssm.", "past_recurrent.")
_DROPS = ("unused-modules", "unused-weights")
LEAST_WEIGHTS = 0.9
"""The least part of a model's weights that a file has. Folding removes few of them, such as those of batch norms."""


def make_folder(kind: str, name: str, folder: Path) -> Any:
    """Return the model whose folder was written, None for a sentence-transformers folder or one of timm."""
    rows = {**models.DECODERS, **models.ENCODERS, **models.ENCODER_DECODERS, **models.VISION, **models.SPEECH,
            **models.SERIES, **models.TOGETHER}  # fmt: skip
    if kind == "timm":
        import timm

        timm.models.save_for_hf(create(name), folder, safe_serialization=True)
        return None
    if kind == "sentence-transformers":
        (made, configuration), modes, normalizes = models.SENTENCES[name]
        model = saved_model(made, configuration, folder)
        _write_sentence_modules(folder, modes, normalizes, model.config.hidden_size)
        return None
    return saved_model(*rows[name], folder)


def _write_sentence_modules(folder: Path, modes: list[str], normalizes: bool, width: int) -> None:
    """Write the files in which sentence-transformers describes what follows a transformer."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling", **({"2_Normalize": "Normalize"} if normalizes else {})}
    listed = [{"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
              for index, (path, kind) in enumerate(kinds.items())]  # fmt: skip
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    names = {"cls": "cls_token", "mean": "mean_tokens", "lasttoken": "lasttoken"}
    pooling = {f"pooling_mode_{key}": mode in modes for mode, key in names.items()}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": width, **pooling}))


def row_of(kind: str, name: str, scratch: Path, seeds: int) -> dict[str, Any]:
    """Return the row of a folder: its outcome, the verdict, whether the tokens are equal, notes of drops.

    seeds: sets of inputs that the verdict is made on; 0 for none.
    """
    row: dict[str, Any] = {"kind": kind, "name": name, "outcome": "not made"}
    try:
        model = make_folder(kind, name, scratch / "folder")
    except Exception as error:  # whatever transformers raises
        return row | {"text": _text_of(error), "trace": traceback.format_exc()[-2000:]}
    parts = kind == "encoders with a decoder"
    out = scratch / "out" if parts else scratch / "model.onnx"
    begin = time.perf_counter()
    try:
        options: dict[str, Any] = {"task": task_of_pair(model)} if parts else {}
        method = VerifyMethod(seeds=max(seeds, 1))
        report = convert.convert(scratch / "folder", "onnx", out, verify=seeds > 0, method=method, **options)
        row["seconds"] = round(time.perf_counter() - begin, 1)
        row |= {"verdict": report.verdict.status if report.verdict else "none"}
        row |= {"files": sorted(f.name for f in scratch.rglob("*.onnx")), "drops": _drops(report)}
        row["inputs"] = _inputs(next(iter(scratch.rglob("*.onnx"))))
        row["weights"] = None if model is None else round(_weights(scratch) / _parameters(model), 3)
        if parts or kind == "decoders":
            row["tokens"] = parts_outcome(model, out) if parts else decoder_outcome(model, out)
    except _REFUSALS as error:
        return row | {"outcome": "refused", "text": _text_of(error)}
    except Exception as error:  # any other error is a failure
        kind_of_failure = "wrong" if isinstance(error, convert.ParityError) else "failed"
        return row | {"outcome": kind_of_failure, "text": _text_of(error), "trace": traceback.format_exc()[-3000:]}
    silent = row["weights"] is not None and row["weights"] < LEAST_WEIGHTS and not row["drops"]
    wrong = row.get("tokens", "same") != "same"
    passed = report.verdict is None or report.verdict.status == PASS
    reason = "" if report.verdict is None or passed else str(report.verdict.reason)
    return row | {
        "outcome": "wrong" if wrong else "dropped" if silent else "right" if passed else "inconclusive",
        "text": reason,
    }


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"


def _drops(report: Report) -> list[str]:
    """Return the notes about weights that no output depends on."""
    return [str(note)[:300] for note in report.notes if getattr(note, "code", "") in _DROPS]


def _inputs(file: Path) -> list[str]:
    """Return the inputs of a file without its cache, each with its shape."""

    def shape(value: Any) -> str:
        return ",".join(d.dim_param or str(d.dim_value) for d in value.type.tensor_type.shape.dim)

    found = onnx.load(file, load_external_data=False).graph.input
    return [f"{v.name}[{shape(v)}]" for v in found if not v.name.startswith(_CACHE)]


def _weights(folder: Path) -> int:
    """Return the largest number of elements in the initializers and constants of a file below `folder`, summed over
    encoder and decoder if there are several.
    """
    counts = {}
    for file in folder.rglob("*.onnx"):
        graph = onnx.load(file, load_external_data=False).graph
        counts[file.stem] = sum(_count(t) for t in graph.initializer)
    whole = [n for stem, n in counts.items() if stem in ("encoder_model", "decoder_model")]
    return sum(whole) if whole else max(counts.values())


def _count(tensor: Any) -> int:
    total = 1
    for dim in tensor.dims:
        total *= dim
    return total


def _parameters(model: Any) -> int:
    return sum(p.numel() for p in model.parameters())


def run(kind: str, name: str, seconds: float, seeds: int) -> dict[str, Any]:
    """Return the row of a folder, made by a process of its own, which starts with the imports done."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send_row, args=(theirs, kind, name, seeds))
    process.start()
    theirs.close()
    failed = {"kind": kind, "name": name, "outcome": "failed"}
    if not ours.poll(seconds):
        process.kill()
        return failed | {"text": f"took more than {seconds:.0f} seconds"}
    try:
        return dict(ours.recv())
    except EOFError:
        process.join()
        return failed | {"text": f"the process ended with code {process.exitcode}"}


def _preload() -> None:
    """Do the imports of a conversion, and one conversion, so that each folder's process starts with them done."""
    frontend.preload()
    with tempfile.TemporaryDirectory(prefix="folders-") as scratch:
        convert.convert(torch.nn.Linear(2, 2), "onnx", Path(scratch) / "x.onnx", inputs=["float32[2]"], verify=False)


def _send_row(connection: Connection, kind: str, name: str, seeds: int) -> None:
    """Send the row of a folder; runs in its process, from which the runs of a verification are forked."""
    warnings.simplefilter("ignore")
    allow_warm_processes()
    with tempfile.TemporaryDirectory(prefix="folders-") as scratch:
        connection.send(row_of(kind, name, Path(scratch), seeds))


def summary(rows: list[dict[str, Any]]) -> str:
    """Return counts by kind and outcome, then a line for each folder that is not right."""
    lines = [f"{'':24}" + "".join(f"{o:>14}" for o in OUTCOMES)]
    for kind in KINDS:
        counts = Counter(row["outcome"] for row in rows if row["kind"] == kind)
        lines.append(f"{kind:24}" + "".join(f"{counts[o] or '':>14}" for o in OUTCOMES))
    counts = Counter(row["outcome"] for row in rows)
    lines.append(f"{'all ' + str(len(rows)):24}" + "".join(f"{counts[o] or '':>14}" for o in OUTCOMES))
    for row in sorted(rows, key=lambda row: OUTCOMES.index(row["outcome"])):
        if row["outcome"] != "right":
            what = row.get("text") or row.get("tokens") or f"has {row.get('weights')} of the weights"
            lines.append(f"{row['outcome']:13} {row['name']}: {what}")
    lines += [f"noted         {row['name']}: {note}" for row in rows for note in row.get("drops", ())]
    return "\n".join(lines)


def main() -> None:
    """Print a line for each folder as it ends, then the summary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--rows", type=Path, default=Path("folders.jsonl"))
    parser.add_argument("--again", nargs="+", default=[], choices=OUTCOMES)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS")
    parser.add_argument("--seeds", type=int, default=3, help="sets of inputs that a verdict is made on; 0: no verdict")
    parser.add_argument("--no-verify", dest="seeds", action="store_const", const=0, help="leave out the verdict")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    declare_torchvision_operators()
    _preload()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    found = [json.loads(line) for line in asked.rows.read_text().splitlines()] if asked.rows.exists() else []
    known = {(row["kind"], row["name"]): row for row in found if row["outcome"] not in asked.again}
    wanted = [(kind, name) for kind in asked.kinds for name in KINDS[kind] if not asked.only or name in asked.only]
    forced = {key for key in wanted if key[1] in asked.only}
    asked.rows.write_text("".join(json.dumps(r) + "\n" for key, r in known.items() if key not in forced))
    keep = _keeper(asked.rows)
    with ThreadPoolExecutor(asked.jobs) as pool:
        left = [key for key in wanted if key not in known or key in forced]
        for row in pool.map(lambda key: run(*key, asked.timeout, asked.seeds), left):
            keep(row)
    rows = [json.loads(line) for line in asked.rows.read_text().splitlines()]
    print(summary(rows))
    sys.exit(1 if any(row["outcome"] in ("dropped", "wrong", "failed", "not made") for row in rows) else 0)


def _keeper(file: Path) -> Callable[[dict[str, Any]], None]:
    """Return a function that appends a row to `file` and prints a line of it."""

    def keep(row: dict[str, Any]) -> None:
        with file.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        print(f"{row['name']:24} {row['outcome']:13} {row.get('text', '')[:160]}", flush=True)

    return keep


if __name__ == "__main__":
    main()
