"""Convert a program to one format, run the artefact as its users do, and compare it with the source's output."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convert
from convert import plugin
from tests.support.caffe2_support import needs_caffe2
from tests.support.run_targets import SUFFIXES, assert_close, run_target
from tests.support.tensorflow_lite_helper import encode, graph_of

Arrays = Mapping[str, np.ndarray]

FORMATS = [
    "onnx",
    "tf",
    pytest.param("tf-frozen", marks=pytest.mark.long),
    pytest.param("keras", marks=pytest.mark.long),
]
"""Formats to test. TensorFlow Lite and Caffe2 are missing, because their refusals have not been listed yet."""


def refusal(
    source: Any, form: str, folder: Path, feeds: Sequence[Arrays], expected: Sequence[Arrays], **options: Any
) -> str:
    """Return the reason for which `convert` refuses `source`, or "" if its artefact gives the expected outputs.

    Anything else fails: other numbers, an artefact that does not run, an error that calls itself a defect.
    """
    path = folder / f"model.{SUFFIXES[form]}"
    try:
        if form == "tflite":
            # TensorFlow's converter runs in this process, because an interpreter for each program would take seconds.
            path = encode(graph_of(source, options.get("inputs")), folder)
        else:
            convert.convert(source, form, path, verify=False, **options)
    except (convert.Unsupported, convert.BadInput, convert.UsageError) as error:
        return str(error)
    names = plugin.formats()[form].names.of(feeds[0], expected[0])  # by the names in the report
    found = [names.name_outputs(got) for got in run_target(form, path, [names.feed(feed) for feed in feeds])]
    for want, got in zip(expected, found, strict=True):
        assert_close(_as_told(want, want, form), _as_told(want, got, form))
    return ""


def check(reason: str, declared: str | None) -> None:
    """Assert that a program was refused for the reason in the table, and only then."""
    if declared is None:
        assert not reason, reason
    else:
        assert re.search(declared, reason), reason or "it is no longer refused: take it off the table"


def skip_without_runtime(form: str) -> None:
    """Skip the current test if there is nothing to run the format with."""
    if form == "caffe2" and (reason := needs_caffe2()):
        pytest.skip(reason)


def _as_told(want: Arrays, got: Arrays, form: str) -> Arrays:
    """Return strings as text; from Caffe2, which lacks some dtypes, return numbers in the expected dtype."""
    made = {}
    for name, array in got.items():
        array = np.asarray(array)
        if array.dtype.kind in "OS":
            array = np.array([x.decode() if isinstance(x, bytes) else x for x in array.ravel()], object).reshape(
                array.shape
            )
        if form == "caffe2" and name in want and want[name].dtype != array.dtype:
            array = array.astype(want[name].dtype)
        made[name] = array
    return made
