"""The output of a batch for people: the live table, lines, the summary and the page."""

from __future__ import annotations

import contextlib
import html.parser
import io
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from convert.batch import show
from convert.batch.plan import Task
from convert.batch.worker import SUCCESSES
from convert.pages import zoo
from tests.support.batch_tools import tiny


def record(name: str, outcome: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "source": f"zoo/{name}.pt", "format": "onnx", "output": f"out/{name}.onnx", "seconds": 1.5,
            "peak": 3 << 20, "attempts": 1, "reason": "", "report": {}, "outcome": outcome, **more}  # fmt: skip


def problem(operator: str, why: str, count: int = 1) -> dict[str, Any]:
    return {"operator": operator, "node": "n", "module": "", "source": "", "why": why, "count": count}


LACKING = {
    "operators": {"Magic": 3, "Spell": 1, "Relu": 4},
    "error": {"hint": "", "problems": [problem("Magic", "no rule", 3), problem("Spell", "no rule")]},
}
RECORDS = [
    record("a", "verified"),
    record("b", "convertible", report={"operators": {"Relu": 2, "Conv": 1}}),
    record("c", "unsupported", reason="2 things in this model cannot be converted:\n  …", report=LACKING),
    record("d", "unsupported", reason="2 things in this model cannot be converted:\n  …", report=LACKING),
    record("e", "bad input", reason="zoo/e.pt has 17 bytes", report={"error": {"hint": "get zoo/e.pt again"}}),
    record("f", "bad input", reason="zoo/f.pt has 23 bytes", report={"error": {"hint": "get zoo/f.pt again"}}),
    record("g", "crash", reason="died with SIGABRT", attempts=2),
]


def test_failures_are_grouped_by_cause_and_operators_ranked() -> None:
    told = show.summary(RECORDS)
    assert told["outcomes"] == {"unsupported": 2, "bad input": 2, "verified": 1, "convertible": 1, "crash": 1}
    assert [(g["outcome"], g["cause"], g["hint"], g["tasks"]) for g in told["causes"]] == [
        ("unsupported", "Magic: no rule; Spell: no rule", "", ["c → onnx", "d → onnx"]),
        ("bad input", "MODEL has N bytes", "get MODEL again", ["e → onnx", "f → onnx"]),
        ("crash", "died with SIGABRT", "", ["g → onnx"]),
    ]
    assert told["unsupported"] == {"Magic: no rule": 2, "Spell: no rule": 2}
    assert not told["ok"]
    assert show.summary(RECORDS[:2])["ok"]
    assert show.coverage(RECORDS) == {"nodes": 19, "operators": 4, "lacking_nodes": 8, "lacking_operators": 2}


def test_one_failure_is_told_as_it_is() -> None:
    (group,) = show.summary(RECORDS[4:5])["causes"]
    assert (group["cause"], group["hint"]) == ("zoo/e.pt has 17 bytes", "get zoo/e.pt again")


def test_lines() -> None:
    assert [show.record_line(r) for r in (*RECORDS[:3], RECORDS[6])] == [
        "verified     a → onnx (1.5 s)",
        "convertible  b → onnx (1.5 s): 3 nodes of 2 operators, all supported → out/b.onnx",
        "unsupported  c → onnx (1.5 s): 4 of 8 nodes have no rule: 3 Magic, 1 Spell",
        "crash        g → onnx (1.5 s, 2 attempts): died with SIGABRT",
    ]


def test_the_table_tells_what_runs_how_far_it_is_and_how_long_it_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    console = Console(file=io.StringIO(), width=100)
    table = show.TableView(4, console)

    def shown() -> str:
        with console.capture() as found:
            console.print(table.render())
        return found.get()

    assert "preparing" in shown()
    table.ended({**RECORDS[0], "before": True})
    assert table.seconds_left() is None
    now = 160.0  # a minute for the frameworks
    first, second = (Task(n, Path(f"zoo/{n}.pt"), "onnx", Path(f"out/{n}.onnx")) for n in "cd")
    table.started(first)
    now = 170.0
    table.started(second)
    table.ended(RECORDS[2])
    assert table.seconds_left() == 20.0
    assert "2 of 4" in shown()
    assert "about 20 s left" in shown()
    assert "1 verified" in shown()
    assert [line.split() for line in shown().splitlines() if "running" in line] == [
        ["running", "0", "s", "d", "→", "onnx"]
    ]


def test_the_page_has_a_sortable_row_for_each_task(tmp_path: Path) -> None:
    verdict = {
        "status": "PASS",
        "outputs": [{"name": n, "error": e, "floor": 2e-7} for n, e in (("y", 3e-7), ("z", 1e-7))],
    }
    sizes = {"weight_bytes": 2 << 20, "output_bytes": 5 << 20, "verdict": verdict}
    records = [record("a", "verified", report=sizes), *RECORDS[1:]]
    zoo.write(tmp_path / "r.html", records, show.summary(records))
    rows: list[list[tuple[str, str]]] = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            if tag == "tr":
                rows.append([])
            elif tag in ("td", "th"):
                rows[-1].append((str(dict(attributes).get("data-value", "")), ""))

        def handle_data(self, data: str) -> None:
            if self.get_starttag_text() and self.get_starttag_text().startswith(("<td", "<th")):
                rows[-1][-1] = (rows[-1][-1][0], rows[-1][-1][1] + data)

    Reader().feed((tmp_path / "r.html").read_text())
    heads, tasks, rest = rows[0], rows[1 : 1 + len(records)], rows[1 + len(records) :]
    assert [text for _, text in heads][:5] == ["model", "format", "outcome", "seconds", "peak"]
    outcomes = [row[2][1] for row in tasks]
    assert sorted(outcomes) == sorted(r["outcome"] for r in records)
    assert [outcome in SUCCESSES for outcome in outcomes] == sorted(r["outcome"] in SUCCESSES for r in records), (
        "failures first"
    )
    verified = next(row for row in tasks if row[2][1] == "verified")
    assert [text for _, text in verified][2:8] == ["verified", "1.50", "3.1 MB", "2.1 MB", "5.2 MB", "1.50"]
    assert float(verified[7][0]) == pytest.approx(1.5)
    assert any(row[8][1].startswith("4 of 8 nodes have no rule: 3 Magic") for row in tasks)
    texts = [tuple(text.strip() for _, text in row) for row in rest]
    below = texts.index(("conversions", "operator")) + 1
    assert texts[below : below + 2] == [("2", "Magic: no rule"), ("2", "Spell: no rule")]


@pytest.mark.long
def test_on_a_terminal_it_is_a_table(tmp_path: Path) -> None:
    tiny(tmp_path / "a.onnx")
    main, side = pty.openpty()
    words = [str(tmp_path / "a.onnx"), "--to", "onnx", "--no-verify", "-o", str(tmp_path / "out")]
    running = subprocess.Popen(
        [sys.executable, "-m", "convert", "batch", *words], stdout=side, env={**os.environ, "TERM": "xterm"}
    )
    os.close(side)
    said = b""
    with contextlib.suppress(OSError):  # the end of a terminal that nobody writes to
        while data := os.read(main, 1 << 16):
            said += data
    os.close(main)
    assert running.wait(timeout=60) == 0
    text = said.decode()
    assert "running" in text
    assert "0 of 1" in text
    assert "converted\x1b[0m    a → onnx" in text
    assert "1 converted" in text.splitlines()[-2]
    assert text.splitlines()[-1] == f"journal: {tmp_path / 'out' / 'journal.jsonl'}"


def test_more_lines_and_lines_for_ci(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = [{"name": "y", "error": 3e-7, "floor": 2e-7}, {"name": "z", "error": None, "floor": None}]
    notes = [{"code": "a-code", "level": "info", "text": "a note"}, "one of an older version"]
    done = record("a", "verified", report={"verdict": {"outputs": outputs}, "notes": notes})
    show.LineView(1, False, False, True).ended(done)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "      y: error 3.0e-07, noise floor 2.0e-07",
        "      note: a note  [a-code]",
        "      note: one of an older version",
    ]
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for each in (done, record("b,c:d", "crash", reason="100 %\nof it")):
        show.LineView(1, True, False).ended(each)
    told = capsys.readouterr().err
    assert told == "::error file=zoo/b%2Cc%3Ad.pt,title=b%2Cc%3Ad → onnx::crash: 100 %25%0Aof it\n"
