"""Greedy generation by transformers' own `generate`, with its own cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from convert.activity import advance
from convert.errors import Unsupported
from convert.request.options import Options
from convert.request.source import Source

from ..files.hugging_face import is_hugging_face
from ..files.loader import load


def generate(source: Source, tokens: int, prompt: Mapping[str, np.ndarray], options: Options) -> dict[str, np.ndarray]:
    """Return `tokens` [rows, steps] and `scores` [rows, steps, words], and for an encoder-decoder `first` [rows, 1].

    prompt: `words` and `mask` of a decoder, or the inputs of an encoder. `first` holds the tokens that the decoder
    started with. Raises `Unsupported` for models of other libraries than transformers.
    """
    if not is_hugging_face(source):
        raise Unsupported("only models of transformers generate")
    from transformers import GenerationConfig, GenerationMixin

    model = load(source, options)
    vars(model).pop("forward", None)  # remove the forward that was made for capture
    # No token ends a row and no processor changes the scores, because the model itself is compared.
    plain = GenerationConfig(max_new_tokens=tokens, do_sample=False, num_beams=1, pad_token_id=0, use_cache=True)
    names = {"words": "input_ids", "mask": "attention_mask"} if "words" in prompt else {}
    if not names:
        plain.decoder_start_token_id = model.generation_config.decoder_start_token_id
    model.generation_config = plain
    with torch.no_grad():
        # The model's own generate is not used: Whisper's adds tokens for languages and tasks, and splits the audio.
        generate_plainly: Any = GenerationMixin.generate
        found = generate_plainly(
            model,
            **{names.get(name, name): torch.from_numpy(array) for name, array in prompt.items()},
            generation_config=plain,
            output_logits=True,
            return_dict_in_generate=True,
            streamer=_Count(tokens),
        )
    before, after = found.sequences[:, :-tokens].numpy(), found.sequences[:, -tokens:].numpy()
    scores = torch.stack(found.logits, 1).double().numpy()
    return {"tokens": after, "scores": scores, **({} if names else {"first": before})}


class _Count:
    """A streamer: transformers calls it with the prompt and with each token."""

    def __init__(self, tokens: int) -> None:
        self.tokens, self.done = tokens, -1

    def put(self, value: Any) -> None:
        """Count a step; called with the prompt before the first step, then with the token of each row."""
        self.done += 1
        advance(self.done, self.tokens)

    def end(self) -> None:
        """Do nothing; called after the last step."""
