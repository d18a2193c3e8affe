"""Classifies the globals that a pickle needs, and finds the pickle in a file of torch.save."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from convert import limits
from convert.errors import BadInput
from convert.files.archives import is_zip, member, open_archive, read_member
from convert.files.pickle_opcodes import PickledObject, class_name, read_pickle

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
"""The integer that opens a non-zip file of `torch.save` (torch.serialization.MAGIC_NUMBER)."""

_DTYPES = (  # noqa: SIM905
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool complex128 complex64 "
    "complex32 quint8 qint8 qint32 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
).split()
_STORAGES = (  # noqa: SIM905
    "Double Float Half BFloat16 Long Int Short Char Byte Bool ComplexDouble ComplexFloat QInt8 QInt32 QUInt8"
).split()

CALLABLE = frozenset((
    "collections.OrderedDict", "builtins.set", "builtins.complex", "torch.Size", "torch.device",
    "torch.serialization._get_layout", "torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3", "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state", "torch._utils._rebuild_qtensor",
    "torch._utils._rebuild_sparse_tensor",
))  # fmt: skip
"""Safe to call with any arguments: torch's own restricted unpickler (`weights_only=True`) calls them, too."""

OLD_BACKEND = "torch.nn.backends.thnn._get_thnn_function_backend"
"""Function that pickled modules of PyTorch before 1.5 call to restore their attribute `_backend`. In today's PyTorch it
returns None.
"""

PLAIN_MODULE = CALLABLE | frozenset((
    OLD_BACKEND,
    # Arguments of torch.nn layers that are pickled by name: the activation of a TransformerEncoderLayer.
    "torch.nn.functional.relu", "torch.nn.functional.gelu", "torch._C._nn.gelu",
    *(f"torch.{dtype}" for dtype in _DTYPES),
    *(f"torch.{place}{name}Storage" for place in ("", "cuda.") for name in _STORAGES),
    "torch.storage.UntypedStorage", "torch.storage.TypedStorage", "torch.Tensor", "torch.nn.parameter.Parameter",
    "torch.per_tensor_affine", "torch.per_channel_affine",
))  # fmt: skip
"""Names that a pickled module of torch.nn layers imports, in addition to the classes of its layers (`is_layer`)."""

_LAYER = re.compile(
    r"torch\.nn\.modules\.[a-z]\w*\.[A-Z][A-Za-z0-9]+|torch\.nn\.parallel\.data_parallel\.DataParallel", re.ASCII
)


def pickled_globals(data: bytes) -> list[str]:
    """Return every "module.name" that unpickling `data` would import, sorted.

    Raises `BadInput` for a corrupt pickle.
    """
    return list(read_pickle(data).globals)


def top_level_class(data: bytes) -> str:
    """Return the class of the outermost object: "torch.nn.modules.container.Sequential", "dict", "str", ….

    An object that a function builds has the function's name, except tensors, which are always "torch.Tensor" or
    "torch.nn.parameter.Parameter". Raises `BadInput` for a corrupt pickle.
    """
    return class_name(read_pickle(data).top)


def unsafe_globals(names: Iterable[str], allow: frozenset[str] = PLAIN_MODULE) -> list[str]:
    """Return the names that are neither in `allow` nor layers. A pickled module of plain layers needs no others.

    Layers are recognized by the spelling of their names (`is_layer`), which other imports can have, too. So the code
    that loads the pickle must check that each is a subclass of torch.nn.Module.
    """
    return [name for name in names if name not in allow and not is_layer(name)]


def unsafe_calls(names: Iterable[str]) -> list[str]:
    """Return the names (of `Pickle.called`) that must not be called with arguments that the pickle chooses.

    Pickles create layers without calling their constructors, so a layer occurs here only in a hand-written pickle:
    `Linear(10**6, 10**6)` fills the memory.
    """
    return [name for name in names if name not in CALLABLE and name != OLD_BACKEND]


def is_layer(name: str) -> bool:
    """Return whether `name` is spelled like a public class of torch.nn.modules, or is DataParallel, which wraps one.

    An example is `torch.nn.modules.linear.Linear`.
    """
    return _LAYER.fullmatch(name) is not None


def torch_pickle_bytes(path: Path) -> bytes:
    """Return the pickle of the saved object in a file of `torch.save`, zip or legacy.

    Raises `BadInput` if there is none.
    """
    with path.open("rb") as file:
        if is_zip(file.read(4)):
            with open_archive(path) as archive:
                name = member(archive, "data.pkl")
                if name is None:
                    raise BadInput(f"{path} is a zip archive without data.pkl, so torch.save did not write it")
                return read_member(archive, name, limits.PICKLE_BYTES)
        size = min(path.stat().st_size, limits.PICKLE_BYTES)
        if not size:
            raise BadInput(f"{path} is empty", hint="get the file again")
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as start:
            try:
                pickle = _legacy_pickle(start)
            except BadInput as error:
                raise BadInput(f"{path}: {error.message}", hint=error.hint) from None
    if pickle is None:
        raise BadInput(
            f"{path} is a Python pickle that torch.save did not write",
            hint="load it in Python and pass the module to convert.convert(), or save it with torch.save",
        )
    return pickle


def _legacy_pickle(start: mmap.mmap) -> bytes | None:
    """Return the fourth pickle of a legacy file.

    The order is magic number, protocol, system, object, storage keys.
    """
    if read_pickle(start).top != LEGACY_MAGIC:
        return None
    for _ in range(2):
        read_pickle(start)
    begin = start.tell()
    read_pickle(start)
    return start[begin : start.tell()]


_MAPPINGS = ("dict", "collections.OrderedDict", "collections.defaultdict")
_TENSORS = ("torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer")
_NO_MODULES = ("list", "tuple", "set", "frozenset", "argparse", "numpy", "builtins", "collections", "pathlib")


def saved_content(top: Any) -> str:
    """Return what `torch.save` saved, judged by a `Pickle.top`: "module", "weights", or a few words for a message.

    Checkpoints are searched down to the third level of string keys; losses do not count as modules. A bare object of an
    unknown class counts as a module, because only its own code could tell.
    """
    things = _nested_values(top)
    if any(map(_is_module, things)):
        return "module"
    if any(map(_is_weights, things)):
        return "weights"
    name = class_name(top)
    if name in _MAPPINGS:
        keys = [key for key, _ in _pairs(top) if isinstance(key, str)][:8]
        return f"a dict with the keys {', '.join(keys)}" if keys else "an empty dict"
    if name in _TENSORS:
        return "a single tensor"
    return "module" if isinstance(top, PickledObject) and name.split(".")[0] not in _NO_MODULES else f"a {name}"


def _nested_values(top: Any) -> list[PickledObject]:
    """Return `top` and the values of string keys in it, three levels deep, each once."""
    seen: dict[int, PickledObject] = {}
    level = [top]
    for _ in range(4):
        # Visit each object once: a pickle can hold one dict a thousand times, and each of these may hold another one a
        # thousand times.
        fresh = {id(item): item for item in level if isinstance(item, PickledObject) and id(item) not in seen}
        seen.update(fresh)
        level = [value for item in fresh.values() for key, value in _pairs(item) if isinstance(key, str)]
    return list(seen.values())


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    if not isinstance(value, PickledObject) or value.of not in _MAPPINGS:
        return []
    return [item for item in value.items if isinstance(item, tuple)]


def _is_module(value: PickledObject) -> bool:
    if value.of in _TENSORS or value.of.startswith("torch.nn.modules.loss."):
        return False
    attributes = {key for key, _ in _pairs(value.state) if isinstance(key, str)}
    return is_layer(value.of) or {"_modules", "_parameters"} <= attributes


def _is_weights(value: PickledObject) -> bool:
    return any(isinstance(key, str) and class_name(tensor) in _TENSORS for key, tensor in _pairs(value))
