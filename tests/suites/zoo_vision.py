"""The zoo's vision models of transformers: classifiers, segmentation, detection, images with text."""

from __future__ import annotations

from zoo_models import Entry
from zoo_text import entry

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1], "layer_type": "basic"}
PIXELS = ("pixel_values:float32[batch,3,32,32]",)
BIG = ("pixel_values:float32[batch,3,64,64]",)
TEXT = SMALL | {"vocab_size": 60, "max_position_embeddings": 32, "projection_dim": 16}


def _resnet() -> dict[str, object]:
    return {"model_type": "resnet", **RESNET, "out_features": ["stage4"]}


CLASSIFIERS = [
    entry("hf-vit", "ViTForImageClassification", "ViTConfig", PIXELS, **SMALL, image_size=32, patch_size=8),
    entry("dinov2", "Dinov2Model", "Dinov2Config", PIXELS, **SMALL, image_size=32, patch_size=8, mlp_ratio=2),
    entry("beit", "BeitModel", "BeitConfig", PIXELS, **SMALL, image_size=32, patch_size=8,
          use_relative_position_bias=True),
    entry("hf-swin", "SwinModel", "SwinConfig", PIXELS, image_size=32, patch_size=2, embed_dim=16, depths=[2, 2],
          num_heads=[2, 4], window_size=4),
    entry("vit-mae", "ViTMAEModel", "ViTMAEConfig", ("pixel_values:float32[batch,3,32,32]", "noise:float32[batch,16]"),
          **SMALL, image_size=32, patch_size=8),
    entry("videomae", "VideoMAEModel", "VideoMAEConfig", ("pixel_values:float32[batch,4,3,32,32]",), **SMALL,
          image_size=32, patch_size=8, num_frames=4, tubelet_size=2),
]  # fmt: skip

DENSE = [
    entry("segformer", "SegformerForSemanticSegmentation", "SegformerConfig", BIG, hidden_sizes=[16, 16, 32, 32],
          depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 4, 4], sr_ratios=[4, 2, 1, 1], decoder_hidden_size=16,
          num_labels=5),
    entry("dpt", "DPTForDepthEstimation", "DPTConfig", PIXELS, **SMALL | {"num_hidden_layers": 4}, image_size=32,
          patch_size=8, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16,
          is_hybrid=False),
    entry("sam", "SamModel", "SamConfig",
          ("pixel_values:float32[batch,3,64,64]", "input_points:float32[batch,1,2,2]"),
          vision_config={**SMALL, "mlp_dim": 48, "image_size": 64, "patch_size": 8, "output_channels": 16,
                         "window_size": 4, "global_attn_indexes": [1], "num_pos_feats": 8},
          prompt_encoder_config={"hidden_size": 16, "image_size": 64, "patch_size": 8, "mask_input_channels": 8},
          mask_decoder_config={"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2, "iou_head_hidden_dim": 16,
                               "num_hidden_layers": 2}),
    entry("mask2former", "Mask2FormerForUniversalSegmentation", "Mask2FormerConfig", BIG,
          backbone_config={"model_type": "swin", "image_size": 64, "patch_size": 4, "embed_dim": 16,
                           "depths": [1, 1, 1, 1], "num_heads": [2, 2, 4, 4], "window_size": 4,
                           "out_features": ["stage1", "stage2", "stage3", "stage4"]},
          feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=32, encoder_layers=2,
          decoder_layers=2, num_attention_heads=4, dim_feedforward=32, num_queries=6, num_labels=5),
]  # fmt: skip

DETECTORS = [
    entry("detr", "DetrForObjectDetection", "DetrConfig", BIG, use_timm_backbone=False,
          use_pretrained_backbone=False, backbone=None, backbone_config=_resnet(), d_model=32, encoder_layers=2,
          decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
          decoder_ffn_dim=48, num_queries=6, num_labels=5),
    entry("yolos", "YolosForObjectDetection", "YolosConfig", PIXELS, **SMALL, image_size=[32, 32], patch_size=8,
          num_detection_tokens=6, num_labels=5),
    entry("rt-detr", "RTDetrForObjectDetection", "RTDetrConfig", ("pixel_values:float32[2,3,64,64]",),
          use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
          backbone_config={"model_type": "rt_detr_resnet", **RESNET, "out_features": ["stage2", "stage3", "stage4"]},
          encoder_hidden_dim=32, encoder_in_channels=[16, 16, 32], encoder_ffn_dim=48, encoder_attention_heads=4,
          d_model=32, num_queries=10, decoder_in_channels=[32, 32, 32], decoder_ffn_dim=48, decoder_layers=2,
          decoder_attention_heads=4, num_labels=5, eval_size=None, num_denoising=0),
]  # fmt: skip

WITH_TEXT = [
    entry("clip", "CLIPModel", "CLIPConfig",
          ("input_ids:int64[texts,8]", "pixel_values:float32[pictures,3,32,32]"), text_config=TEXT,
          vision_config=SMALL | {"image_size": 32, "patch_size": 8, "projection_dim": 16}, projection_dim=16),
    entry("siglip", "SiglipModel", "SiglipConfig",
          ("input_ids:int64[texts,8]", "pixel_values:float32[pictures,3,32,32]"), text_config=TEXT,
          vision_config=SMALL | {"image_size": 32, "patch_size": 8}),
    entry("blip", "BlipForImageTextRetrieval", "BlipConfig",
          ("input_ids:int64[batch,8]", "pixel_values:float32[batch,3,32,32]"),
          text_config=TEXT | {"encoder_hidden_size": 32}, vision_config=SMALL | {"image_size": 32, "patch_size": 8},
          projection_dim=16, image_text_hidden_size=16),
]  # fmt: skip

ENTRIES: list[Entry] = CLASSIFIERS + DENSE + DETECTORS + WITH_TEXT
