"""The weights that nanoGPT, Hugging Face's model and pellucid share, and other peers' weights.

Comes in: a shape and a folder, or a model. Goes out: a Hugging Face directory, tensors by name, or
a model that is filled. It does not know who trains it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.shapes import Shape


def read(folder: str) -> dict[str, Tensor]:
    """The shared weights, by their names in Hugging Face's GPT-2."""
    from safetensors.torch import load_file

    return load_file(Path(folder) / "model.safetensors")


#: Matrices that lie as (in, out) there and as (out, in) in nanoGPT.
_TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def for_nanogpt(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same weights as nanoGPT holds them: with the head's name, and linear layers turned."""
    renamed = {
        name: tensor.t().contiguous() if name.endswith(_TRANSPOSED) else tensor
        for name, tensor in weights.items()
    }
    return renamed | {"lm_head.weight": renamed["transformer.wte.weight"]}


def weights(*, shape: dict[str, Any], folder: str) -> Callable[[int], dict[str, Any]]:
    """Write the weights that are shared, as Hugging Face's GPT-2 draws and saves them."""
    from transformers import GPT2Config, GPT2LMHeadModel  # pyright: ignore[reportMissingImports]

    shape_numbers = Shape(**shape)
    settings = GPT2Config(
        vocab_size=shape_numbers.vocab,
        n_positions=shape_numbers.length,
        n_embd=shape_numbers.width,
        n_layer=shape_numbers.layers,
        n_head=shape_numbers.heads,
        # exact, as nanoGPT has it: one kernel, where transformers' default is eight operations
        activation_function="gelu",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(1)
    GPT2LMHeadModel(settings).save_pretrained(folder)
    return lambda steps: {}


def initialise_as_gpt2(model: nn.Module) -> None:
    """Weights as GPT-2 draws them, biases of zero, so that the first loss is near ln V."""
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if parameter.ndim >= 2:
            nn.init.normal_(parameter, std=0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
