"""Run the snippets of convert/tour.md in one session, in an empty folder, and compare their output."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TOUR = Path(__file__).resolve().parents[2] / "convert" / "tour.md"
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections() -> Iterator[tuple[str, str]]:
    """Yield the title of each numbered section with its snippets, joined by a blank line, which ends an output."""
    for section in re.split(r"^## ", TOUR.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        if title[0].isdigit():
            yield title, "\n".join(SNIPPET.findall(section))


def test_sections_are_numbered_and_each_has_a_snippet() -> None:
    found = list(sections())
    assert [int(title.split(".")[0]) for title, _ in found] == list(range(1, 13))
    assert all(">>> " in code for _, code in found)


@pytest.mark.slow
@pytest.mark.not_core
def test_snippets_print_what_the_tour_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    failures: list[str] = []
    for title, code in sections():
        snippet = doctest.DocTestParser().get_doctest(code, names, title, str(TOUR), 0)
        # A function that prints a rule prints one more line break than the tour shows.
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        runner.run(snippet, out=failures.append, clear_globs=False)
        names = snippet.globs
        assert not failures, "".join(failures)
