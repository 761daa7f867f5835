"""What attention looks at: exact, whatever is done to its scores, never as a square of shares."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pellucid import config, maths
from pellucid.maths import renyi2_entropy
from pellucid.model import LatentAttention, MultiHeadAttention
from pellucid.model.scores import gather
from pellucid.typed import named_modules
from pellucid.vitals import ScoreRule, by_logsumexp, by_rows, from_scores, normalised
from pellucid.vitals import attention as room
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.model_parts import study
from pellucid.vitals.taps.attention import AttentionTaps
from support.models import BASE, ENCODERS, PAIRS, VARIANTS, build, random_ids, with_attention


def drawn(*shape: int, seed: int = 0, times: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return times * torch.randn(*shape, generator=generator, dtype=torch.float64)


def materialised(q: Tensor, k: Tensor, scored: ScoreRule) -> tuple[Tensor, Tensor, Tensor]:
    """Largest score, entropy, Renyi-2, from the whole square, by `pellucid.maths`."""
    keys = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scores = q @ keys.mT * scored.scale
    if scored.soft_cap is not None:
        scores = scored.soft_cap * torch.tanh(scores / scored.soft_cap)
    if scored.bias is not None:
        scores = scores + scored.bias
    seen = torch.ones(scores.shape, dtype=torch.bool)
    if scored.causal:
        seen = seen.tril()
    if scored.mask is not None:
        seen = seen & scored.mask
    scores = scores.masked_fill(~seen, -torch.inf)
    largest = scores.amax(-1)
    if scored.sinks is not None:
        column = scored.sinks[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, column), -1)
    blind = scores.isneginf().all(-1, keepdim=True)
    shares = torch.softmax(scores.masked_fill(blind, 0.0), -1)
    nothing = torch.zeros_like(largest)
    entropy = torch.where(blind[..., 0], nothing, maths.entropy(shares))
    return largest, entropy, torch.where(blind[..., 0], nothing, renyi2_entropy(shares))


BLOCK = torch.zeros(12, dtype=torch.long)
BLOCK[5:] = 1
CASES: dict[str, tuple[int, ScoreRule]] = {
    "all see all": (4, ScoreRule(0.3)),
    "causal": (4, ScoreRule(0.3, causal=True)),
    "grouped": (2, ScoreRule(0.3, causal=True)),
    "one key head": (1, ScoreRule(0.3)),
    "windowed": (4, ScoreRule(0.3, mask=torch.ones(12, 12).tril().triu(-3).bool())),
    "packed": (2, ScoreRule(0.3, causal=True, mask=BLOCK[:, None] == BLOCK)),
    "padded": (4, ScoreRule(0.3, mask=(torch.arange(12) < 7)[None, None, None, :])),
    "blind queries": (4, ScoreRule(0.3, mask=torch.ones(12, 12).tril(-1).bool())),
    "capped": (4, ScoreRule(0.3, causal=True, soft_cap=2.0)),
    "biased": (4, ScoreRule(0.3, causal=True, bias=drawn(4, 12, 12, seed=5))),
    "with sinks": (4, ScoreRule(0.3, causal=True, sinks=drawn(4, seed=6))),
}
PLAIN = [name for name, (_, scored) in CASES.items() if scored.plain]


@pytest.mark.parametrize("name", CASES)
def test_rows_of_queries_give_what_the_whole_square_gives(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_SCORES_IN_MEMORY", 2 * 4 * 12 * 5)  # five rows at a time, of twelve
    heads, scored = CASES[name]
    q, k = drawn(2, 4, 12, 8, times=3), drawn(2, heads, 12, 8, seed=1, times=3)
    looks = by_rows(q, k, scored)
    expected = materialised(q, k, scored)
    torch.testing.assert_close(looks[:3], expected, rtol=0, atol=1e-10)
    assert bool((looks.n_visible >= 0).all())


@pytest.mark.parametrize("name", PLAIN)
def test_fused_calls_alone_give_the_same_entropies_and_bracket_the_largest_score(name: str) -> None:
    heads, scored = CASES[name]
    q, k = drawn(2, 4, 12, 8, times=3), drawn(2, heads, 12, 8, seed=1, times=3)
    found = by_logsumexp(q, k, scored)
    largest, entropy, renyi2 = materialised(q, k, scored)
    torch.testing.assert_close(found.entropy, entropy, rtol=0, atol=1e-10)
    torch.testing.assert_close(found.renyi2, renyi2, rtol=0, atol=1e-10)
    sees = ~largest.isneginf()
    assert bool((found.lower <= largest + 1e-10)[sees].all())
    assert bool((largest <= found.upper + 1e-10)[sees].all())


@pytest.mark.parametrize(("times", "bound"), [(3.0, 1.5e-5), (9.2, 1.5e-4)])
def test_in_float32_the_error_grows_with_the_largest_score(times: float, bound: float) -> None:
    q, k = drawn(1, 2, 256, 64, times=times), drawn(1, 2, 256, 64, seed=1, times=times)
    scored = ScoreRule(1 / 8, causal=True)
    largest, entropy, renyi2 = materialised(q, k, scored)
    narrow = by_logsumexp(q.float(), k.float(), scored)
    assert float(largest.max()) == pytest.approx(bound * 2.9e6, rel=0.1)  # 44, and 435
    assert float((narrow.entropy - entropy).abs().max()) < bound
    assert float((narrow.renyi2 - renyi2).abs().max()) < bound
    # scores at hand are taken relative to the largest, and lose less
    rows = by_rows(q.float(), k.float(), scored)
    assert float((rows.entropy - entropy).abs().max()) < bound / 3
    assert float((rows.renyi2 - renyi2).abs().max()) < bound / 2


def test_queries_in_bfloat16_are_widened_before_they_are_scored() -> None:
    q, k = drawn(1, 2, 64, 16, times=4), drawn(1, 2, 64, 16, seed=1, times=4)
    q, k = q.bfloat16(), k.bfloat16()
    scored = ScoreRule(1 / 4, causal=True)
    expected = materialised(q.double(), k.double(), scored)
    for found in (by_rows(q, k, scored).entropy, by_logsumexp(q, k, scored).entropy):
        assert found.dtype == torch.float32
        assert float((found - expected[1]).abs().max()) < 1e-4


def test_scores_that_are_at_hand_may_be_masked_by_the_lowest_number() -> None:
    scores = drawn(1, 2, 6, 6)
    seen = torch.ones(6, 6).tril().bool()
    by_infinity = from_scores(scores.masked_fill(~seen, -torch.inf))
    by_number = from_scores(scores.masked_fill(~seen, torch.finfo(torch.float64).min))
    torch.testing.assert_close(by_number, by_infinity)


def test_a_score_that_is_nan_is_not_taken_for_one_that_is_masked() -> None:
    scores = drawn(1, 1, 3, 3)
    scores[0, 0, 1, 1] = math.nan
    assert bool(from_scores(scores).largest[0, 0, 1].isnan())


@settings(max_examples=25)
@given(st.integers(2, 20), st.floats(0.1, 60.0), st.integers(0, 99))
def test_entropies_lie_between_nothing_and_the_logarithm_of_the_keys(
    keys: int, times: float, seed: int
) -> None:
    q, k = drawn(1, 2, 5, 4, seed=seed, times=times), drawn(1, 2, keys, 4, seed=seed + 1)
    looks = by_rows(q, k, ScoreRule(0.5))
    assert float(looks.entropy.min()) >= -1e-12
    assert float(looks.entropy.max()) <= math.log(keys) + 1e-12
    assert bool((looks.renyi2 <= looks.entropy + 1e-12).all())
    shares = normalised(looks, looks.entropy)
    assert float(shares.min()) >= -1e-12
    assert float(shares.max()) <= 1 + 1e-12


def measured(model: torch.nn.Module, call: object) -> dict[str, dict[str, float]]:
    metrics = AsyncMetrics()
    with torch.no_grad(), AttentionTaps(study(model)).measuring(metrics):
        call()  # type: ignore[operator]
    metrics.turn(1)
    read = metrics.read()
    assert read is not None
    return {column.id: dict(zip(column.places, values, strict=True)) for column, values in read[1]}


WITH_SOFTMAX = [
    name for name in VARIANTS if name not in ("linear", "linear with learned positions")
]
WITH_SOFTMAX = [name for name in WITH_SOFTMAX if "memory" not in name]


def by_hand(model: torch.nn.Module, call: object) -> dict[str, dict[str, float]]:
    """The same numbers from a second implementation: queries, keys and scores taken in `gather`."""
    from pellucid.model import attention, latent_attention

    found: dict[str, list[Tensor]] = {}
    names = {
        id(module): name
        for name, module in named_modules(model).items()
        if isinstance(module, MultiHeadAttention | LatentAttention)
    }
    order: list[str] = []

    def spying(q, read, scoring, positions, view, window=None):  # type: ignore[no-untyped-def]
        bias = positions.bias(q, read.keys, view, scoring.scale)
        near = view.in_window(window, q.shape[2], q.device)
        mask = near.mask
        scored = ScoreRule(
            scoring.scale,
            causal=near.causal,
            mask=mask,
            bias=bias,
            soft_cap=scoring.soft_cap,
            sinks=scoring.sinks,
        )
        name = order[len(found)]
        found[name] = list(materialised(q, read.keys, scored))
        return gather(q, read, scoring, positions, view, window)

    order.extend(names.values())
    rooms = (attention, latent_attention)
    for layers in rooms:
        layers.gather = spying
    try:
        with torch.no_grad():
            call()  # type: ignore[operator]
    finally:
        for layers in rooms:
            layers.gather = gather
    return {
        "attention.max_logit": {
            f"{name}.head.{head}": float(value)
            for name, (largest, _, _) in found.items()
            for head, value in enumerate(largest.amax((0, 2)))
        }
    }


@pytest.mark.parametrize("name", WITH_SOFTMAX)
def test_hooks_see_the_scores_that_a_pellucid_layer_takes(name: str) -> None:
    model = build(VARIANTS[name])
    ids = random_ids(2, 14)
    found = measured(model, lambda: model(ids))
    expected = by_hand(model, lambda: model(ids))["attention.max_logit"]
    assert found["attention.max_logit"] == pytest.approx(expected, abs=1e-10)
    assert all(0 <= value <= 1 for value in found["attention.entropy"].values())


def test_hooks_see_packed_documents_and_padding() -> None:
    model = build(VARIANTS["rotary"])
    ids = random_ids(2, 14)
    documents = torch.tensor([[0] * 5 + [1] * 9, [2] * 12 + [3] * 2])
    found = measured(model, lambda: model(ids, documents=documents))
    expected = by_hand(model, lambda: model(ids, documents=documents))["attention.max_logit"]
    assert found["attention.max_logit"] == pytest.approx(expected, abs=1e-10)
    whole = measured(model, lambda: model(ids))
    assert found["attention.max_logit"] != pytest.approx(whole["attention.max_logit"], abs=1e-3)


@pytest.mark.parametrize("name", ENCODERS)
def test_hooks_see_encoders(name: str) -> None:
    model = build(ENCODERS[name])
    found = measured(model, lambda: model(random_ids(2, 14)))
    expected = by_hand(model, lambda: model(random_ids(2, 14)))["attention.max_logit"]
    assert found["attention.max_logit"] == pytest.approx(expected, abs=1e-10)


def test_hooks_see_a_decoder_look_at_an_encoder() -> None:
    model = build(PAIRS["original"])
    source, ids = random_ids(2, 9), random_ids(2, 14)

    def call() -> None:
        model(ids, encoded=model.encode(source))

    places = measured(model, call)["attention.entropy"]
    assert sum("cross_attention" in place for place in places) == 2 * 4
    assert len(places) == 3 * 2 * 4


def test_a_model_without_softmax_says_so() -> None:
    model = build(VARIANTS["linear"])
    taps = AttentionTaps(study(model))
    with torch.no_grad(), taps.measuring(AsyncMetrics()):
        model(random_ids(2, 14))
    assert "no softmax attention" in taps.missing["attention.max_logit"]


def test_one_layer_is_a_block_if_it_holds_attention_and_a_norm() -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16)
    head = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8))
    model = torch.nn.ModuleDict({"layers": torch.nn.ModuleList([layer]), "heads": head})
    assert list(study(model).blocks) == ["layers.0"]
    model = torch.nn.ModuleDict({"heads": torch.nn.ModuleList([head])})
    assert not study(model).blocks


class HandWritten(torch.nn.Module):
    """A block as people write it: a square of scores, softmax, weighted sum."""

    def __init__(self, width: int, *, fused: bool) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.fused = fused

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        parts = self.qkv(self.norm(x)).view(batch, time, 3, 2, width // 2).transpose(1, 3)
        q, k, v = parts.unbind(2)
        if self.fused:
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.mT / math.sqrt(width // 2)
            seen = torch.ones(time, time, dtype=torch.bool).tril()
            mixed = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v
        return x + mixed.transpose(1, 2).reshape(batch, time, width)


def test_a_foreign_model_is_listened_to_fused_or_by_hand() -> None:
    torch.manual_seed(0)
    blocks = [HandWritten(8, fused=True) for _ in range(2)]
    model = torch.nn.Sequential(torch.nn.Embedding(11, 8), torch.nn.Sequential(*blocks)).double()
    ids = random_ids(2, 6, vocab=11)
    fused = measured(model, lambda: model(ids))
    for block in blocks:
        block.fused = False
    assert measured(model, lambda: model(ids)) == {
        sign: pytest.approx(values, abs=1e-12) for sign, values in fused.items()
    }
    assert set(fused["attention.entropy"]) == {
        f"1.{block}.attention.head.{head}" for block in (0, 1) for head in (0, 1)
    }


def test_shapes_of_every_kind_of_attention_are_read_in_float32_too() -> None:
    model = build(
        replace(with_attention(n_kv_heads=2, window=4), vocab_size=BASE.vocab_size), double=False
    )
    found = measured(model, lambda: model(random_ids(1, 16)))
    assert len(found["attention.max_logit"]) == 2 * 4
    assert isinstance(BASE.decoder, config.Stack)


class Listed(torch.nn.Module):
    """A block that keeps all of its parts in one list, as T5's does."""

    def __init__(self) -> None:
        super().__init__()
        parts = [torch.nn.MultiheadAttention(8, 2), torch.nn.LayerNorm(8)]
        self.layer = torch.nn.ModuleList(parts)


def test_blocks_may_keep_their_parts_in_a_list() -> None:
    layers = torch.nn.ModuleList([Listed(), Listed()])
    norms = torch.nn.ModuleList([torch.nn.Sequential(torch.nn.LayerNorm(8)) for _ in range(2)])
    model = torch.nn.ModuleDict({"block": layers, "norms": norms})
    assert list(study(model).blocks) == ["block.0", "block.1"]
