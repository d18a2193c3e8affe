"""A Hugging Face decoder as a SavedModel: its cache is inputs and outputs, and it generates what its source
generates.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import convert
from convert.runtimes.generation import CachePart, Generation, greedy
from tests.support.timm_helper import declare_torchvision_operators

tf = pytest.importorskip("tensorflow")
declare_torchvision_operators()
transformers = pytest.importorskip("transformers")


@pytest.mark.long
def test_a_saved_model_generates_the_same_32_tokens(tmp_path: Path) -> None:
    torch.manual_seed(0)
    size = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
    config = transformers.LlamaConfig(**size, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    model = transformers.LlamaForCausalLM(config).eval()
    model.save_pretrained(tmp_path / "llama")
    convert.convert(tmp_path / "llama", "tf", tmp_path / "llama.savedmodel", verify=False)
    call = tf.saved_model.load(str(tmp_path / "llama.savedmodel")).signatures["serving_default"]
    parts = tuple(CachePart(f"past_key_values_0_{h}", f"present.0.{h}", (2, 0, 4)) for h in ("key", "value"))
    how = Generation(32, "input_ids", "logits", parts, "attention_mask", "position_ids")
    words, mask = np.array([[0, 0, 7, 9], [5, 3, 8, 2]]), np.array([[0, 0, 1, 1], [1, 1, 1, 1]])
    found = greedy(lambda feed: call(**{n: tf.constant(a) for n, a in feed.items()}), {}, how, words, mask)
    plain = {"max_new_tokens": 32, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    with torch.no_grad():
        want = model.generate(torch.from_numpy(words), attention_mask=torch.from_numpy(mask), **plain)
    np.testing.assert_array_equal(found["tokens"], want[:, 4:].numpy())
