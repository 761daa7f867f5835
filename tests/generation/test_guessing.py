"""Guesses from a text's own repetitions: every token and every number stays the same."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import islice, product

import pytest
import torch

from pellucid.errors import ConfigError
from pellucid.generation import Sampling, continue_ids, continue_tokens
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


def other(seed: int) -> Transformer:
    """A model that guesses, with the same token ids."""
    return build(BASE, double=False, seed=seed).eval()


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
    guessed = continue_tokens(model, [PROMPT], replace(how, guesses=3, draft=other(1)))
    assert list(islice(guessed, N)) == plain


def counts(model: Transformer, how: Sampling, caplog: pytest.LogCaptureFixture) -> tuple[int, int]:
    """How many tokens were guessed, and how many were right."""
    with caplog.at_level(logging.INFO):
        tokens = continue_tokens(model, [PROMPT], how)
        list(islice(tokens, 20))
        tokens.close()  # type: ignore[attr-defined]
    (line,) = (line for line in caplog.messages if "guessed" in line)
    n_guessed, n_right = (int(word) for word in line.split() if word.isdigit())
    return n_guessed, n_right


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("how", [GREEDY, Sampling(temperature=1.0)], ids=["greedy", "sampled"])
def test_a_draft_that_is_the_model_itself_is_always_right(
    how: Sampling, caplog: pytest.LogCaptureFixture
) -> None:
    model = build(replace(BASE, context_length=64), double=False).eval()
    n_guessed, n_right = counts(model, replace(how, guesses=4, draft=model), caplog)
    # after each four right guesses comes a token that was not guessed; the last ones are not taken
    assert n_guessed - 4 <= n_right <= n_guessed
    assert n_right >= 14


def test_a_draft_of_another_vocabulary_is_refused() -> None:
    small = replace(BASE, vocab_size=22)
    sampling = Sampling(guesses=2, draft=build(small, double=False).eval())
    with pytest.raises(ConfigError, match="use one with the same tokenizer"):
        next(continue_tokens(ready("float32"), [PROMPT], sampling))


@pytest.mark.nightly
def test_two_tokens_have_the_probabilities_of_the_model_alone() -> None:
    tiny = replace(BASE, vocab_size=3)
    model, draft = (build(tiny, double=False, seed=seed).eval() for seed in (0, 1))
    n_texts = 120
    n_drawn = dict.fromkeys(product(range(3), repeat=2), 0)
    for seed in range(n_texts):
        sampling = Sampling(temperature=1.0, seed=seed, guesses=3, draft=draft)
        # the first token is not guessed: the next two are
        _, second_id, third_id = (
            ids[0] for ids in islice(continue_ids(model, [[0, 1]], sampling), 3)
        )
        n_drawn[second_id, third_id] += 1
    with torch.no_grad():
        first = model(torch.tensor([[0, 1]]))[0, -1].softmax(-1)
        expected = dict.fromkeys(n_drawn, 0.0)
        for first_id, second_id in product(range(3), repeat=2):
            p = model(torch.tensor([[0, 1, first_id]]))[0, -1].softmax(-1)
            q = model(torch.tensor([[0, 1, first_id, second_id]]))[0, -1].softmax(-1)
            for third_id in range(3):
                expected[second_id, third_id] += float(first[first_id] * p[second_id] * q[third_id])
    chi_squared = sum((n_drawn[k] - n_texts * p) ** 2 / (n_texts * p) for k, p in expected.items())
    assert chi_squared < 26.1  # 8 degrees of freedom: one draw in a thousand is above


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
    repetitions = Repetitions()
    assert repetitions.after([1, 2, 3], 4) == []
    assert repetitions.after([1, 2, 3, 9, 2, 3], 4) == [9, 2, 3]
    assert repetitions.after([1, 2, 3, 9, 2, 3, 8, 2, 3], 2) == [8, 2]
    assert repetitions.after([1, 2, 3, 9, 2, 3, 8, 2, 3, 9], 1) == [2]


def test_a_number_of_guesses_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="guesses must be between 0 and 32, was 33"):
        Sampling(guesses=33)
