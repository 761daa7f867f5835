from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.maths import (
    linear_attention,
    memory_in_chunks,
    memory_loss,
    memory_step,
    memory_through_time,
)

FEW_EXAMPLES = settings(max_examples=30)


def gates(random: Any, *shape: int) -> dict[str, Any]:
    return {
        "persistence": random.uniform(0, 0.9, size=shape),
        "learning_rate": random.uniform(0, 0.1, size=shape),
        "forgetting": random.uniform(0, 0.5, size=shape),
    }


def random_text(seed: int, time: int) -> tuple[tuple[np.ndarray, ...], dict[str, Any]]:
    """Memory, momentum, keys and values of two texts, and their gates."""
    random = np.random.default_rng(seed)
    shapes = ((2, 3, 4), (2, 3, 4), (2, time, 4), (2, time, 3))
    return tuple(random.normal(size=shape) for shape in shapes), gates(random, 2, time)


@FEW_EXAMPLES
@given(seed=st.integers(0, 99), time=st.integers(1, 8))
def test_one_token_a_chunk_is_the_loop(seed: int, time: int) -> None:
    text, options = random_text(seed, time)
    in_chunks = memory_in_chunks(*text, **options, chunk=1)
    for chunked, expected in zip(in_chunks, memory_through_time(*text, **options), strict=True):
        np.testing.assert_allclose(chunked, expected, rtol=1e-10, atol=1e-12)


@FEW_EXAMPLES
@given(seed=st.integers(0, 99), time=st.integers(1, 8), chunk=st.integers(1, 9))
def test_within_a_chunk_every_gradient_is_taken_at_the_memory_before_it(
    seed: int, time: int, chunk: int
) -> None:
    (memory, momentum, k, v), options = random_text(seed, time)
    chunk_memories, surprise = memory_in_chunks(memory, momentum, k, v, **options, chunk=chunk)
    before = memory
    for t in range(time):
        if t % chunk == 0:
            before = memory
        eta, theta, alpha = (
            options[gate][:, t, None, None]
            for gate in ("persistence", "learning_rate", "forgetting")
        )
        error = np.einsum("bij,bj->bi", before, k[:, t]) - v[:, t]
        momentum = eta * momentum - theta * 2 * np.einsum("bi,bj->bij", error, k[:, t])
        memory = (1 - alpha) * memory + momentum
        np.testing.assert_allclose(chunk_memories[:, t], memory, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(surprise[:, t], momentum, rtol=1e-9, atol=1e-11)


def test_the_paper_s_closed_form_of_a_chunk_without_momentum_holds() -> None:
    """M_t = beta_t M_0 - sum_i theta_i beta_t / beta_i u_i,  beta_i = product of (1 - alpha_j)."""
    (memory, _, k, v), options = random_text(0, 6)
    options["persistence"] = np.zeros((2, 6))
    chunk_memories, _ = memory_in_chunks(memory, 0 * memory, k, v, **options, chunk=6)
    beta = np.cumprod(1 - options["forgetting"], axis=-1)
    u = 2 * np.einsum("bti,btj->btij", k @ memory.swapaxes(1, 2) - v, k)
    for t in range(6):
        weights = options["learning_rate"] * beta[:, t : t + 1] / beta
        summed_updates = np.einsum("bt,btij->bij", weights[:, : t + 1], u[:, : t + 1])
        expected = beta[:, t, None, None] * memory - summed_updates
        np.testing.assert_allclose(chunk_memories[:, t], expected, rtol=1e-10, atol=1e-12)


@FEW_EXAMPLES
@given(seed=st.integers(0, 99))
def test_a_small_step_makes_the_memory_less_wrong_and_one_exact_step_right(seed: int) -> None:
    random = np.random.default_rng(seed)
    memory, k, v = random.normal(size=(3, 4)), random.normal(size=4), random.normal(size=3)
    exact = 1 / (2 * (k**2).sum())
    for rate, share in ((exact, 0.0), (exact / 2, 0.25)):
        after, _ = memory_step(
            memory,
            0 * memory,
            k,
            v,
            persistence=np.array(0.0),
            learning_rate=np.array(rate),
            forgetting=np.array(0.0),
        )
        before = memory_loss(memory, k, v)
        np.testing.assert_allclose(memory_loss(after, k, v), share * before, atol=1e-12 * before)


def test_all_gates_shut_a_memory_stays_and_a_full_one_forgets() -> None:
    (memory, momentum, k, v), _ = random_text(0, 1)
    shut = np.zeros(2)
    options = {"persistence": shut, "learning_rate": shut, "forgetting": shut}
    after, surprise = memory_step(memory, momentum, k[:, 0], v[:, 0], **options)
    np.testing.assert_array_equal(after, memory)
    assert not surprise.any()
    options["forgetting"] = np.ones(2)
    after, _ = memory_step(memory, momentum, k[:, 0], v[:, 0], **options)
    assert not after.any()


def test_an_empty_memory_read_in_one_chunk_is_linear_attention_without_its_normaliser() -> None:
    """At M = 0 the surprise is -2 v k^T: nothing but sums of v k^T are written."""
    random = np.random.default_rng(0)
    q, k = random.uniform(size=(2, 1, 5, 4))
    v = random.normal(size=(1, 5, 3))
    empty_memory, all_ones = np.zeros((1, 3, 4)), np.ones((1, 5))
    memories, _ = memory_in_chunks(
        empty_memory,
        empty_memory,
        k,
        v,
        persistence=0 * all_ones,
        learning_rate=all_ones / 2,
        forgetting=0 * all_ones,
        chunk=5,
    )
    read = np.einsum("btij,btj->bti", memories, q)
    total = np.tril(q @ k.swapaxes(1, 2)).sum(-1, keepdims=True)
    mixed = linear_attention(q, k, v, eps=0.0, causal=True) * total
    np.testing.assert_allclose(read, mixed, rtol=1e-10)
