"""The names under which runtimes look for the models of a Hugging Face folder."""

from __future__ import annotations

MERGED = "decoder_model_merged"
"""The stem that optimum and transformers.js give to a decoder for the first token and all others."""
PARTS = ("model", "encoder_model", "decoder_model", "decoder_with_past_model", MERGED)
DTYPES = ("", "_fp16", "_int8", "_uint8", "_quantized", "_q4", "_q4f16", "_bnb4")
"""What transformers.js appends to the name of a model in another dtype, and chooses by its option `dtype`."""
NAMES = tuple(part + dtype for part in PARTS for dtype in DTYPES)
