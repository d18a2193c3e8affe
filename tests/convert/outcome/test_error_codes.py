"""Every class of errors has a code that is explained, and the JSON of a refusal contains it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from convert import errors
from convert.cli import cli, render
from convert.errors import ConvertError
from convert.outcome.error_codes import ERRORS
from convert.outcome.note_codes import CODES
from convert.outcome.report import Report


def classes(kind: type[ConvertError] = ConvertError) -> Iterator[type[ConvertError]]:
    """Return the class and its subclasses in `convert.errors`."""
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from classes(below)


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_a_class_has_a_code_of_its_own_that_is_explained(kind: type[ConvertError]) -> None:
    assert kind.code == re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()
    assert ERRORS[kind.code].exit_code == kind.exit_code
    error = kind("why")
    assert json.loads(render.error_json(Report("convert"), error))["error"]["code"] == kind.code
    assert json.loads(render.error_json("ops", error))["error"]["code"] == kind.code


def test_every_code_that_is_explained_is_of_a_class() -> None:
    assert {kind.code for kind in classes()} == ERRORS.keys()
    assert all(row.summary.endswith(".") and "xample: " in row.text for row in ERRORS.values())


def explained(*words: str) -> str:
    done = CliRunner().invoke(cli, ["explain", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_explain_knows_every_code() -> None:
    listed = explained()
    for code in (*CODES, *ERRORS):
        assert f"\n  {code} " in listed
        assert explained(code).startswith(f"{code} (")
    assert max(map(len, explained("assumed-input", "bad-input").splitlines())) <= 80


def test_explain_as_json() -> None:
    rows = json.loads(explained("--json"))
    assert [row["code"] for row in rows] == [*CODES, *ERRORS]
    (row,) = json.loads(explained("bad-input", "--json"))
    assert (row["kind"], row["exit_code"], row["summary"]) == ("error", 5, ERRORS["bad-input"].summary)
