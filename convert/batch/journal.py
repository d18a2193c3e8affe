"""The journal of a batch: append-only lines of JSON, from which an interrupted run resumes."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from convert.batch.record_form import is_record
from convert.batch.storage import Url
from convert.errors import ConvertError, ResourceLimit, UsageError
from convert.files.holes import check_holes

NAME = "journal.jsonl"
_START = b'{"event": '
"""The beginning of each line, and so of the file."""


class History:
    """The content of a journal in `folder`."""

    def __init__(self, folder: Path, content: bytes) -> None:
        self.folder = folder
        self._ended: dict[str, dict[str, Any]] = {}
        self._begun: set[str] = set()
        for text in content.split(b"\n"):
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(line, dict):
                self._take(line)

    def ended(self, key: str, output: Path | Url) -> dict[str, Any] | None:
        """Return the record of a task with this key, if it has ended; else None."""
        found = self._ended.get(self._place(output))
        return found if found is not None and found.get("key") == key else None

    def made(self, output: Path | Url) -> object:
        """Return the recorded description of what a task wrote to `output`, whatever its key; None if there is no
        record.
        """
        return self._ended.get(self._place(output), {}).get("made")

    @property
    def records(self) -> list[dict[str, Any]]:
        """The last records of all tasks that have ended."""
        return list(self._ended.values())

    def is_ours(self, output: Path | Url) -> bool:
        """Return whether a run of this journal began to write `output`, which may then be replaced."""
        return self._place(output) in self._begun

    def _place(self, output: Path | Url) -> str:
        """Return the name of an output in the journal, which is independent of the folder's name and place."""
        return str(output) if isinstance(output, Url) else Path(os.path.relpath(output, self.folder)).as_posix()

    def _take(self, line: Mapping[str, Any]) -> None:
        output = str(line.get("output", ""))
        if line.get("event") == "started":
            self._begun.add(output)
            self._ended.pop(output, None)  # the output is no longer what an older key produced
        elif line.get("event") == "ended":
            if is_record({**line, "output": output}):
                self._ended[output] = dict(line)
            else:
                self._ended.pop(output, None)


def history(folder: Path) -> History:
    """Return the content of the journal in `folder`, if there is one, without writing or locking it.

    Raises `BadInput` for a sparse file.
    """
    path = folder / NAME
    if not path.is_file():
        return History(folder, b"")
    check_holes(path)
    return History(folder, path.read_bytes())


class Journal(History):
    """`journal.jsonl` in the folder of the outputs, locked by one run at a time.

    A line is `{"event": "started" | "ended", "key": …, "output": …, …}`. It is written by one call and flushed to the
    disk, so that after a kill every line but perhaps the last is complete.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / NAME
        foreign = UsageError(f"{path} is no journal of a batch", hint="give another -o, or --journal")
        try:
            self._descriptor = os.open(
                path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644
            )
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise foreign from None
            raise
        try:
            if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                os.close(self._descriptor)
                raise foreign
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise UsageError(f"another batch is writing to {folder}", hint="wait for it, or give another -o") from None
        try:
            check_holes(path)
        except ConvertError:
            os.close(self._descriptor)
            raise
        content = path.read_bytes()
        if not content.startswith(_START[: len(content)]):
            os.close(self._descriptor)
            raise foreign
        super().__init__(folder, content)
        if content and not content.endswith(b"\n"):
            self._write(b"\n")  # the last line was cut off, so end it

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._descriptor)

    def started(self, key: str, output: Path | Url) -> None:
        """Record that a task begins. Raises `ResourceLimit` on a full disk."""
        self._append({"event": "started", "key": key, "output": self._place(output)})

    def end(self, record: Mapping[str, Any], output: Path | Url) -> None:
        """Record how a task ended; its key is in the record. Raises `ResourceLimit` on a full disk."""
        self._append({"event": "ended", **record, "output": self._place(output)})

    def _append(self, line: Mapping[str, Any]) -> None:
        line = {**line, "time": round(time.time(), 3)}
        self._write((json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass"))
        self._take(line)

    def _write(self, data: bytes) -> None:
        try:
            complete = os.write(self._descriptor, data) == len(data)
            os.fsync(self._descriptor)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            complete = False
        if not complete:
            raise ResourceLimit(
                f"the disk is full: {self.folder / NAME} could not be written",
                hint="free some space, and run the same command again",
            )
