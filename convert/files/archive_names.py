"""The names that entries of PyTorch's and Keras's archives have: an entry of another name is there for other reasons.

PyTorch finds entries without regard to case, so that `code/A.PY` is code as well: names are taken as they are written.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable

from convert.errors import UnsafeInput
from convert.files.archive_layout import HINT

_NAME = r"[^/]+"
_PATH = rf"{_NAME}(/{_NAME})*"

_PYTORCH = (
    r"(data|constants|attributes|bytecode|traced_inputs|mobile_debug_handles|callstack_debug_map)\.pkl",
    r"(data|constants|attributes|traced_inputs|tensors)/\d+",
    r"(version|byteorder|archive_format|archive_version|\.format_version|\.storage_alignment)",
    r"\.data/(version|serialization_id|extern_modules|python_version)",
    r"code/([\w$<>-]+/)*[\w$<>-]+\.py(\.debug_pkl)?",
    rf"models/{_NAME}\.json",
    rf"data/(weights|constants|sample_inputs|aotinductor|executorch|mtia)/{_PATH}",
    rf"(extra|extra_files|xl_model_weights)/{_PATH}",
    r"serialized_(exported_program\.json|state_dict\.(pt|json)|constants\.(pt|json)|example_inputs\.pt)",
)
"""Of `torch.save`, `torch.jit.save` and `torch.export.save` from 1.4 on; `model.json` and code in folders is older."""

_KERAS = (
    r"(metadata|config)\.json",
    r"model(_\d+)?\.weights\.(h5|json|npz)",
    rf"assets/{_PATH}",
    r"(assets|model\.weights)/",
)

FORMS = {"pytorch": re.compile("|".join(f"(?:{p})" for p in _PYTORCH), re.ASCII),
         "keras": re.compile("|".join(f"(?:{p})" for p in _KERAS), re.ASCII)}  # fmt: skip


def check_names(archive: zipfile.ZipFile, names: Iterable[str], writer: str) -> None:
    """Raises `UnsafeInput` for an entry that `writer` ("pytorch" or "keras") has no name of that form for.

    names: those of the entries, without the folder that holds everything.
    """
    for name in sorted(names):
        if not FORMS[writer].fullmatch(name):
            framework = {"pytorch": "PyTorch", "keras": "Keras"}[writer]
            raise UnsafeInput(f"{archive.filename} has an entry {name!r}, which {framework} does not write", hint=HINT)
