"""Guesses from a text's own repetitions: every token and every number stays the same."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import islice

import pytest
import torch

from pellucid.errors import ConfigError
from pellucid.generation import Sampling, continue_tokens
from pellucid.generation.guessing import Repetitions
from pellucid.model import Transformer, Weights, narrow
from support.models import BASE, build

#: more than a context
N = 2 * BASE.context_length + 3
PROMPT = [3, 1, 4, 1, 5, 3, 1, 4]
GREEDY = Sampling(temperature=0.0)


def ready(weights: Weights) -> Transformer:
    model = build(BASE, double=False).eval()
    narrow(model, weights)
    return model


@pytest.mark.parametrize("weights", ["float32", "int8", "int4"])
@pytest.mark.parametrize(
    "how",
    [GREEDY, Sampling(temperature=0.7, top_k=3), Sampling(repetition_penalty=1.5, top_p=0.8)],
    ids=["greedy", "sampled", "penalised"],
)
def test_tokens_and_their_probabilities_are_the_same_bits(weights: Weights, how: Sampling) -> None:
    model = ready(weights)
    plain = list(islice(continue_tokens(model, [PROMPT], how), N))
    for guesses in (1, 5):
        guessed = continue_tokens(model, [PROMPT], replace(how, guesses=guesses))
        assert list(islice(guessed, N)) == plain


@pytest.mark.usefixtures("native")
def test_what_repeats_itself_is_guessed(caplog: pytest.LogCaptureFixture) -> None:
    model = ready("float32")
    with torch.no_grad():  # the residual stream is lost: the logits do not depend on the text
        model.stack.final_norm.gain.zero_()  # type: ignore[operator, union-attr]
    with caplog.at_level(logging.INFO):
        tokens = continue_tokens(model, [[0] * 4], replace(GREEDY, guesses=3))
        list(islice(tokens, 9))
        tokens.close()  # type: ignore[attr-defined]
    (line,) = (line for line in caplog.messages if "guessed" in line)
    n_guessed, n_right = (int(word) for word in line.split() if word.isdigit())
    assert 0 < n_right <= n_guessed


def test_the_latest_repetition_is_looked_up_by_the_longest_end() -> None:
    found = Repetitions()
    assert found.after([1, 2, 3], 4) == []
    assert found.after([1, 2, 3, 9, 2, 3], 4) == [9, 2, 3]
    assert found.after([1, 2, 3, 9, 2, 3, 8, 2, 3], 2) == [8, 2]
    assert found.after([1, 2, 3, 9, 2, 3, 8, 2, 3, 9], 1) == [2]


def test_a_number_of_guesses_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="guesses must be between 0 and 32, was 33"):
        Sampling(guesses=33)
