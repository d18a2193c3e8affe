"""Loads one model of a diffusers folder: of a pipeline (model_index.json), or a folder with a single model."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from convert.errors import BadInput, BrokenPackage, ConvertError, ResourceLimit, Unsupported, UsageError
from convert.files.folders import PIPELINE_INDEX
from convert.outcome.extras import install_command
from convert.outcome.report import Report
from convert.processes.sandbox import in_confined_thread
from convert.request.options import Options

from .diffusers_index import left_out, parts_of_folder, read_index, unknown_parts
from .diffusers_parts import CLASSES
from .hugging_face import check_keys, import_class, offline, silent
from .hugging_face_counts import bounded_by_weights
from .hugging_face_tasks import PART

KIND = "diffusers-folder"


def component_folder(path: Path, options: Options) -> Path:
    """Return the folder of the requested part of a pipeline; `path` itself for a folder with a single model.

    Raises `UsageError` for a pipeline without a requested part, and for a part that it does not have.
    """
    part, known = PART.of(options), parts_of_folder(path)
    if not (path / PIPELINE_INDEX).is_file() and (not part or part in known):
        return path
    if part not in known:
        what = f"has no part {part!r}" if part else "is a pipeline of several models"
        raise UsageError(f"{path} {what}", hint=f"give --part with one of: {', '.join(known)}")
    return path / known[part]


def note_left_out(path: Path, report: Report) -> None:
    """Note which models of a pipeline become no part."""
    if (path / PIPELINE_INDEX).is_file() and (names := left_out(path)):
        report.note(
            f"not converted: {', '.join(names)}; the pipelines of optimum take them from PyTorch", code="left-out"
        )


def refuse_unknown_parts(path: Path) -> None:
    """Raise `Unsupported` for a pipeline with models whose inputs are not known, such as one of videos; the message
    lists all of them, and the parts that can be converted.
    """
    unknown = unknown_parts(path, CLASSES)
    if not unknown:
        return
    rows = ", ".join(f"{name} ({kind})" for name, kind in unknown.items())
    others = [part for part, folder in parts_of_folder(path).items() if folder not in unknown]
    hint = f"convert the others one by one, with --part {' or '.join(others)}. " if others else ""
    kind = read_index(path).get("_class_name", "pipeline")
    raise Unsupported(
        f"{path} is a {kind} of diffusers with models whose inputs are not known: {rows}",
        hint=f"{hint}Known classes of diffusers: {', '.join(CLASSES)}",
    )


def is_of_transformers(folder: Path) -> bool:
    """Return whether a pipeline's folder holds a model of transformers, such as a text encoder."""
    return "_class_name" not in json.loads((folder / "config.json").read_bytes())


def import_component(path: Path, options: Options) -> None:
    """Import the class of the requested part, as far as there is one. Raises as `import_diffusers` does."""
    folder = component_folder(path, options)
    if is_of_transformers(folder):
        import_class(folder, options)
    else:
        import_diffusers(folder)


def import_diffusers(folder: Path) -> tuple[Any, Any]:
    """Return diffusers, and the class of the model in a folder, with its imports done.

    Raises `ConvertError` without diffusers, and `Unsupported` for a class whose inputs are not known.
    """
    name = str(json.loads((folder / "config.json").read_bytes()).get("_class_name"))
    if name not in CLASSES:
        raise Unsupported(
            f"{folder} is a {name} of diffusers, whose inputs are not known here",
            hint=f"convert it from Python, with its inputs: convert.convert(model, …). Known: {', '.join(CLASSES)}",
        )
    try:
        import diffusers

        return diffusers, getattr(diffusers, name)
    except ModuleNotFoundError as error:
        if error.name == "diffusers":
            hint = install_command("diffusers")
            raise ConvertError("reading a folder of diffusers needs diffusers", hint=hint) from None
        raise _broken(error) from error
    except Exception as error:  # the classes of diffusers are imported at first use
        raise _broken(error) from error


def _broken(error: Exception) -> ConvertError:
    text = " ".join(str(error).split())[:300]
    return BrokenPackage(
        f"diffusers is installed, but cannot be imported: {type(error).__name__}: {text}",
        hint="reinstall it with the versions of its dependencies that it requires",
    )


def load_component(folder: Path, options: Options, report: Report) -> torch.nn.Module:
    """Return the model of diffusers in a folder, in eval mode and in float32, as diffusers loads it by default.

    `check_folder` must have passed. Raises `BadInput`, `ResourceLimit`, and as `import_diffusers`.
    """
    diffusers, kind = import_diffusers(folder)
    variant = weights_variant(folder)

    def loaded_model() -> tuple[Any, dict[str, Any]]:
        with bounded_by_weights(folder):
            return kind.from_pretrained(
                str(folder),
                local_files_only=True,
                output_loading_info=True,
                use_safetensors=any(folder.glob("*.safetensors")),
                **({"variant": variant} if variant else {}),
            )

    try:
        with warnings.catch_warnings(), silent(diffusers), offline(), _float32():
            warnings.simplefilter("ignore")
            model, info = loaded_model() if options.trust else in_confined_thread(loaded_model)
    except ResourceLimit:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:400]
        raise BadInput(
            f"diffusers could not load {folder}: {type(error).__name__}: {text}",
            hint="check that config.json and the weights belong together, and the version of diffusers",
        ) from error
    hint = "get config.json and the weights of one model into the folder"
    check_keys(folder, kind.__name__, info["missing_keys"], info["unexpected_keys"], hint, report)
    report.note(
        f"the folder was loaded as {kind.__name__} of diffusers {diffusers.__version__}, in float32", code="loaded-as"
    )
    return model.eval()


def weights_variant(folder: Path) -> str:
    """Return the variant (`fp16`) of which a folder has weights, if it has no others; "" for usual names.

    The names are `diffusion_pytorch_model.fp16.safetensors` and `model.fp16.safetensors`. Raises `UsageError` if there
    are several variants and none is the usual one.
    """
    stems = [file.name.split(".") for file in [*folder.glob("*.safetensors"), *folder.glob("*.bin")]]
    variants = sorted({parts[1].partition("-")[0] if len(parts) > 2 else "" for parts in stems})
    if not variants or "" in variants:
        return ""
    if len(variants) > 1:
        raise UsageError(f"{folder} has weights in {' and '.join(variants)}", hint="leave one of them in the folder")
    return variants[0]


@contextmanager
def _float32() -> Iterator[None]:
    """Build layers in float32, whatever PyTorch's default dtype is."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
