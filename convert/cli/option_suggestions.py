"""Options and words that users of other converters type, and what to type here: data."""

from __future__ import annotations

from collections.abc import Collection

from convert.request.nearest import nearest

OPTION_SUGGESTIONS: dict[str, str] = {
    **dict.fromkeys(("--format", "--target", "--target-format", "--output-format", "--dest", "--type"), "--to FORMAT"),
    **dict.fromkeys(("--out", "--output-file", "--output-path", "--output-dir", "--out-file", "--save", "--dst",
                     "--model-name", "--outfile", "--tflite-file", "--output-model"), "-o PATH"),
    **dict.fromkeys(("-i", "--input-model", "--source", "--src", "--in", "--saved-model", "--graphdef", "--onnx-model",
                     "--checkpoint", "--input-file", "--model-path", "--input-onnx-file-path"),
                    "MODEL without an option before it: convert model.onnx --to tf"),
    **dict.fromkeys(("--from", "--framework", "-f", "--input-format", "--reader"),
                    "leave it out: the format of a model is recognized by its content"),
    **dict.fromkeys(("--overwrite", "-y", "--yes", "--replace", "--clobber"), "--force"),
    **dict.fromkeys(("-n", "--no-clobber"), "--skip-existing"),
    **dict.fromkeys(("--input-shape", "--shape", "--shapes", "--input-shapes", "--input-spec", "--dummy-input",
                     "--overwrite-input-shape", "--input-size"),
                    "--input 'x:float32[batch,3,224,224]'"),
    **dict.fromkeys(("--dynamic", "--dynamic-axes", "--dynamic-shapes", "--dynamic-batch", "--batch-size", "--batch",
                     "-b"), "--input 'x:float32[batch,3,224,224]', where a name is a dynamic dim and a number is not"),
    **dict.fromkeys(("--input-names", "--input-name"), "--input NAME, for each of them"),
    **dict.fromkeys(("--output-names", "--output-name"), "--outputs NAME,…"),
    **dict.fromkeys(("--opset-version", "--target-opset", "--onnx-opset"), "--opset NUMBER"),
    **dict.fromkeys(("--fp16", "--half", "--float16", "--compress-to-fp16", "--precision"), "--dtype float16"),
    **dict.fromkeys(("--int8", "--quant", "--quantization", "--output-integer-quantized-tflite", "--weight-format"),
                    "--quantize int8"),
    **dict.fromkeys(("--calibration", "--calibration-data", "--representative-dataset", "--calib"),
                    "--calibrate samples.npz"),
    **dict.fromkeys(("--nhwc", "--channels-last"), "--layout nhwc"),
    **dict.fromkeys(("--nchw", "--channels-first", "--inputs-as-nchw"), "--layout nchw"),
    **dict.fromkeys(("--validate", "--check", "--test", "--compare", "--check-onnx-tf-outputs-elementwise-close"),
                    "--verify, which is the default if the runtimes are installed"),
    **dict.fromkeys(("--no-check", "--no-validate", "--skip-verify", "--no-validation", "--skip-validation"),
                    "--no-verify"),
    **dict.fromkeys(("--tolerance", "--tol", "--threshold", "--eps"), "--rtol NUMBER and --atol NUMBER"),
    **dict.fromkeys(("--data", "--samples", "--input-data"), "--inputs FILE.npz"),
    **dict.fromkeys(("--html", "--html-report", "--report-html"), "--report FILE.html"),
    **dict.fromkeys(("--trust-remote-code", "--unsafe", "--allow-pickle", "--safe-mode"), "--trust"),
    **dict.fromkeys(("--class", "--model-class", "--module", "--factory", "--arch"), "--model PKG.MOD:FACTORY"),
    **dict.fromkeys(("--custom-objects", "--custom-object", "--custom-layers", "--custom-layer", "--layers"),
                    "--trust --code FILE.py, a file with the classes"),
    **dict.fromkeys(("--plugin", "--custom-ops", "--extension", "--extra-opset", "--load-op-libraries"),
                    "--rules FILE"),
    **dict.fromkeys(("--debug", "--traceback"), "-vv"),
    **dict.fromkeys(("--silent", "--no-progress", "-loglevel", "--log-level", "--non-verbose"), "-q, or -v for more"),
    **dict.fromkeys(("--list", "--formats", "--list-formats", "--list-output-formats", "--list-input-formats"),
                    "convert formats"),
    **dict.fromkeys(("--ops", "--list-ops", "--supported-ops"), "convert ops --to FORMAT"),
    **dict.fromkeys(("--info", "--summary"), "convert inspect MODEL"),
    **dict.fromkeys(("-r", "--recursive", "-j", "--jobs"), "convert batch FOLDER --to FORMAT -o converted"),
    **dict.fromkeys(("--device", "--gpu", "--cuda", "--use-gpu"), "leave it out: all is done on the CPU"),
    **dict.fromkeys(("--optimize", "-O", "--simplify", "--fold", "--do-constant-folding", "--keep-constants"),
                    "leave it out: graphs are always cleaned and constants folded"),
    **dict.fromkeys(("--workers", "--num-workers", "--parallel", "--processes", "--threads"), "--jobs NUMBER"),
    **dict.fromkeys(("--max-memory", "--ram"), "--memory SIZE"),
    **dict.fromkeys(("--retry", "--attempts", "--max-retries"), "--retries NUMBER, of convert batch"),
    **dict.fromkeys(("--seed",), "--seeds NUMBER, how many sets of random inputs"),
}  # fmt: skip
"""Options of other converters, each with the option of ours that does the same."""

VALUE_SUGGESTIONS: dict[str, str] = {
    **dict.fromkeys(("fp32", "f32", "float", "single", "full"), "--dtype float32"),
    **dict.fromkeys(("fp16", "f16", "half", "16", "16bit", "float16"), "--dtype float16"),
    **dict.fromkeys(("bf16", "brain", "bfloat16"), "--dtype bfloat16"),
    **dict.fromkeys(("int8", "8", "8bit", "i8", "q8", "uint8", "static", "integer", "qdq"), "--quantize int8"),
    **dict.fromkeys(("int4", "4", "4bit", "i4", "q4", "uint4"), "--quantize int4"),
    **dict.fromkeys(
        ("int8-weights", "dynamic", "weights", "weight-only", "w8", "dynamic-range"), "--quantize int8-weights"
    ),
    **dict.fromkeys(("int16x8", "16x8", "a16w8", "w8a16", "int16"), "--quantize int16x8"),
    **dict.fromkeys(("last", "channels-last"), "--layout nhwc"),
    **dict.fromkeys(("first", "channels-first"), "--layout nchw"),
}
"""Values that no option with fixed choices accepts, each with the option and value to use instead."""


def suggestion_for_option(option: str, known: Collection[str]) -> str:
    """Return a sentence on what to type instead of `option`, for a verb with the options `known`; empty if there is
    nothing.
    """
    plain = option.partition("=")[0].replace("_", "-")
    near = plain if plain in OPTION_SUGGESTIONS else nearest(plain, [*known, *OPTION_SUGGESTIONS])
    found = OPTION_SUGGESTIONS.get(near, near)
    word = found.partition(" ")[0].rstrip(",")
    if not found or (word.startswith("-") and word not in known):
        return ""
    if near in known:
        return f"did you mean {found}?"
    return found if found.startswith("leave") else f"use {found}"


def suggestion_for_value(value: str, choices: Collection[str], known: Collection[str]) -> str:
    """Return a sentence on what to type instead of a word that `choices` lack, or "".

    known: the options of the verb. A form that the word has in another option is suggested with that option.
    """
    plain = value.lower().replace("_", "-")
    found = VALUE_SUGGESTIONS.get(plain) or VALUE_SUGGESTIONS.get(plain.replace("-", ""), "")
    option, _, word = found.partition(" ")
    if word in choices or (not found and (word := nearest(value, choices))):
        return f"did you mean {word}?"
    return f"use {found}" if option in known else ""
