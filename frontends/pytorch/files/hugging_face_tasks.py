"""The task that a Hugging Face model is converted for: the class to build, and whether it has a cache."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from convert.errors import UsageError
from convert.plugin import Option

from .hugging_face_timm import TIMM, is_timm, timm_task

SENTENCE_TASK, MODULES_FILE = "sentence-similarity", "modules.json"
"""The task of sentence-transformers folders, and the file that lists their modules."""
WITH_PAST = "text-generation-with-past"
_CLASSES: dict[str, tuple[str, ...]] = {
    "": ("AutoModel",),
    "feature-extraction": ("AutoModel",),
    SENTENCE_TASK: ("AutoModelForTextEncoding", "AutoModel"),  # sentence-transformers has the encoder of T5 only
    "fill-mask": ("AutoModelForMaskedLM",),
    "next-sentence-prediction": ("AutoModelForNextSentencePrediction",),
    "text-generation": ("AutoModelForCausalLM",),
    WITH_PAST: ("AutoModelForCausalLM",),
    "text2text-generation": ("AutoModelForSeq2SeqLM",),
    "text2text-generation-with-past": ("AutoModelForSeq2SeqLM",),
    "text-classification": ("AutoModelForSequenceClassification",),
    "token-classification": ("AutoModelForTokenClassification",),
    "question-answering": ("AutoModelForQuestionAnswering",),
    "multiple-choice": ("AutoModelForMultipleChoice",),
    "table-question-answering": ("AutoModelForTableQuestionAnswering",),
    "pretraining": ("AutoModelForPreTraining",),
    "image-classification": ("AutoModelForImageClassification",),
    "image-segmentation": (
        "AutoModelForImageSegmentation", "AutoModelForSemanticSegmentation", "AutoModelForInstanceSegmentation",
        "AutoModelForUniversalSegmentation",
    ),
    "semantic-segmentation": ("AutoModelForSemanticSegmentation",),
    "object-detection": ("AutoModelForObjectDetection",),
    "zero-shot-object-detection": ("AutoModelForZeroShotObjectDetection",),
    "depth-estimation": ("AutoModelForDepthEstimation",),
    "normal-estimation": ("AutoModelForNormalEstimation",),
    "pointmap-estimation": ("AutoModelForPointmapEstimation",),
    "pose-estimation": ("AutoModelForPoseEstimation",),
    "mask-generation": ("AutoModelForMaskGeneration",),
    "image-matting": ("AutoModelForImageMatting",),
    "image-to-image": ("AutoModelForImageToImage",),
    "image-to-text": ("AutoModelForImageTextToText",),
    "image-text-to-text": ("AutoModelForImageTextToText",),
    "any-to-any": ("AutoModelForMultimodalLM",),
    "text-recognition": ("AutoModelForTextRecognition",),
    "table-recognition": ("AutoModelForTableRecognition",),
    "masked-im": ("AutoModelForMaskedImageModeling",),
    "keypoint-detection": ("AutoModelForKeypointDetection",),
    "keypoint-matching": ("AutoModelForKeypointMatching",),
    "video-classification": ("AutoModelForVideoClassification",),
    "zero-shot-image-classification": ("AutoModelForZeroShotImageClassification",),
    "visual-question-answering": ("AutoModelForVisualQuestionAnswering",),
    "document-question-answering": ("AutoModelForDocumentQuestionAnswering",),
    "audio-classification": ("AutoModelForAudioClassification",),
    "audio-frame-classification": ("AutoModelForAudioFrameClassification",),
    "audio-xvector": ("AutoModelForAudioXVector",),
    "audio-tokenization": ("AutoModelForAudioTokenization",),
    "text-to-audio": ("AutoModelForTextToWaveform", "AutoModelForTextToSpectrogram"),
    "text-to-speech": ("AutoModelForTextToWaveform", "AutoModelForTextToSpectrogram"),
    "time-series-forecasting": ("AutoModelForTimeSeriesPrediction",),
    "decision": ("AutoModelForDecision",),
    "automatic-speech-recognition": (
        "AutoModelForSpeechSeq2Seq", "AutoModelForCTC", "AutoModelForRNNT", "AutoModelForTDT",
    ),
    "automatic-speech-recognition-with-past": ("AutoModelForSpeechSeq2Seq",),
}  # fmt: skip
"""The classes in transformers for the tasks of the hub, for those that optimum adds, and for heads that have no task
there. The first class that knows the kind of the model is taken.
"""

TASK = Option(
    "task",
    "",
    "Task of a Hugging Face model, e.g. text-generation; by default the one that config.json names.",
    choices=tuple(name for name in _CLASSES if name),
    metavar="TASK",
)

PART = Option(
    "part",
    "",
    "The part to convert: encoder, decoder or decoder-with-past of a Hugging Face folder; vision-encoder, text-encoder,"
    " embed-tokens or decoder of one for texts and pictures; or the key of one of the modules in a checkpoint.",
    metavar="NAME",
)
ADAPTER = Option(
    "adapter",
    "",
    "Folder of a LoRA adapter, which is merged into the weights of a Hugging Face folder.",
    metavar="FOLDER",
)
_WITH_PAST_TOO = "-with-past"


def has_sentence_modules(path: Path, task: str) -> bool:
    """Return whether a folder is converted with the modules in its modules.json: unless another task is requested."""
    return task in ("", SENTENCE_TASK) and (path / MODULES_FILE).is_file()


def parts_of_task(config: Mapping[str, Any], task: str) -> dict[str, str]:
    """Return the files that a model is written as for a task, by suffix, each with its part; empty for a single model.

    If no task is given, it is the task of the model's class.
    """
    if not config.get("is_encoder_decoder", config.get("model_type") in _ALWAYS_BOTH):
        return {}
    files = {"encoder_model": "encoder", "decoder_model": "decoder", "decoder_with_past_model": "decoder-with-past"}
    if task in ("text2text-generation", "automatic-speech-recognition"):
        return {name: part for name, part in files.items() if _WITH_PAST_TOO not in part}
    names = config.get("architectures")
    generates = isinstance(names, list) and any(str(name).endswith(_GENERATING) for name in names)
    by_itself = not task and generates and config.get("model_type") in _ALWAYS_BOTH
    return files if by_itself or task.endswith(_WITH_PAST_TOO) else {}


_ALWAYS_BOTH = ("t5", "mt5", "bart", "mbart", "marian", "pegasus", "whisper")
_GENERATING = ("ForConditionalGeneration", "MTModel")
"""Patterns of the names of classes that generate."""


def model_class(transformers: Any, config: Mapping[str, Any], task: str) -> Any:
    """Return the class to build: the task's, else the one that config.json names, else AutoModel's.

    It is imported here, because the thread that builds it cannot write files, as PyTorch's compiler does at import.
    """
    names = config.get("architectures")
    if is_timm(config) and not names:
        config, task = {**config, "model_type": TIMM}, task or timm_task(config)
    for name in names if isinstance(names, list) and not task else ():
        found = getattr(transformers, str(name), None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found
    classes = _classes(transformers, task)
    configs = transformers.models.auto.configuration_auto.CONFIG_MAPPING
    kind = str(config.get("model_type"))
    if kind not in configs and classes:
        return classes[0]
    own = _first_known(classes, configs[kind])
    if own is None and task:
        others = [name for name in _CLASSES if name and _first_known(_classes(transformers, name), configs[kind])]
        hint = f"leave out --task, or give one of: {', '.join(others)}" if others else "leave out --task"
        raise UsageError(f"transformers has no {kind} model for {task}", hint=hint)
    return own if isinstance(own, type) else classes[0]


def _classes(transformers: Any, task: str) -> list[Any]:
    """Return the classes of a task that this version of transformers has."""
    return [getattr(transformers, name) for name in _CLASSES[task] if hasattr(transformers, name)]


def _first_known(classes: Iterable[Any], config: Any) -> Any:
    """Return the model that one of `classes` builds for a class of configurations; None if none does."""
    found = (each._model_mapping.get(config, None) for each in classes)
    return next((model for model in found if model is not None), None)


def cache_parameter(model: Any) -> str:
    """Return the name of the cache parameter of a forward: `cache` from transformers 5.24 on; empty without one.

    model: a model or its class.
    """
    known = inspect.signature(model.forward).parameters
    return next((name for name in ("past_key_values", "cache") if name in known), "")


def generates_with_cache(model: Any, task: str) -> bool:
    """Return whether keys and values of earlier tokens are inputs and outputs: the default for decoders that generate
    text.

    Raises `UsageError` if this is requested for a model without such a cache.
    """
    able = bool(cache_parameter(model)) and not getattr(model.config, "is_encoder_decoder", False)
    if task == WITH_PAST and not able:
        raise UsageError(
            f"{type(model).__name__} has no cache of keys and values that is an input of its own",
            hint="--task text-generation converts it without",
        )
    if task or not able or not model.can_generate():
        return task == WITH_PAST
    return bool(getattr(model.config.get_text_config(), "use_cache", True))
