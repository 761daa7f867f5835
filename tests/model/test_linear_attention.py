"""Linear attention against its equation, in every form and behind every mask."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pellucid import config
from pellucid.errors import ConfigError, PellucidError
from pellucid.maths import elu_features, linear_attention, linear_attention_step, rotary_frequencies
from pellucid.model import KeyValueCache, LinearAttention, NoCache, NoPositions, Rotary, View, look
from pellucid.model.linear_attention import EPS
from support.models import VARIANTS, build, random_ids, with_stack

D_MODEL, HEADS, D_HEAD, TIME = 8, 2, 4, 11


def layer(chunk: int = 4) -> LinearAttention:
    torch.manual_seed(0)
    return LinearAttention(
        d_model=D_MODEL, n_heads=HEADS, d_head=D_HEAD, qkv_bias=True, out_bias=False, chunk=chunk
    ).double()


def text(rows: int = 2, time: int = TIME) -> Tensor:
    return torch.randn(
        rows, time, D_MODEL, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
    )


def by_head(part: torch.nn.Module, x: Tensor) -> Tensor:
    return part(x).unflatten(-1, (HEADS, D_HEAD)).transpose(1, 2)


def features(attention: LinearAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q, k = (elu_features(by_head(part, x)) for part in (attention.query, attention.key))
    return q, k, by_head(attention.value, x)


def projected(attention: LinearAttention, mixed: Tensor) -> Tensor:
    return attention.output(mixed.transpose(1, 2).flatten(2))


def by_scores(attention: LinearAttention, x: Tensor, view: View) -> Tensor:
    """The same by the square of all scores, which the layer never forms."""
    q, k, v = features(attention, x)
    mask = torch.ones(TIME, TIME).tril().bool() if view.causal else view.mask
    scores = q @ k.mT
    scores = scores if mask is None else scores * mask
    return projected(attention, scores @ v / (scores.sum(-1, keepdim=True) + EPS))


def read(attention: LinearAttention, x: Tensor, view: View) -> Tensor:
    return attention(x, NoPositions(), view, NoCache())


def causal(start: int = 0, time: int = TIME) -> View:
    return look(time, torch.device("cpu"), causal=True, start=start)


@pytest.mark.parametrize("chunk", [1, 3, 4, 11, 64])
def test_chunks_of_any_size_give_the_numbers_of_the_equation(chunk: int) -> None:
    attention, x = layer(chunk), text()
    mixed = linear_attention(*features(attention, x), eps=EPS, causal=True)
    own_result = read(attention, x, causal())
    torch.testing.assert_close(own_result, projected(attention, mixed), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_recurrent_form_gives_the_same_numbers_token_by_token(chunk: int) -> None:
    attention, x = layer(chunk), text()
    q, k, v = features(attention, x)
    state, normaliser = q.new_zeros(2, HEADS, D_HEAD, D_HEAD), q.new_zeros(2, HEADS, D_HEAD)
    cache = KeyValueCache(context_length=TIME)
    in_parallel = read(attention, x, causal())
    for t in range(TIME):
        token = [part[:, :, t] for part in (q, k, v)]
        state, normaliser, o = linear_attention_step(state, normaliser, *token, eps=EPS)
        token_output = attention(x[:, t : t + 1], NoPositions(), causal(t, 1), cache)
        cache.advance(1)
        torch.testing.assert_close(token_output, projected(attention, o[:, :, None]))
        torch.testing.assert_close(token_output, in_parallel[:, t : t + 1])
    cache_state = cache.state()
    assert cache_state is not None
    torch.testing.assert_close(cache_state[0], state)
    torch.testing.assert_close(cache_state[1][..., 0], normaliser)


def test_gradients_are_those_of_the_equation() -> None:
    attention, x = layer(), text().requires_grad_()
    towards = torch.randn(2, TIME, D_MODEL, dtype=torch.float64)
    inputs = (x, *attention.parameters())
    mixed = linear_attention(*features(attention, x), eps=EPS, causal=True)
    expected = torch.autograd.grad((projected(attention, mixed) * towards).sum(), inputs)
    own_grads = torch.autograd.grad((read(attention, x, causal()) * towards).sum(), inputs)
    torch.testing.assert_close(own_grads, expected)


def test_an_encoder_reads_both_ways() -> None:
    attention, x = layer(), text()
    mixed = linear_attention(*features(attention, x), eps=EPS, causal=False)
    own_result = read(attention, x, look(TIME, x.device, causal=False))
    torch.testing.assert_close(own_result, projected(attention, mixed))


PADDING = torch.ones(2, TIME, dtype=torch.bool)
PADDING[0, :3] = False
PADDING[1, 8:] = False
DOCUMENTS = torch.tensor([[0] * 4 + [1] * 1 + [2] * 6, [5] * 8 + [3] * 3])
PREFIX = torch.tensor([4, 7])


SEEN = {
    "padding": {"padding": PADDING},
    "documents": {"documents": DOCUMENTS},
    "both": {"padding": PADDING, "documents": DOCUMENTS},
    "prefix": {"prefix": PREFIX},
    "prefix and padding": {"prefix": PREFIX, "padding": PADDING},
}
#: All tokens of an encoder see each other: a prefix says nothing there.
PLACES = [("decoder", what) for what in SEEN] + [
    ("encoder", what) for what in SEEN if "prefix" not in what
]


@pytest.mark.parametrize("chunk", [1, 2, 4, 5, 64])
@pytest.mark.parametrize(("direction", "what"), PLACES)
def test_every_mask_shows_what_it_shows_to_all_pairs(direction: str, what: str, chunk: int) -> None:
    attention, x = layer(chunk), text()
    view = look(TIME, x.device, causal=direction == "decoder", **SEEN[what])
    own_result = read(attention, x, view)
    torch.testing.assert_close(own_result, by_scores(attention, x, view), rtol=1e-9, atol=1e-10)


def test_documents_and_prefix_at_once_are_refused() -> None:
    view = look(TIME, torch.device("cpu"), causal=True, documents=DOCUMENTS, prefix=PREFIX)
    with pytest.raises(PellucidError, match="separate documents and have a prefix"):
        read(layer(), text(), view)


def test_rotary_positions_turn_the_numerator_alone() -> None:
    attention, x = layer(), text()
    frequencies = rotary_frequencies(
        torch.arange(2, dtype=torch.float64), n_rotated=D_HEAD, base=100.0
    )
    rotary = Rotary(context_length=TIME, frequencies=frequencies).double()
    q, k, v = features(attention, x)
    rotated_scores = (rotary.rotate(q, causal()) @ rotary.rotate(k, causal()).mT).tril()
    mixed = rotated_scores @ v / ((q @ k.mT).tril().sum(-1, keepdim=True) + EPS)
    own_result = attention(x, rotary, causal(), NoCache())
    torch.testing.assert_close(own_result, projected(attention, mixed))


def test_the_state_does_not_grow_with_the_text() -> None:
    model = build(VARIANTS["linear"])
    sizes = []
    for time in (1, 4, 15):
        caches = model.new_caches()
        model(random_ids(1, time), caches)
        sizes.append([part.shape for part in caches[0].state()])
    assert sizes[0] == sizes[1] == sizes[2] == [(1, 4, 4, 4), (1, 4, 4, 1)]


def test_sums_are_wide_under_autocast() -> None:
    attention, x = layer().float(), text().float()
    cache = KeyValueCache(context_length=TIME)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = attention(x, NoPositions(), causal(), cache)
    cache_state = cache.state()
    assert cache_state is not None
    assert {part.dtype for part in cache_state} == {torch.float32}
    torch.testing.assert_close(narrow.float(), read(attention, x, causal()), rtol=0.05, atol=0.05)


def test_an_encoder_of_linear_attention_can_be_assembled() -> None:
    kind = config.LinearAttention(n_heads=2, d_head=4, qkv_bias=False, out_bias=False, chunk=4)
    decoder = with_stack(attention=kind)
    model = build(replace(decoder, encoder=decoder.decoder, decoder=None, head=config.NoHead()))
    ids = random_ids(1, 6)
    changed_ids = ids.clone()
    changed_ids[:, -1] += 1
    before, after = model.hidden_states(ids), model.hidden_states(changed_ids)
    assert (before[:, 0] - after[:, 0]).abs().max() > 1e-6


@pytest.mark.parametrize(
    "positions",
    [
        config.ALiBi(),
        config.BucketedBias(n_buckets=8, max_distance=12),
        config.ShawRelative(max_distance=3, values=False),
    ],
)
def test_positions_that_act_on_scores_are_refused_where_no_layer_has_any(
    positions: config.Positions,
) -> None:
    kind = config.LinearAttention(n_heads=4, d_head=4, qkv_bias=False, out_bias=False, chunk=4)
    with pytest.raises(ConfigError, match=f"positions must not be {type(positions).__name__}"):
        with_stack(positions=positions, attention=kind)
    mixed_attention = config.Alternating(layers=(kind, VARIANTS["alibi"].decoder.attention))
    assert (
        build(with_stack(positions=positions, attention=mixed_attention))(random_ids(1, 5))
        .isfinite()
        .all()
    )
