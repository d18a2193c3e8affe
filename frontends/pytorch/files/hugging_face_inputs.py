"""The inputs of a Hugging Face model: the requested ones, else those of its task, with shapes from its
configuration.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch

from convert.errors import Unsupported
from convert.request.options import DimSpec, InputSpec, Options

from ..inputs.trial_runs import STEP
from ..torch_internals import NEEDS_CONTENT, FakeTensorMode
from .hugging_face_cache import PAST, WITHOUT_CACHE, cache_specs, is_cache_parameter
from .hugging_face_tasks import TASK, cache_parameter, generates_with_cache
from .hugging_face_timm import timm_image_size

# Dim names as optimum's exporters write them. transformers.js creates an empty cache from them: `batch_size` is the
# batch, and every other name in the shape of `past_key_values.*` is 0.
BATCH = DimSpec(name="batch_size")
TEXT_BATCH, IMAGE_BATCH = DimSpec(name="text_batch_size"), DimSpec(name="image_batch_size")
SOUND_BATCH = DimSpec(name="audio_batch_size")
SEQUENCE = DimSpec(name="sequence_length")
PAST_SEQUENCE = DimSpec(name="past_sequence_length")
TOTAL_SEQUENCE = DimSpec(name="total_sequence_length")
ENCODER_SEQUENCE = DimSpec(name="encoder_sequence_length")
DECODER_SEQUENCE = DimSpec(name="decoder_sequence_length")
PAST_DECODER_SEQUENCE = DimSpec(name="past_decoder_sequence_length")
_ALL_TOKENS = DimSpec(name=f"{PAST_SEQUENCE.name}+{SEQUENCE.name}")


def requested_specs(model: Any, options: Options) -> list[InputSpec]:
    """Return the inputs of a model: those in the options, else its main input and the ones that belong to it.

    Descriptions without a shape get it from the configuration.
    """
    usual = {str(s.name): s for s in _default_specs(model)}
    if not options.inputs and not options.examples and generates_with_cache(model, TASK.of(options)):
        return [s for s in _decoder_specs(model) if s.name not in _left_out(options)]
    if any(s.name == PAST for s in options.inputs):
        usual = {n: s for n, s in usual.items() if n == model.main_input_name} | {
            str(s.name): s for s in _past_specs(model)
        }
    wanted = [s for s in options.inputs if s.name and s.name != PAST]
    named = [s.name for s in wanted if s.name] + [n for n in options.examples if isinstance(n, str)]
    usual = _with_users_dims(usual, {str(s.name): s for s in wanted})
    if not named:
        given = [s for s in options.inputs if s.name is None]
        positional = [i for i in options.examples if isinstance(i, int)]
        # Arrays without names are the first arguments of forward, and the only ones.
        names = list(inspect.signature(model.forward).parameters)[: max(positional) + 1] if positional else list(usual)
        usual = {n: usual.get(n, InputSpec(n)) for n in names}
        return [_fill_spec(given[i] if i < len(given) else InputSpec(n), usual[n]) for i, n in enumerate(names)]
    order = [n for n in inspect.signature(model.forward).parameters if n in named]
    order += [n for n in named if n not in order] + [n for n in usual if is_cache_parameter(n) and n not in named]
    by_name = {s.name: s for s in wanted}
    return [_fill_spec(by_name.get(n, InputSpec(n)), usual.get(str(n), InputSpec(n))) for n in order]


def _left_out(options: Options) -> frozenset[str]:
    """Return the inputs of a decoder that the artefact to compare it with computes, as transformers does without them.

    Files of onnxruntime-genai's builder count positions from the length of the cache.
    """
    others = options.counterparts
    return frozenset({"position_ids"} - set(others) if "input_ids" in others else ())


def tower_specs(model: Any, names: Sequence[str], options: Options) -> list[InputSpec]:
    """Return the inputs `names` of one part of a text and image model, and others that the options describe."""
    config = model.config
    text = _text_config(config)
    tokens = (BATCH, _length_spec(text))
    usual = {n: InputSpec(n, "int64", tokens) for n in names if n != "pixel_values"}
    if "pixel_values" in names:
        known = inspect.signature(model.get_image_features).parameters
        images = _image_specs(getattr(config, "vision_config", config), known)
        usual |= {str(s.name): s for s in images}
    given = {str(s.name): s for s in options.inputs if s.name}
    usual = _with_users_dims(usual, given)
    others = [s for n, s in given.items() if n not in usual]
    return [*(_fill_spec(given.get(n, InputSpec(n)), s) for n, s in usual.items()), *others]


def embedding_specs(model: Any) -> list[InputSpec]:
    """Return the inputs of a decoder with a cache that takes embeddings in place of tokens."""
    width = model.get_input_embeddings().weight.shape[1]
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    embeds = InputSpec("inputs_embeds", dtype, (BATCH, SEQUENCE, DimSpec(width)))
    others = [s for s in _decoder_specs(model) if s.name != "input_ids"]
    rope = getattr(_text_config(model.config), "rope_parameters", None) or {}
    if "mrope_section" in rope:  # positions of Qwen2-VL have time, height and width
        others = [
            s if s.name != "position_ids" else InputSpec(s.name, s.dtype, (DimSpec(3), BATCH, SEQUENCE)) for s in others
        ]
    return [embeds, *others]


def _with_users_dims(usual: dict[str, InputSpec], given: dict[str, InputSpec]) -> dict[str, InputSpec]:
    """Return the usual inputs with the user's dims wherever the same dim occurs in an input that the user described.

    With `input_ids:int64[batch,16]`, an `attention_mask` without a shape is [batch,16] too.
    """
    users = {
        dim.name: of_user
        for name, spec in given.items()
        if name in usual and spec.shape and len(spec.shape) == len(usual[name].shape or ())
        for dim, of_user in zip(usual[name].shape or (), spec.shape, strict=True)
        if dim.name and (of_user.name or of_user.size is not None)
    }
    return {
        name: InputSpec(spec.name, spec.dtype, spec.shape and tuple(users.get(str(d.name), d) for d in spec.shape))
        for name, spec in usual.items()
    }


def _fill_spec(spec: InputSpec, usual: InputSpec) -> InputSpec:
    shape = usual.shape if spec.shape is None else spec.shape
    return InputSpec(spec.name or usual.name, spec.dtype or usual.dtype, shape, assumed=spec.shape is None)


def _default_specs(model: Any) -> list[InputSpec]:
    config = model.config
    known = inspect.signature(model.forward).parameters
    main = _main_input(model)
    describes = main == "pixel_values" and "input_ids" in known and hasattr(config, "text_config")  # as BLIP does
    if main == "input_ids" or describes:
        specs = _text_specs(model)
    elif main == "pixel_values":
        images = _image_specs(config, known)
        specs = images if len(images) > 1 else [_with_open_size(model, *images)]
    elif main in ("input_values", "input_features"):
        specs = _sound_specs(model, main)
    elif main == "past_values":
        specs = _series_specs(model)
    else:
        specs = [InputSpec(main)]
    if getattr(config, "is_encoder_decoder", False) and main != "past_values":
        if "decoder_input_ids" in known:
            specs.append(_decoder_tokens(config))
        elif "decoder_input_values" in known:  # a spectrogram, as in SpeechT5
            shape = (BATCH, DECODER_SEQUENCE, DimSpec(config.num_mel_bins))
            specs.append(InputSpec("decoder_input_values", "float32", shape))
    return specs


def _decoder_tokens(config: Any) -> InputSpec:
    """Return a decoder's tokens; those of sound have a row for each codebook."""
    books = _first_in_parts(config, ("num_codebooks",), 0) if hasattr(config, "decoder") else 0
    rows = (DimSpec(books),) if books else ()
    return InputSpec("decoder_input_ids", "int64", (BATCH, *rows, DECODER_SEQUENCE))


def _text_specs(model: Any) -> list[InputSpec]:
    """Return tokens with their mask and types, and the images or sounds of a model that has an encoder for them."""
    config = model.config
    text = _text_config(config)
    known = inspect.signature(model.forward).parameters
    names = ["input_ids", "attention_mask"]
    if getattr(text, "type_vocab_size", 0) > 1:
        names.append("token_type_ids")
    specs = [InputSpec(n, "int64", (BATCH, _length_spec(text))) for n in names if n in known]
    query = ("qformer_input_ids", "qformer_attention_mask")  # the text that InstructBLIP looks at its picture with
    specs += [InputSpec(n, "int64", (BATCH, DimSpec(name="qformer_sequence_length"))) for n in query if n in known]
    pictures = next((getattr(config, n) for n in ("vision_config", "image_config") if hasattr(config, n)), config)
    if "pixel_values" in known and (pictures is not config or hasattr(config, "image_size")):
        return _of_two_towers(model, [*specs, *_image_specs(pictures, known)])
    if "input_features" in known and hasattr(config, "audio_config"):
        return _of_two_towers(model, [*specs, *_sound_specs(model, "input_features", specs)])
    return specs


_MELS = ("num_mel_bins", "feature_projection_input_dim", "input_feat_per_channel")
"""Names of the number of features of a frame of sound, in configurations."""


def _sound_specs(model: Any, name: str, others: Sequence[InputSpec] = ()) -> list[InputSpec]:
    """Return the input for sounds, with the first of the usual layouts on which forward runs beside `others`."""
    config = model.config
    mels, frames = _first_in_parts(config, _MELS, 0), DimSpec(name="frames", low=16)
    layouts: list[tuple[DimSpec, ...]]
    if name == "input_values" and mels and hasattr(config, "max_length"):
        layouts = [(DimSpec(config.max_length), DimSpec(mels))]
    elif name == "input_values":
        samples = DimSpec(name=SEQUENCE.name, low=400, usual=_USUAL_SAMPLES)
        layouts = [(samples,), (DimSpec(getattr(config, "audio_channels", 1)), samples)]
    elif width := _first_in_parts(config, ("spec_size",), 0):  # frames are folded to a square image
        layouts = [(DimSpec(1), DimSpec(width * (width // mels)), DimSpec(mels))]
    else:
        length = 2 * _first_in_parts(config, ("max_source_positions",), 1500)
        layouts = [(DimSpec(mels), DimSpec(length)), (frames, DimSpec(mels))]
    specs = [InputSpec(name, "float32", (BATCH, *layout)) for layout in layouts]
    return [next((spec for spec in specs if len(specs) > 1 and _runs(model, [*others, spec])), specs[0])]


def _runs(model: Any, specs: Sequence[InputSpec], sizes: Mapping[str, int] | None = None) -> bool:
    """Return whether forward accepts tensors of these shapes; an encoder with a decoder gets tokens for both."""
    if "decoder_input_ids" in inspect.signature(model.forward).parameters:
        specs = [*specs, _decoder_tokens(model.config)]
    with trial_run(model):
        try:
            model.forward(**example_values(specs, sizes or {}), return_dict=True)
        except NEEDS_CONTENT:  # forward accepts the shapes, and looks at the numbers
            return True
        except Exception:  # any exception: a forward may raise whatever it likes
            return False
    return True


def _series_specs(model: Any) -> list[InputSpec]:
    """Return the past values of a time series, and what its model takes beside them."""
    config = model.config
    known = inspect.signature(model.forward).parameters
    if "past_time_features" not in known:
        sizes = [config.context_length, *([n] if (n := getattr(config, "num_input_channels", None)) else [])]
        batch = DimSpec(name=BATCH.name, usual=1)  # TimesFM visits the series one by one
        return [InputSpec("past_values", "float32", (batch, *map(DimSpec, sizes)))]
    past = DimSpec(config.context_length + max(config.lags_sequence))
    future, features = DimSpec(config.prediction_length), DimSpec(config.num_time_features)
    series = [DimSpec(config.input_size)] if getattr(config, "input_size", 1) > 1 else []
    shapes = {
        "past_values": (past, *series),
        "past_time_features": (past, features),
        "past_observed_mask": (past, *series),
        "static_categorical_features": (DimSpec(getattr(config, "num_static_categorical_features", 0)),),
        "static_real_features": (DimSpec(getattr(config, "num_static_real_features", 0)),),
        "future_values": (future, *series),
        "future_time_features": (future, features),
    }
    integers = "static_categorical_features"
    return [
        InputSpec(name, "int64" if name == integers else "float32", (BATCH, *dims))
        for name, dims in shapes.items()
        if name in known and dims[-1].size != 0
    ]


def _main_input(model: Any) -> str:
    """Return the main input of a model; of its encoder, if it takes the inputs of any encoder."""
    own = str(model.main_input_name)
    encoder = getattr(model, "encoder", None)
    return str(getattr(encoder, "main_input_name", own)) if own == "inputs" else own


def _text_config(config: Any) -> Any:
    """Return the configuration of the text part; of the encoder, if there are several, as in MusicGen."""
    try:
        return config.get_text_config()
    except ValueError:
        return config.get_text_config(encoder=True)


def _of_two_towers(model: Any, specs: list[InputSpec]) -> list[InputSpec]:
    """Return the inputs of a model of texts and of images or sounds, each with its batch if forward accepts two.

    CLIP compares every text with every image; CLIPSeg needs one image per text. A call on fake tensors shows which.
    """
    batches = {"pixel_values": IMAGE_BATCH, "input_features": SOUND_BATCH}
    batches |= dict.fromkeys(("pixel_attention_mask", "spatial_shapes"), IMAGE_BATCH)
    apart = [InputSpec(s.name, s.dtype, (batches.get(str(s.name), TEXT_BATCH), *(s.shape or ())[1:])) for s in specs]
    sizes = {str(TEXT_BATCH.name): 2, str(IMAGE_BATCH.name): 3, str(SOUND_BATCH.name): 3}
    return apart if _runs(model, apart, sizes) else specs


def example_values(specs: Sequence[InputSpec], sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """Return ones for inputs by name, with `sizes` for dynamic dims by name; others have length 5, or their lowest."""
    return {
        str(s.name): torch.ones(
            [sizes.get(str(d.name), d.low or 5) if d.size is None else d.size for d in s.shape or ()],
            dtype=getattr(torch, str(s.dtype)),
        )
        for s in specs
    }


@contextmanager
def trial_run(model: Any, *, content: bool = False) -> Iterator[None]:
    """Run forward inside the context, without gradients, to learn shapes.

    content: False runs on fake tensors, which a forward that looks at numbers refuses with `NEEDS_CONTENT`.

    What forward stores on its modules is removed afterwards: LongRoPE keeps the frequencies of the first run, and
    transformers installs hooks that collect hidden states, with a flag. PyTorch does not log tracebacks of operators
    that reject a shape.
    """
    tables = [vars(part) for part in model.modules()]
    tables += [table for part in tables for table in part.values() if isinstance(table, dict)]  # buffers, hooks, …
    before = [(table, dict(table)) for table in tables]
    logger = logging.getLogger(FakeTensorMode.__module__)
    silent, logger.disabled = logger.disabled, True
    try:
        with torch.no_grad(), nullcontext() if content else FakeTensorMode(allow_non_fake_inputs=True):
            yield
    finally:
        logger.disabled = silent
        for now, old in before:
            now.clear()
            now.update(old)


_WINDOWS = 2
"""Default number of attention windows in a text: a single one would behave as if there were no windows."""


_USUAL_TOKENS, _USUAL_SAMPLES = 128, 16000
"""The lengths of a text and of a sound that are fixed where forward is written for one length."""


def _length_spec(config: Any) -> DimSpec:
    """Return the length of a text: at most the number of positions, or a number of whole windows."""
    if window := attention_window(config):
        return DimSpec(_WINDOWS * window)
    given = getattr(config, "max_position_embeddings", None)
    longest = given if isinstance(given, int) and given > 0 else None  # XLNet's -1 means any length
    return DimSpec(name=SEQUENCE.name, high=longest, usual=min(longest or _USUAL_TOKENS, _USUAL_TOKENS))


def attention_window(config: Any) -> int:
    """Return the width of Longformer's and LED's windows, the widest of all layers; 0 without windows.

    They pad a text to whole windows and read them by strides, so a capture has one text length.
    """
    given = getattr(config, "attention_window", 0)
    widths = given if isinstance(given, (list, tuple)) else [given]
    return max((w for w in widths if isinstance(w, int)), default=0)


def encoder_specs(model: Any) -> list[InputSpec]:
    """Return the inputs of the encoder of an encoder with a decoder."""
    found = [s for s in _default_specs(model) if s.name != "decoder_input_ids"]
    main = _main_input(model)
    if main == "input_ids":  # the decoder also takes this mask, with the same length
        window = attention_window(model.config)
        tokens = DimSpec(_WINDOWS * window) if window else ENCODER_SEQUENCE
        found = [
            InputSpec(s.name, s.dtype, (BATCH, tokens)) for s in found if s.name in ("input_ids", "attention_mask")
        ]
    return found


def _image_specs(config: Any, known: Collection[str]) -> list[InputSpec]:
    """Return the input for images; for a forward with `spatial_shapes`, as SigLIP 2 has, their patches.

    known: the parameters of forward.
    """
    if "spatial_shapes" not in known:
        return [_image_spec(config)]
    size = config.num_channels * config.patch_size**2
    patches = DimSpec(name="num_patches", low=config.num_patches)
    shapes = {
        "pixel_values": (patches, DimSpec(size)),
        "pixel_attention_mask": (patches,),
        "spatial_shapes": (DimSpec(2),),
    }
    return [
        InputSpec(name, "float32" if name == "pixel_values" else "int64", (BATCH, *dims))
        for name, dims in shapes.items()
    ]


def _image_spec(config: Any) -> InputSpec:
    """Return the input for images, or for videos of so many frames."""
    frames = [n] if isinstance(n := getattr(config, "num_frames", None), int) else []
    size = _first_in_parts(config, ("image_size",), 224)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    sizes = timm_image_size(config) or (_first_in_parts(config, ("num_channels",), 3), height, width)
    return InputSpec("pixel_values", "float32", (BATCH, *map(DimSpec, (*frames, *sizes))))


def _with_open_size(model: Any, image: InputSpec) -> InputSpec:
    """Return the input for images with dynamic height and width, if forward accepts another size than the usual one."""
    *others, height, width = image.shape or ()
    if len(others) != 2 or height.size is None or width.size is None:
        return image
    sizes = (DimSpec(name="height", usual=height.size), DimSpec(name="width", usual=width.size))
    free = InputSpec(image.name, image.dtype, (*others, *sizes))
    larger = {"height": height.size + STEP, "width": width.size + 2 * STEP}
    return free if _runs(model, [free], larger) else image


def _first_in_parts(config: Any, keys: Sequence[str], usual: Any) -> Any:
    """Return the value of one of `keys` in a configuration, else in one of its parts, such as `backbone_config`;
    `usual` if none has it.
    """
    waiting = [config]
    while waiting:
        each = waiting.pop(0)
        for key in keys:
            if (found := getattr(each, key, None)) is not None:
                return found
        waiting += [part for part in vars(each).values() if hasattr(part, "model_type")]
    return usual


def _decoder_specs(model: Any) -> list[InputSpec]:
    """Return the new tokens, a mask for these and the cached ones, the positions of the new ones, and the cache.

    A cache without keys has no length, so the mask has a length of its own; its last places belong to the new tokens.
    """
    known = inspect.signature(model.forward).parameters
    cache = _past_specs(model)
    attends = any(str(s.name).endswith("_key") for s in cache)
    shapes = {
        "input_ids": (BATCH, SEQUENCE),
        "attention_mask": (BATCH, _ALL_TOKENS if attends else TOTAL_SEQUENCE),
        "position_ids": (BATCH, SEQUENCE),
    }
    return [*(InputSpec(name, "int64", shape) for name, shape in shapes.items() if name in known), *cache]


def _past_specs(model: Any) -> list[InputSpec]:
    """Return the parts of a decoder's cache. Raises `Unsupported` for an encoder with a decoder, and as `cache_specs`
    does.
    """
    if getattr(model.config, "is_encoder_decoder", False):
        raise Unsupported(
            f"{PAST} of an encoder with a decoder, whose cache has two halves",
            hint=f"leave out --input {PAST}:…, or convert the encoder and the decoder one by one",
        )
    return cache_specs(model, partial(cache_of_run, model))


def cache_of_run(model: Any, rows: int, length: int) -> Any:
    """Return the cache of a run on fake tensors. Raises `Unsupported` for a forward that fails or returns none."""
    from ..export.patch_table import Stage, patched  # its import takes as long as the import of the program reader

    with patched(Stage.CACHE_SIZES), trial_run(model):
        ids = torch.ones(rows, length, dtype=torch.int64)
        try:
            cache = model.forward(input_ids=ids, use_cache=True, return_dict=True).get(cache_parameter(model))
        except Exception as error:  # any exception of a forward
            raise Unsupported(
                f"{type(model).__name__} does not run with a cache on tensors without content: "
                f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
                hint=WITHOUT_CACHE,
            ) from error
    if cache is None:
        raise Unsupported(f"{type(model).__name__} returns no cache", hint=WITHOUT_CACHE)
    return cache


def attention_of_capture() -> AbstractContextManager[Any]:
    """Return patches for the capture of a model that treat one query like many; otherwise a null context."""
    if not torch.compiler.is_exporting():
        return nullcontext()
    from ..export.patch_table import Stage, patched

    return patched(Stage.CACHE)
