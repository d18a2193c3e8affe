"""Loads a local folder of a Hugging Face model through transformers, with a forward that takes and gives tensors."""

from __future__ import annotations

import copy
import inspect
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MethodType
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import BadInput, ConvertError, Unsupported
from convert.extras import install_command
from convert.graph.metadata import RANGE_KEY
from convert.options import DimSpec, InputSpec, Options
from convert.report import Report
from convert.runners.sandbox import in_confined_thread
from convert.source import Source

PAST = "past_key_values"
"""`--input past_key_values:float32` makes a decoder's cache inputs and outputs, a key and a value for each layer."""


def load_folder(path: Path, options: Options, report: Report) -> torch.nn.Module:
    """The model in the folder, in eval mode.

    The class is the one that config.json names, else AutoModel's. Nothing is fetched, and code that the folder brings
    is not executed without `options.trust`; `check_folder` has seen it. Raises `BadInput`, `ConvertError` without
    transformers.
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
    try:
        kind = _model_class(transformers, config)
    except Exception as error:  # its classes are imported when they are asked for
        raise _broken(error) from error

    def loaded_model() -> tuple[Any, Any]:
        return kind.from_pretrained(
            str(path), local_files_only=True, output_loading_info=True, trust_remote_code=options.trust
        )

    try:
        with warnings.catch_warnings(), _silent(transformers), _offline():
            warnings.simplefilter("ignore")
            model, loaded = loaded_model() if options.trust else in_confined_thread(loaded_model)
    except Exception as error:
        raise BadInput(
            f"transformers could not load {path}: {type(error).__name__}: {' '.join(str(error).split())[:400]}",
            hint="check that config.json and the weights belong together, and the version of transformers",
        ) from error
    missing = sorted(loaded["missing_keys"])
    if missing:
        raise BadInput(
            f"{path} lacks weights of {type(model).__name__}: {', '.join(missing[:8])}{' …' if missing[8:] else ''}",
            hint="they would be random; name the class that the weights are of under architectures in config.json",
        )
    if unused := sorted(loaded["unexpected_keys"]):
        report.note(
            f"weights of the folder that {type(model).__name__} has no place for are left out: "
            f"{', '.join(unused[:8])}{' …' if unused[8:] else ''}"
        )
    report.note(f"the folder was loaded as {type(model).__name__} of transformers {transformers.__version__}")
    return model.eval()


def _broken(error: Exception) -> ConvertError:
    text = " ".join(str(error).split())[:300]
    return ConvertError(
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


def _model_class(transformers: Any, config: Mapping[str, Any]) -> Any:
    names = config.get("architectures")
    for name in names if isinstance(names, list) else ():
        found = getattr(transformers, str(name), None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found
    return transformers.AutoModel


def is_hugging_face(source: Source) -> bool:
    """True for a folder, and for a model of transformers in memory."""
    classes = type(source.model).__mro__
    return source.kind == "hf-folder" or any(
        c.__name__ == "PreTrainedModel" and c.__module__.startswith("transformers.") for c in classes
    )


# -- forward ----------------------------------------------------------------------------------------------------------


def with_plain_forward(model: Any, options: Options) -> Any:
    """A shallow copy of `model` with a forward whose parameters are the inputs that are asked for, each a tensor."""
    model = copy.copy(model)
    specs = requested_specs(model, options)
    names = [str(s.name) for s in specs]
    cached = any(n.startswith(f"{PAST}_") for n in names)
    known = inspect.signature(model.forward).parameters

    def plain_forward(self: Any, *tensors: torch.Tensor, **named: torch.Tensor) -> dict[str, torch.Tensor]:
        values: dict[str, Any] = {**dict(zip(names, tensors, strict=False)), **named}
        past = [values.pop(n) for n in names if n.startswith(f"{PAST}_")]
        if cached:
            values[PAST] = _decoder_cache(past)
        if "use_cache" in known:
            values["use_cache"] = cached
        values |= {str(name): value for name, value in options.fixed.items()}
        return dict(_flatten_outputs(type(self).forward(self, **values, return_dict=True)))

    # What torch.export and inspect ask for the names of the inputs.
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    plain_forward.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in ("self", *names)])  # type: ignore
    plain_forward.specs = specs  # type: ignore
    model.forward = MethodType(plain_forward, model)  # a method, so that a copy's forward is that of the copy
    return model


def specs_of(model: Any) -> tuple[InputSpec, ...]:
    """The inputs of a model that `with_plain_forward` gave."""
    return tuple(model.forward.specs)


def note_ranges(model: ir.Model) -> None:
    """Say in the graph what transformers' masks hold: zeros and ones."""
    for value in model.graph.inputs:
        if str(value.name).endswith("attention_mask") and value.dtype is not None and value.dtype.is_integer():
            value.metadata_props[RANGE_KEY] = "[0, 1]"


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


# -- inputs -----------------------------------------------------------------------------------------------------------


def requested_specs(model: Any, options: Options) -> list[InputSpec]:
    """The inputs of a model: those that the options name, else its main one and what goes with it.

    Descriptions that leave out the shape get it from the configuration.
    """
    usual = {str(s.name): s for s in _default_specs(model)}
    if any(s.name == PAST for s in options.inputs):
        usual = {n: s for n, s in usual.items() if n == model.main_input_name} | {
            str(s.name): s for s in _past_specs(model)
        }
    wanted = [s for s in options.inputs if s.name and s.name != PAST]
    named = [s.name for s in wanted if s.name] + [n for n in options.examples if isinstance(n, str)]
    if not named:
        given = [s for s in options.inputs if s.name is None]
        positional = [i for i in options.examples if isinstance(i, int)]
        # Arrays without names are forward's first arguments, and all of them.
        names = list(inspect.signature(model.forward).parameters)[: max(positional) + 1] if positional else list(usual)
        usual = {n: usual.get(n, InputSpec(n)) for n in names}
        return [_fill_spec(given[i] if i < len(given) else InputSpec(n), usual[n]) for i, n in enumerate(names)]
    order = [n for n in inspect.signature(model.forward).parameters if n in named]
    order += [n for n in named if n not in order] + [n for n in usual if n.startswith(f"{PAST}_") and n not in named]
    by_name = {s.name: s for s in wanted}
    return [_fill_spec(by_name.get(n, InputSpec(n)), usual.get(str(n), InputSpec(n))) for n in order]


def _fill_spec(spec: InputSpec, usual: InputSpec) -> InputSpec:
    shape = usual.shape if spec.shape is None else spec.shape
    return InputSpec(spec.name or usual.name, spec.dtype or usual.dtype, shape, assumed=spec.shape is None)


def _default_specs(model: Any) -> list[InputSpec]:
    config = model.config
    text = config.get_text_config()
    known = inspect.signature(model.forward).parameters
    batch = DimSpec(name="batch")
    longest = getattr(text, "max_position_embeddings", None)
    tokens = (batch, DimSpec(name="sequence", high=longest if isinstance(longest, int) else None))
    main = model.main_input_name
    if main == "input_ids":
        names = ["input_ids", "attention_mask"]
        if getattr(text, "type_vocab_size", 0) > 1:
            names.append("token_type_ids")
        specs = [InputSpec(n, "int64", tokens) for n in names if n in known]
    elif main == "pixel_values":
        size = getattr(config, "image_size", 224)
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        channels = getattr(config, "num_channels", 3)
        specs = [InputSpec(main, "float32", (batch, *map(DimSpec, (channels, height, width))))]
    elif main == "input_features" and hasattr(config, "num_mel_bins"):
        length = 2 * getattr(config, "max_source_positions", 1500)
        specs = [InputSpec(main, "float32", (batch, DimSpec(config.num_mel_bins), DimSpec(length)))]
    elif main == "input_values":
        specs = [InputSpec(main, "float32", (batch, DimSpec(name="samples", low=400)))]
    else:
        specs = [InputSpec(main)]
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in known:
        specs.append(InputSpec("decoder_input_ids", "int64", (batch, DimSpec(name="decoder_sequence"))))
    return specs


def _past_specs(model: Any) -> list[InputSpec]:
    """A key and a value for each layer. Raises `Unsupported` for an encoder with a decoder."""
    config = model.config.get_text_config(decoder=True)
    if getattr(model.config, "is_encoder_decoder", False):
        raise Unsupported(
            f"{PAST} of an encoder with a decoder, whose cache has two halves",
            hint=f"leave out --input {PAST}:…, or convert the encoder and the decoder one by one",
        )
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    shared = getattr(config, "num_key_value_heads", None) or heads
    shape = (DimSpec(name="batch"), DimSpec(shared), DimSpec(name="past"), DimSpec(size))
    names = [f"{PAST}_{i}_{half}" for i in range(config.num_hidden_layers) for half in ("key", "value")]
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    return [InputSpec(n, dtype, shape) for n in names]
