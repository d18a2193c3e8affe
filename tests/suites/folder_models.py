"""Tiny Hugging Face models for `folders.py`: classes of transformers with configurations, by kind and name."""

from __future__ import annotations

from typing import Any

from tests.suites.generation import MODELS, PAIRS, WORDS

Row = tuple[str, dict[str, Any]]
"""A class of transformers and its configuration."""

_VOCABULARY = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_PLAIN = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "initializer_range": 0.1}
_FEED = {**_PLAIN, "intermediate_size": 48}
_TEXT = {**_FEED, **_VOCABULARY, "max_position_embeddings": 128}
_GROUPED = {**_TEXT, "num_key_value_heads": 2}
_HEADS = {**_GROUPED, "head_dim": 8}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
_LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
_ROUTED = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_shared_experts": 1,
           "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}  # fmt: skip
_MAMBA = {"mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 4}
_MAMBA2 = {"mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_n_heads": 4, "mamba_d_head": 16,
           "mamba_n_groups": 1, "mamba_chunk_size": 4}  # fmt: skip
_DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
          "linear_conv_kernel_dim": 4}  # fmt: skip
_HYBRID = ["linear_attention", "full_attention"]
_OLD = {**_VOCABULARY, "n_layer": 2, "n_head": 4}

DECODERS: dict[str, Row] = {
    **{name: (f"{kind}{'LMHeadModel' if kind == 'GPT2' else 'ForCausalLM'}", {**config, "initializer_range": 0.1})
       for name, (kind, config) in MODELS.items()},
    "apertus": ("ApertusForCausalLM", _GROUPED),
    "arcee": ("ArceeForCausalLM", _GROUPED),
    "bamba": ("BambaForCausalLM", {**_GROUPED, **_MAMBA2, "attn_layer_indices": [1]}),
    "biogpt": ("BioGptForCausalLM", _TEXT),
    "bitnet": ("BitNetForCausalLM", _GROUPED),
    "codegen": ("CodeGenForCausalLM", {**_OLD, "n_embd": 32, "n_positions": 128, "rotary_dim": 4}),
    "cohere": ("CohereForCausalLM", _GROUPED),
    "cohere2": ("Cohere2ForCausalLM", {**_GROUPED, "sliding_window": 16}),
    "deepseek_v2": ("DeepseekV2ForCausalLM", {**_TEXT, **_LATENT, **_ROUTED, "num_key_value_heads": 4}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", {**_TEXT, **_LATENT, **_ROUTED, "num_key_value_heads": 4}),
    "diffllama": ("DiffLlamaForCausalLM", _GROUPED),
    "doge": ("DogeForCausalLM", _GROUPED),
    "dots1": ("Dots1ForCausalLM", {**_HEADS, **_ROUTED}),
    "ernie4_5": ("Ernie4_5ForCausalLM", _HEADS),
    "exaone4": ("Exaone4ForCausalLM", {**_HEADS, "sliding_window": 16}),
    "falcon_h1": ("FalconH1ForCausalLM", {**_HEADS, **_MAMBA2, "mamba_d_ssm": 64}),
    "falcon_mamba": ("FalconMambaForCausalLM", {**_VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2,
                                                "state_size": 8, "initializer_range": 0.1}),
    "gemma": ("GemmaForCausalLM", _HEADS),
    "gemma3": ("Gemma3ForCausalLM", {**_HEADS, "sliding_window": 8,
                                     "layer_types": ["sliding_attention", "full_attention"]}),
    "gemma3n": ("Gemma3nForCausalLM", {**_HEADS, "num_hidden_layers": 4, "num_kv_shared_layers": 2, "laurel_rank": 4,
                                       "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": WORDS,
                                       "altup_num_inputs": 2, "sliding_window": 8, "intermediate_size": 48,
                                       "activation_sparsity_pattern": [0.5, 0.5, 0.0, 0.0],
                                       "layer_types": ["sliding_attention", "full_attention"] * 2}),
    "glm": ("GlmForCausalLM", _HEADS),
    "glm4": ("Glm4ForCausalLM", _HEADS),
    "glm4_moe": ("Glm4MoeForCausalLM", {**_HEADS, **_ROUTED}),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", {**_OLD, "n_embd": 32, "n_positions": 128, "initializer_range": 0.1}),
    "gpt_neo": ("GPTNeoForCausalLM", {**_VOCABULARY, "hidden_size": 32, "num_layers": 2, "num_heads": 4,
                                      "attention_types": [[["global", "local"], 1]], "window_size": 8,
                                      "max_position_embeddings": 128}),
    "gptj": ("GPTJForCausalLM", {**_OLD, "n_embd": 32, "n_positions": 128, "rotary_dim": 4}),
    "gpt_oss": ("GptOssForCausalLM", {**_HEADS, **_LOCAL, "sliding_window": 8}),
    "granitemoe": ("GraniteMoeForCausalLM", {**_GROUPED, **_LOCAL}),
    "granitemoehybrid": ("GraniteMoeHybridForCausalLM", {
        **_GROUPED, **_LOCAL, **_MAMBA2, "shared_intermediate_size": 48, "layer_types": ["mamba", "attention"]}),
    "helium": ("HeliumForCausalLM", _HEADS),
    "hunyuan": ("HunYuanDenseV1ForCausalLM", _HEADS),
    "jamba": ("JambaForCausalLM", {**_GROUPED, **_MAMBA, "attn_layer_period": 2, "attn_layer_offset": 1,
                                   "expert_layer_period": 2, "expert_layer_offset": 1, "num_experts": 2,
                                   "num_experts_per_tok": 1}),
    "jetmoe": ("JetMoeForCausalLM", {**_TEXT, "num_key_value_heads": 2, "kv_channels": 8, **_LOCAL}),
    "kimi_linear": ("KimiLinearForCausalLM", {**_TEXT, **_LATENT, "num_key_value_heads": 4,
                                               "layer_types": _HYBRID}),
    "lfm2": ("Lfm2ForCausalLM", {**_GROUPED, "layer_types": ["conv", "full_attention"]}),
    "lfm2_moe": ("Lfm2MoeForCausalLM", {**_GROUPED, **_EXPERTS, "num_dense_layers": 1,
                                        "layer_types": ["conv", "full_attention"]}),
    "mamba": ("MambaForCausalLM", {**_VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}),
    "mamba2": ("Mamba2ForCausalLM", {**_VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8,
                                     "num_heads": 4, "head_dim": 16, "n_groups": 1, "chunk_size": 4}),
    "minimax, linear first": ("MiniMaxForCausalLM", {
        **_HEADS, **_LOCAL, "layer_types": _HYBRID, "block_size": 4}),
    "minimax": ("MiniMaxForCausalLM", {**_HEADS, **_LOCAL, "layer_types": _HYBRID[::-1], "block_size": 4}),
    "ministral": ("MinistralForCausalLM", {**_HEADS, "sliding_window": 8}),
    "mpt": ("MptForCausalLM", {"vocab_size": WORDS, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 128}),
    "nanochat": ("NanoChatForCausalLM", _GROUPED),
    "nemotron": ("NemotronForCausalLM", _GROUPED),
    "nemotron_h": ("NemotronHForCausalLM", {
        **_HEADS, "layers_block_type": ["mamba", "attention", "moe"], "num_hidden_layers": 3, "ssm_state_size": 8,
        "mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 1, "chunk_size": 4, "n_routed_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 16, "moe_shared_expert_intermediate_size": 16,
        "n_group": 1, "topk_group": 1}),
    "olmo": ("OlmoForCausalLM", _GROUPED),
    "olmo2": ("Olmo2ForCausalLM", _GROUPED),
    "olmo3": ("Olmo3ForCausalLM", {**_GROUPED, "sliding_window": 8}),
    "olmo_hybrid": ("OlmoHybridForCausalLM", {**_GROUPED, **_DELTA, "layer_types": _HYBRID}),
    "olmoe": ("OlmoeForCausalLM", {**_GROUPED, "num_experts": 4, "num_experts_per_tok": 2}),
    "persimmon": ("PersimmonForCausalLM", _TEXT),
    "phi4-mini": ("Phi3ForCausalLM", {**_GROUPED, "original_max_position_embeddings": 64, "partial_rotary_factor": 0.5,
                                      "rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4,
                                                          "partial_rotary_factor": 0.5,
                                                          "original_max_position_embeddings": 64,
                                                          "short_factor": [1.0, 1.5], "long_factor": [2.0, 4.0]}}),
    "phimoe": ("PhimoeForCausalLM", {**_GROUPED, **_LOCAL}),
    "qwen2": ("Qwen2ForCausalLM", _GROUPED),
    "qwen3_5": ("Qwen3_5ForCausalLM", {**_HEADS, **_DELTA, "layer_types": _HYBRID}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", {**_HEADS, **_EXPERTS}),
    "qwen3_next": ("Qwen3NextForCausalLM", {**_HEADS, **_DELTA, **_EXPERTS, "layer_types": _HYBRID,
                                            "shared_expert_intermediate_size": 16}),
    "recurrent_gemma": ("RecurrentGemmaForCausalLM", {**_HEADS, "num_hidden_layers": 3, "lru_width": 32,
                                                      "attention_window_size": 8}),
    "rwkv": ("RwkvForCausalLM", {**_VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "context_length": 128}),
    "seed_oss": ("SeedOssForCausalLM", _HEADS),
    "smollm3": ("SmolLM3ForCausalLM", {**_GROUPED, "no_rope_layers": [1, 0]}),
    "stablelm": ("StableLmForCausalLM", _GROUPED),
    "starcoder2": ("Starcoder2ForCausalLM", _GROUPED),
    "xglm": ("XGLMForCausalLM", {**_VOCABULARY, "d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 48,
                                 "max_position_embeddings": 128, "init_std": 0.1}),
    "xlstm": ("xLSTMForCausalLM", {**_VOCABULARY, "hidden_size": 128, "num_hidden_layers": 2, "num_heads": 2}),
    "zamba": ("ZambaForCausalLM", {**_TEXT, **_MAMBA, "num_hidden_layers": 4, "num_key_value_heads": 4,
                                   "attention_hidden_size": 64, "attention_head_dim": 16, "n_mamba_heads": 2,
                                   "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"]}),
    "zamba2": ("Zamba2ForCausalLM", {**_TEXT, "num_hidden_layers": 3, "num_key_value_heads": 4, "mamba_d_state": 8,
                                     "mamba_ngroups": 1, "n_mamba_heads": 4, "chunk_size": 4, "num_mem_blocks": 1,
                                     "attention_hidden_size": 64, "attention_head_dim": 16,
                                     "layers_block_type": ["mamba", "hybrid", "mamba"]}),
}  # fmt: skip
"""Models that generate with a cache, by architecture."""

_SEQ = {**_VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "init_std": 0.2, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
        "decoder_start_token_id": 2, "max_position_embeddings": 128, "forced_eos_token_id": None}  # fmt: skip
_T5 = {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
       "decoder_start_token_id": 0, "pad_token_id": 0}  # fmt: skip

ENCODER_DECODERS: dict[str, Row] = {
    **PAIRS,
    "blenderbot": ("BlenderbotForConditionalGeneration", _SEQ),
    "led": ("LEDForConditionalGeneration", {**_SEQ, "attention_window": 8, "max_encoder_position_embeddings": 64,
                                            "max_decoder_position_embeddings": 64}),
    "longt5": ("LongT5ForConditionalGeneration", {**_T5, "local_radius": 4}),
    "m2m_100": ("M2M100ForConditionalGeneration", _SEQ),
    "mbart": ("MBartForConditionalGeneration", _SEQ),
    "moonshine": ("MoonshineForConditionalGeneration", {
        **_VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "encoder_num_hidden_layers": 2,
        "decoder_num_hidden_layers": 2, "encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4,
        "decoder_start_token_id": 1}),
    "pegasus_x": ("PegasusXForConditionalGeneration", {**_SEQ, "num_global_tokens": 4, "block_size": 8}),
    "plbart": ("PLBartForConditionalGeneration", _SEQ),
    "prophetnet": ("ProphetNetForConditionalGeneration", {
        **_VOCABULARY, "hidden_size": 32, "num_encoder_layers": 2, "num_decoder_layers": 2, "decoder_start_token_id": 1,
        "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48, "max_position_embeddings": 128}),
    "speech_to_text": ("Speech2TextForConditionalGeneration", {
        **_SEQ, "input_feat_per_channel": 8, "conv_channels": 16, "max_source_positions": 60,
        "max_target_positions": 64}),
    "switch_transformers": ("SwitchTransformersForConditionalGeneration", {
        **_T5, "num_experts": 2, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1,
        "expert_capacity": 64}),
    "umt5": ("UMT5ForConditionalGeneration", _T5),
}  # fmt: skip
"""Encoders with a decoder, written as parts."""

_PICTURE = {**_FEED, "image_size": 32, "patch_size": 8}
_STAGES = {"hidden_sizes": [8, 16], "depths": [1, 1], "embedding_size": 8}
_SOUND = {**_FEED, "conv_dim": [16, 16], "conv_stride": [5, 2], "conv_kernel": [10, 3], "num_feat_extract_layers": 2,
          "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "vocab_size": WORDS}  # fmt: skip
_CLIP_TEXT = {**_TEXT, "max_position_embeddings": 20, "projection_dim": 16}
_CLIP = {"text_config": _CLIP_TEXT, "vision_config": {**_PICTURE, "projection_dim": 16}, "projection_dim": 16}
_BACKBONE = {"model_type": "resnet", **_STAGES, "out_features": ["stage1", "stage2"]}
_FOUR = {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1],
         "out_features": ["stage2", "stage3", "stage4"], "layer_type": "basic"}  # fmt: skip
_DETR = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_queries": 5,
         "num_labels": 4, "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}  # fmt: skip
_SWIN = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4,
         "initializer_range": 0.1}  # fmt: skip

ENCODERS: dict[str, Row] = {
    "albert": ("AlbertModel", {**_TEXT, "embedding_size": 16}),
    "bert": ("BertForSequenceClassification", _TEXT),
    "big_bird": ("BigBirdModel", {**_TEXT, "attention_type": "original_full"}),
    "canine": ("CanineModel", {**_FEED, "max_position_embeddings": 128, "num_hash_buckets": 256,
                               "downsampling_rate": 4, "local_transformer_stride": 16}),
    "convbert": ("ConvBertModel", {**_TEXT, "embedding_size": 32, "head_ratio": 2}),
    "deberta": ("DebertaModel", {**_TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "deberta_v2": ("DebertaV2ForTokenClassification", {**_TEXT, "relative_attention": True,
                                                       "pos_att_type": ["p2c", "c2p"]}),
    "distilbert": ("DistilBertForQuestionAnswering", {**_VOCABULARY, "dim": 32, "hidden_dim": 48, "n_layers": 2,
                                                      "n_heads": 4, "max_position_embeddings": 128}),
    "electra": ("ElectraForPreTraining", {**_TEXT, "embedding_size": 16}),
    "esm": ("EsmForMaskedLM", {**_TEXT, "pad_token_id": 1, "mask_token_id": 3, "position_embedding_type": "rotary"}),
    "eurobert": ("EuroBertModel", _GROUPED),
    "fnet": ("FNetModel", _TEXT),
    "funnel": ("FunnelModel", {"vocab_size": WORDS, "d_model": 32, "block_sizes": [1, 1], "n_head": 4, "d_head": 8,
                               "d_inner": 48, "num_decoder_layers": 1}),
    "ibert": ("IBertModel", _TEXT),
    "layoutlm": ("LayoutLMModel", {**_TEXT, "max_2d_position_embeddings": 1024}),
    "longformer": ("LongformerForMaskedLM", {**_TEXT, "attention_window": 8}),
    "luke": ("LukeModel", {**_TEXT, "entity_vocab_size": 9, "entity_emb_size": 16}),
    "mobilebert": ("MobileBertModel", {**_TEXT, "embedding_size": 16, "true_hidden_size": 16,
                                       "intra_bottleneck_size": 16, "num_feedforward_networks": 1}),
    "modernbert": ("ModernBertForMaskedLM", {**_TEXT, "global_attn_every_n_layers": 2, "local_attention": 8,
                                             "cls_token_id": 1, "sep_token_id": 2}),
    "mpnet": ("MPNetForMaskedLM", {**_TEXT, "pad_token_id": 1}),
    "nomic_bert": ("NomicBertModel", _TEXT),
    "nystromformer": ("NystromformerModel", {**_TEXT, "num_landmarks": 4, "segment_means_seq_len": 16}),
    "perceiver": ("PerceiverForMaskedLM", {"vocab_size": WORDS, "d_model": 32, "d_latents": 32, "num_latents": 8,
                                           "num_self_attends_per_block": 1, "num_self_attention_heads": 4,
                                           "num_cross_attention_heads": 4, "max_position_embeddings": 64}),
    "rembert": ("RemBertModel", {**_TEXT, "input_embedding_size": 16, "output_embedding_size": 16}),
    "roberta": ("RobertaForMaskedLM", {**_TEXT, "pad_token_id": 1}),
    "roformer": ("RoFormerModel", {**_TEXT, "embedding_size": 16}),
    "squeezebert": ("SqueezeBertModel", {**_TEXT, "embedding_size": 32}),
    "t5 encoder": ("T5EncoderModel", _T5),
    "xlm_roberta": ("XLMRobertaForTokenClassification", {**_TEXT, "pad_token_id": 1}),
    "xlnet": ("XLNetLMHeadModel", {"vocab_size": WORDS, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}),
}  # fmt: skip

VISION: dict[str, Row] = {
    "beit": ("BeitForImageClassification", {**_PICTURE, "use_relative_position_bias": True}),
    "conditional_detr": ("ConditionalDetrForObjectDetection", {**_DETR, "backbone_config": _FOUR}),
    "convnext": ("ConvNextForImageClassification", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2,
                                                    "image_size": 32, "patch_size": 4}),
    "cvt": ("CvtModel", {"embed_dim": [8, 16, 16], "num_heads": [1, 2, 2], "depth": [1, 2, 3],
                         "drop_path_rate": [0.0, 0.0, 0.0]}),
    "deformable_detr": ("DeformableDetrForObjectDetection", {
        **_DETR, "backbone_config": _FOUR, "num_feature_levels": 3, "encoder_n_points": 2, "decoder_n_points": 2,
        "decoder_layers": 2}),
    "deit": ("DeiTForImageClassification", _PICTURE),
    "depth_anything": ("DepthAnythingForDepthEstimation", {
        "backbone_config": {"model_type": "dinov2", **_PICTURE, "patch_size": 14, "image_size": 56,
                            "num_hidden_layers": 4, "out_indices": [1, 2, 3, 4],
                            "apply_layernorm": True, "reshape_hidden_states": False},
        "patch_size": 14, "reassemble_hidden_size": 32, "neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 16,
        "head_hidden_size": 8, "backbone": None}),
    "detr": ("DetrForObjectDetection", {**_DETR, "backbone_config": _FOUR}),
    "dinov2": ("Dinov2Model", {**_PICTURE, "patch_size": 14, "image_size": 56}),
    "dinov3": ("DINOv3ViTModel", {**_PICTURE, "num_register_tokens": 2}),
    "dpt": ("DPTForDepthEstimation", {**_PICTURE, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3],
                                      "neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 16,
                                      "is_hybrid": False}),
    "efficientnet": ("EfficientNetForImageClassification", {
        "image_size": 32, "width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320}),
    "focalnet": ("FocalNetForImageClassification", {"image_size": 32, "patch_size": 2, "embed_dim": 8,
                                                    "depths": [1, 1], "focal_levels": [1, 1],
                                                    "focal_windows": [3, 3]}),
    "glpn": ("GLPNForDepthEstimation", {"num_encoder_blocks": 4, "depths": [1, 1, 1, 1],
                                        "hidden_sizes": [8, 8, 16, 16], "num_attention_heads": [1, 1, 2, 2],
                                        "decoder_hidden_size": 8}),
    "hiera": ("HieraModel", {"embed_dim": 8, "image_size": [32, 32], "patch_stride": [4, 4], "patch_size": [7, 7],
                             "patch_padding": [3, 3], "depths": [1, 1], "num_heads": [1, 2], "num_query_pool": 1,
                             "masked_unit_size": [4, 4], "query_stride": [2, 2]}),
    "levit": ("LevitForImageClassification", {"image_size": 64, "hidden_sizes": [16, 32, 48], "depths": [1, 1, 1],
                                              "num_attention_heads": [1, 2, 3], "key_dim": [8, 8, 8]}),
    "mask2former": ("Mask2FormerForUniversalSegmentation", {
        "backbone_config": {"model_type": "swin", **_SWIN, "image_size": 64, "depths": [1, 1, 1, 1],
                            "num_heads": [2, 2, 4, 4], "out_features": ["stage1", "stage2", "stage3", "stage4"]},
        "feature_size": 32, "mask_feature_size": 32, "hidden_dim": 32, "encoder_feedforward_dim": 48,
        "dim_feedforward": 48, "encoder_layers": 1, "decoder_layers": 2, "num_attention_heads": 4, "num_queries": 5,
        "num_labels": 4, "backbone": None}),
    "mobilenet_v2": ("MobileNetV2ForImageClassification", {"depth_multiplier": 0.35, "image_size": 64}),
    "mobilevit": ("MobileViTForSemanticSegmentation", {
        "image_size": 64, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [4, 8, 8, 16, 16, 16, 32],
        "num_attention_heads": 2, "aspp_out_channels": 16, "num_labels": 4}),
    "poolformer": ("PoolFormerForImageClassification", {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}),
    "pvt": ("PvtForImageClassification", {"image_size": 32, "depths": [1, 1, 1, 1], "hidden_sizes": [8, 8, 16, 16],
                                          "num_attention_heads": [1, 1, 2, 2],
                                          "sequence_reduction_ratios": [4, 2, 1, 1]}),
    "regnet": ("RegNetForImageClassification", {**_STAGES, "groups_width": 8}),
    "resnet": ("ResNetForImageClassification", _STAGES),
    "rt_detr": ("RTDetrForObjectDetection", {
        "d_model": 32, "encoder_hidden_dim": 32, "encoder_ffn_dim": 48, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "decoder_ffn_dim": 48, "decoder_layers": 2, "num_queries": 6, "num_labels": 4,
        "num_denoising": 0, "feat_strides": [8, 16, 32], "encoder_in_channels": [16, 16, 32],
        "decoder_in_channels": [32, 32, 32], "backbone": None,
        "backbone_config": {**_FOUR, "model_type": "rt_detr_resnet"}}),
    "sam": ("SamModel", {
        "vision_config": {**_FEED, "output_channels": 16, "image_size": 64, "patch_size": 8, "window_size": 4,
                          "global_attn_indexes": [1], "mlp_dim": 48},
        "prompt_encoder_config": {"hidden_size": 16, "image_size": 64, "patch_size": 8, "mask_input_channels": 4},
        "mask_decoder_config": {"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2, "num_hidden_layers": 2,
                                "iou_head_hidden_dim": 16}}),
    "sam2": ("Sam2Model", {
        "vision_config": {"backbone_config": {
            "model_type": "sam2_hiera_det_model", "hidden_size": 8, "num_attention_heads": 1, "image_size": [64, 64],
            "blocks_per_stage": [1, 1, 1, 1], "embed_dim_per_stage": [8, 16, 24, 32],
            "num_attention_heads_per_stage": [1, 1, 2, 2], "window_size_per_stage": [4, 4, 2, 2],
            "window_positional_embedding_background_size": [4, 4], "global_attention_blocks": [2]},
            "backbone_channel_list": [32, 24, 16, 8], "fpn_hidden_size": 16,
            "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]},
        "prompt_encoder_config": {"hidden_size": 16, "image_size": 64, "patch_size": 16, "mask_input_channels": 4},
        "mask_decoder_config": {"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2, "num_hidden_layers": 2,
                                "iou_head_hidden_dim": 16}}),
    "segformer": ("SegformerForSemanticSegmentation", {
        "depths": [1, 1, 1, 1], "hidden_sizes": [8, 8, 16, 16], "num_attention_heads": [1, 1, 2, 2],
        "decoder_hidden_size": 16, "num_labels": 4}),
    "superpoint": ("SuperPointForKeypointDetection", {
        "encoder_hidden_sizes": [8, 8, 8, 8], "decoder_hidden_size": 16, "descriptor_decoder_dim": 16}),
    "swin": ("SwinForImageClassification", _SWIN),
    "swin2sr": ("Swin2SRForImageSuperResolution", {"image_size": 16, "patch_size": 1, "embed_dim": 16, "depths": [1],
                                                   "num_heads": [2], "window_size": 4, "upscale": 2}),
    "swinv2": ("Swinv2ForImageClassification", _SWIN),
    "timesformer": ("TimesformerForVideoClassification", {**_PICTURE, "num_frames": 2}),
    "upernet": ("UperNetForSemanticSegmentation", {
        "backbone_config": {"model_type": "convnext", "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1],
                            "out_features": ["stage1", "stage2", "stage3", "stage4"]},
        "hidden_size": 16, "auxiliary_in_channels": 16, "auxiliary_channels": 8, "num_labels": 4, "backbone": None}),
    "videomae": ("VideoMAEForVideoClassification", {**_PICTURE, "num_frames": 4, "tubelet_size": 2}),
    "vit": ("ViTForImageClassification", _PICTURE),
    "vit_mae": ("ViTMAEModel", _PICTURE),
    "vitmatte": ("VitMatteForImageMatting", {
        "backbone_config": {"model_type": "vitdet", **_FEED, "num_channels": 4, "image_size": 64, "patch_size": 16,
                            "pretrain_image_size": 64, "out_features": ["stage2"]},
        "hidden_size": 32, "convstream_hidden_sizes": [8, 16, 16], "fusion_hidden_sizes": [32, 16, 8, 8],
        "backbone": None}),
    "vivit": ("VivitForVideoClassification", {**_FEED, "image_size": 32, "num_frames": 4, "tubelet_size": [2, 8, 8]}),
    "yolos": ("YolosForObjectDetection", {**_PICTURE, "image_size": [32, 48], "num_detection_tokens": 5}),
    "zoedepth": ("ZoeDepthForDepthEstimation", {
        "backbone_config": {"model_type": "beit", **_PICTURE, "num_hidden_layers": 4, "out_indices": [1, 2, 3, 4],
                            "reshape_hidden_states": False, "add_fpn": False, "use_relative_position_bias": True},
        "neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 16, "bottleneck_features": 16,
        "num_relative_features": 8, "backbone": None,
        "bin_configurations": [{"n_bins": 8, "min_depth": 0.001, "max_depth": 10.0}]}),
}  # fmt: skip

SPEECH: dict[str, Row] = {
    "ast": ("ASTForAudioClassification", {**_FEED, "max_length": 64, "num_mel_bins": 32}),
    "bark": ("BarkModel", {"semantic_config": {"num_layers": 1, "num_heads": 2, "hidden_size": 16}}),
    "clap": ("ClapModel", {
        "text_config": {**_TEXT, "projection_dim": 16, "pad_token_id": 1}, "projection_dim": 16,
        "audio_config": {"spec_size": 32, "num_mel_bins": 8, "window_size": 4, "patch_size": 4, "patch_stride": [4, 4],
                         "depths": [1, 1], "num_attention_heads": [2, 2], "patch_embeds_hidden_size": 16,
                         "hidden_size": 32, "num_hidden_layers": 2, "projection_dim": 16}}),
    "dac": ("DacModel", {"encoder_hidden_size": 8, "decoder_hidden_size": 32, "downsampling_ratios": [2, 4],
                         "upsampling_ratios": [4, 2], "n_codebooks": 2, "codebook_size": 16, "codebook_dim": 4}),
    "encodec": ("EncodecModel", {"num_filters": 4, "hidden_size": 16, "codebook_size": 16, "codebook_dim": 16,
                                 "upsampling_ratios": [4, 2], "num_lstm_layers": 1, "num_residual_layers": 1}),
    "hubert": ("HubertForCTC", _SOUND),
    "fastspeech2": ("FastSpeech2ConformerModel", {
        "hidden_size": 32, "vocab_size": WORDS, "num_mel_bins": 8, "encoder_layers": 1, "decoder_layers": 1,
        "encoder_num_attention_heads": 2, "decoder_num_attention_heads": 2, "encoder_linear_units": 32,
        "decoder_linear_units": 32, "speech_decoder_postnet_units": 8, "duration_predictor_channels": 8,
        "energy_predictor_channels": 8, "pitch_predictor_channels": 8}),
    "mimi": ("MimiModel", {"num_filters": 4, "hidden_size": 32, "upsample_groups": 32, "num_hidden_layers": 1,
                           "intermediate_size": 48,
                           "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "codebook_size": 16,
                           "codebook_dim": 16, "num_quantizers": 3, "num_semantic_quantizers": 1,
                           "vector_quantization_hidden_dimension": 16, "upsampling_ratios": [4, 2]}),
    "musicgen": ("MusicgenForConditionalGeneration", {
        "text_encoder": {"model_type": "t5", **_T5},
        "audio_encoder": {"model_type": "encodec", "num_filters": 4, "hidden_size": 16, "codebook_size": 16,
                          "codebook_dim": 16, "upsampling_ratios": [4, 2], "num_residual_layers": 1},
        "decoder": {"model_type": "musicgen_decoder", "vocab_size": 16, "hidden_size": 32, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "ffn_dim": 48, "num_codebooks": 2, "max_position_embeddings": 64}}),
    "parakeet": ("ParakeetForCTC", {"vocab_size": WORDS, "encoder_config": {
        **_FEED, "num_mel_bins": 16, "subsampling_conv_channels": 8, "max_position_embeddings": 64,
        "num_key_value_heads": 4}}),
    "seamless_m4t": ("SeamlessM4TForTextToText", {
        **_VOCABULARY, "hidden_size": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "speech_encoder_layers": 1,
        "speech_encoder_attention_heads": 4, "speech_encoder_intermediate_size": 48, "t2u_encoder_layers": 1,
        "t2u_decoder_layers": 1}),
    "sew": ("SEWForCTC", {**_SOUND, "squeeze_factor": 2}),
    "speecht5": ("SpeechT5ForTextToSpeech", {
        "vocab_size": WORDS, "hidden_size": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_mel_bins": 8,
        "speech_decoder_prenet_units": 16, "speech_decoder_postnet_units": 16, "speaker_embedding_dim": 8}),
    "speecht5 to text": ("SpeechT5ForSpeechToText", {
        "vocab_size": WORDS, "hidden_size": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "conv_dim": [16, 16],
        "conv_stride": [5, 2], "conv_kernel": [10, 3], "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 2}),
    "unispeech": ("UniSpeechForCTC", _SOUND),
    "vits": ("VitsModel", {
        "vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 32,
        "flow_size": 16, "spectrogram_bins": 9, "upsample_initial_channel": 16, "upsample_rates": [4, 2],
        "upsample_kernel_sizes": [8, 4], "resblock_kernel_sizes": [3], "resblock_dilation_sizes": [[1, 3]],
        "prior_encoder_num_flows": 2, "posterior_encoder_num_wavenet_layers": 2, "depth_separable_num_layers": 1}),
    "wav2vec2": ("Wav2Vec2ForCTC", _SOUND),
    "wav2vec2_bert": ("Wav2Vec2BertForCTC", {**_FEED, "vocab_size": WORDS, "feature_projection_input_dim": 16}),
    "wavlm": ("WavLMForCTC", _SOUND),
}  # fmt: skip

SERIES: dict[str, Row] = {
    "autoformer": ("AutoformerForPrediction", {
        "prediction_length": 8, "context_length": 16, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
        "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "lags_sequence": [1, 2], "num_time_features": 1}),
    "informer": ("InformerForPrediction", {
        "prediction_length": 8, "context_length": 16, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
        "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "lags_sequence": [1, 2], "num_time_features": 1}),
    "patchtsmixer": ("PatchTSMixerForPrediction", {
        "context_length": 32, "patch_length": 8, "patch_stride": 8, "num_input_channels": 3, "prediction_length": 8,
        "d_model": 16, "num_layers": 2}),
    "patchtst": ("PatchTSTForPrediction", {
        "context_length": 32, "patch_length": 8, "patch_stride": 8, "num_input_channels": 3, "prediction_length": 8,
        "d_model": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 32}),
    "time_series_transformer": ("TimeSeriesTransformerForPrediction", {
        "prediction_length": 8, "context_length": 16, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
        "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "lags_sequence": [1, 2], "num_time_features": 1}),
    "timesfm": ("TimesFmModelForPrediction", {
        "context_length": 64, "patch_length": 8, "horizon_length": 16, "hidden_size": 32, "intermediate_size": 32,
        "head_dim": 8, "num_hidden_layers": 2, "num_attention_heads": 4}),
}  # fmt: skip

_LLAMA = {"model_type": "llama", **_GROUPED}
_QWEN_VISION = {"depth": 2, "embed_dim": 32, "num_heads": 4, "patch_size": 4, "in_channels": 3}
TOGETHER: dict[str, Row] = {
    "align": ("AlignModel", {"text_config": _TEXT, "projection_dim": 80, "vision_config": {
        "image_size": 32, "width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320}}),
    "blip": ("BlipForConditionalGeneration", {
        "text_config": {**_TEXT, "encoder_hidden_size": 32, "projection_dim": 16}, "vision_config": _PICTURE,
        "projection_dim": 16}),
    "blip_2": ("Blip2ForConditionalGeneration", {
        "vision_config": _PICTURE, "num_query_tokens": 4, "image_token_index": 98,
        "qformer_config": {**_FEED, "vocab_size": WORDS, "encoder_hidden_size": 32},
        "text_config": {"model_type": "opt", **_TEXT, "ffn_dim": 48, "word_embed_proj_dim": 32}}),
    "chinese_clip": ("ChineseCLIPModel", _CLIP),
    "clip": ("CLIPModel", _CLIP),
    "clipseg": ("CLIPSegForImageSegmentation", {**_CLIP, "reduce_dim": 8, "extract_layers": [0, 1],
                                                "decoder_num_attention_heads": 2, "decoder_intermediate_size": 16}),
    "flava": ("FlavaModel", {"text_config": _TEXT, "image_config": _PICTURE, "multimodal_config": _FEED,
                             "hidden_size": 32, "projection_dim": 16}),
    "gemma3 vision": ("Gemma3ForConditionalGeneration", {
        "text_config": {**_HEADS, "sliding_window": 8}, "vision_config": _PICTURE, "mm_tokens_per_image": 4,
        "image_token_index": 98}),
    "git": ("GitForCausalLM", {**_TEXT, "vision_config": _PICTURE}),
    "groupvit": ("GroupViTModel", {
        "text_config": _CLIP_TEXT, "projection_dim": 16, "projection_intermediate_dim": 16,
        "vision_config": {**_PICTURE, "depths": [1, 1, 1], "num_group_tokens": [8, 4, 0],
                          "num_output_groups": [8, 4, 4]}}),
    "idefics3": ("Idefics3ForConditionalGeneration", {
        "text_config": _LLAMA, "vision_config": _PICTURE, "image_token_id": 98, "scale_factor": 2}),
    "instructblip": ("InstructBlipForConditionalGeneration", {
        "vision_config": _PICTURE, "num_query_tokens": 4, "image_token_index": 98,
        "qformer_config": {**_TEXT, "encoder_hidden_size": 32},
        "text_config": {"model_type": "opt", **_TEXT, "ffn_dim": 48, "word_embed_proj_dim": 32}}),
    "internvl": ("InternVLForConditionalGeneration", {
        "text_config": {"model_type": "qwen2", **_GROUPED}, "image_token_id": 98, "downsample_ratio": 0.5,
        "vision_config": {**_PICTURE, "image_size": [32, 32], "patch_size": [8, 8]}}),
    "llava": ("LlavaForConditionalGeneration", {
        "text_config": _LLAMA, "vision_config": {"model_type": "clip_vision_model", **_PICTURE},
        "image_token_index": 98}),
    "owlvit": ("OwlViTForObjectDetection", {"text_config": {**_CLIP_TEXT, "max_position_embeddings": 16},
                                            "vision_config": _PICTURE, "projection_dim": 32}),
    "paligemma": ("PaliGemmaForConditionalGeneration", {
        "text_config": {"model_type": "gemma", **_HEADS}, "image_token_index": 98, "projection_dim": 32,
        "vision_config": {"model_type": "siglip_vision_model", **_PICTURE, "projection_dim": 32,
                          "vision_use_head": False}}),
    "qwen2_5_vl": ("Qwen2_5_VLForConditionalGeneration", {
        "text_config": {**_GROUPED, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4,
                                                        "mrope_section": [1, 1, 2]}},
        "vision_config": {**_QWEN_VISION, "hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 48,
                          "window_size": 16, "fullatt_block_indexes": [1]},
        "image_token_id": 98, "video_token_id": 97, "vision_start_token_id": 96}),
    "qwen2_vl": ("Qwen2VLForConditionalGeneration", {
        "text_config": {**_GROUPED, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4,
                                                        "mrope_section": [1, 1, 2]}},
        "vision_config": {**_QWEN_VISION, "hidden_size": 32},
        "image_token_id": 98, "video_token_id": 97, "vision_start_token_id": 96}),
    "siglip": ("SiglipModel", {"text_config": {**_CLIP_TEXT, "projection_size": 32}, "vision_config": _PICTURE}),
    "siglip2": ("Siglip2Model", {"text_config": {**_CLIP_TEXT, "projection_size": 32},
                                 "vision_config": {**_FEED, "patch_size": 8, "num_patches": 16}}),
    "smolvlm": ("SmolVLMForConditionalGeneration", {
        "text_config": _LLAMA, "vision_config": _PICTURE, "image_token_id": 98, "scale_factor": 2}),
    "trocr": ("VisionEncoderDecoderModel", {
        "encoder": {"model_type": "vit", **_PICTURE}, "decoder_start_token_id": 1, "pad_token_id": 0,
        "decoder": {"model_type": "trocr", **_VOCABULARY, "d_model": 32, "decoder_layers": 2, "is_decoder": True,
                    "decoder_attention_heads": 4, "decoder_ffn_dim": 48, "add_cross_attention": True,
                    "cross_attention_hidden_size": 32, "max_position_embeddings": 64}}),
    "vilt": ("ViltForQuestionAnswering", {**_TEXT, "image_size": 32, "patch_size": 8, "num_labels": 4}),
    "speech encoder-decoder": ("SpeechEncoderDecoderModel", {
        "encoder": {"model_type": "wav2vec2", **_SOUND}, "decoder_start_token_id": 1, "pad_token_id": 0,
        "decoder": {"model_type": "bert", **_TEXT, "is_decoder": True, "add_cross_attention": True}}),
    "vision-text": ("VisionTextDualEncoderModel", {
        "text_config": {"model_type": "bert", **_TEXT}, "vision_config": {"model_type": "vit", **_PICTURE},
        "projection_dim": 16}),
    "xclip": ("XCLIPModel", {"text_config": _CLIP_TEXT, "projection_dim": 32, "prompt_num_attention_heads": 2,
                             "prompt_layers": 1, "vision_config": {
                                 **_PICTURE, "num_frames": 2, "mit_hidden_size": 32, "mit_intermediate_size": 48,
                                 "mit_num_attention_heads": 4, "mit_num_hidden_layers": 1}}),
}  # fmt: skip
"""Models of several kinds of inputs."""

SENTENCES: dict[str, tuple[Row, list[str], bool]] = {
    "mean": (("BertModel", _TEXT), ["mean"], False),
    "mean, normalized": (("MPNetModel", {**_TEXT, "pad_token_id": 1}), ["mean"], True),
    "first token, normalized": (("BertModel", _TEXT), ["cls"], True),
    "last token": (("Qwen3Model", _HEADS), ["lasttoken"], True),
    "t5": (("T5EncoderModel", _T5), ["mean"], True),
}
"""sentence-transformers: the transformer, its pooling, and whether a normalization follows."""

TIMM = ("resnet18", "mobilenetv3_small_050", "vit_tiny_patch16_224", "convnext_atto", "efficientnet_b0",
        "swin_tiny_patch4_window7_224")  # fmt: skip
"""Networks of timm with their classifier."""
