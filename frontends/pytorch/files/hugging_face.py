"""Loads a local folder of a Hugging Face model through transformers, with a forward that takes and gives tensors."""

from __future__ import annotations

import copy
import inspect
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import MethodType
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import BadInput, BrokenPackage, ConvertError, ResourceLimit, UsageError, memory_of_library
from convert.extras import install_command
from convert.files.sniff import sniff
from convert.graph.metadata import COMPANIONS_KEY, RANGE_KEY
from convert.options import InputSpec, Options
from convert.report import Report
from convert.runners.sandbox import in_confined_thread
from convert.source import Source

from .hugging_face_counts import bounded_by_weights
from .hugging_face_inputs import (
    PAST,
    PRESENT,
    attention_of_capture,
    attention_window,
    embedding_specs,
    requested_specs,
)
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
)  # fmt: skip

_SENTENCE = "sentence_modules"
"""What a model calls the modules of sentence-transformers behind it."""


def load_folder(path: Path, options: Options, report: Report) -> torch.nn.Module:
    """The model in the folder, in eval mode.

    The class is the one that config.json names, else AutoModel's. Nothing is fetched, and code that the folder brings
    is not executed without `options.trust`; `check_folder` has seen it. Raises `BadInput`, `ConvertError` without
    transformers.
    """
    transformers, kind = import_class(path, options)
    config = json.loads((path / "config.json").read_bytes())

    def loaded_model() -> tuple[Any, Any]:
        with nullcontext() if options.trust else bounded_by_weights(path):
            return kind.from_pretrained(
                str(path),
                **timm_arguments(transformers, path, config),
                local_files_only=True,
                output_loading_info=True,
                trust_remote_code=options.trust,
                ignore_mismatched_sizes=True,  # they are refused below, by their names
            )

    try:
        with warnings.catch_warnings(), _silent(transformers), _offline():
            warnings.simplefilter("ignore")
            model, loaded = loaded_model() if options.trust else in_confined_thread(loaded_model)
    except ResourceLimit:
        raise
    except Exception as error:
        for file in sorted(path.glob("*.safetensors")):
            sniff(file)  # says which of them is cut off
        raise BadInput(
            f"transformers could not load {path}: {type(error).__name__}: {' '.join(str(error).split())[:400]}",
            hint="check that config.json and the weights belong together, and the version of transformers",
        ) from error
    if other := sorted(loaded["mismatched_keys"]):
        descriptions = [f"{name} is {list(stored)} and would be {list(wanted)}" for name, stored, wanted in other[:3]]
        more = f" and {len(other) - len(descriptions)} more" if len(other) > len(descriptions) else ""
        raise BadInput(
            f"the weights in {path} are not of the sizes that config.json says: {'; '.join(descriptions)}{more}",
            hint="get config.json and the weights of one model into the folder",
        )
    sentences = has_sentence_modules(path, TASK.of(options))
    # What pools sentences stands behind the tokens; a pooler of the transformer's own is not read, and often not saved.
    missing = sorted(m for m in loaded["missing_keys"] if not (sentences and m.startswith("pooler.")))
    if missing:
        raise BadInput(
            f"{path} lacks weights of {type(model).__name__}: {', '.join(missing[:8])}{' …' if missing[8:] else ''}",
            hint="they would be random; name the class that the weights are of under architectures in config.json",
        )
    if unused := sorted(loaded["unexpected_keys"]):
        report.note(
            f"weights of the folder that {type(model).__name__} has no place for are left out: "
            f"{', '.join(unused[:8])}{' …' if unused[8:] else ''}",
            code="unused-weights",
        )
    if sentences:
        setattr(model, _SENTENCE, load_sentence_modules(path))
    report.note(
        f"the folder was loaded as {type(model).__name__} of transformers {transformers.__version__}", code="loaded-as"
    )
    return model.eval()


def import_class(path: Path, options: Options) -> tuple[Any, Any]:
    """transformers, and the class of the model in the folder, with what it imports. Raises as `load_folder` does."""
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
    except Exception as error:  # its classes are imported when they are asked for
        raise _broken(error) from error


def _broken(error: Exception) -> ConvertError:
    if (unmapped := memory_of_library(error)) is not None:
        return unmapped
    text = " ".join(str(error).split())[:300]
    return BrokenPackage(
        f"transformers is installed, but cannot be imported: {type(error).__name__}: {text}",
        hint="install it anew, with the versions of its dependencies that it asks for",
    )


@contextmanager
def _silent(transformers: Any) -> Iterator[None]:
    """Without progress and warnings, which hold the file's own words as they are."""
    logging = transformers.utils.logging
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
def _offline() -> Iterator[None]:
    """`local_files_only` is not passed on to a model's parts."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def is_hugging_face(source: Source) -> bool:
    """True for a folder, and for a model of transformers in memory."""
    classes = type(source.model).__mro__
    return source.kind == "hf-folder" or any(
        c.__name__ == "PreTrainedModel" and c.__module__.startswith("transformers.") for c in classes
    )


# -- forward ----------------------------------------------------------------------------------------------------------


def with_plain_forward(model: Any, options: Options) -> Any:
    """A shallow copy of `model` with a forward whose parameters are the inputs that are asked for, each a tensor."""
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
    cached = any(n.startswith(f"{PAST}_") for n in names)
    known, cache = inspect.signature(model.forward).parameters, cache_parameter(model)

    def plain_forward(self: Any, *tensors: torch.Tensor, **named: torch.Tensor) -> dict[str, torch.Tensor]:
        values: dict[str, Any] = {**dict(zip(names, tensors, strict=False)), **named}
        past = [values.pop(n) for n in names if n.startswith(f"{PAST}_")]
        if cached:
            new = values.get("input_ids", values.get("inputs_embeds"))
            if values.get("attention_mask") is not None and new is not None:
                values["attention_mask"] = _mask_of_all_tokens(values["attention_mask"], past[0], new)
            values[cache] = _decoder_cache(past)
        if "use_cache" in known:
            values["use_cache"] = cached
        values |= {str(name): value for name, value in options.fixed.items()}
        with attention_of_capture():
            found = type(self).forward(self, **values, return_dict=True)
        if (sentence := getattr(self, _SENTENCE, None)) is not None:
            return sentence(found[0], values.get("attention_mask"))
        return {_output_name(name, cache if cached else ""): value for name, value in _flatten_outputs(found)}

    # What torch.export and inspect ask for the names of the inputs.
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    plain_forward.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in ("self", *names)])  # type: ignore
    plain_forward.specs = specs  # type: ignore
    model.forward = MethodType(plain_forward, model)  # a method, so that a copy's forward is that of the copy
    return model


def specs_of(model: Any) -> tuple[InputSpec, ...]:
    """The inputs of a model that `with_plain_forward` gave."""
    return tuple(model.forward.specs)


def leaves_out_modules(model: Any, options: Options) -> bool:
    """Whether modules that no output depends on are left out on purpose: other parts, or a pooler before another."""
    return bool(PART.of(options)) or hasattr(model, _SENTENCE)


def note_windows(model: Any, report: Report) -> None:
    """Say that a text has one length, where attention in windows is why and nobody asked for another."""
    window = attention_window(model.config)
    for spec in specs_of(model) if window else ():
        if spec.name == "input_ids" and spec.assumed and spec.shape is not None and spec.shape[1].size is not None:
            report.note(
                f"input_ids has a length of {spec.shape[1].size}: attention in windows is captured for one length; "
                f"--input input_ids:int64[batch,N] and the same for its mask give another multiple of {window}, "
                "and a shorter text is filled up with zeros in its mask",
                code="fixed-dim",
            )


def note_companions(model: ir.Model, path: Path) -> None:
    """Say which files of the folder a runtime looks for beside a model; not those behind links that lead out of it."""
    found = {file.name: file.resolve() for pattern in _COMPANIONS for file in path.glob(pattern) if file.is_file()}
    inside = {name: file for name, file in sorted(found.items()) if file.parent == path.resolve()}
    model.meta[COMPANIONS_KEY] = inside


def note_ranges(model: ir.Model) -> None:
    """Say in the graph what transformers' masks hold: zeros and ones."""
    for value in model.graph.inputs:
        if str(value.name).endswith("attention_mask") and value.dtype is not None and value.dtype.is_integer():
            value.metadata_props[RANGE_KEY] = "[0, 1]"


def _mask_of_all_tokens(mask: torch.Tensor, key: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """The mask of the tokens in the cache and of the new ones, with their number for a length.

    To PyTorch the length of the mask is one of its own, and comparing it with theirs would be a condition on sizes.
    """
    return mask.index_select(1, torch.arange(key.shape[2] + new.shape[1], device=mask.device))


def _output_name(name: str, cache: str) -> str:
    """`present.0.key` of the cache that a step leaves, as the field calls it; `cache` is what the model calls it.

    What has no name, a lone tensor or those of a tuple, is called as other modules' outputs are.
    """
    if not name or name.partition(".")[0].isdecimal():
        return f"output_{name}" if name else "output"
    return name.replace(f"{cache}.", f"{PRESENT}.", 1) if cache and name.startswith(f"{cache}.") else name


def rename_cache_inputs(model: ir.Model) -> None:
    """`past_key_values.0.key` in the place of a name that Python takes for a parameter's."""
    for value in model.graph.inputs:
        value.name = cache_input_name(str(value.name))


def cache_input_name(parameter: str) -> str:
    """The input of a graph that a parameter of the forward made here is: `past_key_values_0_key` with dots."""
    return (
        parameter.replace("_", ".").replace("past.key.values", PAST) if parameter.startswith(f"{PAST}_") else parameter
    )


def parameter_name(name: str) -> str:
    """The parameter of the forward made here that an input of the graph is."""
    return name.replace(".", "_") if name.startswith(f"{PAST}.") else name


def _decoder_cache(tensors: list[torch.Tensor]) -> Any:
    """The cache of a decoder from a key and a value for each of its layers, [batch, heads, past, head size]."""
    from transformers import DynamicCache

    return DynamicCache(ddp_cache_data=list(zip(tensors[::2], tensors[1::2], strict=True)))


def _flatten_outputs(output: Any, prefix: str = "") -> list[tuple[str, torch.Tensor]]:
    """The tensors in what a model returns, by name; None is left out, caches and tuples are taken apart."""
    if isinstance(output, torch.Tensor):
        return [(prefix, output)]
    if hasattr(output, "layers") and hasattr(output, "get_seq_length"):
        layers = {i: {"key": layer.keys, "value": layer.values} for i, layer in enumerate(output.layers)}
        return _flatten_outputs(layers, prefix)
    items = (
        output.items()
        if isinstance(output, Mapping)
        else enumerate(output)
        if isinstance(output, (list, tuple))
        else ()
    )
    return [row for key, value in items for row in _flatten_outputs(value, f"{prefix}.{key}" if prefix else str(key))]
