"""Encoder, decoder, or both: what each may see, and what changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pellucid import config
from pellucid.errors import ConfigError, PellucidError
from pellucid.model import Transformer
from support.models import BASE, ENCODERS, PAIRS, build, random_ids, with_stack

every_encoder = pytest.mark.parametrize("name", ENCODERS)
every_pair = pytest.mark.parametrize("name", PAIRS)


@every_encoder
def test_an_encoder_sees_both_ways(name: str) -> None:
    model = build(ENCODERS[name])
    ids = random_ids(1, 10)
    changed_ids = ids.clone()
    changed_ids[:, 5] = (changed_ids[:, 5] + 3) % 23
    change = (model.states(ids) - model.states(changed_ids)).abs().amax(dim=-1)[0]
    assert (change > 1e-9).all()


@every_encoder
def test_padding_changes_nothing(name: str) -> None:
    model = build(ENCODERS[name])
    ids = random_ids(2, 10)
    single_states = model.states(ids[:1, :6])
    padding = torch.tensor([[True] * 6 + [False] * 4, [True] * 10])
    padded_states = model.states(ids, padding=padding)
    torch.testing.assert_close(padded_states[:1, :6], single_states, rtol=0, atol=1e-10)


@every_pair
def test_padding_of_the_source_changes_nothing(name: str) -> None:
    model = build(PAIRS[name])
    source, target = random_ids(2, 9), random_ids(2, 5, seed=2)
    single_logits = model(target[:1], encoded=model.encode(source[:1, :4]))
    padding = torch.tensor([[True] * 4 + [False] * 5, [True] * 9])
    padded_logits = model(target, encoded=model.encode(source, padding=padding))
    torch.testing.assert_close(padded_logits[:1], single_logits, rtol=0, atol=1e-10)


@every_pair
def test_the_decoder_sees_the_whole_source_and_not_its_own_future(name: str) -> None:
    model = build(PAIRS[name])
    source, target = random_ids(1, 7), random_ids(1, 6, seed=2)
    before = model(target, encoded=model.encode(source))
    changed_target = target.clone()
    changed_target[:, 4:] = (changed_target[:, 4:] + 5) % 23
    after = model(changed_target, encoded=model.encode(source))
    torch.testing.assert_close(before[:, :4], after[:, :4], rtol=0, atol=1e-12)
    for place in range(source.shape[1]):
        other = source.clone()
        other[:, place] = (other[:, place] + 5) % 23
        change = (model(target, encoded=model.encode(other)) - before).abs().amax(dim=-1)
        assert (change > 1e-9).all()


@every_pair
def test_cached_decoding_equals_decoding_at_once(name: str) -> None:
    model = build(PAIRS[name])
    source, target = random_ids(2, 7), random_ids(2, 6, seed=2)
    encoded = model.encode(source)
    caches = model.new_caches()
    parts = [model(part, caches, encoded=encoded) for part in target.split([1, 3, 1, 1], dim=1)]
    uncached = model(target, encoded=encoded)
    torch.testing.assert_close(torch.cat(parts, dim=1), uncached, rtol=0, atol=1e-10)


@every_pair
def test_rows_of_a_cache_can_be_dropped_and_forked(name: str) -> None:
    model = build(PAIRS[name])
    source, target = random_ids(3, 7), random_ids(3, 6, seed=2)
    encoded = model.encode(source)
    caches = model.new_caches()
    model(target[:, :4], caches, encoded=encoded)
    rows = torch.tensor([2, 2, 0])
    for cache in caches:
        cache.reorder(rows)
    after = model(target[rows, 4:], caches, encoded=model.encode(source[rows]))
    uncached = model(target[rows], encoded=model.encode(source[rows]))
    torch.testing.assert_close(after, uncached[:, 4:], rtol=0, atol=1e-10)


@pytest.mark.parametrize("models", [ENCODERS, PAIRS])
def test_every_parameter_of_both_stacks_has_a_gradient(
    models: dict[str, config.Transformer],
) -> None:
    for name, model_config in models.items():
        model = build(model_config)
        ids = random_ids(2, 8)
        encoded = None if model.decoder is None else model.encode(ids)
        logits = model(ids, encoded=encoded)
        logits.square().mean().backward()
        idle = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
        # a bias of the keys moves every score of a row alike; this test does not read the pooler
        without_gradient = ("attention.key.bias", "pooler.weight", "pooler.bias")
        assert [n for n in idle if not n.endswith(without_gradient)] == [], name


def test_segments_are_told_apart() -> None:
    model = build(ENCODERS["bert"])
    ids = random_ids(1, 6)
    segments = torch.tensor([[0, 0, 0, 1, 1, 1]])
    plain = model.states(ids)
    torch.testing.assert_close(plain, model.states(ids, segments=torch.zeros_like(segments)))
    assert (model.states(ids, segments=segments) - plain).abs().max() > 1e-3


def test_a_prefix_is_seen_by_all_and_the_rest_is_causal() -> None:
    model = build(BASE)
    ids = random_ids(1, 8)
    prefix = torch.tensor([4])

    def is_moved_by(place: int) -> torch.Tensor:
        other = ids.clone()
        other[:, place] = (other[:, place] + 3) % 23
        difference = model(ids, prefix=prefix) - model(other, prefix=prefix)
        return difference.abs().amax(dim=-1)[0] > 1e-9

    assert is_moved_by(3).all()
    assert is_moved_by(5).tolist() == [False] * 5 + [True] * 3


@pytest.mark.parametrize(
    "positions",
    [
        config.Rotary(base=100.0),
        config.Learned(),
        config.Sinusoidal(base=100.0),
        config.ALiBi(),
        config.BucketedBias(n_buckets=8, max_distance=12),
        config.ShawRelative(max_distance=3, values=True),
    ],
)
def test_documents_in_one_row_are_as_documents_alone(positions: config.Positions) -> None:
    model = build(with_stack(positions=positions))
    ids = random_ids(1, 12)
    documents = torch.tensor([[0] * 5 + [1] * 4 + [2] * 3])
    packed = model(ids, documents=documents)
    for part in (slice(0, 5), slice(5, 9), slice(9, 12)):
        torch.testing.assert_close(packed[:, part], model(ids[:, part]), rtol=0, atol=1e-10)


def test_what_makes_no_sense_is_refused() -> None:
    decoder, encoder, pair = build(BASE), build(ENCODERS["bert"]), build(PAIRS["original"])
    ids = random_ids(1, 4)
    with pytest.raises(PellucidError, match="reads another text"):
        pair(ids)
    with pytest.raises(PellucidError, match="no encoder"):
        decoder.encode(ids)
    with pytest.raises(PellucidError, match="nothing to cache"):
        encoder.new_caches()
    with pytest.raises(PellucidError, match="no decoder that reads"):
        decoder(ids, encoded=pair.encode(ids))
    with pytest.raises(PellucidError, match="no head"):
        build(replace(ENCODERS["bert"], head=config.NoHead()))(ids)
    with pytest.raises(ConfigError, match="an encoder, a decoder, or both"):
        replace(BASE, decoder=None)
    with pytest.raises(ConfigError, match="cross_attention is missing"):
        replace(BASE, encoder=BASE.decoder)
    with pytest.raises(ConfigError, match="needs an encoder"):
        replace(PAIRS["original"], encoder=None)


def norm_model(norm: config.Norm) -> Transformer:
    return build(with_stack(norm=norm)).train()


BATCH_NORM = config.BatchNorm(eps=1e-5, momentum=0.1)


@pytest.mark.parametrize("norm", [BATCH_NORM, config.InstanceNorm(eps=1e-5)])
def test_norms_over_time_leak_the_future(norm: config.Norm) -> None:
    model = norm_model(norm)
    ids = random_ids(2, 8)
    changed_ids = ids.clone()
    changed_ids[:, 6:] = (changed_ids[:, 6:] + 3) % 23
    assert (model(ids)[:, :6] - model(changed_ids)[:, :6]).abs().max() > 1e-4


def test_batch_norm_leaks_the_neighbours_while_training_and_not_afterwards() -> None:
    model = norm_model(BATCH_NORM)
    ids = random_ids(3, 8)
    assert (model(ids)[:1] - model(ids[:1])).abs().max() > 1e-4
    model.eval()
    torch.testing.assert_close(model(ids)[:1], model(ids[:1]), rtol=0, atol=1e-10)


def test_instance_norm_keeps_neighbours_apart() -> None:
    model = norm_model(config.InstanceNorm(eps=1e-5))
    ids = random_ids(3, 8)
    torch.testing.assert_close(model(ids)[:1], model(ids[:1]), rtol=0, atol=1e-10)
