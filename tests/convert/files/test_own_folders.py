"""Hidden folders of processes that are about to end."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from convert.files.output import discard_unfinished
from convert.files.own_folders import take_folder


def test_what_a_process_leaves_that_is_dying_yet_is_removed(tmp_path: Path) -> None:
    """The kernel releases a process's memory, by which it is found, before it releases its locks."""
    out = tmp_path / "m.onnx"
    folder, lock = take_folder(out)
    (folder / "replacement.json").write_text("{}")
    letting_go = threading.Timer(0.2, os.close, [lock])
    letting_go.start()
    discard_unfinished(out)
    assert folder.exists()
    discard_unfinished(out, just_killed=True)
    assert not folder.exists()
    letting_go.join()
