"""Families that pellucid refuses by name, with the reason in words.

They compute what no part of pellucid does, or read more than text.
"""

from __future__ import annotations

_RECURRENT = (
    "whose layers keep a recurrent state or a short convolution (state spaces, linear recurrences, "
    "RWKV, xLSTM): outside the ground of pellucid, which opens transformers alone"
)
_PICTURES = (
    "which reads pictures, films or sound as well as text: pellucid opens models of text alone"
)
_SOUND = "which reads or writes sound: pellucid opens models of text alone"

_RECURRENT_NAMES = (
    "bailing_hybrid", "bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba",
    "kimi_linear", "lara_mini", "lfm2", "lfm2_moe", "lfm3", "mamba", "mamba2", "minimax",
    "nemotron_h", "olmo_hybrid", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next",
    "recurrent_gemma", "rwkv", "xlstm", "zamba", "zamba2",
)  # fmt: skip
_PICTURE_NAMES = (
    "aria", "aya_vision", "blip", "blip-2", "chameleon", "cohere2_vision", "deepseek_ocr2",
    "deepseek_vl", "deepseek_vl_hybrid", "emu3", "ernie4_5_vl_moe", "evolla", "exaone4_5",
    "fast_vlm", "florence2", "fuyu", "gemma3", "gemma3n", "gemma4", "git", "glm46v", "glm4v",
    "glm4v_moe", "glm_ocr", "got_ocr2", "granite4_vision", "hunyuan_vl", "hyperclovax_vision_v2",
    "idefics", "idefics2", "idefics3", "instructblip", "instructblipvideo", "internvl", "janus",
    "kimi_k25", "kosmos-2", "kosmos-2.5", "lfm2_vl", "lfm3_vl", "lighton_ocr", "llama4", "llava",
    "llava_next", "llava_next_video", "llava_onevision", "minicpmv4_6", "minicpmv4_7",
    "minimax_m3_vl", "mistral3", "mllama", "molmo2", "nemotron_h_omni", "ovis2", "paddleocr_vl",
    "paligemma", "perception_lm", "phi4_multimodal", "pix2struct", "qwen2_5_omni", "qwen2_5_vl",
    "qwen2_vl", "qwen3_5", "qwen3_5_moe", "qwen3_omni_moe", "qwen3_vl", "qwen3_vl_moe",
    "shieldgemma2", "smolvlm", "t5gemma2", "udop", "video_llama_3", "video_llava", "vipllava",
    "vision-encoder-decoder",
)  # fmt: skip
_SOUND_NAMES = (
    "audioflamingo3", "canary", "data2vec-audio", "dia", "fun_asr_nano", "glmasr", "granite_speech",
    "granite_speech_plus", "hubert", "kyutai_speech_to_text", "moonshine", "moonshine_streaming",
    "moshi", "musicgen", "musicgen_melody", "parakeet_ctc", "pop2piano", "qwen2_audio", "qwen3_asr",
    "seamless_m4t", "seamless_m4t_v2", "sew", "sew-d", "speech-encoder-decoder", "speech_to_text",
    "speecht5", "unispeech", "unispeech-sat", "vibevoice", "vibevoice_asr", "voxtral",
    "voxtral_realtime", "wav2vec2", "wav2vec2-bert", "wav2vec2-conformer", "wavlm", "whisper",
)  # fmt: skip

#: By `model_type`: what the family does that pellucid cannot.
REFUSED: dict[str, str] = {
    **dict.fromkeys(_RECURRENT_NAMES, _RECURRENT),
    **dict.fromkeys(_PICTURE_NAMES, _PICTURES),
    **dict.fromkeys(_SOUND_NAMES, _SOUND),
    "apertus": "whose activation xIELU has trained numbers of its own: pellucid has no such layer",
    "blenderbot-small": (
        "whose decoder normalises the embedding before it adds positions: pellucid normalises the "
        "sum"
    ),
    "esm": (
        "which scales each text's embedding by its share of masked tokens (token_dropout): "
        "pellucid's embedding of a token is the same in every text"
    ),
    "llama4_text": "whose scores grow with the position: pellucid's have one factor for all",
    "ministral3": (
        "whose scores grow with the position (llama_4_scaling_beta): pellucid's have one factor "
        "for all"
    ),
    "nanochat": (
        "which turns queries and keys in the other direction: the same model in the usual one has "
        "other matrices"
    ),
    "phimoe": (
        "whose router, SparseMixer, chooses the experts one after another by thresholds: "
        "pellucid's chooses the largest scores"
    ),
}
