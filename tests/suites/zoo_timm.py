"""The zoo's classifiers: a small network of each family of timm, with random weights."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import torch
from zoo_models import Built, Entry, pictures

SHALLOW = {"depths": (1, 1, 2, 1)}

# For each family: network, size of its images, options that make it smaller. More depth would only repeat blocks.
NETWORKS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "botnet": ("botnet26t_256", 128, {"img_size": 128}),
    "cait": ("cait_xxs24_224", 64, {"img_size": 64, "depth": 3}),
    "coat": ("coat_tiny", 64, {"img_size": 64, "serial_depths": (1, 1, 1, 1), "parallel_depth": 1}),
    "coatnet": ("coatnet_nano_rw_224", 64, {"img_size": 64}),
    "convit": ("convit_tiny", 64, {"img_size": 64, "depth": 4, "local_up_to_layer": 2}),
    "convmixer": ("convmixer_768_32", 64, {}),
    "convnext": ("convnextv2_atto", 64, {}),
    "crossvit": ("crossvit_tiny_240", 240, {"depth": ((1, 2, 0),) * 2}),
    "cspnet": ("cspresnet50", 64, {}),
    "davit": ("davit_tiny", 64, SHALLOW),
    "deit": ("deit_tiny_distilled_patch16_224", 64, {"img_size": 64, "depth": 3}),
    "densenet": ("densenet121", 64, {}),
    "dla": ("dla46_c", 64, {}),
    "edgenext": ("edgenext_xx_small", 64, {}),
    "efficientformer": ("efficientformer_l1", 224, {"depths": (1, 1, 2, 2)}),
    "efficientnet": ("tf_efficientnetv2_b0", 64, {}),
    "efficientvit": ("efficientvit_b0", 64, {}),
    "eva": ("eva02_tiny_patch14_224", 56, {"img_size": 56, "depth": 3}),
    "fastvit": ("fastvit_t8", 64, {}),
    "focalnet": ("focalnet_tiny_srf", 64, {}),
    "gcvit": ("gcvit_xxtiny", 64, {"img_size": 64}),
    "ghostnet": ("ghostnetv2_100", 64, {}),
    "gmlp": ("gmlp_ti16_224", 64, {"img_size": 64}),
    "hgnet": ("hgnetv2_b0", 64, {}),
    "hiera": ("hiera_tiny_224", 64, {"img_size": (64, 64), "stages": (1, 1, 1, 1)}),
    "hrnet": ("hrnet_w18_small", 64, {}),
    "inception": ("inception_v3", 96, {}),
    "inception_next": ("inception_next_atto", 64, {}),
    "lambdanet": ("lambda_resnet26t", 64, {}),
    "levit": ("levit_128s", 64, {"img_size": 64}),
    "mambaout": ("mambaout_femto", 64, {}),
    "maxvit": ("maxvit_rmlp_pico_rw_256", 64, {"img_size": 64}),
    "mixer": ("mixer_s32_224", 64, {"img_size": 64}),
    "mobilenetv3": ("mobilenetv3_small_050", 64, {}),
    "mobilenetv4": ("mobilenetv4_conv_small_035", 64, {}),
    "mobilevit": ("mobilevit_xxs", 64, {}),
    "mvit": ("mvitv2_tiny", 64, {"img_size": 64}),
    "nest": ("nest_tiny", 64, {"img_size": 64}),
    "nfnet": ("test_nfnet", 64, {}),
    "pit": ("pit_ti_224", 64, {"img_size": 64}),
    "poolformer": ("poolformer_s12", 64, {}),
    "pvt": ("pvt_v2_b0", 64, {}),
    "regnet": ("regnety_002", 64, {}),
    "repvgg": ("repvgg_a0", 64, {}),
    "repvit": ("repvit_m0_9", 64, {}),
    "res2net": ("res2net50_14w_8s", 64, {}),
    "resmlp": ("resmlp_12_224", 64, {"img_size": 64}),
    "resnest": ("resnest14d", 64, {}),
    "resnet": ("resnet18", 64, {}),
    "rexnet": ("rexnet_100", 64, {}),
    "sequencer": ("sequencer2d_s", 64, {"img_size": 64, "layers": (1, 1, 2, 1)}),
    "sknet": ("skresnet18", 64, {}),
    "starnet": ("starnet_s1", 64, {}),
    "swin": ("swin_tiny_patch4_window7_224", 64, {"img_size": 64, "window_size": 4, "depths": (2, 2, 2, 1)}),
    "swinv2": ("swinv2_tiny_window8_256", 64, {"img_size": 64, "window_size": 4, "depths": (2, 2, 2, 1)}),
    "tiny_vit": ("tiny_vit_5m_224", 64, SHALLOW),
    "tnt": ("tnt_s_patch16_224", 64, {"img_size": 64, "depth": 3}),
    "twins": ("twins_svt_small", 64, {"img_size": 64} | SHALLOW),
    "visformer": ("visformer_tiny", 64, {"img_size": 64}),
    "vit": ("vit_tiny_patch16_224", 64, {"img_size": 64, "depth": 3}),
    "volo": ("volo_d1_224", 64, {"img_size": 64}),
    "xcit": ("xcit_nano_12_p16_224", 64, {"img_size": 64, "depth": 3}),
}


def network(name: str, size: int, options: dict[str, Any]) -> Built:
    """A network of timm for pictures of `size`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import timm

        torch.manual_seed(0)
        return pictures(timm.create_model(name, pretrained=False, **options), size)


ENTRIES = [Entry(row[0], f"timm {family}", partial(network, *row)) for family, row in NETWORKS.items()]
