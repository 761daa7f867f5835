"""Faults of how a model is built: residual paths, norms, branches, ties.

Comes in: nothing. Goes out: a list of classes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.diagnosis.changes import attentions, blocks, fill, wrap_forward
from benchmarks.diagnosis.fault import Fault
from benchmarks.diagnosis.setups import Arch, stack
from benchmarks.diagnosis.training import Training
from pellucid import config
from pellucid.diagnosis import declare


def _residual_left_out(t: Training, selection: str) -> None:
    for block in blocks(t, selection):
        block.residual = lambda x, norm, layer: layer(norm(x))


def _deep_post_norm(run: config.Run, arch: Arch, layers: int) -> config.Run:
    return stack(run, residual=config.PostNorm(), n_layers=layers)


def _norms_left_out(t: Training, selection: str) -> None:
    for block in t.model.stack.blocks:
        parts: Any = block
        if selection != "feed_forward":
            parts.attention_norm = nn.Identity()
        if selection != "attention":
            parts.feed_forward_norm = nn.Identity()
    if selection == "all":
        t.model.stack.final_norm = nn.Identity()
    t.new_optimiser()


def _dead(t: Training, offset: float) -> None:
    for block in t.model.stack.blocks:
        feed: Any = block.feed_forward
        module = getattr(feed, "gate", feed.up)
        wrap_forward(module, lambda forward, x: forward(x) - offset)


def _detached(t: Training, level: str) -> None:
    part, selection = level.split()
    for block in blocks(t, selection):
        module = block.attention if part == "attention" else block.feed_forward
        wrap_forward(module, lambda forward, *arguments: forward(*arguments).detach())


def _frozen(t: Training, selection: str) -> None:
    for block in blocks(t, selection):
        block.requires_grad_(False)


def _equal_blocks(t: Training, level: str) -> None:
    every = list(t.model.stack.blocks)
    for block in every[1:] if level == "all" else every[-1:]:
        block.load_state_dict(every[0].state_dict())


def _drops_always(t: Training, share: float) -> None:
    for module in attentions(t, "all"):
        wrap_forward(
            module, lambda forward, *arguments: F.dropout(forward(*arguments), share, training=True)
        )


def _seeded(t: Training, seed: int) -> None:
    def fixed(forward: Any, *arguments: Any) -> Tensor:
        torch.manual_seed(seed)
        return forward(*arguments)

    wrap_forward(t.model.stack, fixed)


def _ties(t: Training, level: str) -> None:
    """Tied weights come apart; weights that are two become one."""
    model: Any = t.model
    if t.arch == "gpt":
        rows, width = model.token_embedding.weight.shape
        model.head = nn.Linear(width, rows, bias=False)
        fresh = torch.randn(rows, width) * 0.06
        fill(model.head.weight, model.token_embedding.weight if level == "copy" else fresh)
        t.declared = declare(tied=True)
    else:
        model.head.weight = model.token_embedding.weight
        t.declared = declare(tied=False)
    t.new_optimiser()


def _branch_off(t: Training, level: str) -> None:
    part, selection = level.split()
    for block in blocks(t, selection):
        module = block.attention if part == "attention" else block.feed_forward
        wrap_forward(module, lambda forward, *arguments: 0.0 * forward(*arguments))


def _final(run: config.Run, arch: Arch, layers: int) -> config.Run:
    init = replace(run.model.initialisation, outputs="plain")
    run = replace(run, model=replace(run.model, initialisation=init))
    return stack(run, final_norm=False, n_layers=layers)


def _norm_eps(run: config.Run, arch: Arch, eps: float) -> config.Run:
    return stack(run, norm=replace(run.model.stacks[-1].norm, eps=eps))


FAULTS = [
    Fault(
        name="no residual path",
        accepted=("ARC001", "ARC012"),
        configure=lambda run, arch, n: stack(run, residual=config.NoResidual(), n_layers=n),
        tuning=(3, 5),
        judging=(4, 6),
        repairable=True,
    ),
    Fault(
        name="residual left out of a block",
        accepted=("ARC001", "ARC012"),
        inject=_residual_left_out,
        tuning=("middle", "first"),
        judging=("last", "all"),
    ),
    Fault(
        name="deep post-norm",
        accepted=("ARC002", "ARC012"),
        configure=_deep_post_norm,
        tuning=(10, 12),
        judging=(9, 14),
        repairable=True,
    ),
    Fault(
        name="norms missing",
        accepted=("ARC003",),
        inject=_norms_left_out,
        tuning=("all", "attention"),
        judging=("feed_forward", "all"),
    ),
    Fault(
        name="final norm missing",
        accepted=("ARC005",),
        configure=_final,
        tuning=(3, 6),
        judging=(4, 8),
        repairable=True,
    ),
    Fault(
        name="eps of norms too large",
        accepted=("INI006", "ARC014"),
        configure=_norm_eps,
        tuning=(10.0, 1e3),
        judging=(100.0, 1e4),
        repairable=True,
    ),
    Fault(
        name="dead units",
        accepted=("ARC009", "GRD002"),
        kind="invariant",
        base="relu",
        inject=_dead,
        tuning=(5.0, 8.0),
        judging=(4.0, 12.0),
        place="feed_forward|up|gate",
    ),
    Fault(
        name="branch times zero",
        accepted=("GRD002", "ATT005", "ARC004", "ARC009"),
        kind="invariant",
        inject=_branch_off,
        tuning=("feed_forward last", "attention all"),
        judging=("feed_forward first", "attention middle"),
        place="feed_forward|attention|blocks",
    ),
    Fault(
        name="branch detached",
        accepted=("GRD001",),
        kind="invariant",
        inject=_detached,
        tuning=("feed_forward last", "attention all"),
        judging=("feed_forward first", "attention middle"),
        place="feed_forward|attention|blocks",
    ),
    Fault(
        name="block frozen",
        accepted=("GRD003",),
        kind="invariant",
        inject=_frozen,
        tuning=("first", "last"),
        judging=("middle", "all"),
        place="blocks",
    ),
    Fault(
        name="equal blocks",
        accepted=("INI003",),
        kind="invariant",
        inject=_equal_blocks,
        tuning=("last", "all"),
        judging=("all", "last"),
        place="blocks",
    ),
    Fault(
        name="dropout in evaluation",
        accepted=("RND001",),
        kind="invariant",
        inject=_drops_always,
        tuning=(0.3, 0.1),
        judging=(0.2, 0.05),
    ),
    Fault(
        name="seed in the forward pass",
        accepted=("RND002",),
        kind="invariant",
        base="dropout",
        inject=_seeded,
        tuning=(0, 1),
        judging=(2, 3),
    ),
    Fault(
        name="ties of weights wrong",
        accepted=("TIE001", "TIE002"),
        kind="invariant",
        inject=_ties,
        tuning=("copy", "fresh"),
        judging=("fresh", "copy"),
    ),
]
