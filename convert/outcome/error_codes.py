"""The codes of errors: what each means, and an example. They do not change."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorCode:
    """One kind of error: its exit code, a summary in one line, and a paragraph with an example."""

    code: str
    exit_code: int
    summary: str
    text: str


_ROWS = (
    ErrorCode(
        "convert-error",
        1,
        "The conversion could not be finished.",
        "The message names the cause, such as a folder without write permission. If the hint asks you to report it, "
        "this is a defect of convert. Example: `chmod u+w models` before `convert model.pt -o models/m.onnx`.",
    ),
    ErrorCode(
        "broken-package",
        1,
        "A package is not installed, or cannot be imported.",
        "The hint names the command that installs it. Example: `pip install 'convert-models[tf]'` before `--to tf`.",
    ),
    ErrorCode(
        "not-loaded",
        1,
        "A runtime does not load the model.",
        "Such a model cannot run, so it cannot be verified. Example: an ONNX file with an operator of its own "
        "runs with a kernel in `--rules FILE.py`; `--no-verify` writes the output without running anything.",
    ),
    ErrorCode(
        "usage-error",
        2,
        "The arguments contradict each other, the model or the file system.",
        "Nothing was written. Example: an output that exists is not replaced without `--force`.",
    ),
    ErrorCode(
        "parity-error",
        3,
        "Source and target do not compute the same numbers.",
        "The difference is larger than the source's rounding error explains, so nothing was written. Example: "
        "`--report out.html` writes a page with the first operator that differs.",
    ),
    ErrorCode(
        "unsupported",
        4,
        "The model has operators, attributes or dtypes without a rule.",
        "All of them are listed, each with its node, module and source line. Example: `convert ops softmax` shows "
        "which tables have an operator; `--rules FILE` adds a rule of yours.",
    ),
    ErrorCode(
        "unknown-rank",
        4,
        "The number of dims of a tensor must be known, but is not.",
        "Describe the inputs of the model. Example: `--input 'x:float32[batch,3,224,224]'`.",
    ),
    ErrorCode(
        "bad-input",
        5,
        "A file is damaged, or has another format than its name or an option says.",
        "Example: an ONNX file whose download stopped half-way is truncated; download it again.",
    ),
    ErrorCode(
        "unsafe-input",
        5,
        "A file can only be read by executing code that it contains.",
        "`--trust` allows that; use it for files whose author you trust. Example: a pickle that calls `os.system`.",
    ),
    ErrorCode(
        "resource-limit",
        6,
        "Time, memory or disk space ran out.",
        "Set other limits, or use a larger machine. Example: `--timeout 3600 --memory 16GB`.",
    ),
)

ERRORS = {row.code: row for row in _ROWS}
