"""The official ONNX cases that a backend is known not to pass, as patterns of case names with their reasons."""

from __future__ import annotations

_LENGTH = "an output is a sequence whose length is known only when the model runs; named outputs are a fixed number"

TENSORFLOW = {
    "test_cast_e8m0_*": "TensorFlow has no dtype FLOAT8E8M0",
    "test_if_opt": "whether the output is there is known only when the model runs; a signature's outputs always are",
    "test_image_decoder_decode_jpeg2k_rgb": "TensorFlow decodes no JPEG 2000; the artefact raises an error",
    "test_loop13_seq": _LENGTH,
    "test_loop16_seq_none": _LENGTH,
    "test_split_to_sequence_1": _LENGTH,
}

CAFFE2 = {
    "test_if_opt": "whether the output is there is known only when the model runs; the outputs of a net always are",
    "test_loop13_seq": _LENGTH,
    "test_loop16_seq_none": _LENGTH,
}
"""Other refusals of Caffe2 are declared in its rule table, or are dtypes that it lacks.

All refusals of Keras are declared in `backends/keras/limits.py`.
"""

_TEXT = "PyTorch has no tensors of text"

TORCH = {
    **{
        f"test_{name}*": _TEXT
        for name in ("string", "strnorm", "regex_full_match", "strsplit", "strconcat", "equal_string")
    },
    "test_ai_onnx_ml_label_encoder_*": _TEXT,
    "test_cast*STRING*": _TEXT,
    "test_image_decoder_*": "PyTorch decodes no images",
    "test_loop13_seq": _LENGTH,
    "test_loop16_seq_none": _LENGTH,
    "test_loop11": "torch's while_loop keeps the sizes of what it carries, and this loop's tensor grows",
    "test_if_opt": "whether the output is there is known only when the model runs; a program's outputs always are",
    "test_split_to_sequence_1": _LENGTH,
    "test_optional_has_element_empty_optional_input": "an input that is an optional and holds nothing is no tensor",
    "test_gradient_of_*": "an exported program has no operator for a gradient within it",
}
"""Text, pictures, and values that are no tensors of one shape."""

GAPS: dict[str, dict[str, str]] = {
    "tf": TENSORFLOW,
    "tf-frozen": TENSORFLOW,
    "tflite": {},
    "caffe2": CAFFE2,
    "keras": {},
    "onnx": {},
    "torch": TORCH,
}
"""Gaps by backend. A case counts as a gap only if the backend refuses it, never if its result is wrong."""

UNSTABLE = {
    "test_squeezenet": "a softmax of 1,000 equal numbers of 9.5e9, where one rounding of float32 is 1,024: without "
    "oneDNN sums of channels differ by one, and the largest takes all",
}
"""Cases whose expected output changes with one float32 rounding, with the reason.

Only for these a wrong result counts as a gap.
"""

_NOISE = "the imaginary parts that are asked for are rounding noise of 2e-7, where ours is 6e-15"

_HALF = "an element or two of 192 are one unit of float16 away; in float64 0.46919, where the answer has 0.46948"

_FRACTION = "the answer aligns the corner of 2.4 outputs; the operator's text and the runtimes align that of 2"

_RESIZE = {f"test_resize_downsample_scales_{mode}_align_corners": _FRACTION for mode in ("linear", "cubic")}

CONTRADICTED: dict[str, dict[str, str]] = {
    "tf": _RESIZE,
    "tf-frozen": _RESIZE,
    "tflite": {**_RESIZE, "test_dft_inverse": _NOISE, "test_dft_inverse_opset19": _NOISE},
    "keras": _RESIZE,
    "torch": {
        **_RESIZE,
        **dict.fromkeys(("test_attention_4d_causal_fp16", "test_attention_4d_causal_fp16_expanded"), _HALF),
        "test_dft_inverse": _NOISE,
        "test_dft_inverse_opset19": _NOISE,
    },
    "caffe2": {
        **_RESIZE,
        "test_adam_multiple": "the answer in the files of onnx 1.8.1 takes an epsilon of 0.01, and the model has 1e-6",
        "test_attention_4d_causal_fp16_expanded": "two elements of 192 are one unit of float16 away: each operator of "
        "the body is computed in float32 and rounded",
        "test_dft_inverse": _NOISE,
        "test_dft_inverse_opset19": _NOISE,
        "test_sequence_insert_at_front": "the files of onnx 1.8.1 ask for the tensor at the back",
    },
}
"""Cases whose expected output is wrong by more than the tolerance, by backend, with the reason.

For Resize see convert/semantics/interpolation.py.
"""

RANDOM = (
    "test_bernoulli*",
    "test_training_dropout",
    "test_training_dropout_default",
    "test_training_dropout_default_mask",
    "test_training_dropout_mask",
)
"""Cases with random numbers; the expected ones come from one NumPy generator.

Only names, dtypes, shapes and possible values are compared.
"""
