"""The names of entries in PyTorch's and Keras's archives; an entry with another name is suspicious.

PyTorch finds entries without regard to case, so that `code/A.PY` is code, too. Names are compared as they are written.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable

from convert.errors import UnsafeInput
from convert.files.archive_layout import HINT
from convert.files.archives import record_root

_NAME = r"[^/]+"
_PATH = rf"{_NAME}(/{_NAME})*"

_PYTORCH = (
    r"(data|constants|attributes|bytecode|traced_inputs|mobile_debug_handles|callstack_debug_map)\.pkl",
    r"(data|constants|attributes|traced_inputs|tensors)/\d+",
    r"constants/\d+\.storage",  # from the lite interpreter, PyTorch 1.8 to 1.11
    r"(version|byteorder|archive_format|archive_version|\.format_version|\.storage_alignment)",
    r"\.data/(version|serialization_id|extern_modules|python_version)",
    r"code/([\w$<>-]+/)*[\w$<>-]+\.py(\.debug_pkl)?",
    rf"models/{_NAME}\.json",
    rf"data/(weights|constants|sample_inputs|aotinductor|executorch|mtia)/{_PATH}",
    rf"(extra|extra_files|xl_model_weights)/{_PATH}",
    r"serialized_(exported_program\.json|state_dict\.(pt|json)|constants\.(pt|json)|example_inputs\.pt)",
)
"""Names that `torch.save`, `torch.jit.save` and `torch.export.save` write since 1.3."""

_OLD_TORCHSCRIPT = (
    r"model\.json",
    r"version",
    r"attributes\.pkl",
    r"tensors/\d+",
    r"(code|libs|debug)/([\w$<>-]+/)*[\w$<>-]+\.(py|pkl)",
    r"libs\.py",
    rf"extra/{_PATH}",
)
"""Names that `torch.jit.save` of PyTorch 1.0 to 1.2 writes."""

_KERAS = (
    r"(metadata|config)\.json",
    r"model(_\d+)?\.weights\.(h5|json|npz)",
    rf"assets/{_PATH}",
    r"(assets|model\.weights)/",
)

FORMS = {
    writer: re.compile("|".join(f"(?:{p})" for p in names), re.ASCII)
    for writer, names in {"pytorch": _PYTORCH, "old torchscript": _OLD_TORCHSCRIPT, "keras": _KERAS}.items()
}


def check_names(archive: zipfile.ZipFile, names: Iterable[str], writer: str) -> None:
    """Raise `UnsafeInput` for an entry whose name `writer`, a key of `FORMS`, never writes.

    `names` are the names of the entries without the common top folder.
    """
    if writer != "keras":
        check_root(archive)
    for name in sorted(names):
        if not FORMS[writer].fullmatch(name):
            framework = "Keras" if writer == "keras" else "PyTorch"
            raise UnsafeInput(f"{archive.filename} has an entry {name!r}, which {framework} does not write", hint=HINT)


def check_root(archive: zipfile.ZipFile) -> None:
    """Reject a PyTorch archive in which this project would look in another folder than PyTorch does.

    PyTorch uses the folder of the first entry as the root, and ignores everything else (`PyTorchStreamReader::init` in
    caffe2/serialize/inline_container.cc). Exported programs of PyTorch 2.1 to 2.6 have no folder, and PyTorch reads
    them as Python does. Raises `UnsafeInput`.
    """
    first, root = next(iter(archive.namelist()), ""), record_root(archive)
    if "/" in first and not root:
        folder = first.partition("/")[0]
        raise UnsafeInput(
            f"{archive.filename or 'an archive inside'} has entries beside the folder {folder!r} of its first entry, "
            "which is the one that PyTorch reads",
            hint=HINT,
        )
