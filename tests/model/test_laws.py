"""The laws of a causal language model, over every kind of part."""

from __future__ import annotations

import pytest
import torch

from pellucid.errors import PellucidError
from pellucid.model import NoCache, look
from support.models import VARIANTS, build, random_ids

every_variant = pytest.mark.parametrize("name", VARIANTS)


@every_variant
def test_causal_model_cannot_see_the_future(name: str) -> None:
    model = build(VARIANTS[name])
    ids = random_ids(2, 12)
    changed_ids = ids.clone()
    changed_ids[:, 7:] = (changed_ids[:, 7:] + 5) % 23
    before, after = model(ids), model(changed_ids)
    torch.testing.assert_close(before[:, :7], after[:, :7], rtol=0, atol=1e-12)
    assert (before[:, 7] - after[:, 7]).abs().max() > 1e-3


@every_variant
def test_every_earlier_token_is_seen(name: str) -> None:
    model = build(VARIANTS[name])
    embedded = model.token_embedding(random_ids(1, 12)).detach().requires_grad_()
    view = look(12, embedded.device, causal=True)
    hidden = model.decoder(embedded, view, [NoCache() for _ in model.decoder.blocks])
    # not the sum of squares, which a norm at the end holds constant
    (grad,) = torch.autograd.grad((hidden[0, -1] * torch.arange(16.0)).sum(), embedded)
    assert (grad[0].norm(dim=-1) > 1e-9).all()


@every_variant
def test_batch_neighbours_change_nothing(name: str) -> None:
    model = build(VARIANTS[name])
    ids = random_ids(3, 10)
    torch.testing.assert_close(model(ids)[1:2], model(ids[1:2]), rtol=0, atol=1e-12)


@every_variant
def test_cache_on_equals_cache_off(name: str) -> None:
    model = build(VARIANTS[name])
    ids = random_ids(2, 12)
    uncached = model(ids)
    for cuts in ([1] * 12, [5, 1, 6], [12]):
        caches = model.new_caches()
        parts = [model(part, caches) for part in ids.split(cuts, dim=1)]
        torch.testing.assert_close(torch.cat(parts, dim=1), uncached, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("name", "time"), [("linear", 8), ("memory", 9)])
def test_padding_is_honoured_when_a_text_goes_on_from_a_cache(name: str, time: int) -> None:
    model = build(VARIANTS[name])
    ids = random_ids(1, time)
    padded = torch.cat((torch.zeros(1, 4, dtype=torch.long), ids), dim=1)
    padding = torch.ones(1, 4 + time, dtype=torch.bool)
    padding[:, :4] = False
    caches = model.new_caches()
    parts = [
        model(padded[:, :6], caches, padding=padding[:, :6]),
        model(padded[:, 6:7], caches, padding=padding[:, :7]),
        model(padded[:, 7:], caches, padding=padding),
    ]
    joined = torch.cat(parts, dim=1)[:, 4:]
    # rotary positions are relative, so that standing four further changes nothing
    torch.testing.assert_close(joined, model(ids), rtol=0, atol=1e-6)


@every_variant
def test_every_parameter_has_a_gradient(name: str) -> None:
    model = build(VARIANTS[name])
    model(random_ids(2, 16)).square().mean().backward()
    idle = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    # a bias of the keys moves every score of a row alike, which softmax does not see
    assert [n for n in idle if not n.endswith("attention.key.bias")] == []


@every_variant
def test_same_seed_same_weights(name: str) -> None:
    first_model, second_model, other_model = (
        build(VARIANTS[name], seed=seed) for seed in (3, 3, 4)
    )
    pairs = list(
        zip(
            first_model.parameters(),
            second_model.parameters(),
            other_model.parameters(),
            strict=True,
        )
    )
    assert all(torch.equal(a, b) for a, b, _ in pairs)
    assert any(not torch.equal(a, c) for a, _, c in pairs)


def test_what_the_process_drew_before_changes_no_weight_and_no_buffer() -> None:
    torch.manual_seed(1)
    first_state = build(VARIANTS["spectral norm"], seed=3).state_dict()
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second_state = build(VARIANTS["spectral norm"], seed=3).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    assert any(name.endswith("._u") for name in first_state)
    assert all(torch.equal(tensor, second_state[name]) for name, tensor in first_state.items())


def test_no_more_tokens_than_the_context_holds() -> None:
    model = build(VARIANTS["rotary"])
    with pytest.raises(PellucidError, match=r"17 tokens .* context holds 16"):
        model(random_ids(1, 17))
    caches = model.new_caches()
    model(random_ids(1, 16), caches)
    with pytest.raises(PellucidError, match="17 tokens"):
        model(random_ids(1, 1), caches)


def test_without_positions_only_the_mask_tells_the_order() -> None:
    model = build(VARIANTS["no positions"])
    ids = torch.tensor([[3, 4, 5, 6], [4, 3, 5, 6]])
    first, second = model(ids)
    # the last token gathers from the same set either way through one layer of keys and values;
    # in the second layer the mask has already told the orders apart
    assert (first[-1] - second[-1]).abs().max() > 1e-6
    one_layer = build(VARIANTS["no positions"])
    one_layer.decoder.blocks = one_layer.decoder.blocks[:1]
    first, second = one_layer(ids)
    torch.testing.assert_close(first[-1], second[-1], rtol=0, atol=1e-12)
