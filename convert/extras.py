"""What to install where a package is lacking or broken: the extras of this project, as its metadata has them."""

from __future__ import annotations

import re
from collections.abc import Iterator

PROJECT = "convert-models"
_CALLED = {"PIL": "pillow"}
"""Modules whose distributions are called otherwise than they, but for "-" in the place of "_"."""


def install_command(module: str) -> str:
    """The command that installs the package with `module`: by the extra of this project that has it."""
    top = module.partition(".")[0]
    name = _CALLED.get(top, top).replace("_", "-").lower()
    extra = next((extra for needed, extra in _extras() if needed == name), "")
    return f"pip install '{PROJECT}[{extra}]'" if extra else f"pip install {name}"


def import_problem(error: BaseException) -> tuple[str, str] | None:
    """What a failed import means for the user, and what to do; None where it is none of a package that is not ours.

    What is not there is named, and what is there but broken is quoted at its root: the first exception of the chain.
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
"""Packages of which each release is built for one release of another one."""


def _again(module: str) -> str:
    if base := _BUILT_FOR.get(module):
        return f"pip install --upgrade {base} {module.replace('_', '-')}, which are released for each other"
    command = install_command(module)
    extra = command.endswith("]'")
    return command.replace("install", "install --force-reinstall", 1) if extra else "-vv shows the traceback"


def _imported_by(error: BaseException) -> str:
    """The innermost package, not ours, that was being imported when it happened; empty where none was.

    Those around it import it: transformers imports torchvision.
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
    """The first exception of the chain that led to this one."""
    seen = {id(error)}
    while True:
        before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if before is None or id(before) in seen:
            return error
        seen.add(id(before))
        error = before


def _extras() -> Iterator[tuple[str, str]]:
    """The distributions that extras ask for, each with the first extra that does."""
    import importlib.metadata

    try:
        lines = importlib.metadata.requires(PROJECT) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for line in lines:
        needed, extra = re.match(r"[\w.-]+", line), re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if needed and extra and extra[1] not in ("test", "all"):
            yield needed[0].lower().replace("_", "-"), extra[1]
