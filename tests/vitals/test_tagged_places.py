"""Tokens with classes in many updates: what tokens tell of them, and classes that were moved."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from pellucid.batches import IGNORED
from pellucid.training import Guard
from pellucid.vitals.ledger.tagged_places import TaggedPlaces, side_of_classes
from pellucid.vitals.taps.first_batch import FirstBatch
from pellucid.vitals.taps.hooks import Hooks, LastingHook

ROWS, TIME, CLASSES, START, END, PAD = 4, 14, 3, 1, 2, 0


def batch(seed: int, *, n_pads: int = 0) -> Tensor:
    ids = torch.randint(10, 60, (ROWS, TIME), generator=torch.Generator().manual_seed(seed))
    ids[:, 0], ids[:, -1] = START, END
    if n_pads:
        ids[1, -1 - n_pads], ids[1, -n_pads:] = END, PAD
    return ids


def inner(ids: Tensor) -> Tensor:
    """The class of each token but the special ones."""
    return torch.where(ids >= 10, ids % CLASSES, IGNORED)


def moved(ids: Tensor, places: int) -> Tensor:
    """The classes of tokens so many places on; nothing comes in at the end of a row."""
    classes = inner(ids).roll(places, 1)
    classes[:, slice(places, None) if places < 0 else slice(0, places)] = IGNORED
    return classes


def signs_of(places: int = 0, updates: int = 12, *, by_lot: bool = False) -> dict[str, float]:
    tags = TaggedPlaces()
    for seed in range(updates):
        ids = batch(seed, n_pads=3 * (seed % 2))
        classes = moved(ids, places) if places else inner(ids)
        if by_lot:
            lots = torch.randint(CLASSES, ids.shape, generator=torch.Generator().manual_seed(seed))
            classes = classes.where(classes < 0, lots)
        tags.add(ids, classes)
    return {id: float(value) for id, value in tags.take_signs().items()}


def test_tokens_tell_their_classes_in_updates_together() -> None:
    signs = signs_of()
    assert signs["targets.told"] > 0.9
    assert signs["targets.told_rows"] > 100
    assert "targets.beside" not in signs
    by_lot = signs_of(by_lot=True)
    assert abs(by_lot["targets.told"] - 0.5) < 2 / by_lot["targets.told_rows"] ** 0.5


@pytest.mark.parametrize("places", [-1, 1])
def test_classes_beside_their_tokens_show(places: int) -> None:
    assert signs_of(places)["targets.beside"] > 5
    assert signs_of(places, by_lot=True)["targets.beside"] < 3


def test_the_side_is_that_of_the_one_special_token_with_a_class() -> None:
    ids = batch(0, n_pads=3)
    assert side_of_classes(ids, moved(ids, -1)).tolist() == [-1] * ROWS
    assert side_of_classes(ids, moved(ids, 1)).tolist() == [1] * ROWS
    assert side_of_classes(ids, inner(ids)).tolist() == [0] * ROWS
    other_start = ids.clone()
    other_start[0, 0] = 11
    assert side_of_classes(other_start, moved(ids, -1)).tolist() == [0] * ROWS


def test_other_labels_are_no_classes_of_places() -> None:
    ids = batch(0)
    for labels in (ids, inner(ids).float(), inner(ids)[:, 0], None, inner(ids)[:, :-1]):
        tags = TaggedPlaces()
        tags.add(ids, labels)
        assert tags.take_signs() == {}
    tags = TaggedPlaces()
    tags.add(None, inner(ids))
    tags.add(ids, torch.full_like(ids, IGNORED))
    assert tags.take_signs() == {}
    tags.add(ids, inner(ids).where(ids >= 10, -1))  # any number below 0 is no class
    assert tags.take_signs() == {}  # too few places


def test_labels_of_texts_are_kept_on_one_page_alone() -> None:
    tags = TaggedPlaces()
    for seed in range(3):
        tags.add(batch(seed), batch(seed))
    assert tags.take_signs() == {}
    for seed in range(12):
        tags.add(batch(seed), inner(batch(seed)))
    assert tags.take_signs() == {}


def test_a_page_without_labels_says_nothing_of_later_ones() -> None:
    tags = TaggedPlaces()
    tags.add(batch(0), torch.full((ROWS, TIME), IGNORED))
    assert tags.take_signs() == {}
    for seed in range(12):
        tags.add(batch(seed), inner(batch(seed)))
    assert tags.take_signs()["targets.told"] > 0.9


class Labelled(nn.Module):
    """A model that reads texts, and writes others if its config says that it has two sides."""

    def __init__(self, *, has_two_sides: bool, has_head: bool) -> None:
        super().__init__()
        self.config = SimpleNamespace(model_type="labelled", is_encoder_decoder=has_two_sides)
        self.head = nn.Linear(2, 2) if has_head else None

    def get_output_embeddings(self) -> nn.Module | None:
        return self.head

    def forward(self, input_ids: Tensor, labels: Tensor) -> Tensor:
        return input_ids


@pytest.mark.parametrize(
    ("has_two_sides", "has_head", "are_beside_ids"),
    [(False, True, True), (True, False, True), (True, True, False)],
)
def test_labels_of_an_encoder_decoder_do_not_stand_beside_the_ids_that_it_reads(
    *, has_two_sides: bool, has_head: bool, are_beside_ids: bool
) -> None:
    model = Labelled(has_two_sides=has_two_sides, has_head=has_head).train()
    first = FirstBatch(model)
    first.attach(model, Hooks(Guard(), LastingHook))
    ids = batch(0)
    model(input_ids=ids, labels=inner(ids))
    assert (first.latest.placed_ids is not None) == are_beside_ids
    assert first.latest.labels is not None
