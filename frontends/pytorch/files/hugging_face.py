"""Loads a local folder of a Hugging Face model through transformers, with a forward that takes and returns tensors."""

from __future__ import annotations

import copy
import inspect
import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import (
    BadInput,
    BrokenPackage,
    ConvertError,
    ResourceLimit,
    Unsupported,
    UsageError,
    memory_of_library,
)
from convert.files.sniff import sniff
from convert.graph.metadata import COMPANIONS_KEY, DIMS_KEY, RANGE_KEY
from convert.graph.values import known_dims
from convert.outcome.extras import install_command
from convert.outcome.report import Report
from convert.processes.sandbox import in_confined_thread
from convert.request.options import InputSpec, Options
from convert.request.source import Source

from .hugging_face_cache import (
    cache_input_name,
    cache_outputs,
    filled_cache,
    form_of_cache,
    is_cache_parameter,
)
from .hugging_face_counts import bounded_by_weights
from .hugging_face_inputs import (
    attention_of_capture,
    attention_window,
    cache_of_run,
    embedding_specs,
    requested_specs,
)
from .hugging_face_packed import is_packed, refuse_transposed, unpack_weights
from .hugging_face_parts import with_part_forward
from .hugging_face_sentences import load_sentence_modules
from .hugging_face_tasks import (
    MODULES_FILE,
    PART,
    SENTENCE_TASK,
    TASK,
    cache_parameter,
    has_sentence_modules,
    model_class,
)
from .hugging_face_timm import timm_arguments
from .hugging_face_towers import DECODER, check_tower, with_tower_forward

_COMPANIONS = (
    "config.json", "generation_config.json", "*tokenizer*.json", "tokenizer.model", "special_tokens_map.json",
    "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "spiece.model", "sentencepiece.bpe.model",
    "chat_template.*", "*processor_config.json",
    MODULES_FILE, "config_sentence_transformers.json", "sentence_*_config.json", "[0-9]_*/config.json",
    "[0-9]_*/*.safetensors", "[0-9]_*/pytorch_model.bin",
)  # fmt: skip

_SENTENCE = "sentence_modules"
"""The attribute of a model with the modules of sentence-transformers that follow it."""


def load_folder(path: Path, options: Options, report: Report) -> torch.nn.Module:
    """Return the model in the folder, in eval mode.

    The class is the one that config.json names, else AutoModel's. Nothing is downloaded, and code in the folder is not
    executed without `options.trust`; `check_folder` must have passed. Raises `BadInput`, and `ConvertError` without
    transformers.
    """
    transformers, kind = import_class(path, options)
    model, loaded = _pretrained(transformers, kind, path, options, report)
    _refuse_other_sizes(path, loaded["mismatched_keys"])
    sentences = has_sentence_modules(path, TASK.of(options))
    # Sentence pooling follows the tokens; the transformer's own pooler is unused, and often not saved.
    missing = sorted(m for m in loaded["missing_keys"] if not (sentences and m.startswith("pooler.")))
    hint = "they would be random; name the class that the weights are of under architectures in config.json"
    check_keys(path, type(model).__name__, missing, loaded["unexpected_keys"], hint, report)
    if sentences:
        setattr(model, _SENTENCE, load_sentence_modules(path))
    report.note(
        f"the folder was loaded as {type(model).__name__} of transformers {transformers.__version__}", code="loaded-as"
    )
    return model.eval()


def _pretrained(
    transformers: Any, kind: Any, path: Path, options: Options, report: Report
) -> tuple[Any, dict[str, Any]]:
    """Return the model that transformers loads, and which weights it found, by its own keys.

    Packed weights are unpacked before, so that no library for their kernels is needed.

    Raises `BadInput` for a folder that transformers cannot load, and `ResourceLimit`.
    """
    config = json.loads((path / "config.json").read_bytes())
    unpacked = unpack_weights(path, config, report) if is_packed(config) else None

    def loaded_model() -> tuple[Any, dict[str, Any]]:
        with nullcontext() if options.trust else bounded_by_weights(path):
            return kind.from_pretrained(
                str(path) if unpacked is None else None,
                **({} if unpacked is None else _plain_config(transformers, path, unpacked)),
                **timm_arguments(transformers, path, config),
                local_files_only=True,
                output_loading_info=True,
                trust_remote_code=options.trust,
                ignore_mismatched_sizes=True,  # these are refused below, with their names
            )

    try:
        with warnings.catch_warnings(), silent(transformers), offline():
            warnings.simplefilter("ignore")
            model, found = loaded_model() if options.trust else in_confined_thread(loaded_model)
    except ResourceLimit:
        raise
    except Exception as error:
        for file in sorted(path.glob("*.safetensors")):
            sniff(file)  # this reports which of them is truncated
        hint = "check that config.json and the weights belong together, and the version of transformers"
        if isinstance(error, ImportError):  # of a library that runs quantized weights
            hint = "install what it names, or save the model without quantization: model.dequantize().save_pretrained"
        text = " ".join(str(error).split())[:400]
        raise BadInput(f"transformers could not load {path}: {type(error).__name__}: {text}", hint=hint) from error
    if unpacked is not None:
        refuse_transposed(model, path)
        if strange := sorted(found["unexpected_keys"]):
            raise Unsupported(
                f"{path} has packed weights, and tensors that {type(model).__name__} has no place for: "
                f"{', '.join(strange[:8])}",
                hint="load it with its own library, and save the result of model.dequantize()",
            )
    return model, found


def _plain_config(transformers: Any, path: Path, weights: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Return the arguments of `from_pretrained` for weights in memory: they, and the configuration of a model that is
    not quantized.
    """
    config = transformers.AutoConfig.from_pretrained(str(path), local_files_only=True)
    del config.quantization_config
    return {"config": config, "state_dict": dict(weights)}


def check_keys(path: Path, kind: str, missing: Iterable[str], unused: Iterable[str], hint: str, report: Report) -> None:
    """Raise `BadInput` for weights that a folder lacks, and note those that the class `kind` has no place for."""
    if lacking := _first_of(missing):
        raise BadInput(f"{path} lacks weights of {kind}: {lacking}", hint=hint)
    if left := _first_of(unused):
        report.note(
            f"weights of the folder that {kind} has no place for are left out: {left}",
            code="unused-weights",
        )


def _first_of(names: Iterable[str]) -> str:
    found = sorted(names)
    return f"{', '.join(found[:8])}{' …' if found[8:] else ''}"


def _refuse_other_sizes(path: Path, mismatched: Iterable[tuple[str, Sequence[int], Sequence[int]]]) -> None:
    """Raise `BadInput` for weights of other sizes, given as name, size in the file and size in the model."""
    others = sorted(mismatched)
    if not others:
        return
    descriptions = [f"{name} is {list(stored)} and would be {list(wanted)}" for name, stored, wanted in others[:3]]
    more = f" and {len(others) - len(descriptions)} more" if len(others) > len(descriptions) else ""
    raise BadInput(
        f"the weights in {path} are not of the sizes that config.json says: {'; '.join(descriptions)}{more}",
        hint="get config.json and the weights of one model into the folder",
    )


def import_class(path: Path, options: Options) -> tuple[Any, Any]:
    """Return transformers, and the class of the model in the folder, with its imports done. Raises as `load_folder`
    does.
    """
    try:
        import transformers
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise _broken(error) from error
        raise ConvertError(
            "reading a Hugging Face folder needs transformers", hint=install_command("transformers")
        ) from None
    except Exception as error:
        raise _broken(error) from error
    config = json.loads((path / "config.json").read_bytes())
    task = SENTENCE_TASK if has_sentence_modules(path, TASK.of(options)) else TASK.of(options)
    if task == SENTENCE_TASK and not (path / MODULES_FILE).is_file():
        raise UsageError(f"{path} has no {MODULES_FILE}, which says how sentences are pooled", hint="leave out --task")
    try:
        return transformers, model_class(transformers, config, task)
    except UsageError:
        raise
    except Exception as error:  # the classes of transformers are imported at first use
        raise _broken(error) from error


def _broken(error: Exception) -> ConvertError:
    if (unmapped := memory_of_library(error)) is not None:
        return unmapped
    text = " ".join(str(error).split())[:300]
    return BrokenPackage(
        f"transformers is installed, but cannot be imported: {type(error).__name__}: {text}",
        hint="reinstall it with the versions of its dependencies that it requires",
    )


@contextmanager
def silent(library: Any) -> Iterator[None]:
    """Suppress progress and warnings of transformers or diffusers, which contain texts from the file."""
    logging = library.utils.logging
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


@contextmanager
def offline() -> Iterator[None]:
    """Force offline mode, because `local_files_only` is not passed on to a model's parts."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def is_hugging_face(source: Source) -> bool:
    """Return whether a source is a folder of transformers or diffusers, or a transformers model in memory."""
    classes = type(source.model).__mro__
    return source.kind in ("hf-folder", "diffusers-folder") or any(
        c.__name__ == "PreTrainedModel" and c.__module__.startswith("transformers.") for c in classes
    )


# -- forward ----------------------------------------------------------------------------------------------------------


def with_plain_forward(model: Any, options: Options) -> Any:
    """Return a shallow copy of `model` with a forward whose parameters are the requested inputs, each a tensor."""
    if type(model).forward is torch.nn.Module.forward:
        chosen = _one_of_several(model, options)
        return with_plain_forward(chosen, replace(options, extra={**options.extra, PART.name: ""}))
    part = PART.of(options)
    if part and getattr(model.config, "is_encoder_decoder", False):
        return with_part_forward(model, part, options)
    if part:
        check_tower(model, part)
    if part and part != DECODER:
        return with_tower_forward(model, part, options)
    model = copy.copy(model)
    specs = embedding_specs(model) if part else requested_specs(model, options)
    names = [str(s.name) for s in specs]
    cached = any(map(is_cache_parameter, names))
    known, cache = inspect.signature(model.forward).parameters, cache_parameter(model)
    form = form_of_cache(specs, partial(cache_of_run, model))

    def plain_forward(self: Any, *tensors: torch.Tensor, **named: torch.Tensor) -> dict[str, torch.Tensor]:
        values: dict[str, Any] = {**dict(zip(names, tensors, strict=False)), **named}
        past = {n: values.pop(n) for n in names if is_cache_parameter(n)}
        if cached:
            new = values.get("input_ids", values.get("inputs_embeds"))
            key = next((t for n, t in past.items() if n.endswith("_key")), None)
            if values.get("attention_mask") is not None and new is not None and key is not None:
                values["attention_mask"] = _mask_of_all_tokens(values["attention_mask"], key, new)
            values[cache] = filled_cache(form, past)
        if "use_cache" in known:
            values["use_cache"] = cached
        values |= {str(name): value for name, value in options.fixed.items()}
        with attention_of_capture():
            found = type(self).forward(self, **values, return_dict=True)
        if (sentence := getattr(self, _SENTENCE, None)) is not None:
            return sentence(found[0], values.get("attention_mask"))
        now = cache_outputs(self, found[cache]) if cached else []
        others = {name: value for name, value in found.items() if name != cache} if cached else found
        return {_output_name(name): value for name, value in _flatten_outputs(others)} | dict(now)

    # torch.export and inspect read the names of the inputs from here.
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    plain_forward.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in ("self", *names)])  # type: ignore
    plain_forward.specs = specs  # type: ignore
    model.forward = MethodType(plain_forward, model)  # a method, so that the forward of a copy belongs to the copy
    return model


def _one_of_several(model: Any, options: Options) -> Any:
    """Return the requested model in one without a forward, which generates with several in turn, as Bark does.

    Raises `Unsupported` if none is requested, and `UsageError` for one that it does not have.
    """
    names = [name for name, child in model.named_children() if hasattr(child, "main_input_name")]
    part = PART.of(options)
    if part in names:
        return getattr(model, part)
    hint = f"give --part with one of: {', '.join(names)}"
    if part:
        raise UsageError(f"{type(model).__name__} has no part {part!r}", hint=hint)
    raise Unsupported(
        f"{type(model).__name__} has no forward: it generates with several models, one after the other", hint=hint
    )


def specs_of(model: Any) -> tuple[InputSpec, ...]:
    """Return the inputs of a model returned by `with_plain_forward`."""
    return tuple(model.forward.specs)


def leaves_out_modules(model: Any, options: Options) -> bool:
    """Return whether the modules without effect on the outputs are expected: other parts of the model, or an unused
    pooler.
    """
    return bool(PART.of(options)) or hasattr(model, _SENTENCE)


def note_windows(model: Any, report: Report) -> None:
    """Note that a text has a fixed length, if windowed attention is the reason and the user asked for no other."""
    window = attention_window(model.config)
    for spec in specs_of(model) if window else ():
        if spec.name == "input_ids" and spec.assumed and spec.shape is not None and spec.shape[1].size is not None:
            report.note(
                f"input_ids has a length of {spec.shape[1].size}, because windowed attention is captured for one "
                f"length. Set another multiple of {window} with --input input_ids:int64[batch,N], and the same for its "
                "mask. Pad a shorter text, with zeros in the mask",
                code="fixed-dim",
            )


def note_companions(model: ir.Model, path: Path) -> None:
    """Note which files of the folder a runtime needs next to a model, except those behind links that lead outside."""
    whole = path.resolve()
    files = sorted(file for pattern in _COMPANIONS for file in path.glob(pattern) if file.is_file())
    found = {file.relative_to(path).as_posix(): file.resolve() for file in files}
    model.meta[COMPANIONS_KEY] = {name: file for name, file in found.items() if file.parent == (whole / name).parent}


def note_ranges(model: ir.Model) -> None:
    """Record in the graph the content of transformers' masks: zeros and ones; and of sizes in patches, which an image
    of the least number of patches has.
    """
    bounds = json.loads(model.metadata_props.get(DIMS_KEY, "{}"))
    patches = math.isqrt((bounds.get("num_patches") or (1, None))[0] or 1)
    for value in model.graph.inputs:
        if str(value.name).endswith("attention_mask") and value.dtype is not None and value.dtype.is_integer():
            value.metadata_props[RANGE_KEY] = "[0, 1]"
        if value.name == "spatial_shapes":
            value.metadata_props[RANGE_KEY] = json.dumps([1, patches])


def note_first_call(model: ir.Model) -> None:
    """Record in the graph that a cache may be empty, as in a decoder's first call.

    torch.export captures with longer ones, and finds no least size below 1. The decoder of an encoder is left out: its
    first call is another file, and a text of no tokens has no attention.
    """
    bounds = json.loads(model.metadata_props.get(DIMS_KEY, "{}"))
    caches = [known_dims(v) or () for v in model.graph.inputs if is_cache_parameter(str(v.name))]
    if any("_encoder_" in str(v.name) for v in model.graph.inputs):
        return
    for name in {dims[2] for dims in caches if len(dims) == 4 and isinstance(dims[2], str)}:
        low, high = bounds.get(name) or (None, None)
        bounds[name] = [low if low is not None and low > 1 else 0, high]
    model.metadata_props[DIMS_KEY] = json.dumps(bounds)


def _mask_of_all_tokens(mask: torch.Tensor, key: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Return the mask of cached and new tokens, with the number of tokens as its length.

    PyTorch treats the mask's length as a separate one, and comparing both would be a condition on sizes.
    """
    return mask.index_select(1, torch.arange(key.shape[2] + new.shape[1], device=mask.device))


def _output_name(name: str) -> str:
    """Return the name of an output. A single tensor and the items of a tuple have none, and are named as for other
    modules.
    """
    if not name or name.partition(".")[0].isdecimal():
        return f"output_{name}" if name else "output"
    return name


def rename_cache_inputs(model: ir.Model) -> None:
    """Rename inputs to `past_key_values.0.key`, which Python does not accept as a parameter."""
    for value in model.graph.inputs:
        value.name = cache_input_name(str(value.name))


def _flatten_outputs(output: Any, prefix: str = "") -> list[tuple[str, torch.Tensor]]:
    """Return the tensors in a model's result, by name; None is left out, tuples are flattened."""
    if isinstance(output, torch.Tensor):
        return [(prefix, output)]
    items = (
        output.items()
        if isinstance(output, Mapping)
        else enumerate(output)
        if isinstance(output, (list, tuple))
        else ()
    )
    return [row for key, value in items for row in _flatten_outputs(value, f"{prefix}.{key}" if prefix else str(key))]
