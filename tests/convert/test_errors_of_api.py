"""Every exception of the API's functions is a `ConvertError` of the class that fits the cause."""

from __future__ import annotations

import errno
import os
from typing import Any, NoReturn

import pytest

import convert
from convert import api
from convert.errors import BadInput, BrokenPackage, ConvertError, ResourceLimit, UsageError, as_convert_error

CASES = [
    (BadInput("damaged"), BadInput, "damaged"),
    (MemoryError(), ResourceLimit, "out of memory"),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to"), ResourceLimit, "out of memory"),
    (RuntimeError("numel: integer multiplication overflow"), ResourceLimit, "out of memory"),
    (ValueError("array is too big; it is larger than the maximum possible size."), ResourceLimit, "out of memory"),
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), ResourceLimit, "the disk takes no more"),
    (OSError(errno.EFBIG, os.strerror(errno.EFBIG)), ResourceLimit, "the disk takes no more"),
    (OSError("10000 requested and 2016 written"), ResourceLimit, "the disk takes no more"),
    (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), ResourceLimit, "open no more files"),
    (BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)), ResourceLimit, "no more processes"),
    (RuntimeError("can't start new thread"), ResourceLimit, "no more processes or threads"),
    (RuntimeError("Resource temporarily unavailable"), ResourceLimit, "no more processes or threads"),
    (RuntimeError("pthread_create failed, error code: 11"), ResourceLimit, "no more processes or threads"),
    (RuntimeError("reading m.onnx: Too many open files"), ResourceLimit, "open no more files"),
    (OSError(errno.EFAULT, os.strerror(errno.EFAULT)), BadInput, "became shorter meanwhile"),
    (PermissionError(errno.EACCES, "denied", "m.onnx"), ConvertError, "m.onnx: denied"),
    (ModuleNotFoundError("no module", name="onnx.thing"), BrokenPackage, "pip install onnx"),
    (ImportError("libx.so: failed to map segment from shared object"), ResourceLimit, "while a library was loaded"),
    (OSError("libx.so: failed to map segment from shared object"), ResourceLimit, "while a library was loaded"),
    (OSError(36, "File name too long", "x" * 5000), UsageError, f"{'x' * 80}… leads nowhere: File name too long"),
    (ValueError("a  value\nof two lines"), ConvertError, "ValueError: a value of two lines"),
]


@pytest.mark.parametrize(("error", "kind", "text"), CASES, ids=lambda c: type(c).__name__)
def test_classes(error: Exception, kind: type[ConvertError], text: str) -> None:
    found = as_convert_error(error)
    assert type(found) is kind
    assert text in str(found)
    assert ("defect of convert" in found.hint) == (kind is ConvertError and isinstance(error, ValueError))


CALLS: list[Any] = [
    lambda: convert.convert("m.onnx", "onnx"),
    lambda: convert.verify("a.onnx", "b.onnx"),
    lambda: convert.inspect("m.onnx"),
    lambda: convert.to_onnx("m.onnx"),
]


def test_a_library_without_memory_is_told_by_its_root() -> None:
    error = ModuleNotFoundError("Could not import module 'BertModel'")
    error.__cause__ = ImportError("libx.so: failed to map segment from shared object")
    assert type(as_convert_error(error)) is ResourceLimit


@pytest.mark.parametrize("call", CALLS, ids=["convert", "verify", "inspect", "to_onnx"])
def test_an_exception_is_the_cause(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Any) -> NoReturn:
        raise KeyError("missing")

    monkeypatch.setattr(api, "open_source", fail)
    with pytest.raises(ConvertError) as caught:
        call()
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_pipe_that_nobody_reads_is_left_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Any) -> NoReturn:
        raise BrokenPipeError

    monkeypatch.setattr(api, "open_source", fail)
    with pytest.raises(BrokenPipeError):
        convert.inspect("m.onnx")
