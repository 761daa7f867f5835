from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.batches import IGNORED, TokenBatch
from pellucid.data import Answers, BucketedBatches, PackedBatches, in_turn, pack
from pellucid.data.order import BucketOrder
from pellucid.errors import TextError
from pellucid.model import assemble
from support.examples import answers, examples_of
from support.models import BASE

FEW = settings(max_examples=40)
LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=40)
COLLATION = Answers(pad_id=0, longest=16)


def digest(batch: TokenBatch) -> str:
    hasher = hashlib.sha256()
    for name, tensor in batch.named_tensors().items():
        hasher.update(name.encode() + tensor.numpy().tobytes())
    return hasher.hexdigest()


def firsts(batch: TokenBatch) -> list[int]:
    """The examples that are seen in a batch, by their first tokens."""
    ids = batch.ids[batch.ids >= 1000]
    return sorted((ids[ids % 1000 == 0] // 1000 - 1).tolist())


@FEW
@given(lengths=LENGTHS, epoch=st.integers(0, 4), seed=st.integers(0, 2**63 - 1))
def test_packed_rows_hold_every_example_once_in_every_epoch(
    lengths: list[int], epoch: int, seed: int
) -> None:
    order = PackedBatches(answers(lengths), context_length=12, pad_id=0, seed=seed)
    batch = order.batch(epoch * order.rows_per_epoch, order.rows_per_epoch)
    assert firsts(batch) == list(range(len(lengths)))
    assert int((batch.ids >= 1000).sum()) == sum(lengths)
    assert batch.n_supervised == sum(lengths) - len(lengths)
    assert order.tokens_per_row * order.rows_per_epoch == pytest.approx(sum(lengths))


@FEW
@given(data=st.data(), lengths=LENGTHS, pad_id=st.sampled_from([0, 1001, 1000]))
def test_no_target_crosses_from_one_packed_example_into_another(
    data: st.DataObject, lengths: list[int], pad_id: int
) -> None:
    prompts = [data.draw(st.integers(0, n)) for n in lengths]
    order = PackedBatches(answers(lengths, prompts), context_length=12, pad_id=pad_id, seed=3)
    batch = order.batch(0, order.rows_per_epoch)
    assert batch.documents is not None
    expected = Counter(
        (1000 * (e + 1) + place - 1, 1000 * (e + 1) + place)
        for e, n in enumerate(lengths)
        for place in range(max(1, prompts[e]), n)
    )
    is_target = batch.targets != IGNORED
    pairs = zip(batch.ids[is_target].tolist(), batch.targets[is_target].tolist(), strict=True)
    assert Counter(pairs) == expected
    assert batch.n_supervised == expected.total()
    for ids, numbers in zip(batch.ids.tolist(), batch.documents.tolist(), strict=True):
        real = [
            (token // 1000, number) for token, number in zip(ids, numbers, strict=True) if number
        ]
        owners = dict.fromkeys(real)
        assert [number for _, number in owners] == list(range(1, len(owners) + 1))
        assert len({owner for owner, _ in owners}) == len(owners)
        assert numbers == [number for _, number in real] + [0] * (len(ids) - len(real))


@FEW
@given(lengths=LENGTHS, position=st.integers(0, 90), count=st.integers(1, 9))
def test_position_is_all_the_state_that_packing_has(
    lengths: list[int], position: int, count: int
) -> None:
    def order() -> PackedBatches:
        return PackedBatches(answers(lengths), context_length=12, pad_id=0, seed=5)

    batched = order().batch(position, count)
    fresh = order()
    singles = [fresh.batch(position + index, 1) for index in reversed(range(count))][::-1]
    assert torch.equal(batched.ids, torch.cat([single.ids for single in singles]))
    assert torch.equal(batched.targets, torch.cat([single.targets for single in singles]))
    assert batched.n_supervised == sum(single.n_supervised for single in singles)


def test_packed_epochs_differ_in_their_order_and_in_who_lies_with_whom() -> None:
    order = PackedBatches(answers([4, 5, 6, 7] * 30), context_length=16, pad_id=0, seed=0)

    def company(epoch: int) -> list[list[int]]:
        start = epoch * order.rows_per_epoch
        return [firsts(order.batch(start + row, 1)) for row in range(order.rows_per_epoch)]

    first_epoch, second_epoch = company(0), company(1)
    assert first_epoch != second_epoch
    assert (
        len({tuple(row) for row in first_epoch} & {tuple(row) for row in second_epoch})
        < len(first_epoch) / 4
    )


@FEW
@given(lengths=LENGTHS)
def test_packing_keeps_within_rows_and_never_takes_more_than_twice_the_room(
    lengths: list[int],
) -> None:
    packing = pack(np.array(lengths), 12)
    assert sorted(packing.places.tolist()) == list(range(len(lengths)))
    sums = np.add.reduceat(packing.lengths[packing.places], packing.starts[:-1])
    assert sums.max() <= 12
    assert packing.rows <= 2 * -(-sum(lengths) // 12)


def test_many_examples_fill_their_rows_nearly_whole() -> None:
    lengths = np.random.Generator(np.random.Philox(0)).integers(5, 60, 2000).tolist()
    order = PackedBatches(answers(lengths), context_length=128, pad_id=0, seed=0)
    assert order.filled > 0.99


def test_rows_are_filled_from_the_longest_example_on_and_none_is_empty() -> None:
    packing = pack(np.array([3, 5, 2, 6]), 8)
    assert packing.lengths.tolist() == [6, 5, 3, 2]
    rows = np.split(packing.places, packing.starts[1:-1])
    assert [row.tolist() for row in rows] == [[0, 3], [1, 2]]


def test_no_examples_are_no_batches() -> None:
    with pytest.raises(TextError, match="there are no examples to learn from"):
        BucketedBatches(answers([]), COLLATION, rows_at_once=2, seed=0)


def test_example_longer_than_a_row_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        TextError, match=r"has 13 tokens, more than the 12 of a row.*context_length"
    ):
        PackedBatches(answers([3, 13]), context_length=12, pad_id=0, seed=0)


@FEW
@given(
    lengths=LENGTHS,
    size=st.integers(1, 9),
    epoch=st.integers(0, 6),
    steps=st.lists(st.integers(1, 11), min_size=1),
)
def test_buckets_hold_every_example_once_an_epoch_however_many_are_asked_for(
    lengths: list[int], size: int, epoch: int, steps: list[int]
) -> None:
    order = BucketedBatches(answers(lengths), COLLATION, rows_at_once=size, seed=2)
    assert order.rows_per_epoch == len(lengths)
    position, end, rows_seen = epoch * len(lengths), (epoch + 1) * len(lengths), list[int]()
    for step in steps * len(lengths):
        n = min(step, end - position)
        if n:
            rows_seen += firsts(order.batch(position, n))
        position += n
    assert sorted(rows_seen) == list(range(len(lengths)))


@FEW
@given(lengths=LENGTHS, position=st.integers(0, 200), n=st.integers(1, 13), size=st.integers(1, 7))
def test_same_seed_position_and_number_are_the_same_batch(
    lengths: list[int], position: int, n: int, size: int
) -> None:
    first_order, second_order = (
        BucketedBatches(answers(lengths), COLLATION, rows_at_once=size, seed=4) for _ in range(2)
    )
    first_order.batch(position + 3, n)  # what was asked before changes nothing
    assert digest(first_order.batch(position, n)) == digest(second_order.batch(position, n))
    assert first_order.batch(position, n).rows == n


def test_another_seed_is_another_order_of_each_kind() -> None:
    examples = answers([3, 4, 5, 6] * 20)
    for kind in (
        lambda seed: PackedBatches(examples, context_length=12, pad_id=0, seed=seed),
        lambda seed: BucketedBatches(examples, COLLATION, rows_at_once=4, seed=seed),
    ):
        assert digest(kind(0).batch(0, 12)) == digest(kind(0).batch(0, 12))
        assert digest(kind(0).batch(0, 12)) != digest(kind(1).batch(0, 12))


def test_another_process_sees_the_same_batches() -> None:
    script = """if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        from pellucid.data import Answers, BucketedBatches, PackedBatches
        from support.examples import answers
        from data.test_order import digest
        found = answers([3, 9, 4, 7, 5] * 7)
        order = PackedBatches(found, context_length=12, pad_id=0, seed=1)
        other = BucketedBatches(found, Answers(pad_id=0, longest=16), rows_at_once=4, seed=1)
        print(digest(order.batch(37, 9)), digest(other.batch(37, 9)))
    """
    from pathlib import Path

    tests = str(Path(__file__).parents[1])
    printed = [
        subprocess.run(
            [sys.executable, "-c", script, tests], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    examples = answers([3, 9, 4, 7, 5] * 7)
    packed = PackedBatches(examples, context_length=12, pad_id=0, seed=1).batch(37, 9)
    bucketed = BucketedBatches(examples, COLLATION, rows_at_once=4, seed=1).batch(37, 9)
    assert printed == [f"{digest(packed)} {digest(bucketed)}\n"] * 2


def test_examples_of_a_bucket_are_of_about_the_same_length_over_many_epochs() -> None:
    lengths = np.random.Generator(np.random.Philox(1)).integers(8, 400, 1003)
    order = BucketedBatches(
        answers(lengths.tolist()), Answers(pad_id=0, longest=512), rows_at_once=16, seed=0
    )
    real = padded = shuffled = 0
    for step in range(5 * 1003 // 16):
        batch = order.batch(16 * step, 16)
        assert batch.padding is not None
        real += int(batch.padding.sum())
        padded += batch.padding.numel()
        shuffled += int(lengths[np.arange(16 * step, 16 * step + 16) % 1003].max()) * 16
    assert real / padded > 0.88
    assert real / shuffled < 0.6  # what padding would cost without buckets


def test_order_of_the_buckets_has_nothing_to_do_with_length() -> None:
    lengths = np.random.Generator(np.random.Philox(2)).integers(8, 400, 1600).tolist()
    order = BucketedBatches(
        answers(lengths), Answers(pad_id=0, longest=512), rows_at_once=8, seed=0
    )
    widths = [order.batch(8 * step, 8).ids.shape[1] for step in range(5 * 200)]
    correlation = np.corrcoef(widths, np.arange(1000) % 200)[0, 1]
    neighbours = np.corrcoef(widths[:-1], widths[1:])[0, 1]
    assert abs(correlation) < 0.12  # about four standard deviations of no correlation
    assert abs(neighbours) < 0.12


@FEW
@given(lengths=LENGTHS, n=st.integers(1, 9))
def test_evaluation_sees_each_example_exactly_once(lengths: list[int], n: int) -> None:
    batches = list(in_turn(answers(lengths), COLLATION, n))
    examples_seen = [example for batch in batches for example in firsts(batch)]
    assert sorted(examples_seen) == list(range(len(lengths)))
    assert sum(batch.n_supervised for batch in batches) == sum(lengths) - len(lengths)
    widths = [batch.ids.shape[1] for batch in batches]
    assert widths == sorted(widths)


def test_packed_examples_predict_what_each_alone_predicts() -> None:
    model = assemble(BASE, seed=0).double().eval()
    random = np.random.Generator(np.random.Philox(3))
    ids = [random.integers(0, 23, n).tolist() for n in (5, 3, 7, 2, 6, 4)]
    supervised = [[int(place > 0) for place in range(len(tokens))] for tokens in ids]
    examples = examples_of({"ids": ids, "supervised": supervised})

    def total(batch: TokenBatch) -> float:
        with torch.no_grad():
            logits = model(batch.ids, documents=batch.documents, padding=batch.padding)
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        return float(loss)

    order = PackedBatches(examples, context_length=16, pad_id=22, seed=0)
    packed = order.batch(0, order.rows_per_epoch)
    single_batches = [COLLATION.batch(examples, np.array([index])) for index in range(len(ids))]
    bucketed = BucketedBatches(examples, COLLATION, rows_at_once=6, seed=0).batch(0, 6)
    assert packed.rows < len(ids)
    assert total(packed) == pytest.approx(
        sum(total(tokens) for tokens in single_batches), rel=1e-12
    )
    assert total(bucketed) == pytest.approx(total(packed), rel=1e-12)


def test_an_example_without_tokens_takes_no_room() -> None:
    assert sorted(pack(np.array([0, 4]), 4).places.tolist()) == [0, 1]
    assert pack(np.array([0]), 4).rows == 1


def test_the_order_by_length_is_that_of_the_runs_that_have_one() -> None:
    lengths = np.array([3, 9, 4, 4, 12, 7, 1, 5, 8, 6])
    order = BucketOrder(lengths, rows_at_once=3, seed=7)
    assert order.examples(0, 20).tolist() == [
        8, 4, 1, 3, 6, 0, 7, 5, 9, 2, 1, 4, 3, 6, 0, 5, 8, 9, 7, 2,
    ]  # fmt: skip
