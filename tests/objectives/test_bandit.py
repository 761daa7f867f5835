"""Where policy gradients end: a bandit with two arms, whose optimum is known on paper.

The reference takes the first arm with probability .3; it pays 1 and the other nothing; beta is 1.
Expected gradients are exact: the objective is asked for every group of answers there can be, and
its losses are weighted by how likely the group is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from torch import Tensor

from pellucid import maths
from pellucid.batches import RolloutBatch
from pellucid.objectives import PolicyGradient
from support.objectives import Bandit

REFERENCE, BETA = 0.3, 1.0
#: ref exp(reward / beta) / Z: .3 e / (.3 e + .7)
OPTIMUM = float(
    maths.regularised_reward_optimum(
        torch.tensor([REFERENCE, 1 - REFERENCE], dtype=torch.float64),
        torch.tensor([1.0, 0.0], dtype=torch.float64),
        beta=BETA,
    )[0]
)
GRPO = partial(maths.grpo_advantages, eps=1e-4)
Advantages = Callable[[Tensor], Tensor]


def groups(model: Bandit, n: int) -> Iterator[tuple[float, Tensor]]:
    """How likely each group of n answers is, and the answers: the order does not matter."""
    for first in range(n + 1):
        p = math.comb(n, first) * model.p**first * (1 - model.p) ** (n - first)
        yield p, torch.tensor([0] * first + [1] * (n - first))


def batch_of(model: Bandit, arms: Tensor, kl: str, advantages: Advantages) -> RolloutBatch:
    p = torch.tensor([model.p, 1 - model.p], dtype=torch.float64)
    reference = torch.tensor([REFERENCE, 1 - REFERENCE], dtype=torch.float64)
    log_p, reference_log_p = p.log()[arms], reference.log()[arms]
    rewards = (arms == 0).double()
    paid = rewards - BETA * (log_p - reference_log_p) if kl == "in_reward" else rewards
    return RolloutBatch(
        ids=torch.zeros(len(arms), 1, dtype=torch.int64),
        targets=arms[:, None],
        advantages=advantages(paid),
        rewards=rewards,
        sampled_log_p=log_p[:, None],
        reference_log_p=reference_log_p[:, None],
        n_supervised=len(arms),
    )


def expected_gradient(model: Bandit, n: int, kl: str, advantages: Advantages) -> Tensor:
    objective = PolicyGradient(beta=BETA, kl=kl)  # type: ignore[arg-type]
    losses = [
        weight * objective(model, batch_of(model, arms, kl, advantages)).total
        for weight, arms in groups(model, n)
    ]
    return torch.autograd.grad(torch.stack(losses).sum(), [model.logits])[0][0, 0]


def where_it_ends(n: int, kl: str, advantages: Advantages, *, halvings: int = 40) -> float:
    """The probability at which the expected gradient vanishes, by halving."""
    low, high = 1e-6, 1 - 1e-6
    for _ in range(halvings):
        middle = (low + high) / 2
        descends = expected_gradient(Bandit(middle), n, kl, advantages) < 0
        low, high = (middle, high) if descends else (low, middle)
    return (low + high) / 2


def test_the_optimum_on_paper_is_538() -> None:
    assert pytest.approx(0.538, abs=5e-4) == OPTIMUM


@pytest.mark.parametrize("kl", ["in_reward", "k2"])
@pytest.mark.parametrize("n", [2, 5])
def test_leaving_one_out_ends_at_the_optimum(kl: str, n: int) -> None:
    assert where_it_ends(n, kl, maths.rloo_advantages) == pytest.approx(OPTIMUM, abs=1e-8)


@pytest.mark.parametrize("kl", ["in_reward", "k2"])
def test_descending_from_the_reference_converges_to_the_optimum(kl: str) -> None:
    model = Bandit(REFERENCE)
    for _ in range(200):
        slope = expected_gradient(model, 2, kl, maths.rloo_advantages)
        with torch.no_grad():
            model.logits[0] -= 2 * slope
    assert model.p == pytest.approx(OPTIMUM, abs=1e-6)


@pytest.mark.parametrize("kl", ["in_reward", "k2"])
def test_its_gradient_is_that_of_the_reward_less_kl_everywhere(kl: str) -> None:
    reference = torch.tensor([REFERENCE, 1 - REFERENCE], dtype=torch.float64)
    reward = torch.tensor([1.0, 0.0], dtype=torch.float64)
    for p in (0.1, 0.5, 0.9):
        model = Bandit(p)
        policy = model.logits[:, 0].softmax(0)
        earned = maths.regularised_reward(policy, reference, reward, beta=BETA)
        (upwards,) = torch.autograd.grad(earned, [model.logits])
        own_gradient = expected_gradient(model, 3, kl, maths.rloo_advantages)
        torch.testing.assert_close(own_gradient, -upwards[0, 0])


def test_k3_as_a_loss_ends_elsewhere() -> None:
    # p^2 = .3: its gradient equals the gradient of KL(reference || policy)
    ends = where_it_ends(4, "k3", maths.rloo_advantages)
    assert ends == pytest.approx(math.sqrt(REFERENCE), abs=1e-8)
    assert ends == pytest.approx(0.548, abs=5e-4)


def test_dividing_by_the_spread_ends_nearer_to_1_the_larger_the_group() -> None:
    ends = [where_it_ends(n, "k2", GRPO, halvings=10) for n in (8, 16, 64)]
    assert ends == sorted(ends)
    assert ends[0] > 0.7
    assert ends[-1] > 0.99


def test_k2_of_whole_answers_pulls_as_kl_between_answers_does() -> None:
    """Two tokens, the second depending on the first: terms by token would miss how they meet."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 2, dtype=torch.float64, generator=generator).requires_grad_()
    reference = torch.randn(3, 2, dtype=torch.float64, generator=generator).log_softmax(-1)
    log_p = logits.log_softmax(-1)
    answers = [(first, second) for first in (0, 1) for second in (0, 1)]

    def log_p_of_answer(table: Tensor, answer: tuple[int, int]) -> Tensor:
        first, second = answer
        return torch.stack([table[0, first], table[1 + first, second]])

    penalty = PolicyGradient(beta=1.0, kl="k2")._kl_penalty
    kl = expected = torch.zeros((), dtype=torch.float64)
    for answer in answers:
        own_log_p, reference_log_p = (
            log_p_of_answer(log_p, answer),
            log_p_of_answer(reference, answer),
        )
        probability = own_log_p.sum().exp()
        kl = kl + probability * (own_log_p.sum() - reference_log_p.sum())
        expected = expected + probability.detach() * penalty((reference_log_p - own_log_p)[None])[0]
    torch.testing.assert_close(
        torch.autograd.grad(expected, [logits], retain_graph=True),
        torch.autograd.grad(kl, [logits]),
    )
