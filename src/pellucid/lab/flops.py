"""Budgets in FLOPs: as many tokens as they pay for."""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.counting import flops_per_token
from pellucid.errors import ConfigError
from pellucid.runs.build import with_vocabulary
from pellucid.runs.prepare import ready_data
from pellucid.saved_runs.progress import silent


def with_flops(run: config.Run, flops: float) -> config.Run:
    """The config with as many tokens as a number of FLOPs pays for, forward and backward.

    The vocabulary counts, so the data are read if the tokenizer is trained on them.

    Args:
        run: the config.
        flops: the budget.

    Raises:
        ConfigError: it does not pay for one token.
        TextError: the data cannot be read.
    """
    known = with_vocabulary(run, ready_data(run, silent).tokenizer)
    return replace(run, training=replace(run.training, budget=flops_budget(known, flops)))


def flops_budget(run: config.Run, flops: float) -> config.Tokens:
    """The tokens that a number of FLOPs pays for; the size of the vocabulary is known.

    Raises:
        ConfigError: it does not pay for one.
    """
    per_token = training_flops(run)
    n_tokens = int(flops / per_token)
    if n_tokens < 1:
        raise ConfigError(
            f"--flops {flops:g} does not pay for one token of this model, which takes "
            f"{per_token:,} FLOPs"
        )
    return config.Tokens(count=n_tokens)


def training_flops(run: config.Run) -> int:
    """The FLOPs of a token, forward and backward; the size of the vocabulary is known."""
    return sum(row.forward + row.backward for row in flops_per_token(run.model))
