"""The exceptions that `convert` raises, each with its exit code on the command line.

ConvertError            exit 1   a conversion that could not be finished
├── UsageError          exit 2   arguments that contradict each other or the model
├── ParityError         exit 3   source and target disagree
├── Unsupported         exit 4   operators or features without a rule, all of them listed
│   └── UnknownRank     exit 4   a rule needs the rank of a tensor, which is unknown
├── BadInput            exit 5   a file that is broken, or is not what it was said to be
│   └── UnsafeInput     exit 5   a file that would have to execute code to be read
└── ResourceLimit       exit 6   time, memory or disk ran out
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from convert.outcome.extras import import_problem, root_of
from convert.outcome.text import visible

_ITEM = "\n  "
"""Prefix of each line of a list in a message."""


@dataclass(frozen=True)
class Location:
    """Where something in a model came from: the operator, the node, the module path and the source line."""

    operator: str = ""
    node: str = ""
    module: str = ""
    source: str = ""

    def __str__(self) -> str:
        parts = [self.operator or "operator"]
        if self.node and self.node != self.operator:
            parts.append(f"node {self.node!r}")
        if self.module:
            parts.append(f"in {self.module}")
        if self.source:
            parts.append(f"at {self.source}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Problem:
    """One reason why a model cannot be converted, and the number of places that it applies to."""

    why: str
    at: Location = Location()
    count: int = 1

    def __str__(self) -> str:
        more = f" (and {self.count - 1} more like it)" if self.count > 1 else ""
        return f"{self.at}: {self.why}{more}" if self.at != Location() else self.why + more


class ConvertError(Exception):
    """A conversion failed. `message` is one paragraph, `hint` says what the user can do.

    >>> import convert
    >>> try:
    ...     convert.inspect("missing.onnx")
    ... except convert.ConvertError as error:
    ...     type(error).__name__, error.exit_code, error.message
    ('BadInput', 5, 'there is no file or folder missing.onnx')
    """

    exit_code = 1
    code = "convert-error"
    """The name of this kind of error in `--json` and `convert explain` (`convert.outcome.error_codes`)."""

    def __init__(self, message: str, *, hint: str = "", items: Iterable[object] = ()) -> None:
        """Create the error; `items` are listed below the message, one per line.

        Control characters in names from files are escaped here, so that the only line breaks of a message are those
        before items. The fields of `problems` contain the exact names.
        """
        self.message = _ITEM.join(visible(str(line)) for line in (message, *items))
        self.hint = visible(hint)
        super().__init__(self.message)

    @property
    def sentence(self) -> str:
        """Return the message as one line, to include it in another text."""
        return self.message.replace(f":{_ITEM}", ": ").replace(_ITEM, "; ")

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class UsageError(ConvertError):
    """The request contradicts itself, the model or the file system.

    >>> import convert
    >>> try:
    ...     convert.convert("mnist_cnn.onnx", "tensorrt")
    ... except convert.UsageError as error:
    ...     error.exit_code, error.hint
    (2, 'write onnx, then `trtexec --onnx=model.onnx --saveEngine=model.engine` on the machine that runs it')
    """

    exit_code = 2
    code = "usage-error"


class ParityError(ConvertError):
    """Source and target disagree by more than rounding explains, or by more than the user's `rtol` and `atol`.

    >>> import convert
    >>> from convert.parity.method import VerifyMethod
    >>> try:
    ...     convert.convert("mnist_cnn.onnx", "caffe2", method=VerifyMethod(rtol=1e-12, atol=0))
    ... except convert.ParityError as error:
    ...     error.exit_code, error.message.partition(":")[0]
    (3, 'mnist_cnn.caffe2 would not compute what mnist_cnn.onnx does (caused by the backend)')
    """

    exit_code = 3
    code = "parity-error"


class Unsupported(ConvertError):
    """Operators, attributes or dtypes that no rule handles.

    A rule raises `Unsupported("why")` without a location; the dispatcher that called the rule knows the operator, the
    node, the module and the source line, and adds them. `problems` has one for each operator, with its place.

    >>> import convert, onnx.parser
    >>> model = onnx.parser.parse_model(
    ...     '<ir_version: 10, opset_import: ["": 20, "mine": 1]> '
    ...     "cubes (float[n, 3] x) => (float[n, 3] y) { y = mine.Cube(x) }")
    >>> try:
    ...     convert.convert(model, "caffe2", "cubes.caffe2")
    ... except convert.Unsupported as error:
    ...     [(problem.at.operator, problem.why) for problem in error.problems]
    [('mine::Cube', 'no Caffe2 rule for this operator')]
    """

    exit_code = 4
    code = "unsupported"

    def __init__(self, message: str = "", *, hint: str = "", problems: Sequence[Problem] = ()) -> None:
        self.problems = tuple(problems) or (Problem(message),)
        many = len(self.problems) > 1 and not message
        listing = f"{len(self.problems)} things in this model cannot be converted:" if many else str(self.problems[0])
        super().__init__(message or listing, hint=hint, items=self.problems if many else ())

    def with_location(self, at: Location) -> Unsupported:
        """Return the same error with `at` filled in for each problem without a location."""
        problems = [p if p.at != Location() else replace(p, at=at) for p in self.problems]
        return Unsupported(hint=self.hint, problems=problems)


class UnknownRank(Unsupported, ValueError):
    """A rule needs the rank of a tensor, which the model does not determine."""

    code = "unknown-rank"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"how many dims {name} has is not known",
            hint="where an input of the model does not tell it, describe it: --input 'NAME:float32[batch,3]'",
        )


class BrokenPackage(ConvertError):
    """A required package is not installed, or cannot be imported."""

    code = "broken-package"


class NotLoaded(ConvertError):
    """A runtime cannot load the model, for any inputs."""

    code = "not-loaded"


class BadInput(ConvertError):
    """A file that is broken, truncated, or not what it was said to be.

    >>> import convert, pathlib
    >>> _ = pathlib.Path("half.onnx").write_bytes(pathlib.Path("mnist_cnn.onnx").read_bytes()[:80_000])
    >>> try:
    ...     convert.inspect("half.onnx")
    ... except convert.BadInput as error:
    ...     error.exit_code, error.message
    (5, 'half.onnx is truncated: ...')
    """

    exit_code = 5
    code = "bad-input"

    def __init__(self, message: str, *, hint: str = "", items: Iterable[object] = (), doubtful: bool = False) -> None:
        """Create the error; `doubtful` says that the reader may be wrong.

        A target that runs is then judged by its results.
        """
        super().__init__(message, hint=hint, items=items)
        self.doubtful = doubtful


def restored(kind: type[ConvertError], message: str, hint: str) -> ConvertError:
    """Return the error that another process sent as message and hint; its list keeps its lines."""
    error = kind(message, hint=hint)
    error.message = _ITEM.join(map(visible, message.split(_ITEM)))
    return error


def contradiction(error: ConvertError) -> BadInput:
    """Return the error for a file on which a rule has failed.

    Files state shapes and options redundantly; if a rule cannot reconcile them, the file is usually damaged.
    """
    return BadInput(
        f"{error.sentence}: shapes or options in the file do not fit each other",
        hint="is the file damaged? if it runs elsewhere this is a defect of convert: report it",
        doubtful=True,
    )


def file_became_shorter(what: str) -> BadInput:
    """Return the error for a file that was truncated while it was mapped into memory; `what` says what failed."""
    reason = "a file that it reads became shorter meanwhile, or its disk failed"
    return BadInput(f"{what}: {reason}", hint="convert it again when nobody writes to it")


class UnsafeInput(BadInput):
    """A file that could only be read by executing what it contains; `--trust` allows that.

    >>> import convert, zipfile
    >>> with zipfile.ZipFile("net.pt", "w") as archive:
    ...     archive.writestr("net/data.pkl", b"cos\\nsystem\\n(S'echo harm'\\ntR.")
    >>> try:
    ...     convert.inspect("net.pt")
    ... except convert.UnsafeInput as error:
    ...     error.message
    "net.pt is a pickle that needs os.system; loading it would execute code of the file's choice"
    """

    code = "unsafe-input"


class ResourceLimit(ConvertError):
    """Time, memory or disk ran out.

    >>> import convert
    >>> from convert.parity.method import VerifyMethod
    >>> from convert.processes.run_here import Limits
    >>> try:
    ...     convert.convert("mnist_cnn.onnx", "onnx", "copy.onnx", method=VerifyMethod(limits=Limits(seconds=0.01)))
    ... except convert.ResourceLimit as error:
    ...     error.exit_code, error.hint
    (6, 'give a larger --timeout')
    """

    exit_code = 6
    code = "resource-limit"


_NOT_MAPPED = re.compile(r"failed to map segment from shared object$|cannot allocate memory", re.IGNORECASE)
"""How the loader of libraries reports lack of memory; other reasons follow a colon."""


def memory_of_library(error: Exception) -> ResourceLimit | None:
    """Return the error for a library that got no memory while Python or ctypes loaded it; None for any other error."""
    first = root_of(error)
    by_loader = isinstance(first, ImportError) or (isinstance(first, OSError) and first.errno is None)
    if not by_loader or not _NOT_MAPPED.search(str(first)):
        return None
    what = f"out of memory, or of address space, while a library was loaded: {first}"
    return ResourceLimit(what, hint="raise the limit (ulimit -v)")


_NO_ROOM = re.compile(
    r"can't allocate memory|integer multiplication overflow|Storage size calculation overflowed|OOM when allocating"
    r"|larger than the maximum possible size|[Mm]aximum allowed dimension exceeded"
)
"""How PyTorch, TensorFlow and numpy report that a tensor exceeds the memory; none of them raises a MemoryError."""


def is_lack_of_memory(error: Exception) -> bool:
    """Return whether an allocation failed, by the error of whichever library requested it."""
    return isinstance(error, MemoryError) or _NO_ROOM.search(str(error)) is not None


DEFECT = "this is a defect of convert; run again with -vv and report it"
"""The hint of an unexpected error."""


def is_defect(error: ConvertError) -> bool:
    """Return whether the error is reported as a defect of convert."""
    return error.hint == DEFECT


_TOO_MANY = {
    errno.EMFILE: ("this process may open no more files", "raise the limit (ulimit -n)"),
    errno.ENFILE: ("the system opens no more files", "end other programs"),
    errno.EAGAIN: ("the system starts no more processes or threads", "raise the limit (ulimit -u)"),
}
"""Errors of the system for exhausted resources: the meaning, and what to do."""

_NO_THREAD = re.compile(f"can't start new thread|pthread_create|{os.strerror(errno.EAGAIN)}")
"""How Python, C++ through it, and onnxruntime report that a thread could not be started."""


def limit_of_system(text: str) -> ResourceLimit | None:
    """Return the error for a library's message that it could not create a thread or file; None for any other
    message.
    """
    if _NO_THREAD.search(text):
        meaning, _ = _TOO_MANY[errno.EAGAIN]
        return ResourceLimit(meaning, hint="raise the limits (ulimit -u, and -v: each takes address space)")
    for number in (errno.EMFILE, errno.ENFILE):
        if os.strerror(number) in text:
            meaning, hint = _TOO_MANY[number]
            return ResourceLimit(meaning, hint=hint)
    return None


_FULL = (errno.EFBIG, errno.ENOSPC, errno.EDQUOT)
FULL_DISK = re.compile("|".join([*map(os.strerror, _FULL), r"\d+ requested and \d+ written"]))
"""Errors of the system when nothing more can be written; numpy, after a partial write, reports only how much
was written.
"""


def as_convert_error(error: Exception) -> ConvertError:
    """Return any exception as a class of this module, with its meaning for the user."""
    if isinstance(error, ConvertError):
        return error
    if is_lack_of_memory(error):
        return ResourceLimit("out of memory", hint="give a larger --memory, or convert on a machine with more")
    if (unmapped := memory_of_library(error)) is not None:
        return unmapped
    if isinstance(error, OSError) and (error.errno in _FULL or FULL_DISK.search(str(error))):
        hint = "make room, raise the limit of file sizes (ulimit -f), or give an -o, or a TMPDIR, elsewhere"
        return ResourceLimit(f"the disk takes no more: {error.strerror or error}", hint=hint)
    if isinstance(error, OSError) and error.errno in _TOO_MANY:
        meaning, hint = _TOO_MANY[error.errno]
        return ResourceLimit(meaning, hint=hint)
    if isinstance(error, RuntimeError) and (exhausted := limit_of_system(str(error))) is not None:
        return exhausted
    if isinstance(error, OSError) and error.errno == errno.EFAULT:  # written from a mapping whose file is shorter now
        return file_became_shorter("a file could not be copied")
    problem = import_problem(error)
    if problem is not None:
        return BrokenPackage(problem[0], hint=problem[1])
    if isinstance(error, OSError) and error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
        where = f"{str(error.filename)[:80]}…" if error.filename is not None else "a path"
        return UsageError(f"{where} leads nowhere: {error.strerror}", hint="give another path")
    if isinstance(error, OSError):
        where = f"{str(error.filename)[:200]}: " if error.filename is not None else ""
        return ConvertError(f"{where}{error.strerror or error}", hint="check the path and its rights")
    text = " ".join(str(error).split())[:600]
    return ConvertError(f"{type(error).__name__}: {text}", hint=DEFECT)


@contextmanager
def convert_errors() -> Iterator[None]:
    """Context manager: turn every exception but a broken pipe into a `ConvertError` that has it as its cause."""
    try:
        yield
    except (ConvertError, BrokenPipeError):
        raise
    except Exception as error:
        raise as_convert_error(error) from error
