"""What equations refuse, by name; and where they do not look at values."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pellucid import maths
from pellucid.errors import MathsError

X, TARGETS = np.ones((2, 3)), np.array([0, 2])
EVEN = np.full(4, 0.25)
QUERIES, KEYS = np.ones((1, 2, 4)), np.ones((1, 3, 4))

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "temperature 0": (
        lambda: maths.softmax(X, temperature=0.0),
        "temperature must be greater than 0, was 0",
    ),
    "temperature below 0": (
        lambda: maths.log_softmax(X, temperature=-1.0),
        "temperature must be greater than 0, was -1",
    ),
    "whole numbers": (lambda: maths.softmax(np.ones(3, dtype=int)), "x is int64; it must be"),
    "no sum of one": (
        lambda: maths.entropy(np.array([0.5, 0.4])),
        "p sums to 0.9; probabilities must sum to 1",
    ),
    "the second of two": (
        lambda: maths.kl_divergence(EVEN, np.array([0.25, 0.25, 0.25, 0.26])),
        "q sums to 1.01; probabilities must sum to 1",
    ),
    "a negative probability": (
        lambda: maths.kl_divergence(np.array([1.5, -0.5]), np.array([0.5, 0.5])),
        "p holds -0.5; probabilities lie between 0 and 1",
    ),
    "nan": (lambda: maths.entropy(np.array([np.nan, 1.0])), "p holds nan"),
    "shapes that differ": (
        lambda: maths.kl_divergence(EVEN, np.full(2, 0.5)),
        r"q has shape \(2,\); it must be the shape of p, \(4,\)",
    ),
    "no target at all": (
        lambda: maths.linear_head_loss(
            np.zeros((0, 2)), np.ones((3, 2)), np.zeros(3), np.zeros(0, int)
        ),
        "the number of targets must be at least 1, was 0",
    ),
    "a class that is not there": (
        lambda: maths.cross_entropy(X, np.array([0, 3])),
        "targets holds 3; it must hold numbers from 0 to 2",
    ),
    "targets that are no whole numbers": (
        lambda: maths.cross_entropy(X, np.array([0.0, 1.0])),
        "targets is float64; it must hold whole numbers",
    ),
    "targets of another shape": (
        lambda: maths.cross_entropy(X, np.array([0])),
        r"targets has shape \(1,\); it must be \(2,\)",
    ),
    "smoothing above 1": (
        lambda: maths.cross_entropy(X, TARGETS, label_smoothing=1.5),
        "label_smoothing must be between 0 and 1, was 1.5",
    ),
    "a sum of zero": (lambda: maths.sum_normalise(np.array([1.0, -1.0])), "the sum of x is 0"),
    "keys of another width": (
        lambda: maths.attention(QUERIES, KEYS[..., :3], KEYS),
        r"k has shape \(1, 3, 3\); it must be \(1, 3, 4\)",
    ),
    "fewer values than keys": (
        lambda: maths.attention(QUERIES, KEYS, KEYS[:, :2]),
        r"v has shape \(1, 2, 4\); it must be \(1, 3, 4\)",
    ),
    "a mask of another shape": (
        lambda: maths.attention(QUERIES, KEYS, KEYS, mask=np.ones((2, 4), dtype=bool)),
        "do not broadcast together",
    ),
    "a mask of numbers": (
        lambda: maths.attention(QUERIES, KEYS, KEYS, mask=np.ones((2, 3))),
        "mask is float64; it must hold truth values",
    ),
    "a gain of another width": (
        lambda: maths.layer_norm(X, np.ones(2), np.ones(3), eps=1e-5),
        r"gain has shape \(2,\); it must be \(3,\)",
    ),
    "groups that do not divide": (
        lambda: maths.group_norm(X, np.ones(3), np.ones(3), n_groups=2, eps=1e-5),
        "the number of features must be a multiple of 2, was 3",
    ),
    "heads that do not divide": (
        lambda: maths.multi_head_attention(*[np.eye(4)] * 6, n_heads=3),
        "the rows of query must be a multiple of 3, was 4",
    ),
    "no token kept": (lambda: maths.keep_top_k(X, 0), "k must be at least 1, was 0"),
    "beta 0": (
        lambda: maths.dpo_loss(*[np.zeros(2)] * 4, beta=0.0),
        "beta must be greater than 0, was 0",
    ),
    "a deviation of 0": (
        lambda: maths.gaussian_kl(*[np.zeros(2)] * 4),
        "std must be greater than 0, was 0 at its least",
    ),
    "a negative strength": (
        lambda: maths.l1_penalty(X, strength=-0.1),
        "strength must be at least 0, was -0.1",
    ),
    "step 0 of Adam": (
        lambda: maths.adamw_step(
            *[np.ones(2)] * 4,
            step=0,
            learning_rate=0.1,
            beta1=0.9,
            beta2=0.9,
            eps=0.0,
            weight_decay=0.0,
        ),
        "step must be at least 1, was 0",
    ),
    "a rotation by angles of other places": (
        lambda: maths.rotate(np.ones((5, 4)), np.ones((4, 2)), pairing="interleaved"),
        r"rotate: angles has shape \(4, 2\); it must be \(5, 2\), that is \(time, pairs\)",
    ),
    "a rotation of more pairs than there are": (
        lambda: maths.rotate(np.ones((5, 3)), np.ones((5, 2)), pairing="half_split"),
        "angles are of 2 pairs; 3 features have 1",
    ),
    "an odd width of sines and cosines": (
        lambda: maths.sinusoid(np.arange(3.0), d_model=5, base=1e4),
        "sinusoid: d_model must be even, was 5",
    ),
    "a covariance below zero": (
        lambda: maths.gaussian_kl_full(np.zeros(2), -np.eye(2), np.zeros(2), np.eye(2)),
        "covariance has the eigenvalue -1; it must be positive definite",
    ),
    "a covariance that is not symmetric": (
        lambda: maths.gaussian_kl_full(
            np.zeros(2), np.eye(2), np.zeros(2), np.array([[1.0, 0.5], [0.0, 1.0]])
        ),
        "other_covariance is not symmetric",
    ),
    "arrays of two libraries": (
        lambda: maths.swiglu(np.ones(2), torch.ones(2)),
        "swiglu: gate is of numpy and up of torch; arrays must be of one library",
    ),
    "arrays on two devices": (
        lambda: maths.swiglu(torch.ones(2), torch.ones(2, device="meta")),
        "gate is of cpu and up of meta; arrays must be of one device",
    ),
    "rows of different lengths": (
        lambda: maths.softmax([[1.0], [1.0, 2.0]]),
        "softmax: x is a list whose rows differ in length",
    ),
    "a word": (lambda: maths.softmax("x"), "x is 'x'; it must be an array, a number, or a list"),
    "a row of zeros that has no direction": (
        lambda: maths.weight_norm(np.zeros((1, 2)), np.ones(1)),
        "the length of a row of v is 0",
    ),
    "what comes to no number": (
        lambda: maths.grpo_advantages(np.ones(3), eps=0.0),
        "grpo_advantages: the result holds nan",
    ),
    "an infinite score": (
        lambda: maths.softmax([np.inf, 0.0]),
        "x holds inf; it must hold finite numbers, or -inf where masked",
    ),
    "an id without a row": (
        lambda: maths.embedding(X, np.array([2])),
        "ids holds 2; it must hold numbers from 0 to 1",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_error_names_the_argument_what_it_was_and_what_it_must_be(what: str) -> None:
    call, message = REFUSED[what]
    with pytest.raises(MathsError, match=message):
        call()


def test_refusal_is_a_value_error_too() -> None:
    with pytest.raises(ValueError, match="temperature"):
        maths.softmax(X, temperature=0.0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_what_rounding_does_to_a_sum_is_let_through(dtype: torch.dtype) -> None:
    x = torch.randn(8, 1000, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert torch.isfinite(maths.entropy(maths.softmax(x))).all()


def of_two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    p, q = maths.softmax(x, temperature=2.0), maths.softmax(y)
    return maths.kl_divergence(p, q) + maths.jensen_shannon(p, q) + maths.entropy(p)


def test_mapped_and_differentiated_code_is_not_stopped_by_checks_of_values() -> None:
    x, y = torch.randn(5, 4, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64)
    torch.testing.assert_close(torch.func.vmap(of_two)(x, y), of_two(x, y))
    gradient = torch.func.grad(lambda a: of_two(a, y).sum())(x)
    x.requires_grad_()
    of_two(x, y).sum().backward()
    torch.testing.assert_close(gradient, x.grad)


def test_checks_break_no_graph_of_a_compiler() -> None:
    code = """if True:
        import warnings
        warnings.simplefilter("ignore")
        import torch
        from pellucid import maths
        def loss(x, y):
            p, q = maths.softmax(x), maths.softmax(y)
            return maths.kl_divergence(p, q) + maths.entropy(p)
        x, y = torch.randn(5, 4), torch.randn(5, 4)
        compiled = torch.compile(loss, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(x, y), loss(x, y))
    """
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
