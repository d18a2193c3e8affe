"""The exceptions that `convert` raises, each with the exit code it gives on the command line.

ConvertError            exit 1   a conversion that could not be finished
├── UsageError          exit 2   arguments that contradict each other or the model
├── ParityError         exit 3   source and target disagree
├── Unsupported         exit 4   operators or features without a rule, all of them listed
│   └── UnknownRank     exit 4   a rule that has to know how many dims a tensor has
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

from convert.extras import import_problem, root_of
from convert.text import visible

_ITEM = "\n  "
"""What stands before each line of a list in a message."""


@dataclass(frozen=True)
class Location:
    """Where something in a model came from: its operator, node, module path and source line."""

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
    """One reason why a model cannot be converted, and the places that it holds for."""

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
    """What `--json` and `convert explain` call this kind of error (`convert.error_codes`)."""

    def __init__(self, message: str, *, hint: str = "", items: Iterable[object] = ()) -> None:
        """items: a list below the message, a line for each.

        Names from files are made visible here, wherever the message goes: the only line breaks that it has lie before
        items. Names are exact in the fields of `problems`.
        """
        self.message = _ITEM.join(visible(str(line)) for line in (message, *items))
        self.hint = visible(hint)
        super().__init__(self.message)

    @property
    def sentence(self) -> str:
        """The message in one line, to be part of another text."""
        return self.message.replace(f":{_ITEM}", ": ").replace(_ITEM, "; ")

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class UsageError(ConvertError):
    """What was asked for contradicts itself, the model or the file system.

    >>> import convert
    >>> try:
    ...     convert.convert("mnist_cnn.onnx", "openvino")
    ... except convert.UsageError as error:
    ...     error.exit_code, error.hint
    (2, 'write onnx, then `ovc model.onnx`; OpenVINO reads the .onnx itself, too')
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
    (3, "mnist_cnn.caffe2 would not compute what mnist_cnn.onnx does (the backend's fault)")
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
        """The same error with `at` filled in wherever a problem has no location of its own."""
        problems = [p if p.at != Location() else replace(p, at=at) for p in self.problems]
        return Unsupported(hint=self.hint, problems=problems)


class UnknownRank(Unsupported, ValueError):
    """A rule has to know how many dims a tensor has, which the model does not tell."""

    code = "unknown-rank"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"how many dims {name} has is not known",
            hint="where an input of the model does not tell it, describe it: --input 'NAME:float32[batch,3]'",
        )


class BrokenPackage(ConvertError):
    """A package that this takes is not installed, or cannot be imported."""

    code = "broken-package"


class NotLoaded(ConvertError):
    """A runtime does not load the model: no inputs make it run."""

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
        """doubtful: the reader may be at fault; a target that runs is judged by what it computes."""
        super().__init__(message, hint=hint, items=items)
        self.doubtful = doubtful


def restored(kind: type[ConvertError], message: str, hint: str) -> ConvertError:
    """Return the error whose message and hint another process has sent; its list keeps its lines."""
    error = kind(message, hint=hint)
    error.message = _ITEM.join(map(visible, message.split(_ITEM)))
    return error


def contradiction(error: ConvertError) -> BadInput:
    """The error for a file on which a rule has stumbled.

    Files say shapes and options more than once, and what a rule cannot bring together is mostly damage.
    """
    return BadInput(
        f"{error.sentence}: shapes or options in the file do not fit each other",
        hint="is the file damaged? if it runs elsewhere this is a defect of convert: report it",
        doubtful=True,
    )


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
    >>> from convert.runners.process import Limits
    >>> try:
    ...     convert.convert("mnist_cnn.onnx", "onnx", "copy.onnx", method=VerifyMethod(limits=Limits(seconds=0.01)))
    ... except convert.ResourceLimit as error:
    ...     error.exit_code, error.hint
    (6, 'give a larger --timeout')
    """

    exit_code = 6
    code = "resource-limit"


_NOT_MAPPED = re.compile(r"failed to map segment from shared object$|cannot allocate memory", re.IGNORECASE)
"""How the loader of libraries tells that it got no memory; other reasons stand behind a colon."""


def memory_of_library(error: Exception) -> ResourceLimit | None:
    """The error for a library that got no memory when it was loaded, by Python or by ctypes; None for any other."""
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
"""How PyTorch, TensorFlow and numpy tell that a tensor has more bytes than there are; none raises a MemoryError."""


def is_lack_of_memory(error: Exception) -> bool:
    """Whether there is no memory for what was asked for, in the words of whichever library asked."""
    return isinstance(error, MemoryError) or _NO_ROOM.search(str(error)) is not None


DEFECT = "this is a defect of convert; run again with -vv and report it"
"""The hint of what should not have come to pass."""


def is_defect(error: ConvertError) -> bool:
    """Whether the error is told as one of convert's own."""
    return error.hint == DEFECT


_TOO_MANY = {
    errno.EMFILE: ("this process may open no more files", "raise the limit (ulimit -n)"),
    errno.ENFILE: ("the system opens no more files", "end other programs"),
    errno.EAGAIN: ("the system starts no more processes or threads", "raise the limit (ulimit -u)"),
}
"""What the system says where it gives no more of something, what that means, and what there is to do."""

_NO_THREAD = re.compile(f"can't start new thread|^{os.strerror(errno.EAGAIN)}")
"""How Python, and C++ through it, tell that a thread could not be started."""

_FULL = (errno.EFBIG, errno.ENOSPC, errno.EDQUOT)
FULL_DISK = re.compile("|".join([*map(os.strerror, _FULL), r"\d+ requested and \d+ written"]))
"""What the system says where nothing more can be written; numpy, which wrote a part, says how much that was alone."""


def as_convert_error(error: Exception) -> ConvertError:
    """What any exception means for the user, in the classes of this module."""
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
    if isinstance(error, RuntimeError) and _NO_THREAD.search(str(error)):
        meaning, _ = _TOO_MANY[errno.EAGAIN]
        return ResourceLimit(meaning, hint="raise the limits (ulimit -u, and -v: each takes address space)")
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
    """Inside, every exception becomes a `ConvertError`, with itself as the cause; a pipe that nobody reads does not."""
    try:
        yield
    except (ConvertError, BrokenPipeError):
        raise
    except Exception as error:
        raise as_convert_error(error) from error
