"""Whether a model ranks the tokens that come above others, and whether its table is a new one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pellucid.vitals.call.first_model import added_rows, has_new_heads, has_new_table, recognised

VOCAB, SURE = 40, 6.0
TOKENS = torch.randint(VOCAB, (4, 48), generator=torch.Generator().manual_seed(0))


def knowing(tokens: Tensor) -> Tensor:
    """Logits of a model that is sure of the token that follows."""
    return SURE * nn.functional.one_hot(tokens.roll(-1, 1), VOCAB).float()


def places(tokens: Tensor = TOKENS) -> Tensor:
    return torch.ones_like(tokens[:, 1:], dtype=torch.bool)


def test_tokens_that_a_model_knows_are_likelier_at_their_own_places() -> None:
    signs = recognised(TOKENS, knowing(TOKENS), places())
    assert signs["targets.recognised"] == pytest.approx(1.0, abs=0.02)
    assert signs["targets.text_nats"] < 0.2


def test_ids_of_another_tokenizer_are_recognised_by_chance_and_cost_more_than_guessing() -> None:
    other = torch.randperm(VOCAB, generator=torch.Generator().manual_seed(1))[TOKENS]
    signs = recognised(other, knowing(TOKENS), places())
    assert signs["targets.recognised"] == pytest.approx(0.5, abs=0.05)
    assert signs["targets.text_nats"] > torch.tensor(float(VOCAB)).log()


def test_padding_before_a_text_is_no_part_of_it() -> None:
    padded = torch.cat([torch.full((4, 60), 3), TOKENS], 1)
    logits = torch.cat([torch.zeros(4, 60, VOCAB), knowing(TOKENS)], 1)
    logits[:, 59] = SURE * nn.functional.one_hot(TOKENS[:, 0], VOCAB)
    signs = recognised(padded, logits, places(padded))
    assert signs["targets.text_nats"] < 0.2


def test_few_places_and_copies_of_one_token_say_nothing() -> None:
    few = places()
    few[:, 8:] = False
    assert recognised(TOKENS, knowing(TOKENS), few) == {}
    assert recognised(TOKENS * 0, knowing(TOKENS), places()) == {}


def test_a_table_is_new_until_training_has_given_it_directions() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(64, 32), nn.Linear(32, 64))
    assert has_new_table(model)
    assert not has_new_heads(model)
    direction = torch.randn(64, 1) @ torch.randn(1, 32)
    with torch.no_grad():
        model[0].weight += direction
        assert has_new_table(model)
        assert has_new_heads(model)  # the head is still as it was drawn
        model[1].weight += direction
    assert has_new_table(model) is False
    assert not has_new_heads(model)
    assert has_new_table(nn.Linear(32, 64)) is None


@pytest.mark.parametrize(("trains", "n_added"), [(False, 2), (True, None)])
def test_tokens_that_were_added_to_a_frozen_table_have_its_mean(
    trains: bool, n_added: int | None
) -> None:
    torch.manual_seed(0)
    table = nn.Embedding(VOCAB, 16).requires_grad_(trains)
    with torch.no_grad():
        table.weight[VOCAB - 3 :] = table.weight[: VOCAB - 3].mean(0)
    ids = torch.tensor([1, 2, 2, VOCAB - 1, VOCAB - 2, VOCAB - 2])
    assert added_rows(nn.Sequential(table, nn.Linear(16, 4)), ids) == n_added


def test_rows_that_were_trained_are_no_mean() -> None:
    table = nn.Embedding(VOCAB, 16).requires_grad_(requires_grad=False)
    assert added_rows(nn.Sequential(table), torch.arange(VOCAB)) == 0
    assert added_rows(nn.Sequential(nn.Linear(4, 4)), torch.arange(VOCAB)) is None
