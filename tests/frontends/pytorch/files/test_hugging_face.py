"""Hugging Face models, tiny and random, in folders and in memory, against transformers itself."""

from __future__ import annotations

import json
import os
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from convert.frontends import pytorch as frontend
from convert.frontends.pytorch.files.hugging_face_cache import cache_outputs, cache_specs, filled_cache, form_of_cache
from convert.frontends.pytorch.files.hugging_face_inputs import requested_specs
from convert.frontends.pytorch.runner import runner

import convert
from convert.errors import BadInput, UnsafeInput, Unsupported, UsageError
from convert.files.companions import copy_companions
from convert.files.sniff import sniff
from convert.graph.metadata import RANGE_KEY
from convert.outcome.report import Report
from convert.parity.inputs.feeds import generate_feeds, smallest_feed
from convert.request.options import Options, parse_input
from convert.request.source import Source
from tests.suites import folder_models
from tests.support.greedy import greedy
from tests.support.pytorch_tools import run
from tests.support.timm_helper import declare_torchvision_operators

declare_torchvision_operators()
transformers: Any = pytest.importorskip("transformers", reason="Hugging Face folders need transformers")

SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}

_RECURRENT = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "eos_token_id": 2}

LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.5], "long_factor": [2.0, 4.0],
        "original_max_position_embeddings": 3}  # fmt: skip
"""Longer texts than 3 tokens take the long factors. Across that length, `generate` of transformers computes anew."""


def make(name: str) -> Any:
    """Return a tiny network with random weights that are large enough to matter."""
    torch.manual_seed(0)
    t = transformers
    makers = {
        "bert": lambda: t.BertModel(t.BertConfig(**SMALL, max_position_embeddings=64)),
        "classifier": lambda: t.BertForSequenceClassification(t.BertConfig(**SMALL, max_position_embeddings=64)),
        "gpt2": lambda: t.GPT2LMHeadModel(
            t.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=64, bos_token_id=0, eos_token_id=0)
        ),
        "falcon": lambda: t.FalconForCausalLM(t.FalconConfig(**SMALL, multi_query=True)),
        "clip": lambda: t.CLIPModel(
            t.CLIPConfig(
                text_config=dict(**SMALL, max_position_embeddings=20, bos_token_id=1, eos_token_id=2),
                vision_config=dict(**SMALL, image_size=32, patch_size=8),
            )
        ),
        "spectrogram": lambda: t.ASTForAudioClassification(t.ASTConfig(**SMALL, max_length=64, num_mel_bins=32)),
        "llama": lambda: t.LlamaForCausalLM(
            t.LlamaConfig(**SMALL, num_key_value_heads=2, max_position_embeddings=64)
        ),
        "mixtral": lambda: t.MixtralForCausalLM(
            t.MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4, sliding_window=None)
        ),
        "lfm2": lambda: t.Lfm2ForCausalLM(
            t.Lfm2Config(**SMALL, num_key_value_heads=2, layer_types=["conv", "full_attention"], eos_token_id=2)
        ),
        "mamba": lambda: t.MambaForCausalLM(t.MambaConfig(**_RECURRENT, state_size=4)),
        "mamba2": lambda: t.Mamba2ForCausalLM(
            t.Mamba2Config(**_RECURRENT, state_size=4, num_heads=4, head_dim=8, n_groups=1, chunk_size=4)
        ),
        "jamba": lambda: t.JambaForCausalLM(
            t.JambaConfig(**SMALL, num_key_value_heads=2, mamba_d_state=4, mamba_dt_rank=2, num_experts=1,
                          attn_layer_period=2, attn_layer_offset=1, eos_token_id=2)
        ),
        "qwen3_next": lambda: t.Qwen3NextForCausalLM(
            t.Qwen3NextConfig(**SMALL, num_key_value_heads=2, head_dim=4, num_experts=2, num_experts_per_tok=1,
                              moe_intermediate_size=8, shared_expert_intermediate_size=8, linear_num_key_heads=2,
                              linear_num_value_heads=4, linear_key_head_dim=4, linear_value_head_dim=4,
                              layer_types=["linear_attention", "full_attention"], eos_token_id=2)
        ),
        "minimax": lambda: t.MiniMaxForCausalLM(
            t.MiniMaxConfig(**SMALL, num_key_value_heads=2, head_dim=4, num_local_experts=2, block_size=4,
                            layer_types=["full_attention", "linear_attention"], eos_token_id=2)
        ),
        "jetmoe": lambda: t.JetMoeForCausalLM(
            t.JetMoeConfig(**SMALL, num_key_value_heads=2, kv_channels=4, num_local_experts=3, eos_token_id=2)
        ),
        "longrope": lambda: t.Phi3ForCausalLM(
            t.Phi3Config(**SMALL, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, eos_token_id=2,
                         original_max_position_embeddings=3, rope_parameters=LONG)
        ),
        "longformer": lambda: t.LongformerForSequenceClassification(
            t.LongformerConfig(**SMALL, attention_window=4, max_position_embeddings=40, pad_token_id=1)
        ),
        "t5": lambda: t.T5ForConditionalGeneration(
            t.T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0)
        ),
        "canine": lambda: t.CanineModel(
            t.CanineConfig(**{k: v for k, v in SMALL.items() if k != "vocab_size"}, max_position_embeddings=32,
                           num_hash_buckets=32, downsampling_rate=4, local_transformer_stride=16)
        ),
        "dinov2": lambda: t.Dinov2Model(t.Dinov2Config(**{k: v for k, v in SMALL.items() if k != "vocab_size"},
                                                       image_size=32, patch_size=8)),
        "vit": lambda: t.ViTModel(t.ViTConfig(**{k: v for k, v in SMALL.items() if k != "vocab_size"},
                                              image_size=32, patch_size=8)),
    }  # fmt: skip
    model = makers[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return model


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hf")
    names = (
        "bert",
        "canine",
        "classifier",
        "clip",
        "dinov2",
        "falcon",
        "gpt2",
        "jamba",
        "jetmoe",
        "lfm2",
        "llama",
        "longformer",
        "longrope",
        "mamba",
        "mamba2",
        "minimax",
        "mixtral",
        "qwen3_next",
        "spectrogram",
        "t5",
        "vit",
    )
    for name in names:
        make(name).save_pretrained(folder / name)
    return folder


long = pytest.mark.long  # these take several seconds each
TEXT = ["input_ids", "attention_mask", "token_type_ids"]
TOWERS = [f"{t}_model_output.{o}" for t in ("text", "vision") for o in ("last_hidden_state", "pooler_output")]
CLIP = ["logits_per_image", "logits_per_text", "text_embeds", "image_embeds", *TOWERS]
CASES = [
    pytest.param("bert", TEXT, ["last_hidden_state", "pooler_output"]),
    pytest.param("classifier", TEXT, ["logits"], marks=long),
    pytest.param("gpt2", TEXT[:2], ["logits"], marks=long),
    pytest.param("longformer", TEXT, ["logits"], marks=long),
    pytest.param("clip", [*TEXT[:2], "pixel_values"], CLIP, marks=long),
    pytest.param("spectrogram", ["input_values"], ["logits"], marks=long),
    pytest.param("t5", [*TEXT[:2], "decoder_input_ids"], ["logits", "encoder_last_hidden_state"], marks=long),
    pytest.param("vit", ["pixel_values"], ["last_hidden_state", "pooler_output"], marks=long),
]


WITHOUT_CACHE = {"gpt2": {"task": "text-generation"}}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "inputs", "outputs"), CASES)
def test_a_folder_gives_what_transformers_gives(
    name: str, inputs: list[str], outputs: list[str], folders: Path
) -> None:
    path = folders / name
    assert sniff(path) == "hf-folder"
    report = Report("convert")
    model = frontend.read(Source("hf-folder", path), Options(extra=WITHOUT_CACHE.get(name, {})), report)
    assert [v.name for v in model.graph.inputs] == inputs
    assert [v.name for v in model.graph.outputs] == outputs
    assert any(type(make(name)).__name__ in note for note in report.notes)
    module = make(name)
    for feed in generate_feeds(model):
        with torch.no_grad():
            want = module(**{k: torch.from_numpy(np.array(a)) for k, a in feed.arrays.items()})
        for output, got in zip(outputs, run(model, *feed.arrays.values()), strict=True):
            wanted = reduce(lambda part, name: part[name], output.split("."), want)
            np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", pytest.param("llama", marks=long)])
def test_the_cache_is_passed_on_from_step_to_step(name: str, folders: Path) -> None:
    specs = (parse_input("past_key_values:float32"),)
    source = Source("hf-folder", folders / name)
    model = frontend.read(source, Options(inputs=specs), Report("convert"))
    inputs, outputs = ([str(v.name) for v in values] for values in (model.graph.inputs, model.graph.outputs))
    assert inputs[:2] == ["input_ids", "past_key_values.0.key"]
    assert outputs[:2] == ["logits", "present.0.key"]
    first = smallest_feed(model, 0)
    assert first is not None
    assert first.arrays["past_key_values.0.key"].shape[2] == 0  # the first call is verified
    ids = np.array([[3, 9, 27, 31, 43, 29], [1, 2, 4, 8, 16, 32]])
    with torch.no_grad():
        want = make(name)(torch.from_numpy(ids)).logits.numpy()
    shapes = [[2 if d == "batch_size" else d for d in (getattr(d, "value", d) for d in v.shape)]
              for v in list(model.graph.inputs)[1:]]  # fmt: skip
    past = [np.zeros([0 if d == "past_sequence_length" else d for d in shape], np.float32) for shape in shapes]
    seen = 0
    for step in (3, 1, 2):
        feed = dict(zip(inputs, [ids[:, seen : seen + step], *past], strict=True))
        logits, *past = run(model, *feed.values())
        (theirs,) = runner.run(source, [feed], precision="float32", options=Options(inputs=specs))
        np.testing.assert_allclose(logits, want[:, seen : seen + step], rtol=1e-4, atol=2e-5)
        np.testing.assert_allclose(theirs["logits"], logits, rtol=1e-4, atol=2e-5)
        assert list(theirs) == outputs
        seen += step
        assert past[0].shape[2] == seen


def test_experts_do_not_keep_a_cache_from_being_known() -> None:
    """Outside a capture, PyTorch's own grouped product requires bfloat16."""
    specs = requested_specs(make("mixtral"), Options())
    assert [str(s.name) for s in specs][3:5] == ["past_key_values_0_key", "past_key_values_0_value"]
    assert [d.size for d in specs[3].shape or ()][1::2] == [2, 4]


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("mamba", ["conv_0", "ssm_0", "conv_1", "ssm_1"]),
        ("jamba", ["conv_0", "ssm_0", "key_values_1_key", "key_values_1_value"]),
        ("qwen3_next", ["conv_0", "recurrent_0", "key_values_1_key", "key_values_1_value"]),
        ("minimax", ["key_values_0_key", "key_values_0_value", "linear_cache_1"]),
    ],
)
def test_the_states_of_a_recurrence_are_inputs(name: str, states: list[str]) -> None:
    specs = requested_specs(make(name), Options())
    assert [str(s.name) for s in specs if str(s.name).startswith("past_")] == [f"past_{state}" for state in states]


def test_any_tree_of_tensors_is_a_cache() -> None:
    """Sizes of two runs tell the dims; a place that does not depend on the rows is a counter."""

    def run(rows: int, length: int) -> Any:
        return [torch.zeros(rows, 5), {"seen": (torch.zeros(4, rows, length), torch.zeros(1, dtype=torch.int64))}]

    model = make("gpt2")
    specs = cache_specs(model, run)
    assert [str(s) for s in specs] == [
        "past_state_0:float32[batch_size,5]",
        "past_state_1_seen_0:float32[4,batch_size,past_sequence_length]",
        "past_state_1_seen_1:int64[1]",
    ]
    given = {str(s.name): torch.full((2, 2, 2), index) for index, s in enumerate(specs)}
    filled = filled_cache(form_of_cache(specs, run), given)
    assert [each.max().item() for each in (filled[0], *filled[1]["seen"])] == [0, 1, 2]
    assert [name for name, _ in cache_outputs(model, filled)] == [
        f"present_state.{place}" for place in ("0", "1.seen.0", "1.seen.1")
    ]


def test_a_cache_of_other_sizes_is_refused() -> None:
    with pytest.raises(Unsupported, match="grows from 6 to 9 by one row and two tokens") as caught:
        cache_specs(make("gpt2"), lambda rows, length: [torch.zeros(3 * rows)])
    assert caught.value.hint == "--task text-generation converts the model without it"


def test_a_forward_that_returns_no_cache_is_refused() -> None:
    """RecurrentGemma keeps its states in its modules."""
    config = transformers.RecurrentGemmaConfig(**{**SMALL, "num_hidden_layers": 3, "lru_width": 16})
    with pytest.raises(Unsupported, match="returns no cache"):
        requested_specs(transformers.RecurrentGemmaForCausalLM(config).eval(), Options())


def test_a_forward_that_fails_with_its_cache_is_refused() -> None:
    """Kimi Linear asks its layers of attention for a length; this one has none."""
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4}
    others = {"v_head_dim": 4, "pad_token_id": 0, "layer_types": ["linear_attention"]}
    config = transformers.KimiLinearConfig(**sizes, **heads, **others)
    with pytest.raises(Unsupported, match="does not run with a cache on tensors without content: ValueError"):
        requested_specs(transformers.KimiLinearForCausalLM(config).eval(), Options())


GENERATED = 12
DECODERS = ("llama", "falcon", "mixtral", "lfm2", "longrope", "mamba", "mamba2", "minimax", "jetmoe", "qwen3_next")
UNNAMED = pytest.mark.xfail(reason="the joined ways call the length of the mask attention_mask_1", strict=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["gpt2", *(pytest.param(n, marks=long) for n in DECODERS), pytest.param("jamba", marks=[long, UNNAMED])]
)
@pytest.mark.parametrize("padded", [False, True])
def test_onnxruntime_generates_what_transformers_does(name: str, padded: bool, folders: Path, tmp_path: Path) -> None:
    """Tokens are generated greedily, through the cache, one per step; shorter rows are padded on the left."""
    convert.convert(folders / name, "onnx", tmp_path / "model.onnx", verify=False)
    session = ort.InferenceSession(tmp_path / "model.onnx")
    dims = {i.name: i.shape for i in session.get_inputs()}
    attends = any(name.endswith(".key") for name in dims)
    total = "past_sequence_length+sequence_length" if attends else "total_sequence_length"
    assert dims["attention_mask"] == ["batch_size", total]
    assert dims["input_ids"] == dims.get("position_ids", dims["input_ids"]) == ["batch_size", "sequence_length"]
    words = np.array([[3, 9, 27, 31], [1, 2, 4, 8]])
    mask = np.array([[0, 1, 1, 1], [1, 1, 1, 1]]) if padded else np.ones_like(words)
    with torch.no_grad():
        want = make(name).generate(
            torch.from_numpy(words), attention_mask=torch.from_numpy(mask), max_new_tokens=GENERATED,
            min_new_tokens=GENERATED, do_sample=False, pad_token_id=0,
        )  # fmt: skip
    found = greedy(session, words, mask, GENERATED, [make(name).generation_config.eos_token_id])
    assert found.tolist() == want.tolist()


@pytest.mark.slow
def test_a_cache_made_by_the_names_of_dims_fits(folders: Path, tmp_path: Path) -> None:
    """transformers.js uses its batch for `batch_size`, and 0 for every other name in the shape of a cache."""
    convert.convert(folders / "gpt2", "onnx", tmp_path / "model.onnx", verify=False)
    session = ort.InferenceSession(tmp_path / "model.onnx")
    words = np.array([[3, 9, 27, 31]])
    feed = {"input_ids": words, "attention_mask": np.ones_like(words), "position_ids": np.arange(4)[None]}
    for each in session.get_inputs():
        if each.name.startswith("past"):
            shape = [{"batch_size": 1}.get(d, 0) if isinstance(d, str) else d for d in each.shape]
            feed[each.name] = np.zeros(shape, np.float32)
    with torch.no_grad():
        want = make("gpt2")(torch.from_numpy(words)).logits.numpy()
    np.testing.assert_allclose(session.run(["logits"], feed)[0], want, rtol=1e-4, atol=2e-5)


def test_positions_are_left_out_beside_a_file_that_computes_them() -> None:
    """Files of genai's builder have no positions; transformers counts them from the cache."""
    model = make("llama")
    for others, there in (((), True), (("input_ids", "position_ids"), True), (("input_ids", "attention_mask"), False)):
        options = Options(counterparts=others, extra={"task": "text-generation-with-past"})
        names = [spec.name for spec in requested_specs(model, options)]
        assert ("position_ids" in names) == there
        assert {"input_ids", "attention_mask"} <= set(names)
        assert any(str(name).endswith("_key") for name in names)


PLAIN = ["batch_size", "sequence_length"]


@pytest.mark.parametrize(
    ("given", "mask"),
    [
        (["input_ids:int64", "attention_mask:int64"], PLAIN),
        (["input_ids:int64[batch,16]", "attention_mask:int64"], ["batch", "16"]),
        (["attention_mask:int64[2,n]", "input_ids:int64[2,n]"], ["2", "n"]),
        (["input_ids:int64[?,n=2..8]", "attention_mask:int64"], ["batch_size", "n=2..8"]),
    ],
)
def test_an_input_without_a_shape_has_the_dims_of_those_with_one(given: list[str], mask: list[str]) -> None:
    specs = {str(s.name): s for s in requested_specs(make("bert"), Options(inputs=tuple(map(parse_input, given))))}
    assert [str(d).replace("=..64", "") for d in specs["attention_mask"].shape or ()] == mask


def of_parts(name: str) -> Any:
    """A tiny network whose inputs are described by the configuration of one of its parts."""
    t = transformers
    words = t.BertConfig(**SMALL, is_decoder=True, add_cross_attention=True)
    image = {**VISION, "out_features": ["stage1", "stage2"], "image_size": 48}
    sound = {"conv_dim": (8, 8), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2}
    codec = {"num_filters": 4, "upsampling_ratios": [2], "hidden_size": 8, "codebook_size": 8, "num_lstm_layers": 1}
    text = {"vocab_size": 50, "d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    music = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "ffn_dim": 16}
    series = {"d_model": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 16, "patch_length": 8}
    makers = {
        "pictures to words": lambda: t.VisionEncoderDecoderModel(
            encoder=t.ViTModel(t.ViTConfig(**VISION)), decoder=t.BertLMHeadModel(words)
        ),
        "depth": lambda: t.DepthAnythingForDepthEstimation(
            t.DepthAnythingConfig(backbone_config=t.Dinov2Config(**image), neck_hidden_sizes=[8, 8],
                                  reassemble_hidden_size=16, reassemble_factors=[1, 1], fusion_hidden_size=8)
        ),
        "sound to words": lambda: t.SpeechEncoderDecoderModel(
            encoder=t.Wav2Vec2Model(t.Wav2Vec2Config(**SMALL, **sound, num_conv_pos_embedding_groups=2)),
            decoder=t.BertLMHeadModel(words),
        ),
        "words to music": lambda: t.MusicgenForConditionalGeneration(
            t.MusicgenConfig(text_encoder=t.T5Config(**text).to_dict(),
                             audio_encoder=t.EncodecConfig(**codec).to_dict(),
                             decoder=t.MusicgenDecoderConfig(**music, num_codebooks=2).to_dict())
        ),
        "a time series": lambda: t.PatchTSTForPrediction(
            t.PatchTSTConfig(**series, num_input_channels=3, context_length=32, prediction_length=8)
        ),
    }  # fmt: skip
    return makers[name]().eval()


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("pictures to words", "pixel_values:float32[batch_size,3,32,32]"),
        ("depth", "pixel_values:float32[batch_size,3,48,48]"),
        ("sound to words", "input_values:float32[batch_size,sequence_length=400..]"),
        ("words to music", "input_ids:int64[batch_size,sequence_length]"),
        ("a time series", "past_values:float32[batch_size,32,3]"),
    ],
)
def test_inputs_are_found_in_the_configurations_of_parts(name: str, first: str) -> None:
    assert str(requested_specs(of_parts(name), Options())[0]) == first


def of_sounds(name: str) -> Any:
    """A tiny network for sounds or series, whose inputs have a layout of their own."""
    t = transformers
    lags = {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "num_time_features": 1, "d_model": 8}
    voice = {"vocab_size": 50, "hidden_size": 16, "num_mel_bins": 8, "speaker_embedding_dim": 4}
    layers = {f"{part}_{what}": n for part in ("encoder", "decoder")
              for what, n in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 16))}  # fmt: skip
    makers = {
        "codec": lambda: t.DacModel(
            t.DacConfig(encoder_hidden_size=4, decoder_hidden_size=8, downsampling_ratios=[2], upsampling_ratios=[2],
                        n_codebooks=1, codebook_size=8, codebook_dim=4)
        ),
        "frames": lambda: t.Wav2Vec2BertModel(t.Wav2Vec2BertConfig(**SMALL, feature_projection_input_dim=12)),
        "speech to text": lambda: t.Speech2TextForConditionalGeneration(
            t.Speech2TextConfig(vocab_size=50, d_model=16, input_feat_per_channel=8, conv_channels=8, **layers)
        ),
        "text to speech": lambda: t.SpeechT5ForTextToSpeech(t.SpeechT5Config(**voice, **layers)),
        "forecast": lambda: t.InformerForPrediction(t.InformerConfig(**lags, **layers)),
    }  # fmt: skip
    return makers[name]().eval()


@pytest.mark.parametrize(
    ("name", "specs"),
    [
        ("codec", ["input_values:float32[batch_size,1,sequence_length=400..]"]),
        ("frames", ["input_features:float32[batch_size,frames=16..,12]"]),
        (
            "speech to text",
            ["input_features:float32[batch_size,frames=16..,8]",
             "decoder_input_ids:int64[batch_size,decoder_sequence_length]"],
        ),
        (
            "text to speech",
            ["input_ids:int64[batch_size,sequence_length]",
             "attention_mask:int64[batch_size,sequence_length]",
             "decoder_input_values:float32[batch_size,decoder_sequence_length,8]"],
        ),
        (
            "forecast",
            ["past_values:float32[batch_size,10]", "past_time_features:float32[batch_size,10,1]",
             "past_observed_mask:float32[batch_size,10]", "future_values:float32[batch_size,4]",
             "future_time_features:float32[batch_size,4,1]"],
        ),
    ],
)  # fmt: skip
def test_sounds_and_series_have_the_layout_that_forward_takes(name: str, specs: list[str]) -> None:
    assert [str(s) for s in requested_specs(of_sounds(name), Options())] == specs


VISION = {k: v for k, v in SMALL.items() if k != "vocab_size"} | {"image_size": 32, "patch_size": 8}


def two_towers(name: str) -> Any:
    """A tiny network with random weights for texts and pictures."""
    t = transformers
    text = {**SMALL, "max_position_embeddings": 20, "bos_token_id": 1, "eos_token_id": 2}
    sizes = {"text_config": text, "vision_config": VISION}
    makers = {
        "clip": lambda: t.CLIPModel(t.CLIPConfig(**sizes)),
        "siglip": lambda: t.SiglipModel(t.SiglipConfig(**sizes)),
        "siglip2": lambda: t.Siglip2Model(
            t.Siglip2Config(text_config=text, vision_config={**VISION, "num_patches": 16})
        ),
        "owlvit": lambda: t.OwlViTModel(t.OwlViTConfig(**sizes)),
        "clipseg": lambda: t.CLIPSegForImageSegmentation(t.CLIPSegConfig(**sizes, extract_layers=[0, 1])),
    }
    torch.manual_seed(0)
    return makers[name]().eval()


@pytest.mark.parametrize(
    ("name", "batches"),
    [
        ("clip", ["text_batch_size", "image_batch_size"]),
        ("siglip", ["text_batch_size", "image_batch_size"]),
        ("siglip2", ["text_batch_size", "image_batch_size"]),
        ("owlvit", ["text_batch_size", "image_batch_size"]),
        ("clipseg", ["batch_size", "batch_size"]),  # it needs as many texts as images
    ],
)
def test_texts_and_pictures_have_a_batch_each_where_forward_takes_two(name: str, batches: list[str]) -> None:
    specs = {str(s.name): s for s in requested_specs(two_towers(name), Options())}
    assert [str((specs[n].shape or ())[0]) for n in ("input_ids", "pixel_values")] == batches
    assert specs["attention_mask"].shape == specs["input_ids"].shape


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clip", pytest.param("siglip", marks=long)])
@pytest.mark.parametrize(("texts", "pictures"), [(5, 1), (1, 2)])
def test_texts_are_compared_with_another_number_of_pictures(name: str, texts: int, pictures: int) -> None:
    module = two_towers(name)
    model = frontend.read(Source("torch-module-object", model=module), Options(), Report("convert"))
    assert [str(d) for d in model.graph.outputs[0].shape or ()] == ["image_batch_size", "text_batch_size"]
    rng = np.random.default_rng(0)
    ids = np.where(np.arange(6) < 5, rng.integers(3, 50, (texts, 6)), 2)
    feed = ids, np.ones_like(ids), rng.normal(size=(pictures, 3, 32, 32)).astype(np.float32)
    with torch.no_grad():
        want = module(**{n: torch.from_numpy(a) for n, a in zip([*TEXT[:2], "pixel_values"], feed, strict=True)})
    np.testing.assert_allclose(run(model, *feed)[0], want.logits_per_image.numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.slow
@pytest.mark.long
def test_texts_are_compared_with_patches_of_pictures_of_any_size() -> None:
    """SigLIP 2 takes padded patches, their mask, and height and width in patches."""
    module = two_towers("siglip2")
    model = frontend.read(Source("torch-module-object", model=module), Options(), Report("convert"))
    names = [*TEXT[:2], "pixel_values", "pixel_attention_mask", "spatial_shapes"]
    assert [v.name for v in model.graph.inputs] == names
    assert model.graph.inputs[-1].metadata_props[RANGE_KEY] == "[1, 4]"
    rng = np.random.default_rng(0)
    sizes = np.array([[4, 5], [2, 3], [3, 7]])
    ids = np.where(np.arange(6) < 5, rng.integers(3, 50, (2, 6)), 2)
    patches = rng.normal(size=(3, 21, 192)).astype(np.float32)
    feed = ids, np.ones_like(ids), patches, (np.arange(21) < sizes.prod(1)[:, None]).astype(np.int64), sizes
    with torch.no_grad():
        want = module(**{n: torch.from_numpy(a) for n, a in zip(names, feed, strict=True)})
    np.testing.assert_allclose(run(model, *feed)[0], want.logits_per_image.numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.slow
def test_a_task_may_be_asked_for(folders: Path, tmp_path: Path) -> None:
    def names(task: str, folder: str) -> tuple[list[str], list[str]]:
        model = frontend.read(Source("hf-folder", folders / folder), Options(extra={"task": task}), Report("convert"))
        inputs, outputs = model.graph.inputs, model.graph.outputs
        return [str(v.name) for v in inputs], [str(v.name) for v in outputs]

    assert names("text-generation", "gpt2") == (TEXT[:2], ["logits"])
    assert names("feature-extraction", "gpt2") == (TEXT[:2], ["last_hidden_state"])
    with pytest.raises(UsageError, match="transformers has no t5 model for text-generation"):
        names("text-generation", "t5")
    with pytest.raises(BadInput, match="lacks weights of BertForMaskedLM"):
        names("fill-mask", "bert")


@pytest.mark.slow
def test_files_that_runtimes_look_for_are_copied_beside_a_model(folders: Path, tmp_path: Path) -> None:
    given = {f.name: f.read_bytes() for f in (folders / "bert").glob("*config.json")}
    done = convert.convert(folders / "bert", "onnx", tmp_path / "a" / "model.onnx", verify=False)
    assert "copied beside the model: config.json" in " ".join(done.notes)
    assert {f.name: f.read_bytes() for f in (tmp_path / "a").glob("*.json")} == given
    (tmp_path / "a" / "config.json").write_text("mine")
    done = convert.convert(folders / "bert", "onnx", tmp_path / "a" / "model.onnx", verify=False, force=True)
    assert "other files of these names: config.json" in " ".join(done.notes)
    assert (tmp_path / "a" / "config.json").read_text() == "mine"
    done = convert.convert(folders / "bert", "onnx", tmp_path / "bert.onnx", verify=False)
    assert "-o bert/model.onnx copies them there" in " ".join(done.notes)
    assert list(tmp_path.glob("*.json")) == []


def test_only_plain_files_of_a_bearable_size_are_copied(tmp_path: Path) -> None:
    place = tmp_path / "out" / "model.onnx"
    place.parent.mkdir()
    (tmp_path / "vocab.txt").write_text("a")
    os.truncate(tmp_path / "vocab.txt", 1 << 40)  # a sparse file of 1 TB
    os.mkfifo(tmp_path / "merges.txt")
    (tmp_path / "tokenizer.json").symlink_to("vocab.txt")  # since the folder was looked at
    (tmp_path / "config.json").write_text("{}")
    files = {file.name: file for file in tmp_path.iterdir() if not file.is_dir()}
    copy_companions({**files, "genai_config.json": b"{}"}, place, report := Report("convert"))
    assert sorted(f.name for f in place.parent.iterdir()) == ["config.json", "genai_config.json"]
    assert sorted(report.notes[1].partition(": ")[2].split(", ")) == ["merges.txt", "tokenizer.json", "vocab.txt"]


@pytest.mark.slow
def test_a_file_that_the_backend_adds_is_written_too(folders: Path, tmp_path: Path) -> None:
    place = tmp_path / "web" / "onnx" / "model_q4.onnx"
    convert.convert(folders / "llama", "onnx", place, verify=False, runtime="genai", quantize="int4")
    config = json.loads((tmp_path / "web" / "genai_config.json").read_text())
    assert config["model"]["decoder"]["filename"] == "onnx/model_q4.onnx"
    assert sorted(file.name for file in place.parent.iterdir()) == ["model_q4.onnx"]


@pytest.mark.parametrize(
    ("artefact", "folder"),
    [("a/model.onnx", "a"), ("a/onnx/model.onnx", "a"), ("a/onnx/model_q4.onnx", "a"), ("a/decoder_model.onnx", "a"),
     ("a/onnx/decoder_model_fp16.onnx", "a"), ("a/model_q5.onnx", None), ("a/onnx/other.onnx", None)],
)  # fmt: skip
def test_runtimes_find_the_configuration_of_a_model(artefact: str, folder: str | None, tmp_path: Path) -> None:
    """Models of the Hugging Face hub have their ONNX files in a folder `onnx`, one for each dtype."""
    place = tmp_path / artefact
    place.parent.mkdir(parents=True)
    copy_companions({"config.json": b"{}"}, place, report := Report("convert"))
    found = [file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("config.json")]
    assert found == ([] if folder is None else [f"{folder}/config.json"])
    assert [note.code for note in report.notes] == ["companions-missing" if folder is None else "companions-copied"]


@pytest.mark.slow
def test_a_model_in_memory_is_read_as_a_folder_is(tmp_path: Path) -> None:
    module = make("bert")
    ids = torch.tensor([[4, 7, 9], [1, 2, 3]])
    report = convert.convert(module, "onnx", tmp_path / "m.onnx", inputs={"input_ids": ids})
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert [t.name for t in report.inputs] == ["input_ids"]
    assert [t.name for t in report.outputs] == ["last_hidden_state", "pooler_output"]
    assert "forward" not in vars(module)


@pytest.mark.slow
def test_a_model_that_gives_a_lone_tensor(tmp_path: Path) -> None:
    """A vocoder's output has no class with names."""
    config = transformers.SpeechT5HifiGanConfig(
        model_in_dim=4, upsample_initial_channel=4, upsample_rates=[2], upsample_kernel_sizes=[4],
        resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1]],
    )  # fmt: skip
    module = transformers.SpeechT5HifiGan(config).eval()
    spec = "spectrogram:float32[batch,length,4]"
    report = convert.convert(module, "onnx", tmp_path / "m.onnx", inputs=spec)
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    assert [str(t) for t in report.outputs] == ["output: float32[batch,2*length]"]


@pytest.mark.slow
def test_an_example_of_one_row_and_one_token_has_dynamic_dims() -> None:
    """torch.export would fix a length of 1, so the example is lengthened first."""
    model = make("bert")
    model_read = frontend.read(
        Source("torch-module-object", model=model),
        Options(examples={"input_ids": torch.tensor([[3]])}),
        Report("convert"),
    )
    assert [str(d) for d in model_read.graph.inputs[0].shape or ()] == ["batch_size", "sequence_length"]
    words = torch.arange(10).reshape(2, 5)
    with torch.no_grad():
        want = model(words).last_hidden_state.numpy()
    np.testing.assert_allclose(run(model_read, words)[0], want, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_inputs_may_be_named(folders: Path) -> None:
    model = frontend.read(
        Source("hf-folder", folders / "bert"),
        Options(inputs=(parse_input("input_ids:int64[2,5]"),)),
        Report("convert"),
    )
    assert [(v.name, list(v.shape or ())) for v in model.graph.inputs] == [("input_ids", [2, 5])]


@pytest.mark.slow
def test_arrays_without_names_are_the_first_arguments_and_all() -> None:
    words = torch.arange(10).reshape(2, 5)
    model = make("bert")
    want = model(words, torch.ones_like(words)).last_hidden_state
    converted = ir.from_proto(convert.to_onnx(model, [words, torch.ones_like(words)], verify=False))
    assert [x.name for x in converted.graph.inputs] == ["input_ids", "attention_mask"]
    got = run(converted, words, torch.ones_like(words))
    np.testing.assert_allclose(got[0], want.detach().numpy(), rtol=1e-4, atol=1e-5)


@long
def test_a_folder_converts_and_verifies(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The child that runs the source needs torchvision's operators as well, if torchvision is installed without them.
    (tmp_path / "sitecustomize.py").write_text(
        "from tests.support import timm_helper\n\ntimm_helper.declare_torchvision_operators()\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[4]}")
    report = convert.convert(folders / "classifier", "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"


def changed(source: Path, target: Path, **values: Any) -> Path:
    """Return a copy of a folder with some entries of its config.json changed."""
    target.mkdir()
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    config = json.loads((source / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**config, **values}))
    return target


def test_folders_that_do_not_fit_or_bring_code_are_refused(folders: Path, tmp_path: Path) -> None:
    def read(path: Path, *specs: str) -> None:
        frontend.read(Source("hf-folder", path), Options(inputs=tuple(map(parse_input, specs))), Report("convert"))

    with pytest.raises(BadInput, match=r"lacks weights of BertForMaskedLM: cls"):
        read(changed(folders / "bert", tmp_path / "a", architectures=["BertForMaskedLM"]))
    with pytest.raises(BadInput, match=r"config.json says: embeddings.LayerNorm.bias is \[\d+\] and would be \[32\]"):
        read(changed(folders / "bert", tmp_path / "b", hidden_size=32))
    with pytest.raises(BadInput, match=r"lacks weights of BertModel: encoder.layer.\d"):
        read(changed(folders / "bert", tmp_path / "e", num_hidden_layers=5))
    with pytest.raises(BadInput, match="transformers could not load"):
        read(changed(folders / "bert", tmp_path / "c", architectures=["No"], model_type="nothing"))
    whole = changed(folders / "bert", tmp_path / "f") / "model.safetensors"
    whole.write_bytes(whole.read_bytes()[:-9])
    with pytest.raises(BadInput, match=r"model.safetensors has [\d,]+ bytes, its safetensors header tells of"):
        read(whole.parent)
    with pytest.raises(UnsafeInput, match=r"own.Model") as error:
        read(changed(folders / "bert", tmp_path / "d", auto_map={"AutoModel": "own.Model"}))
    assert "--trust" in error.value.hint
    with pytest.raises(Unsupported, match="two halves"):
        read(folders / "t5", "past_key_values:float32")


@pytest.mark.slow
def test_a_model_for_one_length_of_text_gets_the_usual_one(folders: Path, tmp_path: Path) -> None:
    report = convert.convert(folders / "canine", "onnx", tmp_path / "x.onnx", verify=False)
    notes = [str(note) for note in report.notes if note.code == "fixed-dim"]
    assert len(notes) == 1
    assert notes[0].startswith("the dim sequence_length of input_ids, attention_mask, token_type_ids is fixed at 32:")
    words = np.random.default_rng(0).integers(3, 50, (3, 32))
    feed = {"input_ids": words, "attention_mask": np.ones_like(words), "token_type_ids": np.zeros_like(words)}
    (got, _) = ort.InferenceSession(tmp_path / "x.onnx").run(None, feed)
    with torch.no_grad():
        want = make("canine")(**{name: torch.from_numpy(array) for name, array in feed.items()}).last_hidden_state
    np.testing.assert_allclose(got, want.numpy(), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(32, 32), (32, 48), (72, 40)])
def test_pictures_have_any_size_where_forward_takes_it(size: tuple[int, int], folders: Path, tmp_path: Path) -> None:
    convert.convert(folders / "dinov2", "onnx", tmp_path / "x.onnx", verify=False)
    session = ort.InferenceSession(tmp_path / "x.onnx")
    assert session.get_inputs()[0].shape == ["batch_size", 3, "height", "width"]
    picture = np.random.default_rng(0).normal(size=(2, 3, *size)).astype(np.float32)
    with torch.no_grad():
        want = make("dinov2")(torch.from_numpy(picture)).last_hidden_state
    np.testing.assert_allclose(session.run(None, {"pixel_values": picture})[0], want.numpy(), atol=1e-5)


def bark() -> Any:
    part = {"num_layers": 1, "num_heads": 2, "hidden_size": 16, "input_vocab_size": 50, "output_vocab_size": 50}
    codec = {"num_filters": 4, "hidden_size": 16, "codebook_size": 16, "codebook_dim": 16, "upsampling_ratios": [4, 2]}
    parts = {f"{name}_config": part for name in ("semantic", "coarse_acoustics", "fine_acoustics")}
    return transformers.BarkModel(transformers.BarkConfig(**parts, codec_config=codec)).eval()


@pytest.mark.slow
def test_a_model_of_several_without_a_forward_is_converted_part_by_part(tmp_path: Path) -> None:
    model = bark()
    with pytest.raises(Unsupported, match="BarkModel has no forward") as caught:
        convert.convert(model, "onnx", tmp_path / "x.onnx", verify=False)
    assert caught.value.hint == "give --part with one of: semantic, coarse_acoustics, fine_acoustics, codec_model"
    with pytest.raises(UsageError, match="no part 'decoder'"):
        convert.convert(model, "onnx", tmp_path / "x.onnx", part="decoder", verify=False)
    report = convert.convert(model, "onnx", tmp_path / "x.onnx", part="semantic", verify=False)
    assert report.outputs[0].name == "logits"


PICTURES = ["batch_size", "3", "32", "32"]
DESCRIBED = {
    "musicgen": {"decoder_input_ids": ["batch_size", "2", "decoder_sequence_length"]},
    "videomae": {"pixel_values": ["batch_size", "4", "3", "32", "32"]},
    "flava": {"input_ids": ["batch_size", "sequence_length"], "pixel_values": PICTURES},
    "instructblip": {"qformer_input_ids": ["batch_size", "qformer_sequence_length"], "pixel_values": PICTURES},
    "clip": {"input_ids": ["text_batch_size", "sequence_length"], "pixel_values": ["image_batch_size", *PICTURES[1:]]},
    "xlnet": {"input_ids": ["batch_size", "sequence_length"]},
    "timesfm": {"past_values": ["batch_size", "64"]},
    "detr": {"pixel_values": ["batch_size", "3", "height", "width"]},
    "vit": {"pixel_values": ["batch_size", "3", "32", "32"]},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DESCRIBED)
def test_inputs_are_described_by_the_configuration(name: str) -> None:
    kind, configuration = {**folder_models.ENCODERS, **folder_models.VISION, **folder_models.SPEECH,
                           **folder_models.SERIES, **folder_models.TOGETHER}[name]  # fmt: skip
    made = getattr(transformers, kind)
    specs = requested_specs(made(made.config_class(**configuration)).eval(), Options())
    found = {str(s.name): [str(dim) for dim in s.shape or ()] for s in specs}
    assert all(dim.high is None or dim.high > 0 for spec in specs for dim in spec.shape or ())
    names = {n: [dim.partition("=")[0] for dim in dims] for n, dims in found.items()}
    assert {n: names.get(n) for n in DESCRIBED[name]} == DESCRIBED[name]
