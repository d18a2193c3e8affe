"""The zoo's language, speech and time-series models: tiny random configurations of transformers, built offline."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from zoo_models import Built, Entry, stirred

SMALL = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
DECODER = SMALL | {"max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
PAIR = {"vocab_size": 60, "d_model": 32, "max_position_embeddings": 64, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48}  # fmt: skip
IDS, MASK = "input_ids:int64[batch,sequence]", "attention_mask:int64[batch,sequence]"
TARGET = "decoder_input_ids:int64[batch,target]"
PAST = ("input_ids:int64[batch,sequence]", "past_key_values:float32")


def model(kind: str, config: str, inputs: Any = None, **values: Any) -> Built:
    """Return `kind(config(**values))` of transformers, with noise on its weights."""
    import transformers

    torch.manual_seed(0)
    made = getattr(transformers, kind)(getattr(transformers, config)(**values))
    return Built(stirred(made), list(inputs) if isinstance(inputs, tuple) else inputs)


def entry(name: str, kind: str, config: str, inputs: Any = None, gaps: dict[str, str] | None = None, /,
          **values: Any) -> Entry:  # fmt: skip
    return Entry(name, f"transformers {config.removesuffix('Config')}",
                 partial(model, kind, config, inputs, **values), gaps or {})  # fmt: skip


ENCODERS = [
    entry("bert", "BertModel", "BertConfig", **SMALL, max_position_embeddings=64),
    entry("bert-classifier", "BertForSequenceClassification", "BertConfig", **SMALL, max_position_embeddings=64),
    entry("roberta-qa", "RobertaForQuestionAnswering", "RobertaConfig", (IDS, MASK), **SMALL,
          max_position_embeddings=64),
    entry("albert", "AlbertModel", "AlbertConfig", **SMALL, embedding_size=16, max_position_embeddings=64),
    entry("distilbert", "DistilBertModel", "DistilBertConfig", vocab_size=60, dim=32, n_layers=2, n_heads=4,
          hidden_dim=48, max_position_embeddings=64),
    entry("electra", "ElectraForTokenClassification", "ElectraConfig", **SMALL, embedding_size=16,
          max_position_embeddings=64),
    entry("deberta-v2", "DebertaV2Model", "DebertaV2Config", (IDS, MASK), **SMALL, max_position_embeddings=64,
          relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=16),
    entry("mpnet", "MPNetModel", "MPNetConfig", (IDS, MASK), **SMALL, max_position_embeddings=64),
    entry("fnet", "FNetModel", "FNetConfig", ("input_ids:int64[batch,16]",), vocab_size=60, hidden_size=32,
          num_hidden_layers=2, intermediate_size=48, max_position_embeddings=64),
    entry("modernbert", "ModernBertModel", "ModernBertConfig", (IDS, MASK), **DECODER,
          cls_token_id=0, sep_token_id=0, global_attn_every_n_layers=2, local_attention=8),
]  # fmt: skip

DECODERS = [
    entry("gpt2", "GPT2LMHeadModel", "GPT2Config", vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=64,
          bos_token_id=0, eos_token_id=0),
    entry("gpt2-past", "GPT2LMHeadModel", "GPT2Config", PAST, vocab_size=60, n_embd=32, n_layer=2, n_head=4,
          n_positions=64, bos_token_id=0, eos_token_id=0),
    entry("llama", "LlamaForCausalLM", "LlamaConfig", **DECODER, num_key_value_heads=2),
    entry("llama-past", "LlamaForCausalLM", "LlamaConfig", PAST, **DECODER, num_key_value_heads=2),
    entry("mistral", "MistralForCausalLM", "MistralConfig", **DECODER, num_key_value_heads=2, sliding_window=8),
    entry("mixtral", "MixtralForCausalLM", "MixtralConfig", **DECODER, num_key_value_heads=2, num_local_experts=4),
    entry("qwen2", "Qwen2ForCausalLM", "Qwen2Config", **DECODER, num_key_value_heads=2),
    entry("qwen3", "Qwen3ForCausalLM", "Qwen3Config", **DECODER, num_key_value_heads=2, head_dim=8),
    entry("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", **DECODER, num_key_value_heads=2, head_dim=8,
          sliding_window=8),
    entry("phi3", "Phi3ForCausalLM", "Phi3Config", **DECODER, num_key_value_heads=2),
    entry("falcon", "FalconForCausalLM", "FalconConfig", **DECODER),
    entry("bloom", "BloomForCausalLM", "BloomConfig", (IDS, MASK), vocab_size=60, hidden_size=32, n_layer=2, n_head=4,
          bos_token_id=0, eos_token_id=0, pad_token_id=0),
    entry("opt", "OPTForCausalLM", "OPTConfig", (IDS, MASK), vocab_size=60, hidden_size=32, num_hidden_layers=2,
          ffn_dim=48, num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=32),
    entry("gpt-neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", **DECODER),
    entry("mamba", "MambaForCausalLM", "MambaConfig", ("input_ids:int64[batch,12]",), vocab_size=60, hidden_size=32,
          num_hidden_layers=2, state_size=8, bos_token_id=0, eos_token_id=0, pad_token_id=0),
    entry("mamba2", "Mamba2ForCausalLM", "Mamba2Config", ("input_ids:int64[batch,12]",), vocab_size=60, hidden_size=32,
          num_hidden_layers=2, state_size=8, num_heads=8, head_dim=8, n_groups=2, chunk_size=4, bos_token_id=0,
          eos_token_id=0, pad_token_id=0),
    entry("xlnet", "XLNetModel", "XLNetConfig", ("input_ids:int64[batch,12]",), vocab_size=60, d_model=32, n_layer=2,
          n_head=4, d_inner=48),
]  # fmt: skip

PAIRS = [
    entry("t5", "T5ForConditionalGeneration", "T5Config", vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=2,
          num_heads=4, decoder_start_token_id=0),
    entry("bart", "BartForConditionalGeneration", "BartConfig", (IDS, MASK, TARGET), **PAIR),
    entry("marian", "MarianMTModel", "MarianConfig", (IDS, MASK, TARGET), **PAIR, pad_token_id=0,
          decoder_start_token_id=0),
    entry("whisper", "WhisperForConditionalGeneration", "WhisperConfig",
          ("input_features:float32[batch,20,60]", TARGET), vocab_size=60, d_model=32, encoder_layers=2,
          decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
          decoder_ffn_dim=48, num_mel_bins=20, max_source_positions=30, max_target_positions=32, pad_token_id=0,
          bos_token_id=0, eos_token_id=0, decoder_start_token_id=0, begin_suppress_tokens=None),
]  # fmt: skip

WAVES = {"vocab_size": 30, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 48, "conv_dim": (16, 16, 16), "conv_kernel": (10, 3, 3), "conv_stride": (5, 2, 2),
         "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}  # fmt: skip
SPEECH = [
    entry("wav2vec2", "Wav2Vec2ForCTC", "Wav2Vec2Config", ("input_values:float32[batch,samples=400..]",), **WAVES),
    entry("hubert", "HubertModel", "HubertConfig", ("input_values:float32[batch,1600]",), **WAVES),
    entry("wavlm", "WavLMModel", "WavLMConfig", ("input_values:float32[batch,1600]",), **WAVES),
    entry("patchtst", "PatchTSTForPrediction", "PatchTSTConfig", ("past_values:float32[batch,32,2]",),
          num_input_channels=2, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_hidden_layers=2,
          num_attention_heads=4, ffn_dim=32, prediction_length=8, norm_type="layernorm"),
]  # fmt: skip


def encodec() -> Built:
    """Python code reads the tensors that compute the padding, so one run of the model is traced."""
    built = model("EncodecModel", "EncodecConfig", num_filters=4, hidden_size=16, codebook_size=32, codebook_dim=16,
                  upsampling_ratios=[4, 2], num_lstm_layers=1)  # fmt: skip
    for name, codes in built.module.named_buffers():
        if name.endswith(".embed"):  # a codebook is zero before training
            codes.normal_(generator=torch.Generator().manual_seed(1))
    return Built(built.module, "input_values:float32[2,1,640]", {"trace": True})


ENTRIES = [*ENCODERS, *DECODERS, *PAIRS, *SPEECH, Entry("encodec", "transformers Encodec", encodec)]
