"""Opens Keras files safely: only Keras's own classes, no code, nothing that reaches outside the file."""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from convert import limits
from convert.errors import BadInput, ConvertError, UnsafeInput
from convert.files.archives import BROKEN, open_archive, read_member
from convert.files.counted_json import parse_json
from convert.files.scratch import scratch_folder
from convert.processes.interpreter import raised_recursion_limit
from convert.processes.sandbox import close_programs, in_confined_thread
from convert.runtimes.start_tensorflow import import_tensorflow

from . import hdf5_check
from .keras_counts import bounded_by_file
from .keras_modules import with_current_modules
from .keras_two import REPLACED, Writer, replaced_problem, translate
from .keras_two_cudnn import cudnn_weights_converted
from .keras_two_layers import custom_objects
from .keras_weight_names import with_current_names

_T = TypeVar("_T")

# Classes that run their own code, or code of the file, whatever module they come from.
_REFUSED = {"Lambda", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer", "__lambda__"}
_MODULES = ("keras.layers", "keras.activations", "keras.initializers", "keras.regularizers", "keras.constraints",
            "keras.dtype_policies", "keras.models", "keras.ops", "keras.src.layers", "keras.src.activations",
            "keras.src.initializers", "keras.src.models", "keras.src.ops", "keras.src.dtype_policies")  # fmt: skip
_LAYERS = re.compile(r"keras(\.src)?\.layers(\.\w+)*")
# Layers that keras.applications defines next to the networks that use them, and wrappers for quantized layers.
_CLASSES = {
    "keras.quantizers.AbsMaxQuantizer",
    "keras.quantizers.Float8QuantizationConfig",
    "keras.quantizers.Int4QuantizationConfig",
    "keras.quantizers.Int8QuantizationConfig",
    "keras.engine.functional.Functional",  # Keras 2.12
    "keras.src.engine.functional.Functional",  # Keras 2.13 to 2.15
    "keras.src.applications.convnext.LayerScale",
    "keras.src.applications.convnext.StochasticDepth",
    "keras.src.applications.inception_resnet_v2.CustomScaleLayer",
}
_LOADERS = {"clone_model", "deserialize", "get", "load_model", "model_from_json", "save_model", "serialize"}
"""Functions besides those that compute: called with a text of the file, they create something unchecked."""
_PARTS = ("layers", "initializers", "regularizers", "constraints", "models")
_TOP = {"Sequential", "Functional", "Model", "DTypePolicy", "Variable", "KerasTensor"}
_PLAIN = {"__tensor__", "__numpy__", "__keras_tensor__", "__ellipsis__", "__slice__", "__typespec__", "__tuple__",
          "__none__", "__bytes__", "__dict__"}  # fmt: skip
_CURRENT = "3.4"
"""The first version of Keras whose layers compute what those of today do."""
_TRAINING = ("compile_config", "training_config")
"""Keys that are dropped from the outermost model; a nested model is compiled when it is loaded."""
_TRAINERS = ("keras.optimizers", "keras.losses", "keras.metrics", "keras.src.optimizers", "keras.src.losses",
             "keras.src.metrics")  # fmt: skip


def load_keras(path: Path, *, trust: bool = False, code: Sequence[str] = ()) -> Any:
    """Return the Keras model in a `.keras` or `.h5` file, uncompiled, for a process that is already confined.

    code: files imported by `convert.rules.user_files.load_code`, whose classes and functions the file may name. Raises
    `UnsafeInput` for a file that has code or classes that are not Keras's own (unless `trust`) or that refers to other
    files, and `BadInput` for a broken one.
    """
    config = _checked_config(path, trust)
    if not trust:
        close_programs()
    return _load(path, config, trust, code)


def with_keras_model(path: Path, work: Callable[[Any], _T], *, trust: bool = False, code: Sequence[str] = ()) -> _T:
    """Return the result of `work` on the model in a file. Raises what `load_keras` and `work` raise.

    Keras runs parts of a configuration when it loads and when it traces it. Unless `trust` is set, both happen in a
    thread that can write to a folder for temporary files only, cannot connect and cannot start programs.
    """
    config = _checked_config(path, trust)
    if trust:
        return work(_load(path, config, trust, code))
    import_tensorflow()  # including Keras's threads, which stay unconfined
    with scratch_folder() as folder, _unpacked_into(folder):
        return in_confined_thread(lambda: work(_load(path, config, trust, code)), folder)


@contextmanager
def _unpacked_into(folder: Path) -> Iterator[None]:
    """Make Keras unpack vocabularies into this folder, not where the program's other threads have temporary files."""
    from keras.src.saving import saving_lib

    module: Any = saving_lib
    before, module.get_temp_dir = module.get_temp_dir, lambda: tempfile.mkdtemp(dir=folder)
    try:
        yield
    finally:
        module.get_temp_dir = before


def _checked_config(path: Path, trust: bool) -> Any:
    try:
        config = with_current_modules(_read_config(path), REPLACED)
        if not trust:
            check_config(config, str(path))
        _check_links(path)
    except (*BROKEN, OSError) as error:
        raise BadInput(
            f"{path} is damaged: {_error_summary(error)}",
            hint="get the file again and compare its checksum with the source's",
        ) from error
    return config


def _load(path: Path, config: Any, trust: bool, code: Sequence[str]) -> Any:
    import_tensorflow()
    import keras

    try:
        # Keras recurses over consecutive layers.
        deep = raised_recursion_limit(sum(1 for _ in _class_entries(config)))
        with (
            deep,
            keras.saving.custom_object_scope(_defined_in(code)),
            nullcontext() if trust else bounded_by_file(path),
        ):
            translated = translate(config, _writer(path), str(path))
            if not zipfile.is_zipfile(path):
                return _load_h5(path, translated, safe=not trust)
            return _load_archive(path, translated, safe=not trust)
    except ConvertError:
        raise
    except Exception as error:
        if _lacks_input_shape(config):
            raise BadInput(
                f"{path} does not contain the shape of the input: Keras 2.2 and 2.3 lose it if the model begins with "
                "an InputLayer, and cannot load the file either",
                hint="give the first layer `input_shape=` instead in the program that made the model, load the weights "
                "with `load_weights`, and save it again",
            ) from error
        raise BadInput(
            f"Keras cannot load {path}: {_error_summary(error)}",
            hint=_loading_hint(config, _defined_in(code)),
        ) from error


def _lacks_input_shape(config: Any) -> bool:
    """Return whether nothing in a Sequential model tells the shape of its input."""
    if not isinstance(config, dict) or config.get("class_name") != "Sequential":
        return False
    inner = config.get("config")
    layers = inner.get("layers") if isinstance(inner, dict) else inner  # a bare list before Keras 2.2.3
    first = layers[0].get("config") if isinstance(layers, list) and layers and isinstance(layers[0], dict) else None
    known = isinstance(inner, dict) and inner.get("build_input_shape")
    return isinstance(first, dict) and not known and not first.keys() & {"batch_input_shape", "batch_shape", "layers"}


def _own_classes(config: Any) -> list[str]:
    """Return the classes in a configuration that are not Keras's own, by name."""
    entries = [entry for entry in _class_entries(config) if _refusal_reason(entry)]
    return list(dict.fromkeys(str(e["class_name"]) for e in entries if str(e["class_name"]) not in _REFUSED))


def _defined_in(code: Sequence[str]) -> dict[str, Any]:
    """Return the classes and functions of the user's files by name. Keras itself finds only registered ones."""
    stems = [Path(file).stem for file in code]
    found = [(name, value) for stem in stems for name, value in vars(sys.modules[stem]).items()]
    return {name: value for name, value in found if getattr(value, "__module__", "") in stems and callable(value)}


def _loading_hint(config: Any, known: Container[str]) -> str:
    """Return a hint for a model that passed the checks and that Keras cannot load."""
    own = [name for name in _own_classes(config) if name not in known]
    other = "was it written by another version of Keras, or with functions of the user's that the file lacks?"
    return _code_hint(own) or other


def _writer(path: Path) -> Writer:
    """Return the Keras that wrote a file: one of today for an archive without a version, 1 for such an HDF5 file."""
    if zipfile.is_zipfile(path):
        with open_archive(path) as archive:
            known = "metadata.json" in archive.namelist()
            text = read_member(archive, "metadata.json", limits.KERAS_CONFIG_BYTES) if known else "{}"
        metadata = parse_json(text, f"the metadata in {path}")
        version = metadata.get("keras_version", _CURRENT) if isinstance(metadata, dict) else _CURRENT
        return Writer.from_text(str(version))
    with _open_h5(path) as file:
        return Writer.from_text(*(_text(file.attrs.get(key, "")) for key in ("keras_version", "backend")))


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _load_archive(path: Path, config: Any, *, safe: bool) -> Any:
    """Return the model of an archive, built from `config` instead of the archive's own configuration."""
    from keras.src.saving import saving_lib

    module: Any = saving_lib
    usual = module._model_from_config
    module._model_from_config = lambda _, *options: usual(json.dumps(config), *options)
    try:
        opened = with_current_names(path)
        with nullcontext(opened) if isinstance(opened, io.BytesIO) else opened.open("rb") as file:
            return module._load_model_from_fileobj(file, custom_objects(), compile=False, safe_mode=safe)
    finally:
        module._model_from_config = usual


def _load_h5(path: Path, config: Any, *, safe: bool) -> Any:
    """Return the model of an HDF5 file, built from `config` instead of the file's own configuration."""
    from keras.src.legacy.saving import legacy_h5_format, saving_options, saving_utils
    from keras.src.saving import serialization_lib

    with saving_options.keras_option_scope(use_legacy_config=True), serialization_lib.SafeModeScope(safe):
        model = saving_utils.model_from_config(config, custom_objects())
        with _open_h5(path) as file, cudnn_weights_converted():
            legacy_h5_format.load_weights_from_hdf5_group(file["model_weights"], model)
    return model


def _error_summary(error: Exception) -> str:
    """Return one line of Keras's error; for nested layers the innermost's, shortened if it repeats the file."""
    lines = (str(error).rpartition("Exception encountered: ")[2] or type(error).__name__).splitlines()
    return lines[0] if len(lines[0]) <= 200 else f"{lines[0][:200]} …"


def check_config(config: Any, label: str) -> None:
    """Raise one `UnsafeInput` that lists every class in a model's configuration that is not one of Keras's own.

    Raises `BadInput` if the file is HDF5 and all of these are operations, such as the mask of an Embedding: HDF5 does
    not store their module, so Keras no longer finds them.
    """
    refused = [(entry, reason) for entry in _class_entries(config) if (reason := _refusal_reason(entry))]
    found = sorted({reason for _, reason in refused})
    if found and all(_is_operation(entry) for entry, _ in refused):
        raise BadInput(
            f"{label} holds operations of Keras as layers, which it does not load from HDF5: {', '.join(found)}",
            hint="save the model where it was made as .keras: model.save('model.keras')",
        )
    if found:
        raise UnsafeInput(
            f"{label} holds classes that are not Keras's own or that run code: {', '.join(found)}",
            hint="if you trust the file, " + _adding("--trust", _own_classes(config)),
        )


def _code_hint(names: Sequence[str]) -> str:
    """Return a hint about classes that the file does not contain; "" if there are none."""
    return _adding("", names) if names else ""


def _adding(option: str, names: Sequence[str]) -> str:
    """Return a hint to add an option, and the code of the classes in `names`."""
    code = f"--code FILE.py, where FILE.py is the script that defines {', '.join(names[:6])}" if names else ""
    return f"add {' and '.join(filter(None, (option, code)))}"


def _read_config(path: Path) -> Any:
    if zipfile.is_zipfile(path):
        if path.suffix != ".keras":  # Keras uses the suffix, and would read it as HDF5
            raise BadInput(f"{path} is a Keras archive by its content alone", hint="rename it: its name ends in .keras")
        with open_archive(path) as archive:
            if "config.json" not in archive.namelist():
                raise BadInput(f"{path} holds no config.json", hint="a .keras file is what model.save wrote")
            text: str | bytes = read_member(archive, "config.json", limits.KERAS_CONFIG_BYTES)
    else:
        hdf5_check.check(path)
        with _open_h5(path) as file:
            found = file.attrs.get("model_config")
        if found is None:
            raise BadInput(
                f"{path} holds weights only, no model", hint="save the whole model: model.save('model.keras')"
            )
        text = found
    try:
        return parse_json(text, f"the configuration in {path}")
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the configuration in {path} is not JSON: {error}") from error


def _open_h5(file: Any) -> Any:
    import h5py

    try:
        return h5py.File(file, "r")
    except OSError as error:
        raise BadInput(
            f"{file} is neither a .keras archive nor HDF5: {error}", hint="is the download complete?"
        ) from error


def _check_links(path: Path) -> None:
    """Raise `UnsafeInput` if weights are said to be in another file."""
    if not zipfile.is_zipfile(path):
        with _open_h5(path) as file:
            _check_group(file, path)
        return
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".h5"):
                with archive.open(name) as member, _open_h5(member) as file:
                    _check_group(file, path)
                    hdf5_check.check_sizes(file, f"{name} in {path}")


def _check_group(root: Any, path: Path) -> None:
    import h5py

    stack, seen = [root], set[int]()
    while stack:
        group = stack.pop()
        address = h5py.h5o.get_info(group.id).addr
        if address in seen:
            continue  # `check_sizes` rejects such a file
        seen.add(address)
        for name in group:
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise UnsafeInput(
                    f"{path} links to other data: {group.name}/{name}", hint="save the model into one file"
                )
            item = group[name]
            if isinstance(item, h5py.Group):
                stack.append(item)
            elif item.external or item.is_virtual:
                raise UnsafeInput(
                    f"{path} keeps the data of {item.name} in other files", hint="save the model into one file"
                )


def _class_entries(config: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a configuration that names a class, except the training configuration of the outermost
    model.
    """
    stack = [{k: v for k, v in config.items() if k not in _TRAINING} if isinstance(config, dict) else config]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if "class_name" in item:
                yield item
            stack += item.values()
        elif isinstance(item, list):
            stack += item


def _refusal_reason(entry: dict[str, Any]) -> str:
    """Return why an entry may not be loaded, or ""."""
    name, module, inner = str(entry["class_name"]), entry.get("module"), entry.get("config")
    registered = entry.get("registered_name") or name
    full = f"{module}.{name}" if module else name
    if name in _PLAIN:
        away = name == "__typespec__" and module and not str(module).startswith(("tensorflow.", "keras."))
        return f"{full} of {module}" if away else ""
    if name == "function" and inner in _LOADERS:
        return f"{module}.{inner}"
    own = str(module) if module else None
    is_plain = name not in _REFUSED and ">" not in str(registered)
    if is_plain and name in REPLACED and (own is None or _LAYERS.fullmatch(own)):
        return replaced_problem(name, inner)
    if not is_plain or not _is_keras(own, name, inner):
        return full if registered == name else f"{full} (registered as {registered})"
    if isinstance(inner, dict) and isinstance(inner.get("vocabulary"), str):
        return f"{full} with a vocabulary in another file"
    return ""


def _is_keras(module: str | None, name: str, config: Any) -> bool:
    if module == "builtins":  # functions by name are those of keras.activations
        return name == "function" and isinstance(config, str) and _is_public("activations", config)
    if module is None:  # Keras 2
        return any(_is_public(part, name) for part in _PARTS) or name in _TOP
    if module == "keras":
        return name in _TOP
    if f"{module}.{name}" in _CLASSES:
        return True
    return module.startswith(tuple(f"{m}." for m in (*_MODULES, *_TRAINERS))) or module in (*_MODULES, *_TRAINERS)


def _is_operation(entry: dict[str, Any]) -> bool:
    """Return whether an entry without a module has the name of one of Keras's operations."""
    import_tensorflow()
    import keras
    from keras.src import ops

    parts = (getattr(ops, part, None) for part in ("core", "image", "linalg", "math", "nn", "numpy"))
    named = [getattr(part, str(entry["class_name"]), None) for part in parts]
    return not entry.get("module") and any(isinstance(c, type) and issubclass(c, keras.Operation) for c in named)


def _is_public(part: str, name: str) -> bool:
    import_tensorflow()
    import keras

    return hasattr(getattr(keras, part), name)
