"""Parts of text and image models, and the note about modules that no input reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends import pytorch as frontend
from convert.frontends.pytorch.common.used_weights import unused_modules

from convert.errors import UsageError
from convert.outcome.report import Report
from convert.request.options import Options, parse_input
from convert.request.source import Source
from tests.support.pytorch_tools import run
from tests.support.timm_helper import declare_torchvision_operators

declare_torchvision_operators()
transformers: Any = pytest.importorskip("transformers", reason="Hugging Face folders need transformers")

LAYERS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 32}
TEXT = {"vocab_size": 50, **LAYERS}
VISION = {**LAYERS, "num_hidden_layers": 2, "image_size": 32, "patch_size": 8}
LLAMA = {**TEXT, "num_key_value_heads": 2, "max_position_embeddings": 64}


def make(name: str) -> Any:
    """A tiny network with random weights."""
    t = transformers
    conv = {"conv_dim": (8, 8), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2}
    positions = {"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
    qwen = {"depth": 1, "embed_dim": 16, "hidden_size": 16, "num_heads": 2, "patch_size": 4}
    mrope = {"type": "mrope", "mrope_section": [1, 1, 0], "rope_type": "default"}
    makers = {
        "llava": lambda: t.LlavaForConditionalGeneration(
            t.LlavaConfig(
                vision_config=t.CLIPVisionConfig(**VISION), text_config=t.LlamaConfig(**LLAMA), image_token_id=49
            )
        ),
        "qwen2-vl": lambda: t.Qwen2VLForConditionalGeneration(
            t.Qwen2VLConfig(text_config={**LLAMA, "rope_scaling": mrope}, vision_config=qwen)
        ),
        "bert": lambda: t.BertModel(t.BertConfig(**TEXT)),
        "tied embeddings": lambda: t.BertForMaskedLM(t.BertConfig(**TEXT)),
        "a mask token": lambda: t.Dinov2Model(
            t.Dinov2Config(hidden_size=16, num_hidden_layers=1, num_attention_heads=4, image_size=32, patch_size=8)
        ),
        "a mask of sound": lambda: t.Wav2Vec2ForCTC(t.Wav2Vec2Config(**TEXT, **conv, **positions)),
        "experts": lambda: t.MixtralForCausalLM(t.MixtralConfig(**LLAMA, num_local_experts=4, sliding_window=None)),
    }
    torch.manual_seed(0)
    return makers[name]().eval()


def two_towers(name: str) -> Any:
    """A tiny network with random weights for texts and pictures."""
    text = {**TEXT, "max_position_embeddings": 20, "bos_token_id": 1, "eos_token_id": 2}
    sizes = {"text_config": text, "vision_config": VISION}
    t = transformers
    torch.manual_seed(0)
    return (t.CLIPModel(t.CLIPConfig(**sizes)) if name == "clip" else t.SiglipModel(t.SiglipConfig(**sizes))).eval()


def notes(module: Any, *specs: str) -> list[str]:
    report = Report("convert")
    options = Options(inputs=tuple(map(parse_input, specs)))
    frontend.read(Source("torch-module-object", model=module), options, report)
    return [str(note) for note in report.notes if note.code == "unused-modules"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "modules", "inputs"),
    [
        ("llava", ["model.vision_tower", "model.multi_modal_projector"], "pixel_values, image_sizes:"),
        ("qwen2-vl", ["model.visual"], "pixel_values, pixel_values_videos, image_grid_thw,"),
    ],
)
def test_a_part_that_no_input_reaches_is_told(name: str, modules: list[str], inputs: str) -> None:
    module = make(name)
    (found,) = notes(module)
    total = sum(p.numel() for p in module.parameters())
    for each in modules:
        count = sum(p.numel() for p in module.get_submodule(each).parameters())
        assert f"{each} ({count:,} of {total:,} parameters)" in found
    assert found.count(" parameters)") == len(modules)
    assert f"with input_ids, attention_mask, position_ids alone; forward also takes {inputs}" in found
    assert found.endswith("; --part vision-encoder, embed-tokens, decoder converts it part by part")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "tied embeddings", "a mask token", "a mask of sound", "experts"])
def test_no_module_is_told_where_all_are_read(name: str) -> None:
    assert notes(make(name)) == []


@pytest.mark.slow
def test_pictures_of_llava_may_be_asked_for(tmp_path: Path) -> None:
    module = make("llava")
    specs = "input_ids:int64[1,20]", "pixel_values:float32[1,3,32,32]"
    assert notes(module, *specs) == []
    options = Options(inputs=tuple(map(parse_input, specs)))
    model = frontend.read(Source("torch-module-object", model=module), options, Report("convert"))
    ids = np.arange(20)[None] % 40
    ids[0, 1:17] = 49  # a position for each of the 16 patches
    for seed in range(2):
        picture = np.random.default_rng(seed).normal(size=(1, 3, 32, 32)).astype(np.float32)
        with torch.no_grad():
            want = module(input_ids=torch.from_numpy(ids), pixel_values=torch.from_numpy(picture)).logits
        np.testing.assert_allclose(run(model, ids, picture)[0], want.numpy(), rtol=1e-4, atol=2e-5)


def read_part(module: Any, part: str, *specs: str) -> Any:
    options = Options(inputs=tuple(map(parse_input, specs)), extra={"part": part})
    report = Report("convert")
    model = frontend.read(Source("torch-module-object", model=module), options, report)
    assert [note for note in report.notes if note.code == "unused-modules"] == []
    return model, [v.name for v in model.graph.outputs]


@pytest.mark.slow
def test_the_parts_of_llava_give_what_the_whole_gives() -> None:
    """The runtime replaces the image tokens by the features of an image."""
    module = make("llava")
    seeing, outputs = read_part(module, "vision-encoder")
    assert outputs == ["image_features"]
    embedding, outputs = read_part(module, "embed-tokens")
    assert outputs == ["inputs_embeds"]
    decoder, outputs = read_part(module, "decoder")
    assert outputs == ["logits", "present.0.key", "present.0.value"]
    ids = np.arange(20)[None] % 40
    ids[0, 1:17] = 49  # a position for each of the 16 patches
    picture = np.random.default_rng(0).normal(size=(1, 3, 32, 32)).astype(np.float32)
    with torch.no_grad():
        want = module(input_ids=torch.from_numpy(ids), pixel_values=torch.from_numpy(picture)).logits.numpy()
    embeds = run(embedding, ids)[0]
    embeds[ids == 49] = run(seeing, picture)[0]
    found, *cache = run(
        decoder, embeds[:, :18], np.ones((1, 18), int), np.arange(18)[None], *2 * [np.zeros((1, 2, 0, 4), np.float32)]
    )
    rest = run(decoder, embeds[:, 18:], np.ones((1, 20), int), np.arange(18, 20)[None], *cache)
    np.testing.assert_allclose(np.concatenate([found, rest[0]], 1), want, rtol=1e-4, atol=2e-5)


@pytest.mark.slow
def test_a_decoder_of_qwen2_vl_takes_places_in_three_dims() -> None:
    """The vision encoder of Qwen2-VL decides on data, and the sizes of images are an input that must be described."""
    decoder, outputs = read_part(make("qwen2-vl"), "decoder")
    assert outputs[0] == "logits"
    places = {v.name: list(map(str, v.shape)) for v in decoder.graph.inputs}["position_ids"]
    assert places == ["3", "batch_size", "sequence_length"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_the_encoders_of_two_towers_give_their_embeddings(name: str) -> None:
    module = two_towers(name)
    text, outputs = read_part(module, "text-encoder")
    assert outputs == ["text_embeds"]
    vision, outputs = read_part(module, "vision-encoder")
    assert outputs == ["image_embeds"]
    ids = np.array([[5, 9, 7, 3, 2]] * 3)
    picture = np.random.default_rng(0).normal(size=(2, 3, 32, 32)).astype(np.float32)
    with torch.no_grad():
        want = module(input_ids=torch.from_numpy(ids), pixel_values=torch.from_numpy(picture))
    found = run(text, ids, np.ones_like(ids))[0], run(vision, picture)[0]
    for got, wanted in zip(found, (want.text_embeds, want.image_embeds), strict=True):  # they are normalized there
        got = got / np.linalg.norm(got, axis=1, keepdims=True)
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "part", "told"),
    [
        ("llava", "encoder", "its parts are vision-encoder, embed-tokens, decoder"),
        ("clip", "decoder", "its parts are text-encoder, vision-encoder"),
        ("bert", "vision-encoder", "leave out --part"),
    ],
)
def test_a_part_that_there_is_not_is_refused(name: str, part: str, told: str) -> None:
    module = two_towers(name) if name == "clip" else make(name)
    with pytest.raises(UsageError) as caught:
        read_part(module, part)
    assert caught.value.hint == told


@pytest.mark.slow
def test_the_number_of_pictures_is_told_where_they_are_taken_apart() -> None:
    module = make("llava")
    report = Report("convert")
    options = Options(extra={"part": "vision-encoder"})
    frontend.read(Source("torch-module-object", model=module), options, report)
    (found,) = (note for note in report.notes if note.code == "fixed-dim")
    assert "set another number N with --input pixel_values:float32[N,3,32,32]" in found
    model, _ = read_part(module, "vision-encoder", "pixel_values:float32[3,3,32,32]")
    assert list(model.graph.outputs[0].shape) == [48, 16]


def test_the_outermost_modules_are_told_and_shared_weights_are_read_by_any_name() -> None:
    linear = torch.nn.Linear(2, 2)
    tower = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.Linear(3, 1)))
    module = torch.nn.ModuleDict(
        {"a": linear, "b": torch.nn.Sequential(linear), "tower": tower, "none": torch.nn.ReLU()}
    )
    assert unused_modules(module, {"a.weight"}) == {"tower": 13}
    assert unused_modules(module, {"b.0.bias", "tower.0.weight"}) == {"tower.1": 4}
