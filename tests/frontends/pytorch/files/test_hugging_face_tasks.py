"""Each task chooses the class of transformers that has its head."""

from __future__ import annotations

from typing import Any

import pytest
from convert.frontends.pytorch.files.hugging_face_tasks import _CLASSES, TASK, model_class

from convert.errors import UsageError
from tests.support.timm_helper import declare_torchvision_operators

declare_torchvision_operators()
transformers: Any = pytest.importorskip("transformers", reason="the classes are those of transformers")


@pytest.mark.parametrize(
    ("kind", "task", "name"),
    [
        ("bert", "next-sentence-prediction", "BertForNextSentencePrediction"),
        ("bert", "multiple-choice", "BertForMultipleChoice"),
        ("bert", "token-classification", "BertForTokenClassification"),
        ("wav2vec2", "automatic-speech-recognition", "Wav2Vec2ForCTC"),
        ("whisper", "automatic-speech-recognition", "WhisperForConditionalGeneration"),
        ("wav2vec2", "audio-frame-classification", "Wav2Vec2ForAudioFrameClassification"),
        ("wav2vec2", "audio-xvector", "Wav2Vec2ForXVector"),
        ("wav2vec2", "audio-classification", "Wav2Vec2ForSequenceClassification"),
        ("segformer", "image-segmentation", "SegformerForSemanticSegmentation"),
        ("mask2former", "image-segmentation", "Mask2FormerForUniversalSegmentation"),
        ("detr", "image-segmentation", "DetrForSegmentation"),
        ("vit", "masked-im", "ViTForMaskedImageModeling"),
        ("owlvit", "zero-shot-object-detection", "OwlViTForObjectDetection"),
        ("swin2sr", "image-to-image", "Swin2SRForImageSuperResolution"),
        ("superpoint", "keypoint-detection", "SuperPointForKeypointDetection"),
        ("videomae", "video-classification", "VideoMAEForVideoClassification"),
        ("vilt", "visual-question-answering", "ViltForQuestionAnswering"),
        ("t5", "sentence-similarity", "T5EncoderModel"),
        ("bert", "sentence-similarity", "BertModel"),
        ("qwen3", "sentence-similarity", "Qwen3Model"),
        ("layoutlm", "document-question-answering", "LayoutLMForQuestionAnswering"),
        ("tapas", "table-question-answering", "TapasForQuestionAnswering"),
        ("bert", "pretraining", "BertForPreTraining"),
        ("sam", "mask-generation", "SamModel"),
        ("vitmatte", "image-matting", "VitMatteForImageMatting"),
        ("vitpose", "pose-estimation", "VitPoseForPoseEstimation"),
        ("blip", "image-to-text", "BlipForConditionalGeneration"),
        ("speecht5", "text-to-audio", "SpeechT5ForTextToSpeech"),
        ("vits", "text-to-speech", "VitsModel"),
        ("dac", "audio-tokenization", "DacModel"),
        ("timesfm", "time-series-forecasting", "TimesFmModelForPrediction"),
        ("parakeet_tdt", "automatic-speech-recognition", "ParakeetForTDT"),
    ],
)
def test_the_class_of_a_task(kind: str, task: str, name: str) -> None:
    assert model_class(transformers, {"model_type": kind}, task).__name__ == name


def test_every_task_has_a_class_in_transformers() -> None:
    for task in TASK.choices or ():
        assert model_class(transformers, {"model_type": "a kind of tomorrow"}, str(task)).__name__.startswith("Auto")


def test_every_head_of_transformers_has_a_task() -> None:
    from transformers.models.auto import modeling_auto

    known = {name for names in _CLASSES.values() for name in names}
    heads = {n for n in vars(modeling_auto) if n.startswith("AutoModel") and hasattr(transformers, n)}
    assert heads <= known


def test_a_task_that_a_kind_does_not_have_is_refused_with_a_list() -> None:
    with pytest.raises(UsageError, match="has no bert model for depth-estimation") as caught:
        model_class(transformers, {"model_type": "bert"}, "depth-estimation")
    assert "fill-mask, next-sentence-prediction" in caught.value.hint
    assert "image-classification" not in caught.value.hint
