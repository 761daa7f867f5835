"""Prompts of different lengths begin together, and each continues as it does alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from pellucid.generation import ContinuousBatch, Sampling, continue_tokens
from pellucid.generation.ragged import aligned
from pellucid.model import Transformer, Weights, narrow
from support.models import BASE, build, random_ids

#: more than a context, so that windows move at different times
N = BASE.context_length + 9
PROMPTS = [random_ids(1, n, seed=n)[0].tolist() for n in (1, 5, 14, 30)]


def ready(weights: Weights) -> Transformer:
    model = build(BASE, double=False).eval()
    narrow(model, weights)
    return model


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("weights", ["float32", "int4"])
def test_each_row_has_the_tokens_and_the_numbers_of_its_text_alone(weights: Weights) -> None:
    model = ready(weights)
    for sampling in (Sampling(temperature=0.0), Sampling(temperature=0.9, repetition_penalty=1.3)):
        rows = zip(*islice(continue_tokens(model, PROMPTS, sampling), N), strict=True)
        for number, (prompt, row) in enumerate(zip(PROMPTS, rows, strict=True)):
            if number and sampling.temperature:
                continue  # alone it would be row 0, with the random numbers of row 0
            single = [token for (token,) in islice(continue_tokens(model, [prompt], sampling), N)]
            assert list(row) == single


@pytest.mark.usefixtures("native")
def test_every_row_begins_at_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    model, steps = ready("float32"), []
    step = ContinuousBatch.step
    monkeypatch.setattr(
        ContinuousBatch, "step", lambda self, *of: steps.append(1) or step(self, *of)
    )
    next(continue_tokens(model, PROMPTS[:3], Sampling()))
    assert steps == []  # no prompt was read token by token


def test_without_compiled_code_the_same_tokens_come_together(
    monkeypatch: pytest.MonkeyPatch, native: None
) -> None:
    model, sampling = ready("float32"), replace(Sampling(seed=3), top_k=9)
    compiled_rows = [
        [t.token_id for t in row] for row in islice(continue_tokens(model, PROMPTS, sampling), N)
    ]
    monkeypatch.setenv("PELLUCID_NATIVE", "off")
    plain_rows = [
        [t.token_id for t in row] for row in islice(continue_tokens(model, PROMPTS, sampling), N)
    ]
    assert compiled_rows == plain_rows


def test_rows_that_began_early_wait_for_the_others() -> None:
    steps = iter([[1, None], [2, None], [3, 7], [4, 8]])
    assert list(aligned(steps)) == [[1, 7], [2, 8]]
