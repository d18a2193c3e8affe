"""Outputs on shared storage, such as `s3://bucket/zoo/resnet.onnx`, through fsspec."""

from __future__ import annotations

import importlib
import importlib.util
import posixpath
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convert.errors import BadInput, ConvertError, UsageError

_MARKS = (
    "ETag", "etag", "md5Hash", "content_md5", "md5", "checksum", "LastModified", "updated", "last_modified", "mtime",
    "created",
)  # fmt: skip
"""Names that fsspec's file systems use for a checksum, a version or the modification time of an object."""


@dataclass(frozen=True, order=True)
class Url:
    """A file or folder on a storage that fsspec reaches; the storage's options come from its own environment."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __truediv__(self, name: str) -> Url:
        return Url(f"{self.text.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return posixpath.basename(self.text.rstrip("/"))

    @property
    def parent(self) -> Url:
        """The folder that contains it."""
        return Url(posixpath.dirname(self.text.rstrip("/")))

    def exists(self) -> bool:
        """Return whether a file, or a folder with files, exists at this place.

        Raises `ConvertError` if the storage cannot be reached.
        """
        system, place = self._filesystem_and_path()
        return bool(_access_storage(self, system.exists, place))

    def mark(self) -> str:
        """Return what identifies a file's content on the storage: its size, and a checksum or modification time.

        Returns "" if the file does not exist, or the storage reports neither. Raises `ConvertError` if the storage
        cannot be reached.
        """
        system, place = self._filesystem_and_path()
        try:
            facts = _access_storage(self, system.info, place)
        except BadInput:
            return ""
        known = next((str(facts[key]) for key in _MARKS if facts.get(key) is not None), "")
        return f"{facts.get('size')} {known}" if known else ""

    def put(self, local: Path) -> None:
        """Replace what is at this place by a local file or folder. Raises `ConvertError`.

        A file appears complete or not at all. The files of a folder appear one by one; the folder is valid once its
        record is written.
        """
        system, place = self._filesystem_and_path()
        if not local.is_dir():
            _access_storage(self, _put_file, system, local, place)
            return
        kept = set()
        for file in sorted(p for p in local.rglob("*") if p.is_file()):
            to = posixpath.join(place, file.relative_to(local).as_posix())
            _access_storage(self, _put_file, system, file, to)
            kept.add(to.lstrip("/"))
        for old in _access_storage(self, system.find, place):
            if old.lstrip("/") not in kept:
                _access_storage(self, system.rm_file, old)

    def get(self, local: Path) -> None:
        """Copy a file from this place to a local file. Raises `ConvertError`."""
        system, place = self._filesystem_and_path()
        _access_storage(self, system.get_file, place, str(local))

    def _filesystem_and_path(self) -> tuple[Any, str]:
        if importlib.util.find_spec("fsspec") is None:
            raise ConvertError(f"{self} needs fsspec", hint="pip install 'convert-models[ray]'")
        fsspec: Any = importlib.import_module("fsspec")  # an optional dependency
        try:
            system, place = fsspec.core.url_to_fs(self.text, use_listings_cache=False)
        except ImportError as error:
            raise ConvertError(f"{self} cannot be reached: {error}", hint="install what it names") from None
        except ValueError as error:
            raise UsageError(f"{self} names no storage: {error}") from None
        return system, str(place)


def parse_location(text: str) -> Path | Url:
    """Return the path or `Url` that a text denotes; `file://` is a path.

    Raises `UsageError` for a URL of another machine's files.
    """
    scheme = re.match(r"([a-z][a-z0-9+.-]+)://", text)
    if scheme is None:
        return Path(text)
    if scheme[1] == "file":
        rest = text.removeprefix("file://").removeprefix("localhost")
        if not rest.startswith("/"):
            raise UsageError(f"{text} is no path of this machine", hint="file:///absolute/path")
        return Path(rest)
    if not text.partition("://")[2].strip("/"):
        raise UsageError(f"{text} names no place in a storage", hint=f"{scheme[1]}://bucket/folder")
    return Url(text.rstrip("/"))


def local_name(url: Url) -> str:
    """Return a name for a local folder that belongs to a URL."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", url.text)


def _put_file(system: Any, local: Path, place: str) -> None:
    if "s3" in system.protocol or "gs" in system.protocol or "memory" in system.protocol:
        system.put_file(str(local), place)  # an object appears once it is complete
        return
    part = f"{place}.part-{uuid.uuid4().hex}"
    system.makedirs(posixpath.dirname(place), exist_ok=True)
    system.put_file(str(local), part)
    system.mv(part, place)


def _access_storage(url: Url, do: Any, *arguments: Any) -> Any:
    try:
        return do(*arguments)
    except FileNotFoundError as error:
        raise BadInput(f"{url} is not there: {error}") from None
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        raise ConvertError(f"{url} cannot be reached: {type(error).__name__}: {text}") from error


@contextmanager
def mirrored_file(local: Path, where: Path | Url) -> Iterator[None]:
    """Context manager: keep a copy of a local file on the storage of the outputs, for another machine that resumes.

    The file is fetched if there is none here, and copied back afterwards, even after an error.
    """
    if isinstance(where, Path):
        yield
        return
    copy = where / local.name
    if not local.exists() and copy.exists():
        local.parent.mkdir(parents=True, exist_ok=True)
        copy.get(local)
    try:
        yield
    finally:
        if local.exists():
            copy.put(local)
