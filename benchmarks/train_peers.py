"""Training updates of other libraries, each in its own idiom and at its own best settings.

Peers are run, never changed: nanoGPT from a checkout, the others as installed. Each loop is what
the peer's own training script does in an update: forward, loss, backward, clip, step, gradients to
None. `precision` "bfloat16" is torch's autocast, with float32 weights.

Comes in: a shape, a folder with weights and ids, settings. Goes out: contestants for
`benchmarks.worker`. It does not know each other's times.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.peers import litgpt_model, nanogpt_model, x_transformers_model
from benchmarks.shapes import (
    BETAS,
    CHECKED,
    CLIP_NORM,
    EPS,
    LEARNING_RATE,
    WEIGHT_DECAY,
    Feed,
    Shape,
)

#: From a model as it is called, compiled or not, and the ids and targets of a batch.
Loss = Callable[[Any, Tensor, Tensor], Tensor]


class Updates:
    """So many updates of a model when called; `facts` describes it."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        optimiser: torch.optim.Optimizer,
        shape: Shape,
        folder: str,
        *,
        device: str,
        precision: str,
        compiled: bool,
        same_weights: bool,
    ) -> None:
        self.loss, self.optimiser, self.precision = loss, optimiser, precision
        self.device = device
        self.parameters = list(model.parameters())
        self.feed, self.step = Feed(shape, Path(folder) / "ids.npy", device), 0
        ids, targets = self.feed.batch(0)
        first = ids[:CHECKED], targets[:CHECKED]
        with torch.no_grad():
            self.facts = {
                "parameters": sum(parameter.numel() for parameter in self.parameters),
                "products": products(model, shape.vocab),
                "precision": precision,
                "same_weights": same_weights,
                "float32_loss": float(loss(model, *first)),
            }
            with self.autocast():
                self.facts["first_loss"] = float(loss(model, *first))
        # only now: other rows and no gradients would be compiled too
        self.forward = torch.compile(model) if compiled else model

    def autocast(self) -> AbstractContextManager[Any]:
        enabled = self.precision == "bfloat16"
        return torch.autocast(self.device, torch.bfloat16, enabled=enabled)

    def __call__(self, steps: int) -> dict[str, Any]:
        loss = torch.zeros(())
        for _ in range(steps):
            ids, targets = self.feed.batch(self.step)
            with self.autocast():
                loss = self.loss(self.forward, ids, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(self.parameters, CLIP_NORM)
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
            self.step += 1
        return {"loss": float(loss.detach())}


def products(model: nn.Module, vocab: int) -> int:
    """How many weights a token is multiplied with: all matrices but the table of positions.

    The table of tokens is among them: it is the head too.
    """
    looked_up = {
        id(module.weight)
        for module in model.modules()
        if isinstance(module, nn.Embedding) and module.num_embeddings != vocab
    }
    return sum(p.numel() for p in model.parameters() if p.ndim == 2 and id(p) not in looked_up)


def nanogpt(
    *, shape: dict[str, Any], folder: str, checkout: str, device: str, **settings: Any
) -> Updates:
    """nanoGPT's model, its `configure_optimizers`, its clipping."""
    model_shape = Shape(**shape)
    allow_tf32(device)
    model = nanogpt_model(model_shape, folder, checkout).to(device)
    # its own choice of kernel: fused on CUDA alone
    optimiser = model.configure_optimizers(WEIGHT_DECAY, LEARNING_RATE, BETAS, device)

    def loss(forward: Any, ids: Tensor, targets: Tensor) -> Tensor:
        return forward(ids, targets)[1]

    return Updates(
        model, loss, optimiser, model_shape, folder, device=device, same_weights=True, **settings
    )


def huggingface(*, shape: dict[str, Any], folder: str, device: str, **settings: Any) -> Updates:
    """GPT2LMHeadModel with its own loss; no cache; AdamW in torch's fused kernel."""
    from transformers import GPT2LMHeadModel  # pyright: ignore[reportMissingImports]

    allow_tf32(device)
    model = GPT2LMHeadModel.from_pretrained(folder).to(device).train()

    def loss(forward: Any, ids: Tensor, targets: Tensor) -> Tensor:
        return forward(input_ids=ids, labels=targets, shift_labels=targets, use_cache=False).loss

    return plain(model, loss, Shape(**shape), folder, device=device, same_weights=True, **settings)


def litgpt(*, shape: dict[str, Any], folder: str, device: str, **settings: Any) -> Updates:
    """litgpt's model with its chunked loss."""
    from litgpt.utils import chunked_cross_entropy  # pyright: ignore[reportMissingImports]

    model_shape = Shape(**shape)
    allow_tf32(device)
    model = litgpt_model(model_shape).to(device).train()

    def loss(forward: Any, ids: Tensor, targets: Tensor) -> Tensor:
        return chunked_cross_entropy(forward(ids), targets)

    return plain(model, loss, model_shape, folder, device=device, same_weights=False, **settings)


def x_transformers(*, shape: dict[str, Any], folder: str, device: str, **settings: Any) -> Updates:
    """x-transformers' model with plain cross-entropy."""
    model_shape = Shape(**shape)
    allow_tf32(device)
    model = x_transformers_model(model_shape).to(device).train()

    def loss(forward: Any, ids: Tensor, targets: Tensor) -> Tensor:
        # as a row of classes per token: its own wrapper takes them along dimension 1, more slowly
        return F.cross_entropy(forward(ids).flatten(0, 1), targets.flatten())

    return plain(model, loss, model_shape, folder, device=device, same_weights=False, **settings)


def plain(model: nn.Module, loss: Loss, shape: Shape, folder: str, **settings: Any) -> Updates:
    """With AdamW as all have it: fused, matrices and tables decay, vectors do not."""
    groups = [
        {"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=BETAS, eps=EPS, fused=True)
    return Updates(model, loss, optimiser, shape, folder, **settings)


def allow_tf32(device: str) -> None:
    """Products that stay in float32 on a GPU use its fast mode, as in nanoGPT's script."""
    if device == "cuda":
        torch.set_float32_matmul_precision("high")
