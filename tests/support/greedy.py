"""Greedy generation with ONNX decoders whose cache is inputs and outputs, with an encoder before them or without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort


def greedy(
    session: ort.InferenceSession, words: np.ndarray, mask: np.ndarray, tokens: int, never: Sequence[int] = ()
) -> np.ndarray:
    """`words` [rows, length] and so many `tokens` behind them, one a step; rows may be padded on the left.

    never: tokens that it may not choose, as with transformers' `min_new_tokens`.
    """
    dims = {i.name: i.shape for i in session.get_inputs()}
    outputs = [o.name for o in session.get_outputs()]
    past = {n: np.zeros((len(words), d[1], 0, d[3]), np.float32) for n, d in dims.items() if n.startswith("past")}
    found = new = words
    for _ in range(tokens):
        places = np.maximum(mask.cumsum(1) - 1, 0)[:, -new.shape[1] :]
        feed = {"input_ids": new, "attention_mask": mask, "position_ids": places, **past}
        given = dict(zip(outputs, session.run(None, {n: feed[n] for n in dims}), strict=True))
        scores = given["logits"][:, -1]
        scores[:, list(never)] = -np.inf
        new = scores.argmax(-1)[:, None]
        found, mask = np.concatenate([found, new], 1), np.concatenate([mask, np.ones_like(new)], 1)
        past = {n: given[n.replace("past_key_values", "present")] for n in past}
    return found


def greedy_with_encoder(folder: Path, given: dict[str, np.ndarray], first: np.ndarray, tokens: int,
                        never: Sequence[int] = ()) -> np.ndarray:  # fmt: skip
    """`first` [rows, length] and so many `tokens` behind them, by the three files of an encoder with a decoder.

    given: the encoder's inputs. The decoder without a cache is run once, the other one for each further token.
    """
    encoder, start, step = (
        ort.InferenceSession(folder / f"{name}_model.onnx") for name in ("encoder", "decoder", "decoder_with_past")
    )
    common = {"encoder_hidden_states": encoder.run(None, given)[0], "input_ids": first}
    if "attention_mask" in given:
        common["encoder_attention_mask"] = given["attention_mask"]
    found, past, session = first, {}, start
    for _ in range(tokens):
        feed = {i.name: {**common, **past}[i.name] for i in session.get_inputs()}
        outputs = dict(zip([o.name for o in session.get_outputs()], session.run(None, feed), strict=True))
        scores = outputs["logits"][:, -1]
        scores[:, list(never)] = -np.inf
        common["input_ids"] = scores.argmax(-1)[:, None]
        found = np.concatenate([found, common["input_ids"]], 1)
        past |= {n.replace("present", "past_key_values"): x for n, x in outputs.items() if n.startswith("present")}
        session = step
    return found
