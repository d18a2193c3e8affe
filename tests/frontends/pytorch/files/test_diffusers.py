"""Folders of diffusers: their parts, the inputs of each class, and a denoising loop through the converted parts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends.pytorch.files.diffusers_parts import CLASSES, with_diffusers_forward
from safetensors.torch import save_file

import convert
from convert.errors import BadInput, Unsupported, UsageError
from convert.request.options import Options, parse_input
from tests.support.timm_helper import declare_torchvision_operators

declare_torchvision_operators()
diffusers: Any = pytest.importorskip("diffusers", reason="folders of diffusers need diffusers")
transformers: Any = pytest.importorskip("transformers", reason="text encoders need transformers")

BLOCKS = {"block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4}
TEXT = {
    "vocab_size": 50, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "max_position_embeddings": 12, "projection_dim": 16, "bos_token_id": 48, "eos_token_id": 49,
}  # fmt: skip


def unet(**more: Any) -> Any:
    return diffusers.UNet2DConditionModel(
        **{
            **BLOCKS, "in_channels": 4, "out_channels": 4, "sample_size": 8, "cross_attention_dim": 16,
            "attention_head_dim": 4, "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
            "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"), **more,
        }
    )  # fmt: skip


def autoencoder() -> Any:
    kinds = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    return diffusers.AutoencoderKL(**BLOCKS, **kinds, latent_channels=4, sample_size=16)


MAKERS: dict[str, Callable[[], Any]] = {
    "UNet2DConditionModel": unet,
    "latent consistency": lambda: unet(time_cond_proj_dim=6),
    "SDXL": lambda: unet(
        addition_embed_type="text_time", addition_time_embed_dim=8, projection_class_embeddings_input_dim=64
    ),
    "upscaler": lambda: unet(num_class_embeds=5),
    "UNet2DModel": lambda: diffusers.UNet2DModel(
        **BLOCKS, in_channels=3, out_channels=3, sample_size=16, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=4,
    ),
    "SD3Transformer2DModel": lambda: diffusers.SD3Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=4, num_layers=1, attention_head_dim=8, num_attention_heads=2,
        joint_attention_dim=16, caption_projection_dim=16, pooled_projection_dim=10, out_channels=4,
        pos_embed_max_size=8,
    ),
    "FluxTransformer2DModel": lambda: diffusers.FluxTransformer2DModel(
        in_channels=8, num_layers=1, num_single_layers=1, attention_head_dim=8, num_attention_heads=2,
        joint_attention_dim=16, pooled_projection_dim=10, axes_dims_rope=(2, 2, 4), guidance_embeds=True,
    ),
    "AutoencoderKL": autoencoder,
    "AutoencoderTiny": lambda: diffusers.AutoencoderTiny(
        encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1),
    ),
}  # fmt: skip
DIRECT: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "SDXL": lambda m, t: m(
        t["sample"], t["timestep"], t["encoder_hidden_states"],
        added_cond_kwargs={"text_embeds": t["text_embeds"], "time_ids": t["time_ids"]},
    ).sample,
    "AutoencoderKL": lambda m, t: m.encode(t["sample"]).latent_dist.parameters,
    "AutoencoderTiny": lambda m, t: m.encode(t["sample"]).latents,
}  # fmt: skip
"""How a user calls a model whose forward does not take the inputs by their names."""


def values(specs: Any) -> dict[str, torch.Tensor]:
    sizes = {"height": 8, "width": 8, "sample_height": 8, "sample_width": 8, "batch_size": 2}
    shapes = {s.name: [sizes.get(str(d.name), 3) if d.size is None else d.size for d in s.shape] for s in specs}
    return {s.name: torch.ones(shapes[s.name], dtype=getattr(torch, s.dtype)) for s in specs}


@pytest.mark.parametrize("name", MAKERS)
def test_a_part_computes_what_the_model_does(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = MAKERS[name]().eval()
    encoder = Options(extra={"part": "vae_encoder"} if name.startswith("Auto") else {})
    part = with_diffusers_forward(model, tmp_path, tmp_path, encoder)
    tensors = values(part.forward.specs)
    with torch.no_grad():
        (found,) = part(**tensors).values()
        expected = DIRECT.get(name, lambda m, t: m(**t).sample)(model, tensors)
    torch.testing.assert_close(found, expected)


def test_every_known_class_has_a_model() -> None:
    assert {type(make()).__name__ for make in MAKERS.values()} == set(CLASSES)


@pytest.mark.parametrize(
    "more",
    [
        {"addition_embed_type": "image", "encoder_hid_dim": 16},
        {"encoder_hid_dim_type": "image_proj", "encoder_hid_dim": 16},
    ],
)
def test_a_unet_with_inputs_of_pictures_is_refused(more: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="its inputs are not known"):
        with_diffusers_forward(unet(**more), tmp_path, tmp_path, Options())


def test_users_may_set_sizes_of_known_inputs_only(tmp_path: Path) -> None:
    fixed = Options(inputs=(parse_input("sample:float32[1,4,64,64]"),))
    specs = {s.name: s for s in with_diffusers_forward(unet(), tmp_path, tmp_path, fixed).forward.specs}
    assert str(specs["sample"]) == "sample:float32[1,4,64,64]"
    assert str(specs["encoder_hidden_states"]) == "encoder_hidden_states:float32[batch_size,sequence_length,16]"
    with pytest.raises(UsageError, match="there is no input image"):
        with_diffusers_forward(unet(), tmp_path, tmp_path, Options(inputs=(parse_input("image:float32[1]"),)))


# -- a pipeline -------------------------------------------------------------------------------------------------------


def pipeline(path: Path) -> dict[str, Any]:
    """Write the folder of a Stable Diffusion pipeline without a tokenizer; return its models."""
    torch.manual_seed(0)
    encoder = transformers.CLIPTextModel(transformers.CLIPTextConfig(**TEXT))
    models = {"text_encoder": encoder, "unet": unet(), "vae": autoencoder()}
    index: dict[str, Any] = {"_class_name": "StableDiffusionPipeline", "safety_checker": [None, None]}
    for name, model in models.items():
        model.eval().save_pretrained(path / name)
        index[name] = ["transformers" if name == "text_encoder" else "diffusers", type(model).__name__]
    diffusers.DDIMScheduler().save_pretrained(path / "scheduler")
    index["scheduler"] = ["diffusers", "DDIMScheduler"]
    (path / "model_index.json").write_text(json.dumps(index))
    return models


def denoise(
    encode: Callable[..., np.ndarray], unet: Callable[..., np.ndarray], decode: Callable[..., np.ndarray]
) -> np.ndarray:
    """Return the picture of four steps with guidance, for latents whose sizes are no multiples of the UNet's factor."""
    scheduler = diffusers.DDIMScheduler(clip_sample=False, set_alpha_to_one=False)
    scheduler.set_timesteps(4)
    states = encode(input_ids=np.array([[48, 3, 7, 49], [48, 49, 49, 49]]))
    latents = torch.randn(1, 4, 7, 10, generator=torch.Generator().manual_seed(1))
    for step in scheduler.timesteps:
        pair = torch.cat([latents, latents]).numpy()
        text, empty = np.split(unet(sample=pair, timestep=np.float32(step), encoder_hidden_states=states), 2)
        latents = scheduler.step(torch.from_numpy(empty + 3 * (text - empty)), step, latents).prev_sample
    return decode(latent_sample=latents.numpy() / 0.18215)


def session(path: Path) -> Callable[..., np.ndarray]:
    import onnxruntime

    loaded = onnxruntime.InferenceSession(path / "model.onnx", providers=["CPUExecutionProvider"])
    return lambda **feed: loaded.run(None, {k: np.asarray(v) for k, v in feed.items()})[0]


def module(call: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def run(**feed: Any) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(call(**{k: torch.as_tensor(v) for k, v in feed.items()})[0].numpy())

    return run


@pytest.mark.slow
def test_four_steps_through_the_parts_give_the_picture_of_diffusers(tmp_path: Path) -> None:
    models = pipeline(tmp_path / "sd")
    report = convert.convert(tmp_path / "sd", "onnx", tmp_path / "out", verify=False)
    files = sorted(f.relative_to(tmp_path / "out").as_posix() for f in (tmp_path / "out").rglob("*") if f.is_file())
    parts = ("text_encoder", "unet", "vae_decoder", "vae_encoder")
    own = [f"{part}/{name}" for part in parts for name in ("config.json", "model.onnx")]
    assert files == sorted([*own, "model_index.json", "scheduler/scheduler_config.json"])
    assert "unet: sample: float32[batch_size,4,height,width]" in map(str, report.inputs)
    assert "vae_encoder: sample: float32[batch_size,3,sample_height,sample_width]" in map(str, report.inputs)
    found = denoise(*(session(tmp_path / "out" / name) for name in ("text_encoder", "unet", "vae_decoder")))
    expected = denoise(
        module(models["text_encoder"]),
        module(lambda **feed: models["unet"](**feed, return_dict=False)),
        module(lambda latent_sample: models["vae"].decode(latent_sample, return_dict=False)),
    )
    assert found.shape == expected.shape == (1, 3, 14, 20)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-4 * float(np.abs(expected).max()))


def test_a_pipeline_is_converted_part_by_part(tmp_path: Path) -> None:
    pipeline(tmp_path / "sd")
    with pytest.raises(UsageError, match="is a pipeline of several models") as one:
        convert.inspect(tmp_path / "sd")
    assert "text_encoder, unet, vae_encoder, vae_decoder" in one.value.hint
    with pytest.raises(UsageError, match="has no part 'prior'"):
        convert.inspect(tmp_path / "sd", part="prior")
    with pytest.raises(UsageError, match=r"this is written as 4 files: text_encoder/model\.onnx"):
        convert.convert(tmp_path / "sd", "onnx", tmp_path / "sd.onnx")


def test_an_unknown_class_and_lost_weights_are_errors(tmp_path: Path) -> None:
    pipeline(tmp_path / "sd")
    config = tmp_path / "sd/unet/config.json"
    config.write_text(config.read_text().replace("UNet2DConditionModel", "UNetMotionModel"))
    with pytest.raises(Unsupported, match="UNetMotionModel of diffusers, whose inputs are not known"):
        convert.inspect(tmp_path / "sd", part="unet")
    (tmp_path / "sd/vae/diffusion_pytorch_model.safetensors").unlink()
    with pytest.raises(BadInput, match="no PyTorch weights"):
        convert.inspect(tmp_path / "sd", part="vae_decoder")


def test_a_pipeline_of_unknown_classes_is_refused_with_a_list(tmp_path: Path) -> None:
    rows = {
        "transformer": ["diffusers", "WanTransformer3DModel"],
        "vae": ["diffusers", "AutoencoderKLWan"],
        "text_encoder": ["transformers", "UMT5EncoderModel"],
        "scheduler": ["diffusers", "UniPCMultistepScheduler"],
    }
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": "WanPipeline", **rows}))
    for name in ("transformer", "vae", "text_encoder"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        save_file({"weight": torch.ones(1)}, tmp_path / name / "model.safetensors")
    listed = r"WanPipeline .* transformer \(WanTransformer3DModel\), vae \(AutoencoderKLWan\)"
    with pytest.raises(Unsupported, match=listed) as caught:
        convert.convert(tmp_path, "onnx", tmp_path / "out", verify=False)
    assert "--part text_encoder" in caught.value.hint


def test_weights_of_a_variant_alone_are_read(tmp_path: Path) -> None:
    from convert.frontends.pytorch.files.diffusers_folder import weights_variant

    for name in ("a.fp16-00001-of-00002.safetensors", "a.fp16-00002-of-00002.safetensors"):
        (tmp_path / name).touch()
    assert weights_variant(tmp_path) == "fp16"
    (tmp_path / "a.safetensors").touch()
    assert weights_variant(tmp_path) == ""
    (tmp_path / "a.safetensors").unlink()
    shutil.copy(tmp_path / "a.fp16-00001-of-00002.safetensors", tmp_path / "a.ema.safetensors")
    with pytest.raises(UsageError, match="weights in ema and fp16"):
        weights_variant(tmp_path)
