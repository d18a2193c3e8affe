"""The command that installs a missing or broken package, by the extras in this project's metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator

PROJECT = "convert-models"
_CALLED = {"PIL": "pillow"}
"""Distribution names of modules, where they differ by more than "-" for "_"."""


def install_command(module: str) -> str:
    """Return the command that installs the package with `module`, by this project's extra if one contains it."""
    top = module.partition(".")[0]
    name = _CALLED.get(top, top).replace("_", "-").lower()
    extra = next((extra for needed, extra in _extras() if needed == name), "")
    return f"pip install '{PROJECT}[{extra}]'" if extra else f"pip install {name}"


def import_problem(error: BaseException) -> tuple[str, str] | None:
    """Return what a failed import means for the user, and what to do; None if it is no import of another package.

    A missing package is named. For a broken one, the root cause is quoted: the first exception of the chain.
    """
    broken = _imported_by(root_of(error)) or _imported_by(error)
    if isinstance(error, ModuleNotFoundError) and error.name and broken in ("", error.name.partition(".")[0]):
        top = error.name.partition(".")[0]
        if error.name == top:
            return f"this takes the package {top}, which is not installed", install_command(top)
        return f"{top} lacks {error.name}: another version is installed", f"{install_command(top)} --upgrade"
    if not broken and not isinstance(error, ImportError):
        return None
    root = root_of(error)
    text = " ".join(str(root).split())[:600]
    what = broken or (error.name if isinstance(error, ImportError) and error.name else "") or "a package"
    hint = _again(what)
    if isinstance(root, ModuleNotFoundError) and root.name and root.name.partition(".")[0] != what:
        hint = install_command(root.name)
    return f"{what} cannot be imported: {type(root).__name__}: {text}", hint


_BUILT_FOR = {"torchvision": "torch", "torchaudio": "torch", "torchao": "torch", "tensorflow_text": "tensorflow"}
"""Packages whose releases are each built for one release of another package."""


def _again(module: str) -> str:
    if base := _BUILT_FOR.get(module):
        return f"pip install --upgrade {base} {module.replace('_', '-')}, which are released for each other"
    command = install_command(module)
    extra = command.endswith("]'")
    return command.replace("install", "install --force-reinstall", 1) if extra else "-vv shows the traceback"


def _imported_by(error: BaseException) -> str:
    """Return the innermost foreign package that was being imported when the error occurred; "" if there was none.

    The outer packages import it, as transformers imports torchvision.
    """
    found, step = "", error.__traceback__
    while step is not None:
        name = str(step.tb_frame.f_globals.get("__name__", ""))
        top = name.partition(".")[0]
        if step.tb_frame.f_code.co_name == "<module>" and top not in ("convert", "__main__", "importlib"):
            found = top
        step = step.tb_next
    return found


def root_of(error: BaseException) -> BaseException:
    """Return the first exception of the chain that led to this one."""
    seen = {id(error)}
    while True:
        before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if before is None or id(before) in seen:
            return error
        seen.add(id(before))
        error = before


def _extras() -> Iterator[tuple[str, str]]:
    """Yield the distributions that extras require, each with the first such extra."""
    import importlib.metadata

    try:
        lines = importlib.metadata.requires(PROJECT) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for line in lines:
        needed, extra = re.match(r"[\w.-]+", line), re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if needed and extra and extra[1] not in ("test", "all"):
            yield needed[0].lower().replace("_", "-"), extra[1]
