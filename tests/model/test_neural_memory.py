"""The memory that learns while it reads, against its equations, and what it is good for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid import config
from pellucid.errors import ConfigError, PellucidError
from pellucid.maths import memory_in_chunks, memory_through_time
from pellucid.model import (
    KeyValueCache,
    NeuralMemory,
    NoCache,
    NoPositions,
    Transformer,
    assemble,
    look,
)
from pellucid.model.neural_memory_update import Gates, MemoryState, through_text
from pellucid.optim import assemble_optimiser, gate
from support.models import BASE, VARIANTS, build, random_ids, with_stack

BATCH, HEADS, TIME, WIDTH = 2, 2, 13, 3
CPU = torch.device("cpu")


def random_text(seed: int = 0) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    shape = (BATCH, HEADS, TIME, WIDTH)
    return tuple(torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(3))


def random_gates(seed: int = 1) -> Gates:
    generator = torch.Generator().manual_seed(seed)
    shares = torch.rand(3, BATCH, HEADS, TIME, dtype=torch.float64, generator=generator) * 0.8
    return Gates(shares[0] / 8, shares[1].log(), (1 - shares[2] / 2).log())


def fresh() -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(BATCH, HEADS, WIDTH, WIDTH, dtype=torch.float64, generator=generator)


def options(gates: Gates) -> dict[str, Tensor]:
    return {
        "persistence": gates.log_persistence.exp(),
        "learning_rate": gates.rate,
        "forgetting": 1 - gates.log_kept.exp(),
    }


def written(chunk: int, **seen: Tensor) -> tuple[Tensor, MemoryState]:
    view = look(TIME, CPU, causal=True, **seen)
    start = MemoryState.new(fresh())
    return through_text(
        start, *random_text(), random_gates(), view=view, chunk=chunk, fresh=fresh()
    )


@pytest.mark.parametrize("chunk", [1, 3, 5, 13, 32])
def test_reads_are_those_of_the_equation(chunk: int) -> None:
    q, k, v = random_text()
    gates = random_gates()
    memories, momenta = memory_in_chunks(fresh(), 0 * fresh(), k, v, **options(gates), chunk=chunk)
    reads, state = written(chunk)
    torch.testing.assert_close(reads, (memories @ q[..., None])[..., 0])
    torch.testing.assert_close(state.now, memories[..., -1, :, :])
    torch.testing.assert_close(state.momentum, momenta[..., -1, :, :])


def test_one_token_a_chunk_is_the_loop_over_tokens() -> None:
    q, k, v = random_text()
    memories, _ = memory_through_time(fresh(), 0 * fresh(), k, v, **options(random_gates()))
    torch.testing.assert_close(written(1)[0], (memories @ q[..., None])[..., 0])


def test_gradients_are_those_of_the_equation() -> None:
    q, k, v = (part.requires_grad_() for part in random_text())
    gates = Gates(*(part.requires_grad_() for part in random_gates()))
    start = fresh().requires_grad_()
    inputs = (q, k, v, *gates, start)
    towards = torch.randn(BATCH, HEADS, TIME, WIDTH, dtype=torch.float64)
    view = look(TIME, CPU, causal=True)
    own_reads, _ = through_text(
        MemoryState.new(start), q, k, v, gates, view=view, chunk=4, fresh=start
    )
    memories, _ = memory_in_chunks(start, 0 * start, k, v, **options(gates), chunk=4)
    expected_reads = (memories @ q[..., None])[..., 0]
    torch.testing.assert_close(
        torch.autograd.grad((own_reads * towards).sum(), inputs),
        torch.autograd.grad((expected_reads * towards).sum(), inputs),
    )


@pytest.mark.parametrize("chunk", [1, 3, 32])
def test_each_document_starts_with_a_fresh_memory(chunk: int) -> None:
    documents = torch.tensor([[0] * 5 + [1] * 8, [0] * 1 + [4] * 7 + [2] * 5])
    reads, _ = written(chunk, documents=documents)
    for row, pieces in enumerate(((5, 8), (1, 7, 5))):
        first = 0
        for length in pieces:
            document = slice(first, first + length)
            single_reads, _ = through_text(
                MemoryState.new(fresh()[row : row + 1]),
                *(part[row : row + 1, :, document] for part in random_text()),
                Gates(*(part[row : row + 1, :, document] for part in random_gates())),
                view=look(length, CPU, causal=True),
                chunk=chunk,
                fresh=fresh()[row : row + 1],
            )
            torch.testing.assert_close(reads[row : row + 1, :, document], single_reads)
            first += length


@pytest.mark.parametrize("chunk", [1, 3, 32])
def test_padding_anywhere_is_as_if_it_were_not_there(chunk: int) -> None:
    real = torch.ones(BATCH, TIME, dtype=torch.bool)
    real[0, :4] = False
    real[1, 3:5] = real[1, 11:] = False
    reads, state = written(chunk, padding=real)
    for row in range(BATCH):
        is_real = real[row]
        single_reads, after = through_text(
            MemoryState.new(fresh()[row : row + 1]),
            *(part[row : row + 1, :, is_real] for part in random_text()),
            Gates(*(part[row : row + 1, :, is_real] for part in random_gates())),
            view=look(int(is_real.sum()), CPU, causal=True),
            chunk=chunk,
            fresh=fresh()[row : row + 1],
        )
        torch.testing.assert_close(reads[row : row + 1, :, is_real], single_reads)
        for batched_state, single_state in zip(state, after, strict=True):
            torch.testing.assert_close(batched_state[row : row + 1], single_state)


def test_the_memory_changes_at_inference_and_the_weights_do_not() -> None:
    model = build(VARIANTS["memory"])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    caches, states = model.new_caches(), []
    for part in random_ids(1, 12).split(6, dim=1):
        model(part, caches)
        states.append(caches[0].state()[1])
    assert (states[0] - states[1]).abs().max() > 1e-3
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def one_layer(*, frozen: bool) -> Transformer:
    attention = replace(VARIANTS["memory"].decoder.attention, frozen=frozen)
    stack = replace(VARIANTS["memory"].decoder, n_layers=1, attention=attention)
    return build(replace(BASE, decoder=stack))


def test_frozen_nothing_beyond_the_window_is_seen() -> None:
    ids = random_ids(1, 12)
    changed_ids = ids.clone()
    changed_ids[:, :8] = (changed_ids[:, :8] + 5) % 23
    for frozen in (True, False):
        model = one_layer(frozen=frozen)
        difference = (model(ids)[:, -1] - model(changed_ids)[:, -1]).abs().max()
        assert (difference < 1e-12) == frozen


def test_frozen_it_is_the_same_layer_with_the_same_weights() -> None:
    frozen, learning = one_layer(frozen=True), one_layer(frozen=False)
    frozen.load_state_dict(learning.state_dict())
    ids = random_ids(1, 12)
    caches = frozen.new_caches()
    cached = torch.cat([frozen(part, caches) for part in ids.split(5, dim=1)], dim=1)
    torch.testing.assert_close(cached, frozen(ids), rtol=0, atol=1e-10)
    assert (frozen(ids) - learning(ids)).abs().max() > 1e-3


def test_forked_rows_take_their_memory_along() -> None:
    model = build(VARIANTS["memory"])
    ids = random_ids(2, 10)
    caches = model.new_caches()
    model(ids[:, :7], caches)
    for cache in caches:
        cache.reorder(torch.tensor([1, 1]))
    forked = model(ids[1:, 7:].expand(2, -1), caches)
    torch.testing.assert_close(forked[0], model(ids)[1, 7:], rtol=0, atol=1e-10)
    torch.testing.assert_close(forked[0], forked[1])


def test_looking_ahead_is_refused() -> None:
    model = build(VARIANTS["memory"])
    with pytest.raises(PellucidError, match="no token can see later ones"):
        model(random_ids(1, 6), prefix=torch.tensor([3]))
    layer = NeuralMemory(d_model=8, n_heads=2, d_head=4, window=4, chunk=4)
    with pytest.raises(PellucidError, match="no token can see later ones"):
        layer(torch.randn(1, 5, 8), NoPositions(), look(5, CPU, causal=False), NoCache())
    stack = VARIANTS["memory"].decoder
    with pytest.raises(ConfigError, match=r"encoder\.attention must not be NeuralMemory"):
        replace(BASE, encoder=stack, decoder=None)


def test_it_is_computed_wide_under_autocast_and_learns() -> None:
    model = build(with_stack(attention=VARIANTS["memory"].decoder.attention), double=False)
    ids = random_ids(2, 16)
    caches: list[KeyValueCache] = model.new_caches()
    with torch.autocast("cpu", torch.bfloat16):
        model(ids).float().square().mean().backward()
        with torch.no_grad():
            model(ids, caches)
    assert {part.dtype for part in caches[0].state()} == {torch.float32}
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_parameters_are_as_many_as_the_docstring_says() -> None:
    d_model, n_heads, d_head = 12, 3, 5
    layer = NeuralMemory(d_model=d_model, n_heads=n_heads, d_head=d_head, window=4, chunk=4)
    n_expected = 7 * d_model * n_heads * d_head + 4 * (d_model + 1) * n_heads
    n_expected += n_heads * d_head**2 + d_head
    assert sum(p.numel() for p in layer.parameters()) == n_expected


def test_config_of_a_memory_is_checked() -> None:
    with pytest.raises(ConfigError, match="window"):
        config.NeuralMemory(n_heads=2, d_head=4, window=0, chunk=4)


N_NAMES, N_PAIRS, GAP = 8, 3, 24


def questions(generator: torch.Generator, rows: int = 32) -> tuple[Tensor, Tensor]:
    """Pairs of key and value, filler, each key again in another order; and what follows it.

    Two layers of windows of 8 reach 14 tokens back: not over the filler.
    """
    keys = torch.rand(rows, N_NAMES, generator=generator).argsort(1)[:, :N_PAIRS]
    values = torch.randint(N_NAMES, 2 * N_NAMES, (rows, N_PAIRS), generator=generator)
    order = torch.rand(rows, N_PAIRS, generator=generator).argsort(1)
    given_pairs = torch.stack((keys, values), dim=2).flatten(1)
    answers = values.gather(1, order)
    asked_pairs = torch.stack((keys.gather(1, order), answers), dim=2).flatten(1)
    filler = torch.full((rows, GAP), 2 * N_NAMES)
    return torch.cat((given_pairs, filler, asked_pairs), dim=1), answers


def answered(model: Transformer, ids: Tensor) -> Tensor:
    return model(ids)[:, -2 * N_PAIRS :: 2]


def share_right(model: Transformer) -> float:
    ids, answers = questions(torch.Generator().manual_seed(99), rows=128)
    with torch.no_grad():
        return (answered(model, ids).argmax(-1) == answers).float().mean().item()


def trained_to_recall(*, frozen: bool, seed: int, updates: int = 300) -> Transformer:
    attention = config.NeuralMemory(n_heads=2, d_head=16, window=8, chunk=8, frozen=frozen)
    model_config = replace(
        with_stack(
            attention=attention,
            norm=config.RMSNorm(eps=1e-6),
            feed_forward=config.MLP(d_ff=64, activation="relu_squared", bias=False),
        ),
        vocab_size=2 * N_NAMES + 1,
        context_length=2 * N_PAIRS * 2 + GAP,
        d_model=32,
        initialisation=config.Initialisation(
            weights=config.Normal(std=0.15), embedding_std=0.5, outputs="zero"
        ),
    )
    model = assemble(model_config, seed=seed)
    optimiser = assemble_optimiser(
        config.Muon(
            learning_rate=0.02,
            momentum=0.95,
            weight_decay=0.0,
            newton_schulz_steps=5,
            rest=config.AdamW(learning_rate=0.003, betas=(0.9, 0.99), eps=1e-10, weight_decay=0.0),
        ),
        model.named_parameters(),
    )
    generator, blocked = torch.Generator().manual_seed(seed), torch.zeros(())
    for update in range(updates):
        ids, answers = questions(generator)
        loss = F.cross_entropy(answered(model, ids).flatten(0, 1), answers.flatten())
        loss.backward()
        opened = gate(optimiser.gradients(), loss.detach(), clip_norm=1.0, blocked=blocked)
        optimiser.step(opened, min(1.0, 2 * (1 - update / updates)))
        optimiser.zero_grad()
    return model


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_recall_beyond_the_window_beats_the_same_layer_frozen(seed: int) -> None:
    learning = trained_to_recall(frozen=False, seed=seed)
    frozen = trained_to_recall(frozen=True, seed=seed)
    recalled, frozen_share = share_right(learning), share_right(frozen)
    # the same weights that recalled, now told not to learn while they read
    for block in learning.decoder.blocks:
        block.attention.frozen = True
    told_not_to = share_right(learning)
    print(f"seed {seed}: {recalled:.3f}, trained frozen {frozen_share:.3f}, {told_not_to:.3f}")
    assert recalled > 0.5
    # one of eight values is right by chance
    assert frozen_share < 0.25
    assert told_not_to < 0.25
