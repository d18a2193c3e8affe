"""Caffe2 nets whose operators, fills, inputs and outputs contradict each other are bad input, not a defect of this
tool.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import convert
from convert.errors import BadInput, ConvertError
from tests.suites.hostile_files.caffe2_files import caffe2_files
from tests.suites.hostile_files.case import Canary


def test_no_net_is_called_a_defect(tmp_path: Path) -> None:
    cases = {case.name: case.path for case in caffe2_files(tmp_path, Canary(tmp_path / "marker", 9))}
    del cases["30,000 operators"]
    told = {}
    for name, path in cases.items():
        try:
            report = convert.inspect(path)
            told[name] = (0, [t.name for t in report.inputs], [t.name for t in report.outputs])
        except ConvertError as error:
            told[name] = (error.exit_code, [error.message], [])
    assert not {name: found for name, found in told.items() if found[0] not in (0, 2, 4, 5, 6)}
    assert told["ends of one name"][:2] == (0, ["x"])
    assert len(set(told["ends of one name"][2])) == len(told["ends of one name"][2]) == 3
    assert told["300 fills of 2^30"] == (5, ["the fills of the net make 322,122,547,202 elements"], [])


def test_each_fill_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = next(iter(caffe2_files(tmp_path, Canary(tmp_path / "marker", 9)))).good
    assert convert.inspect(good).parameters == 2
    monkeypatch.setattr("convert.limits.CAFFE2_FILL_ELEMENTS", 1)
    with pytest.raises(BadInput, match="2 elements"):
        convert.inspect(good)
