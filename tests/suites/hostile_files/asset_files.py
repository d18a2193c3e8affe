"""SavedModels with a table that is initialized from an asset file which is elsewhere, endless or missing.

The good one is written in a process of its own: `python -m tests.suites.hostile_files.asset_files FOLDER`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.suites.hostile_files.case import Canary, Case, file_name

_WORDS = Path("assets/words.txt")


def _changes() -> dict[str, Callable[[Path], object]]:
    """Return changes of a model's folder."""

    def instead(make: Callable[[Path], object]) -> Callable[[Path], object]:
        def change(path: Path) -> None:
            (path / _WORDS).unlink()
            make(path / _WORDS)

        return change

    def link(target: str) -> Callable[[Path], object]:
        return instead(lambda words: os.symlink(target, words))

    def holds(content: bytes, size: int | None = None) -> Callable[[Path], object]:
        def change(path: Path) -> None:
            (path / _WORDS).write_bytes(content)
            if size is not None:
                os.truncate(path / _WORDS, size)

        return change

    def called(name: str) -> Callable[[Path], object]:
        def change(path: Path) -> None:
            from tensorflow.core.protobuf import saved_model_pb2

            graph = path / "saved_model.pb"
            saved = saved_model_pb2.SavedModel.FromString(graph.read_bytes())
            for asset in saved.meta_graphs[0].asset_file_def:
                asset.filename = name
            graph.write_bytes(saved.SerializeToString())

        return change

    def elsewhere(path: Path) -> None:
        shutil.rmtree(path / "assets")
        os.symlink("/etc", path / "assets")
        called("passwd")(path)

    return {
        "a pipe": instead(os.mkfifo),
        "a folder": instead(Path.mkdir),
        "a link to a device": link("/dev/zero"),
        "a link out of the folder": link("/etc/passwd"),
        "a link to itself": link("words.txt"),
        "a sparse terabyte": holds(b"a\n", 1 << 40),
        "a hundred megabytes of nothing": holds(b"a\n", 99_000_000),
        "ten million words": holds(b"\n".join(b"%x" % i for i in range(10_000_000))),
        "one word many times": holds(b"a\n" * 40_000_000),
        "no words": holds(b""),
        "noise": holds(bytes(range(256)) * 100),
        "a folder of assets elsewhere": elsewhere,
        "a name that goes up": called("../../../../../../../../etc/passwd"),
        "an absolute name": called("/etc/passwd"),
        "a name of a zero": called("a\0b"),
        "a name of 5,000 characters": called("x" * 5000),
        "a name of control characters": called("\u202e\x1b[31m"),
        "no name": called(""),
    }


def asset_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write all files of the class."""
    subprocess.run([sys.executable, "-m", __name__, str(folder)], check=True, capture_output=True)
    good = folder / "good"
    for name, change in _changes().items():
        path = Path(shutil.copytree(good, folder / file_name(name)))
        change(path)
        yield Case(name, path, good=good)


def _write(folder: Path) -> None:
    import tensorflow as tf

    words = folder / "words.txt"
    words.write_text("a\nb\nc\n")
    index = tf.lookup.TextFileIndex
    filled = tf.lookup.TextFileInitializer(str(words), tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)
    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(filled, -1)
    module.f = tf.function(
        lambda x: {"y": module.table.lookup(x)}, input_signature=[tf.TensorSpec([None], tf.string, name="x")]
    )
    tf.saved_model.save(module, str(folder / "good"), signatures=module.f)


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
