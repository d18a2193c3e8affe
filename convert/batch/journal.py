"""The journal of a batch: lines of JSON that are only ever appended, from which an interrupted run goes on."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from convert.batch.storage import Url
from convert.errors import UsageError

NAME = "journal.jsonl"


class Journal:
    """`journal.jsonl` in the folder of the outputs, held by one run at a time.

    A line is `{"event": "started" | "ended", "key": …, "output": …, …}`. It is written by one call and flushed to the
    disk, so that whenever the run is killed, every line but perhaps the last is whole.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / NAME
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise UsageError(f"another batch is writing to {folder}", hint="wait for it, or give another -o") from None
        self._ended: dict[tuple[str, str], dict[str, Any]] = {}
        self._begun: set[str] = set()
        self._read()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._descriptor)

    def ended(self, key: str, output: Path | Url) -> dict[str, Any] | None:
        """The record of a task that has ended, else None."""
        return self._ended.get((key, str(output)))

    def is_ours(self, output: Path | Url) -> bool:
        """True if a run of this journal has begun to write `output`, which may hence be replaced."""
        return str(output) in self._begun

    def started(self, key: str, output: Path | Url) -> None:
        """Say that a task begins."""
        self._append({"event": "started", "key": key, "output": str(output)})

    def end(self, record: Mapping[str, Any]) -> None:
        """Say how a task ended: `record` holds its key and output."""
        self._append({"event": "ended", **record})

    def _append(self, line: Mapping[str, Any]) -> None:
        line = {**line, "time": round(time.time(), 3)}
        os.write(self._descriptor, (json.dumps(line, ensure_ascii=False) + "\n").encode())
        os.fsync(self._descriptor)
        self._take(line)

    def _read(self) -> None:
        content = self.path.read_bytes()
        if content and not content.endswith(b"\n"):
            os.write(self._descriptor, b"\n")  # the last line was cut off: what follows starts anew
        for text in content.split(b"\n"):
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                self._take(line)

    def _take(self, line: Mapping[str, Any]) -> None:
        output = str(line.get("output", ""))
        if line.get("event") == "started":
            self._begun.add(output)
            # What is in the place of this output is not what an older key made.
            self._ended = {k: v for k, v in self._ended.items() if k[1] != output}
        elif line.get("event") == "ended":
            self._ended[str(line.get("key", "")), output] = dict(line)
