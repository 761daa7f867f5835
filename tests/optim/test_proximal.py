"""Penalties as a step after the optimiser's: exact zeros, the gate, and nothing to remember."""

from __future__ import annotations

import pytest
import torch

from pellucid import config, maths
from pellucid.errors import ConfigError
from pellucid.optim import assemble_optimiser, gate
from pellucid.training.step import update
from support.models import VARIANTS, build
from support.objectives import token_batch

SGD = config.SGD(learning_rate=0.1, momentum=0.0, l2=0.0)
ADAMW = config.AdamW(learning_rate=0.1, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
MUON = config.Muon(
    learning_rate=0.2, momentum=0.9, weight_decay=0.0, newton_schulz_steps=2, rest=ADAMW
)
EVERY: dict[str, config.Optimiser] = {"SGD": SGD, "AdamW": ADAMW, "Muon": MUON}
every_optimiser = pytest.mark.parametrize("name", EVERY)


def net(*parameters: str, l1: float = 0.5, l2: float = 0.3) -> config.ElasticNet:
    return config.ElasticNet(l1=l1, l2=l2, parameters=parameters)


def parameters() -> dict[str, torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"blocks.0.up.weight": (6, 4), "head.weight": (9, 4), "gain": (4,)}
    by_name = {
        name: torch.nn.Parameter(torch.randn(shape, generator=generator))
        for name, shape in shapes.items()
    }
    for parameter in by_name.values():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    return by_name


def stepped(
    optimiser: config.Optimiser, *penalties: config.ElasticNet, blocked: float = 0.0
) -> dict[str, torch.Tensor]:
    by_name = parameters()
    built = assemble_optimiser(optimiser, by_name.items(), penalties)
    opened = gate(
        built.gradients(), torch.tensor(1.0), clip_norm=None, blocked=torch.tensor(blocked)
    )
    built.step(opened, 0.5)
    return {name: parameter.detach() for name, parameter in by_name.items()}


@every_optimiser
def test_the_step_is_the_equation_at_the_rate_as_it_stands(name: str) -> None:
    plain, stepped_weights = stepped(EVERY[name]), stepped(EVERY[name], net("head.*", "blocks.*"))
    rates = {"head.weight": 0.05, "blocks.0.up.weight": 0.1 if name == "Muon" else 0.05}
    for parameter, rate in rates.items():
        expected = maths.elastic_net_prox(plain[parameter], l1=0.5, l2=0.3, step=rate)
        assert torch.equal(stepped_weights[parameter], expected)
    assert torch.equal(stepped_weights["gain"], plain["gain"])
    assert (stepped_weights["head.weight"] == 0).any()


@every_optimiser
def test_a_blocked_update_moves_nothing(name: str) -> None:
    before = {n: p.detach() for n, p in parameters().items()}
    after = stepped(EVERY[name], net("*"), blocked=1.0)
    assert all(torch.equal(after[n], before[n]) for n in before)


def test_penalties_on_one_parameter_add_up() -> None:
    summed = stepped(SGD, net("head.weight", l1=0.3, l2=0.1), net("h*", l1=0.2, l2=0.2))
    torch.testing.assert_close(summed, stepped(SGD, net("head.weight")))
    # two patterns of one penalty that both match are one penalty
    torch.testing.assert_close(stepped(SGD, net("head.*", "h*")), stepped(SGD, net("head.weight")))


def test_a_pattern_that_matches_nothing_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'hed\.\*' matches no parameter .* head\.weight, gain"):
        stepped(SGD, net("head.*", "hed.*"))
    by_name = parameters()
    by_name["head.weight"].requires_grad_(False)
    with pytest.raises(ConfigError, match=r"'head\.\*' matches no parameter that is trained"):
        assemble_optimiser(SGD, by_name.items(), [net("head.*")])


@pytest.mark.parametrize(("count", "ending"), [(20, "w19"), (21, "w19 and 1 more")])
def test_a_refusal_shows_twenty_names_and_counts_the_others(count: int, ending: str) -> None:
    pairs = [(f"w{n}", torch.nn.Parameter(torch.zeros(1))) for n in range(count)]
    with pytest.raises(ConfigError, match=f"there are w0, .*, {ending}$"):
        assemble_optimiser(SGD, pairs, [net("head.*")])


def test_penalties_leave_nothing_in_the_optimisers_memory() -> None:
    keys = []
    for penalties in ((), (net("*"),)):
        by_name = parameters()
        built = assemble_optimiser(ADAMW, by_name.items(), penalties)
        opened = gate(built.gradients(), torch.tensor(1.0), clip_norm=1.0, blocked=torch.zeros(()))
        built.step(opened, 1.0)
        keys.append({key: value.shape for key, value in built.state_tensors().items()})
    assert keys[0] == keys[1]


def test_gradient_descent_with_it_ends_at_the_lasso() -> None:
    # one weight per feature: argmin (w - a)^2 / 2 + l1 |w| + l2 w^2 is known
    a = torch.tensor([2.0, -0.4, 0.1, -3.0])
    w = torch.nn.Parameter(torch.randn(4, generator=torch.Generator().manual_seed(1)))
    built = assemble_optimiser(SGD, [("w", w)], [net("w")])
    for _ in range(300):
        w.grad = (w - a).detach()
        opened = gate(built.gradients(), torch.tensor(1.0), clip_norm=None, blocked=torch.zeros(()))
        built.step(opened, 1.0)
    expected = a.sign() * (a.abs() - 0.5).clamp(min=0) / (1 + 2 * 0.3)
    torch.testing.assert_close(w.detach(), expected)
    assert (w[1:3] == 0).all()


@pytest.mark.parametrize("accumulation", [1, 2])
def test_the_penalty_is_reported_as_a_part_once_for_the_whole_update(accumulation: int) -> None:
    from pellucid.objectives import NextToken

    def parts(*penalties: config.ElasticNet) -> dict[str, float]:
        model = build(VARIANTS["rotary"], double=False)
        built = assemble_optimiser(SGD, model.named_parameters(), penalties)
        numbers = update(
            model,
            NextToken(),
            built,
            token_batch(),
            factor=1.0,
            clip_norm=None,
            blocked=torch.zeros(()),
            accumulation=accumulation,
            device=torch.device("cpu"),
            precision="float32",
        )
        return {name: value.item() for name, value in numbers.parts.items()}

    head = build(VARIANTS["rotary"], double=False).head_weight.detach()
    expected = maths.elastic_net_penalty(head, l1=0.5, l2=0.3).item()
    update_parts = parts(net("head.weight"))
    assert update_parts.pop("penalty") == pytest.approx(expected)
    assert 0 < update_parts.pop("zeros") < 1  # after the update, which steps by .1 x .5
    assert update_parts == pytest.approx(parts())


def test_the_share_of_zeros_is_of_the_penalised_weights_alone() -> None:
    penalised = torch.nn.Parameter(torch.tensor([0.3, -0.2, 2.0, 1.0]))
    unpenalised = torch.nn.Parameter(torch.zeros(9))
    by_name = [("inside", penalised), ("outside", unpenalised)]
    assert assemble_optimiser(SGD, by_name).zeros() is None
    built = assemble_optimiser(
        SGD, by_name, [config.ElasticNet(l1=5.0, l2=0.0, parameters=("i*",))]
    )
    zero_share = built.zeros()
    assert zero_share is not None
    assert zero_share.item() == 0.0
    penalised.grad, unpenalised.grad = torch.zeros(4), torch.zeros(9)
    opened = gate([penalised.grad], torch.zeros(()), clip_norm=None, blocked=torch.zeros(()))
    built.step(opened, 1.0)  # what is at most .1 x 5 = .5 becomes 0
    after = built.zeros()
    assert after is not None
    assert after.item() == 0.5
