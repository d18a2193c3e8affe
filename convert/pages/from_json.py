"""Restores a report from its JSON, for the page of a task that another process did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from convert.errors import ConvertError, Location, Problem, Unsupported, restored
from convert.outcome.notes import note_from_json
from convert.outcome.report import ChainStep, Report, Tensor
from convert.outcome.verdict import (
    Divergence,
    Element,
    Latency,
    LayerLoss,
    OutputVerdict,
    Reduced,
    SetErrors,
    Slice,
    Spread,
    Verdict,
    WeightDifference,
)

T = TypeVar("T")

_PLAIN = ("command", "source", "kind", "target", "format", "operators", "parameters", "weight_bytes", "output_bytes",
          "seconds", "bounds", "reproduce", "unverified")  # fmt: skip


def report_from_json(data: Mapping[str, Any]) -> Report:
    """Return the report from the result of its `to_dict`; from a journal of an older version, as much as it
    contains.
    """
    done = Report(**{"command": "convert"} | {name: data[name] for name in _PLAIN if name in data})
    done.inputs, done.outputs = ([_tensor(t) for t in data.get(name, ())] for name in ("inputs", "outputs"))
    done.notes = list(map(note_from_json, data.get("notes", ())))
    done.verdict = verdict_from_json(data["verdict"]) if data.get("verdict") else None
    done.steps = [_step(step) for step in data.get("steps", ())]
    return done


def error_from_json(data: Mapping[str, Any]) -> ConvertError:
    """Return the error that ended a command, from the field `error` of its JSON."""
    problems = [
        Problem(p["why"], Location(p["operator"], p["node"], p["module"], p["source"]), p["count"])
        for p in data.get("problems", ())
    ]
    error = restored(Unsupported if problems else ConvertError, str(data.get("message", "")), str(data.get("hint", "")))
    if isinstance(error, Unsupported):
        error.problems = tuple(problems)
    return error


def verdict_from_json(data: Mapping[str, Any]) -> Verdict:
    """Return the verdict from the result of its `to_dict`, without the errors along the network. Infinite numbers are
    null in JSON.
    """
    weights = [{**each, "shape": tuple(each["shape"])} for each in data.get("weights", ())]
    fields_of_lists = {
        "notes": list(map(note_from_json, data.get("notes", ()))),
        "outputs": [_output(row) for row in data.get("outputs", ())],
        "weights": [_restored(WeightDifference, each) for each in weights],
        "layers": [_layer(each) for each in data.get("layers", ())],
    }
    kinds: dict[str, type] = {"latency": Latency, "reduced": Reduced, "divergence": Divergence}
    nested: dict[str, Any] = {k: _restored(kind, data[k]) for k, kind in kinds.items() if isinstance(data.get(k), dict)}
    return _restored(Verdict, {**data, **nested, **fields_of_lists, "profile": None})


def _layer(data: Mapping[str, Any]) -> LayerLoss:
    return _restored(LayerLoss, {**data, "sqnr": _number(data["sqnr"]), "before": _number(data["before"])})


def _output(data: Mapping[str, Any]) -> OutputVerdict:
    errors, numbers, spread = ("error", "floor", "worst"), ("reference", "target", "error"), data.get("spread")
    if isinstance(spread, dict):
        points = [(float(a), float(b)) for a, b in spread["points"]]
        spread = _restored(Spread, {**spread, "points": points})
    made = {
        "spread": spread,
        **{k: _number(data.get(k, 0.0)) for k in errors},
        "elements": [_element({**e, **{k: _number(e[k]) for k in numbers}}) for e in data.get("elements", ())],
        "sets": [SetErrors(*(_number(s[k]) for k in errors)) for s in data.get("sets", ())],
        "slices": [_restored(Slice, {**s, "sqnr": _number(s["sqnr"])}) for s in data.get("slices", ())],
    }
    return _restored(OutputVerdict, {**data, **made})


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
