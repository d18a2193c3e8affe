"""A report as it was before it became JSON, for the page of a task that another process did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from convert.errors import ConvertError, Location, Problem, Unsupported, restored
from convert.notes import note_from_json
from convert.report import ChainStep, Report, Tensor
from convert.verdict import Divergence, Element, Latency, OutputVerdict, SetErrors, Slice, Verdict, WeightDifference

T = TypeVar("T")

_PLAIN = ("command", "source", "kind", "target", "format", "operators", "parameters", "weight_bytes", "output_bytes",
          "seconds", "bounds", "reproduce", "unverified")  # fmt: skip


def report_from_json(data: Mapping[str, Any]) -> Report:
    """The report whose `to_dict` this is; of a journal that an older version wrote, as much as it has."""
    done = Report(**{"command": "convert"} | {name: data[name] for name in _PLAIN if name in data})
    done.inputs, done.outputs = ([_tensor(t) for t in data.get(name, ())] for name in ("inputs", "outputs"))
    done.notes = list(map(note_from_json, data.get("notes", ())))
    done.verdict = verdict_from_json(data["verdict"]) if data.get("verdict") else None
    done.steps = [_step(step) for step in data.get("steps", ())]
    return done


def error_from_json(data: Mapping[str, Any]) -> ConvertError:
    """The error that ended a command, from the `error` of its JSON."""
    problems = [
        Problem(p["why"], Location(p["operator"], p["node"], p["module"], p["source"]), p["count"])
        for p in data.get("problems", ())
    ]
    error = restored(Unsupported if problems else ConvertError, str(data.get("message", "")), str(data.get("hint", "")))
    if isinstance(error, Unsupported):
        error.problems = tuple(problems)
    return error


def verdict_from_json(data: Mapping[str, Any]) -> Verdict:
    """The verdict whose `to_dict` this is, without the errors along the network. Infinite numbers are null in JSON."""
    found = _restored(Verdict, {k: v for k, v in data.items() if k not in ("outputs", "profile", "weights", "notes")})
    found.notes = list(map(note_from_json, data.get("notes", ())))
    found.outputs = [_output(row) for row in data.get("outputs", ())]
    found.weights = [_restored(WeightDifference, {**w, "shape": tuple(w["shape"])}) for w in data.get("weights", ())]
    if isinstance(found.latency, dict):
        found.latency = _restored(Latency, found.latency)
    if isinstance(found.divergence, dict):
        found.divergence = _restored(Divergence, found.divergence)
    return found


def _output(data: Mapping[str, Any]) -> OutputVerdict:
    row = _restored(OutputVerdict, {k: v for k, v in data.items() if k not in ("elements", "sets", "slices")})
    row.error, row.floor, row.worst = (_number(data.get(k, 0.0)) for k in ("error", "floor", "worst"))
    numbers = ("reference", "target", "error")
    row.elements = [_element({**e, **{k: _number(e[k]) for k in numbers}}) for e in data.get("elements", ())]
    row.sets = [SetErrors(*(_number(s[k]) for k in ("error", "floor", "worst"))) for s in data.get("sets", ())]
    row.slices = [_restored(Slice, {**s, "sqnr": _number(s["sqnr"])}) for s in data.get("slices", ())]
    return row


def _element(data: Mapping[str, Any]) -> Element:
    return _restored(Element, {**data, "index": tuple(data["index"])})


def _step(data: Mapping[str, Any]) -> ChainStep:
    verdict = verdict_from_json(data["verdict"]) if data.get("verdict") else None
    return ChainStep(data["source"], data["target"], verdict, str(data.get("reason", "")))


def _tensor(data: Mapping[str, Any]) -> Tensor:
    shape = data["shape"]
    return Tensor(data["name"], data["dtype"], None if shape is None else tuple(shape))


def _restored(kind: type[T], data: Mapping[str, Any]) -> T:
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in data.items() if name in known})


def _number(value: float | None) -> float:
    return math.inf if value is None else float(value)
