"""Run official ONNX cases through the Caffe2 backend: convert all of them, then run the nets in one real Caffe2."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx
from convert.backends.caffe2.rules import onnx_op as onnx_rules
from convert.frontends.caffe2.runner.runner import Job, run_jobs

from convert import plugin
from convert.errors import ConvertError, Unsupported
from convert.outcome.report import Report
from convert.request.options import Options
from tests.suites.onnx_node_worker import Answer

# The backend's messages (`dtypes.py`) about dtypes that Caffe2, or the kernel, lacks.
_DTYPES = re.compile(
    r"Caffe2 has no \w+ tensors|Caffe2 computes this in [\w ]+ only, and the model does in \w+"
    r"|a matrix product in \w+: Caffe2 has float32's only"
)

# A net of these cases runs for milliseconds.
_SECONDS = 120.0


def run_all(requests: Iterable[tuple[str, Any]]) -> dict[str, Answer]:
    """Return the answer to each named request (a serialized model, its inputs, specs of nested inputs, the format)."""
    answers: dict[str, Answer] = {}
    jobs: list[tuple[str, Job]] = []
    with tempfile.TemporaryDirectory(prefix="convert-nodes-") as folder:
        for number, (name, (data, feeds, specs, form)) in enumerate(requests):
            path = Path(folder) / f"{number}.caffe2"
            answers[name] = _converted(data, specs, form, path)
            if answers[name].status == "ran":
                jobs += [(name, Job(path, feed)) for feed in feeds]
        for (name, _), result in zip(jobs, run_jobs([job for _, job in jobs], seconds=_SECONDS), strict=True):
            if not isinstance(result, ConvertError):
                answers[name].outputs.append(result)
            else:
                answers[name] = Answer("crash" if "process died" in str(result) else "error", str(result))
    return answers


def declared(text: str) -> str:
    """Return the reason of a refusal that the rule table declares or that is due to a dtype Caffe2 lacks, else ""."""
    reasons = [*onnx_rules.gaps.values(), *onnx_rules.limits.values()]
    known = next((reason for reason in reasons if reason in text), "")
    lacking = _DTYPES.search(text)
    return known or (lacking[0] if lacking else "")


def _converted(data: bytes, specs: list[Any], form: str, path: Path) -> Answer:
    """Write the artefact; return "ran" on success."""
    options = Options(inputs=tuple(specs), extra={"opset": onnx.defs.onnx_opset_version()})
    try:
        source = plugin.source_for_object(onnx.ModelProto.FromString(data))
        report = Report("convert")
        model = plugin.frontend_for(source).read(source, options, report)
        plugin.backend_for(form).write(model, path, form, options, report)
    except Unsupported as error:
        return Answer("refused", str(error))
    except Exception as error:
        return Answer("error", f"{type(error).__name__}: {error}"[:2000])
    return Answer("ran")
