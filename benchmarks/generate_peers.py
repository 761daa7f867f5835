"""Writing by other libraries, each by its own loop and at its best settings.

Peers are run, never changed. Each is given the same prompt and writes greedily. `precision` is what
weights and activations are in; llama.cpp keeps weights in f32, bf16 or q8_0 and its cache in f16.

Comes in: a folder with shared weights, settings. Goes out: contestants for `benchmarks.worker`. It
does not know each other's times.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import llama_cpp as llama_loop
from benchmarks.generate_pellucid import Writes
from benchmarks.peers import litgpt_model, nanogpt_model, x_transformers_model
from benchmarks.shapes import Shape
from benchmarks.train_weights import read


def huggingface(
    *,
    folder: str,
    prompt: list[int],
    shape: dict[str, Any],
    precision: str,
    static: bool,
    device: str,
) -> Writes:
    """`generate`, with its cache of keys and values, that grows or is of a fixed size."""
    from transformers import GPT2LMHeadModel  # pyright: ignore[reportMissingImports]

    model = GPT2LMHeadModel.from_pretrained(folder, dtype=getattr(torch, precision))
    model = model.to(device).eval()
    settings = {"cache_implementation": "static"} if static else {}

    def write(prompt: list[int], n: int) -> list[int]:
        with torch.inference_mode():
            ids = model.generate(
                torch.tensor([prompt], device=device),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long, device=device),
                do_sample=False,
                min_new_tokens=n,
                max_new_tokens=n,
                pad_token_id=0,
                **settings,
            )
        return ids[0, len(prompt) :].tolist()

    return Writes(write, prompt)


def nanogpt(
    *,
    folder: str,
    prompt: list[int],
    shape: dict[str, Any],
    precision: str,
    checkout: str,
    device: str,
) -> Writes:
    """Its `generate`, which reads the whole text for each token; `top_k=1` is greedy."""
    model = nanogpt_model(Shape(**shape), folder, checkout)
    model = model.to(device, getattr(torch, precision)).eval()

    def write(prompt: list[int], n: int) -> list[int]:
        with torch.inference_mode():
            ids = model.generate(torch.tensor([prompt], device=device), n, top_k=1)
        return ids[0, len(prompt) :].tolist()

    return Writes(write, prompt)


def litgpt(
    *, folder: str, prompt: list[int], shape: dict[str, Any], precision: str, device: str
) -> Writes:
    """Its `generate` with its cache; weights of its own draw, rotary positions."""
    from litgpt.generate.base import generate  # pyright: ignore[reportMissingImports]

    model = litgpt_model(Shape(**shape)).to(device, getattr(torch, precision)).eval()

    def write(prompt: list[int], n: int) -> list[int]:
        size = len(prompt) + n
        model.max_seq_length = max(64, size)
        model.set_kv_cache(batch_size=1, device=torch.device(device))
        model.to(device, getattr(torch, precision))
        with torch.inference_mode():
            ids = generate(
                model, torch.tensor(prompt, device=device), size, temperature=0.0, top_k=1
            )
        model.clear_kv_cache()
        return ids[len(prompt) :].tolist()

    return Writes(write, prompt)


def x_transformers(
    *, folder: str, prompt: list[int], shape: dict[str, Any], precision: str, device: str
) -> Writes:
    """Its `AutoregressiveWrapper.generate` with its cache; weights of its own draw."""
    from x_transformers import AutoregressiveWrapper  # pyright: ignore[reportMissingImports]

    inner = x_transformers_model(Shape(**shape))
    model = AutoregressiveWrapper(inner.to(device, getattr(torch, precision))).eval()

    def write(prompt: list[int], n: int) -> list[int]:
        with torch.inference_mode():
            prompt_ids = torch.tensor([prompt], device=device)
            return model.generate(prompt_ids, n, temperature=0.0)[0].tolist()

    return Writes(write, prompt)


def llama_cpp(
    *, folder: str, prompt: list[int], shape: dict[str, Any], precision: str, program: str
) -> Writes:
    """Its C API in a loop of C, from a GGUF of the weights; greedy."""
    model_shape = Shape(**shape)
    file = Path(folder) / f"{precision}.gguf"
    write_gguf(model_shape, read(folder), file, precision)
    threads = int(os.environ["OMP_NUM_THREADS"])
    return Writes(llama_loop.writer(Path(program), file, model_shape.length, threads), prompt)


#: From GGUF's names of a block's parts to Hugging Face's.
_PARTS = {
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}


def write_gguf(shape: Shape, weights: dict[str, torch.Tensor], file: Path, precision: str) -> None:
    """The weights as llama.cpp reads them; matrices in f32, bf16, q8_0 or q4_0, the rest in f32."""
    import gguf  # pyright: ignore[reportMissingImports]

    kinds = gguf.GGMLQuantizationType
    names = {"float32": "F32", "bfloat16": "BF16"}
    kind = kinds[names.get(precision, precision.upper())]
    writer = gguf.GGUFWriter(file, "gpt2")
    writer.add_context_length(shape.length)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(4 * shape.width)
    writer.add_block_count(shape.layers)
    writer.add_head_count(shape.heads)
    writer.add_layer_norm_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    # it wants words for its ids; none is ever spelt
    writer.add_token_list([f"<{token}>" for token in range(shape.vocab)])
    writer.add_token_types([gguf.TokenType.NORMAL] * shape.vocab)
    writer.add_token_merges(["< 0"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)

    def add(name: str, tensor: torch.Tensor, *, rounded: bool) -> None:
        array = np.ascontiguousarray(tensor.float().numpy())
        if not rounded:
            writer.add_tensor(name, array)
        else:
            writer.add_tensor(name, gguf.quantize(array, kind), raw_dtype=kind)

    add("token_embd.weight", weights["transformer.wte.weight"], rounded=True)
    add("position_embd.weight", weights["transformer.wpe.weight"], rounded=False)
    for end in ("weight", "bias"):
        add(f"output_norm.{end}", weights[f"transformer.ln_f.{end}"], rounded=False)
        for layer in range(shape.layers):
            for part, name in _PARTS.items():
                tensor = weights[f"transformer.h.{layer}.{name}.{end}"]
                matrix = tensor.ndim == 2
                add(f"blk.{layer}.{part}.{end}", tensor.t() if matrix else tensor, rounded=matrix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
