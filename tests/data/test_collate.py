from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pellucid.batches import IGNORED
from pellucid.data import (
    Answers,
    BucketedBatches,
    ClassLabels,
    Examples,
    PromptTexts,
    TwoAnswers,
    TwoTexts,
    in_turn,
)
from pellucid.errors import TextError
from support.examples import answers, examples_of, ragged

BOTH = np.array([0, 1])
N = IGNORED


def test_rows_are_filled_up_on_the_right_to_a_multiple_of_eight() -> None:
    batch = Answers(pad_id=9, longest=64).batch(answers([3, 9], [1, 7]), BOTH)
    assert batch.ids.tolist()[0] == [1000, 1001, 1002, *[9] * 13]
    assert batch.targets.tolist()[0] == [1001, 1002, N, *[N] * 13]
    assert batch.targets.tolist()[1] == [N] * 6 + [2007, 2008] + [N] * 8
    assert batch.padding is not None
    assert batch.padding.sum(dim=1).tolist() == [3, 9]
    assert batch.n_supervised == 4


def test_no_row_is_longer_than_the_context_and_a_longer_example_is_refused() -> None:
    assert Answers(pad_id=0, longest=9).batch(answers([9]), BOTH[:1]).ids.shape == (1, 9)
    with pytest.raises(TextError, match="has 10 tokens, more than the context of 9"):
        Answers(pad_id=0, longest=9).batch(answers([10]), BOTH[:1])


def test_pad_that_is_also_the_end_of_a_text_changes_no_target_and_no_mark() -> None:
    end = 1
    examples = examples_of(
        {
            "ids": [[0, 5, end], [0, 5, 6, end, 7, end]],
            "supervised": [[0, 1, 1], [0, 0, 1, 1, 0, 1]],
        }
    )
    padded_with_end, padded_with_99 = (
        Answers(pad_id=pad, longest=64).batch(examples, BOTH) for pad in (end, 99)
    )
    assert torch.equal(padded_with_end.targets, padded_with_99.targets)
    assert padded_with_end.targets.tolist()[0] == [5, end, *[N] * 6]
    assert padded_with_end.padding is not None
    assert padded_with_99.padding is not None
    assert torch.equal(padded_with_end.padding, padded_with_99.padding)
    assert torch.equal(
        padded_with_end.ids[padded_with_end.padding], padded_with_99.ids[padded_with_end.padding]
    )
    assert padded_with_end.n_supervised == padded_with_99.n_supervised == 5


def test_decoder_begins_with_its_start_and_predicts_the_whole_target() -> None:
    examples = examples_of({"source": [[4, 5, 1], [4, 1]], "target": [[6, 1], [7, 8, 9, 1]]})
    batch = TwoTexts(pad_id=1, longest=64, start_id=0).batch(examples, BOTH)
    assert batch.ids.tolist() == [[0, 6, *[1] * 6], [0, 7, 8, 9, *[1] * 4]]
    assert batch.targets.tolist() == [[6, 1, *[N] * 6], [7, 8, 9, 1, *[N] * 4]]
    assert batch.source.tolist() == [[4, 5, *[1] * 6], [4, *[1] * 7]]
    assert batch.source_padding.sum(dim=1).tolist() == [3, 2]
    assert batch.n_supervised == 6
    started = examples_of({"source": [[4, 5, 1], [4, 1]], "target": [[0, 6, 1], [0, 7, 8, 9, 1]]})
    unstarted = TwoTexts(pad_id=1, longest=64, start_id=None).batch(started, BOTH)
    assert all(
        torch.equal(tensor, unstarted.named_tensors()[name])
        for name, tensor in batch.named_tensors().items()
    )


def test_labels_are_numbers_or_a_yes_or_no_for_each_class() -> None:
    examples = examples_of({"ids": [[4, 5], [6]], "label": [[2], [0]]})
    single_label = ClassLabels(pad_id=0, longest=64, n_classes=3, multi_label=False).batch(
        examples, BOTH
    )
    assert single_label.labels.tolist() == [2, 0]
    assert single_label.labels.dtype == torch.int64
    assert single_label.n_supervised == 2
    assert single_label.padding.sum(dim=1).tolist() == [2, 1]
    multi_label = examples_of({"ids": [[4, 5], [6]], "label": [[1, 0, 1], [0, 0, 0]]})
    several_labels = ClassLabels(pad_id=0, longest=64, n_classes=3, multi_label=True).batch(
        multi_label, BOTH
    )
    assert several_labels.labels.tolist() == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert several_labels.labels.dtype == torch.float32


@pytest.mark.parametrize("labels", [[0, 1], [], [3]])
def test_labels_that_cannot_be_are_refused_with_the_row(labels: list[int]) -> None:
    examples = examples_of({"ids": [[4], [6]], "label": [[1], labels]})
    collation = ClassLabels(pad_id=0, longest=64, n_classes=3, multi_label=False)
    with pytest.raises(TextError, match=r"row 2 has the label .* number of one of 3 classes"):
        collation.batch(examples, BOTH)
    examples = examples_of({"ids": [[4], [6]], "label": [[1, 0, 1], labels]})
    collation = ClassLabels(pad_id=0, longest=64, n_classes=3, multi_label=True)
    with pytest.raises(TextError, match=r"row 2 has the label .* a 0 or 1 for each of 3 classes"):
        collation.batch(examples, BOTH)


def test_both_answers_follow_the_prompt_which_is_no_target() -> None:
    examples = examples_of(
        {"prompt": [[0, 4], [0]], "chosen": [[5, 1], [6, 1]], "rejected": [[7, 8, 1], [9, 1]]}
    )
    batch = TwoAnswers(pad_id=1, longest=64).batch(examples, BOTH)
    assert batch.chosen.ids.tolist()[0] == [0, 4, 5, 1, 1, 1, 1, 1]
    assert batch.chosen.targets.tolist()[0] == [N, 5, 1, *[N] * 5]
    assert batch.rejected.targets.tolist()[0] == [N, 7, 8, 1, *[N] * 4]
    assert batch.rejected.targets.tolist()[1] == [9, 1, *[N] * 6]
    assert batch.n_supervised == batch.rows == 2
    assert (batch.chosen.n_supervised, batch.rejected.n_supervised) == (4, 5)


def test_prompts_bring_their_rows_along() -> None:
    rows = Examples({"prompt": ragged([[0, 5], [0]])}, np.array([3, 8]), ("{}", '{"sum": 4}'))
    batch = PromptTexts().batch(rows, BOTH[::-1])
    assert batch.ids == ((0,), (0, 5))
    assert batch.texts == ('{"sum": 4}', "{}")
    assert batch.rows == (8, 3)
    order = BucketedBatches(rows, PromptTexts(), rows_at_once=2, seed=0)
    assert sorted(order.batch(2, 2).rows) == [3, 8]
    assert [batch.rows for batch in in_turn(rows, PromptTexts(), 1)] == [(8,), (3,)]
    with pytest.raises(TextError, match="were not stored"):
        PromptTexts().batch(examples_of({"prompt": [[0]]}), BOTH[:1])


COLUMNS: dict[str, dict[str, Any]] = {
    "texts": {"source": [[n] * (n % 5 + 1) for n in range(23)], "target": [[n] for n in range(23)]},
    "labels": {
        "ids": [[n] * (n % 5 + 1) for n in range(23)],
        "label": [[n % 2] for n in range(23)],
    },
    "answers": {
        "prompt": [[n] * (n % 5 + 1) for n in range(23)],
        "chosen": [[n] for n in range(23)],
        "rejected": [[n] * 2 for n in range(23)],
    },
}
COLLATIONS = {
    "texts": TwoTexts(pad_id=0, longest=64, start_id=0),
    "labels": ClassLabels(pad_id=0, longest=64, n_classes=2, multi_label=False),
    "answers": TwoAnswers(pad_id=0, longest=64),
}
SEEN = {"texts": "source", "labels": "ids", "answers": "chosen.ids"}


@pytest.mark.parametrize("form", COLUMNS)
def test_each_form_is_seen_whole_in_every_epoch_and_in_evaluation(form: str) -> None:
    examples = examples_of(COLUMNS[form])
    order: BucketedBatches[Any] = BucketedBatches(
        examples, COLLATIONS[form], rows_at_once=4, seed=0
    )
    batches = [order.batch(23 + start, min(5, 23 - start)) for start in range(0, 23, 5)]
    for multi_label in (batches, list(in_turn(examples, COLLATIONS[form], 4))):
        rows_seen = [
            row for b in multi_label for row in b.named_tensors()[SEEN[form]][:, 0].tolist()
        ]
        assert sorted(rows_seen) == list(range(23))
        assert sum(batch.n_supervised for batch in multi_label) == 23
