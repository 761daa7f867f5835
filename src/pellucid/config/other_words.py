"""What other tools call the keys of a config, so that a message can name ours."""

from __future__ import annotations

#: Our key, by its names in nanoGPT, litgpt, Hugging Face's Trainer, PyTorch Lightning and papers.
_OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "learning_rate": ("lr", "max_lr", "base_lr"),
    "weight_decay": ("wd", "decay"),
    "batch_size": ("bs", "batch", "micro_batch_size", "per_device_train_batch_size"),
    "accumulation": (
        "grad_accum",
        "accumulate_grad_batches",
        "gradient_accumulation",
        "gradient_accumulation_steps",
    ),
    "clip_norm": ("clip", "grad_clip", "max_grad_norm", "gradient_clip_val"),
    "evaluate_every": ("eval_every", "eval_interval", "eval_steps", "val_check_interval"),
    "checkpoint_every": ("save_every", "save_interval", "save_steps"),
    "warm_up": ("warmup", "warmup_steps", "warmup_iters", "warmup_ratio"),
    "precision": ("dtype", "bf16", "fp16"),
    "context_length": (
        "context",
        "block_size",
        "seq_len",
        "seq_length",
        "max_length",
        "max_seq_len",
        "max_seq_length",
        "max_position_embeddings",
    ),
    "d_model": ("dim", "width", "n_embd", "embed_dim", "hidden_size", "hidden_dim"),
    "d_ff": ("ffn_dim", "intermediate_size"),
    "n_layers": ("layers", "depth", "n_layer", "num_layers", "num_hidden_layers"),
    "n_heads": ("heads", "n_head", "num_heads", "num_attention_heads"),
    "n_kv_heads": ("kv_heads", "num_key_value_heads"),
}
_OUR_KEY = {name: key for key, names in _OTHER_NAMES.items() for name in names}


def our_key(name: str) -> str:
    """The key that another tool calls `name`; the name itself if we know of none."""
    return _OUR_KEY.get(name, name)
