"""Greedy generation by transformers' own `generate`, with its own cache."""

from __future__ import annotations

import numpy as np
import torch

from convert.errors import Unsupported
from convert.options import Options
from convert.source import Source

from ..files.hugging_face import is_hugging_face
from ..files.loader import load


def generate(
    source: Source, tokens: int, words: np.ndarray, mask: np.ndarray, options: Options
) -> dict[str, np.ndarray]:
    """`tokens` [rows, steps] and `scores` [rows, steps, words] of each; raises `Unsupported` for other models."""
    if not is_hugging_face(source):
        raise Unsupported("only models of transformers generate")
    from transformers import GenerationConfig

    model = load(source, options)
    vars(model).pop("forward", None)  # the one that was made for capture
    # Nothing ends a row, and nothing is done to scores: what is compared is the model.
    plain = GenerationConfig(max_new_tokens=tokens, do_sample=False, num_beams=1, pad_token_id=0, use_cache=True)
    model.generation_config = plain
    with torch.no_grad():
        found = model.generate(
            torch.from_numpy(words),
            attention_mask=torch.from_numpy(mask),
            generation_config=plain,
            output_logits=True,
            return_dict_in_generate=True,
        )
    scores = torch.stack(found.logits, 1).double().numpy()
    return {"tokens": found.sequences[:, words.shape[1] :].numpy(), "scores": scores}
