"""What first answers show: prices of entropy, clipped tokens, one text for all, lost ends."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.diagnosis import History, Reading, diagnose, history_of_watch
from pellucid.vitals import watch
from pellucid.vitals.call.answers import Answers
from pellucid.vitals.call.pair_weights import entropy_price, same_answer
from support.pair_histories import UPDATES, history

ROWS, PLACES, VOCAB = 6, 8, 50


def alarms(training: History) -> list[str]:
    return [finding.code for finding in diagnose(training) if finding.severity != "note"]


def price(
    coefficient: float,
    temperature: float = 1.0,
    *,
    narrow: bool = False,
    same_side: bool = False,
    seed: int = 0,
) -> float:
    """What is read of a policy's loss that charges so much for a nat of entropy."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(ROWS, PLACES, VOCAB, generator=generator).mul(2).requires_grad_(True)
    shares = logits.detach().softmax(-1).flatten(0, 1)
    drawn = shares.multinomial(1, generator=generator).view(ROWS, PLACES)
    advantages = torch.randn(ROWS, 1, generator=generator)
    advantages = advantages.abs() if same_side else advantages
    log_p = (logits / temperature).log_softmax(-1)
    entropy = -(log_p.exp() * log_p).sum(-1)
    paid = log_p.gather(-1, drawn[..., None])[..., 0]
    (-(advantages * paid) + coefficient * entropy).mean().backward()
    assert logits.grad is not None
    gradient: Tensor = logits.grad.bfloat16().float() if narrow else logits.grad
    return float(entropy_price(gradient, logits.detach().log_softmax(-1)))


def test_a_loss_that_charges_for_entropy_shows_its_price() -> None:
    weight = 0.7  # about the mean size of the advantages
    for coefficient in (0.01, 0.1, 1.0):
        assert price(coefficient) == pytest.approx(coefficient / weight, rel=0.5)
    assert price(0.0) == price(-0.1) == 0


def test_a_temperature_and_narrow_numbers_are_no_price() -> None:
    assert price(0.0, temperature=1.3) == price(0.0, temperature=0.8) == 0
    assert price(0.0, narrow=True) == 0
    # where all answers are raised, a temperature near 1 may look like one
    assert price(0.0, temperature=1.3, same_side=True) == 0


@pytest.mark.parametrize(
    ("signs", "codes"),
    [
        ({"entropy_price": 0.05, "lowered": 0.5}, ["RLH007"]),
        ({"entropy_price": 0.05, "lowered": 0.02}, []),
        ({"entropy_price": 0.001, "lowered": 0.5}, []),
        ({"entropy_price": 0.05}, []),
    ],
)
def test_a_price_is_named_where_answers_are_raised_and_lowered(
    signs: dict[str, float], codes: list[str]
) -> None:
    readings = {f"answers.{name}": value for name, value in signs.items()}
    losses, columns = [0.0] * UPDATES, {"reward": [0.1 + 0.01 * i for i in range(UPDATES)]}
    assert alarms(history("rewards", losses, columns, readings)) == codes
    assert alarms(history("preferences", signs=readings)) == []


def rewarded(**columns: list[float]) -> History:
    """A policy whose rewards rise."""
    rising = {"reward": [0.1 + 0.01 * i for i in range(UPDATES)]}
    return history("rewards", [0.0] * UPDATES, rising | columns)


def test_tokens_that_are_clipped_before_the_first_step_are_another_policys() -> None:
    falling = [0.9 - 0.01 * i for i in range(UPDATES)]
    own = {"answers.own": (Reading(1, 1.0, "calm"),)}
    assert alarms(replace(rewarded(clipped=falling), signs=own)) == ["RLH009"]
    assert alarms(rewarded(clipped=falling)) == []  # a log, whose first row may be a mean
    later = replace(rewarded(clipped=[0.0, *falling[1:]]), signs=own)
    assert alarms(later) == []  # steps may be large on purpose


def test_answers_that_lose_their_ends_are_named_although_the_reward_rises() -> None:
    lost = [min(0.95, 0.02 * i) for i in range(UPDATES)]
    assert alarms(rewarded(cut_off=lost)) == ["RLH002"]
    assert alarms(rewarded(cut_off=[0.9] * UPDATES)) == []  # so it began
    assert alarms(rewarded(cut_off=[0.5 * share for share in lost])) == []


def test_answers_of_one_side_that_are_one_text_are_known_behind_any_start() -> None:
    words = [[i, i + 1, 5, 6, 7, 8, 2] for i in range(10, 16)]
    assert same_answer([row[i % 2 :] for i, row in enumerate(words)]) < 1
    assert same_answer([[5, 6, 7, 8, 2]] * 5 + [[6, 7, 8, 2]]) == 1
    assert same_answer([[4, 2, 2, 2, 2]] * 6) == 0  # an end and padding
    assert same_answer([[8, 2]] * 6) == 0  # a word


@pytest.mark.parametrize(
    ("rejected", "chosen", "codes"),
    [(1.0, 0.2, ["PRF006"]), (0.5, 0.2, []), (1.0, 1.0, []), (0.2, 1.0, [])],
)
def test_pairs_whose_rejected_answer_is_always_the_same_are_named(
    rejected: float, chosen: float, codes: list[str]
) -> None:
    signs = {"same_rejected": rejected, "same_chosen": chosen, "pairs": 8.0, "matched": 1.0}
    readings: dict[str, Any] = {f"answers.{name}": value for name, value in signs.items()}
    falling = [0.69 - 0.005 * i for i in range(UPDATES)]
    assert alarms(history("preferences", falling, signs=readings)) == codes
    unmatched = readings | {"answers.matched": 0.0}  # a regression, say
    assert alarms(history("preferences", falling, signs=unmatched)) == []


@pytest.mark.parametrize(
    ("first", "margin", "codes"),
    [
        (2.7746, 0.0114, []),  # IPO with a beta of 0.3: 1 / (2 beta)^2, and it has fallen a little
        (2.7778, 0.0, []),
        (4 * 0.693147, 0.0, ["LOS007"]),
        (4 * (0.693147 - 0.01), 0.02, ["LOS007"]),
    ],
)
def test_a_square_that_begins_near_a_multiple_of_ln_2_is_no_sum(
    first: float, margin: float, codes: list[str]
) -> None:
    losses = [first * (1 - 0.004 * i) for i in range(UPDATES)]
    columns = {"margin": [margin, *[0.1] * 9]}
    assert alarms(history("preferences", losses, columns)) == codes


def test_a_sample_from_a_token_that_begins_all_texts_makes_no_policy() -> None:
    generator = torch.Generator().manual_seed(4)
    texts = torch.randint(3, 40, (8, 16), generator=generator)
    texts[:, 0] = 0
    answers = Answers()
    answers.on_writing(texts[:1, :1])
    for token in (7, 9, 11):
        answers.on_writing(torch.tensor([[token]]))
    answers.on_training(texts)
    logits = torch.zeros(8, 16, 40, requires_grad=True)
    answers.on_outputs(logits, None, lambda tensor, take: tensor.register_hook(take))
    torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), texts[:, 1:].flatten()
    ).backward()
    assert "answers.own" not in answers.measure(is_scaled=False)


class Named(nn.Module):
    """Logits of each token alone, and a config that names the ids at the ends of a text."""

    def __init__(self, *, is_chosen: bool) -> None:
        super().__init__()
        ids = {"bos_token_id": 1, "eos_token_id": 2}
        # as configs of transformers say what is not their class's default
        self.config = SimpleNamespace(
            model_type="named", to_diff_dict=lambda: ids if is_chosen else {}, **ids
        )
        self.table = nn.Embedding(100, 100)

    def forward(self, input_ids: Tensor, labels: Tensor) -> Tensor:
        return self.table(input_ids)


def codes_of_answers(*, ended_by: int, is_named: bool = True, is_shown: bool = False) -> set[str]:
    """What is found in a loop whose answers are one of three classes and an end."""
    generator = torch.Generator().manual_seed(5)
    model = Named(is_chosen=is_named)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with watch(model, optimizer) as watched:
        for _ in range(10):
            ids = torch.randint(10, 60, (8, 20), generator=generator)
            classes = torch.randint(90, 93, (8,), generator=generator)
            ids[:, 16:19], ids[:, 18], ids[:, 19] = 80, classes, ended_by
            if is_shown:
                ids[:, 4] = classes
            labels = torch.where(torch.arange(20) < 18, -100, ids)
            logits = model(input_ids=ids, labels=labels)
            loss = nn.functional.cross_entropy(
                logits[:, 17:19].flatten(0, 1), ids[:, 18:].flatten()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            watched.step(loss)
    return {finding.code for finding in diagnose(history_of_watch(watched))}


def test_answers_that_end_in_the_start_token_are_named_where_a_config_chooses_it() -> None:
    assert "DAT019" in codes_of_answers(ended_by=1)
    assert "DAT019" not in codes_of_answers(ended_by=2)
    assert "DAT019" not in codes_of_answers(ended_by=1, is_named=False)


def test_a_label_that_its_prompt_shows_is_named() -> None:
    assert "DAT032" in codes_of_answers(ended_by=2, is_shown=True)
    assert "DAT032" not in codes_of_answers(ended_by=2)
