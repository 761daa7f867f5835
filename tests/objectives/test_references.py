"""A model that is compared with another: preference, distillation, and the other put to rest."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid import config, maths
from pellucid.errors import ConfigError, PellucidError
from pellucid.objectives import (
    DPO,
    MLM,
    Distillation,
    NextToken,
    PolicyGradient,
    Seq2Seq,
    answer_log_p,
    assemble,
    assemble_advantages,
    evaluating,
    frozen_reference,
    open_reference,
)
from support.models import VARIANTS, build
from support.objectives import CASES, decoder, preference_batch, rollout_batch, token_batch

DIVERGENCES = ("forward", "reverse", "jensen_shannon")


def gradients(model: nn.Module, loss: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True))


def test_at_step_0_preference_costs_the_logarithm_of_2_and_pulls_as_on_paper() -> None:
    model, batch = decoder(), preference_batch()
    loss = DPO(frozen_reference(decoder()), beta=0.3)(model, batch)
    assert loss.total.item() == pytest.approx(math.log(2), rel=1e-12)
    assert loss.parts["accuracy"] == 0.5
    assert loss.parts["margin"] == 0
    # beta sigmoid(0) (grad log pi_r - grad log pi_c), a mean over pairs
    difference = answer_log_p(model, batch.rejected) - answer_log_p(model, batch.chosen)
    on_paper = gradients(model, 0.3 / 2 * difference.sum() / 4)
    torch.testing.assert_close(gradients(model, loss.total), on_paper, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["sigmoid", "hinge"])
def test_preference_is_the_equation_on_the_answers_log_p(kind: Any) -> None:
    model, other, batch = decoder(), decoder(2), preference_batch()
    smoothing = 0.2 if kind == "sigmoid" else 0.0
    objective = DPO(frozen_reference(other), beta=0.02, loss=kind, label_smoothing=smoothing)
    loss = objective(model, batch)
    log_ps = [
        answer_log_p(m, tokens) for m in (model, other) for tokens in (batch.chosen, batch.rejected)
    ]
    margin = maths.dpo_margin(*log_ps, beta=0.02)
    expected = {
        "sigmoid": maths.dpo_loss(*log_ps, beta=0.02, label_smoothing=smoothing),
        "hinge": maths.hinge_preference_loss(margin),
    }[kind]
    torch.testing.assert_close(loss.total, expected.mean())
    assert loss.parts["accuracy"] == (margin > 0).double().mean()
    chosen, rejected = log_ps[0] - log_ps[2], log_ps[1] - log_ps[3]
    expected = {
        "loss_nats": -margin.sigmoid().log(),
        "margin": margin,
        "chosen_reward": 0.02 * chosen,
        "rejected_reward": 0.02 * rejected,
        "log_ratio": (chosen + rejected) / 2,
    }
    for name, part in expected.items():
        torch.testing.assert_close(loss.parts[name], part.mean().detach())


def test_published_preference_losses_are_reproduced(shared_data: Path) -> None:
    vectors = json.loads((shared_data / "reference-vectors" / "losses.json").read_text("utf-8"))
    dpo = vectors["dpo_torchtune"]
    names = ("policy_chosen", "policy_rejected", "ref_chosen", "ref_rejected")
    for kind, key in (("sigmoid", "loss_sigmoid"), ("hinge", "loss_rso_hinge_gamma_0.1")):
        objective = DPO(
            frozen_reference(None),
            beta=dpo["beta"],
            loss=kind,
            label_smoothing=dpo["label_smoothing"],
        )
        losses = objective._losses(*(torch.tensor(dpo[name]) for name in names))
        torch.testing.assert_close(losses, torch.tensor(dpo[key]), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_a_model_has_nothing_to_learn_from_itself(divergence: Any) -> None:
    model = decoder()
    loss = Distillation(model, divergence=divergence, temperature=3.0, hard_weight=0.0)(
        model, token_batch()
    )
    assert loss.total.item() == pytest.approx(0, abs=1e-12)
    for grad in gradients(model, loss.total):
        torch.testing.assert_close(grad, torch.zeros_like(grad), rtol=0, atol=1e-12)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_distillation_is_the_equation_over_supervised_tokens(divergence: Any) -> None:
    model, teacher, batch = decoder(), decoder(3), token_batch()
    loss = Distillation(teacher, divergence=divergence, temperature=3.0, hard_weight=0.3)(
        model, batch
    )
    is_target = batch.targets != -100
    student_logits, teacher_logits = (
        model(batch.ids)[is_target],
        teacher(batch.ids)[is_target].detach(),
    )
    of_logits = {
        "forward": maths.forward_kl,
        "reverse": maths.reverse_kl,
        "jensen_shannon": maths.jensen_shannon_of_logits,
    }[divergence]
    soft = of_logits(student_logits, teacher_logits, temperature=3.0).mean()
    hard = maths.cross_entropy(student_logits, batch.targets[is_target]).mean()
    torch.testing.assert_close(loss.parts["divergence"], soft)
    torch.testing.assert_close(loss.parts["loss_nats"], hard)
    torch.testing.assert_close(loss.total, 0.7 * 9 * soft + 0.3 * hard)
    torch.testing.assert_close(
        gradients(model, loss.total), gradients(model, 0.7 * 9 * soft + 0.3 * hard)
    )
    assert all(p.grad is None for p in teacher.parameters())


def test_a_teacher_of_another_vocabulary_is_refused() -> None:
    teacher = build(VARIANTS["rotary"])
    teacher.token_embedding = nn.Embedding(31, 16)
    teacher.head = nn.Linear(16, 31)
    objective = Distillation(teacher, divergence="forward", temperature=1.0, hard_weight=0.0)
    with pytest.raises(PellucidError, match="predicts 31 tokens and the student 23"):
        objective(decoder(), token_batch())


def test_what_is_asked_is_at_rest_and_is_as_it_was_afterwards() -> None:
    model = decoder().train()
    model.decoder.eval()
    before = {name: module.training for name, module in model.named_modules()}
    with open_reference(frozen_reference(model), model) as other:
        assert not any(module.training for module in other.modules())
        assert not torch.is_grad_enabled()
    assert {name: module.training for name, module in model.named_modules()} == before
    assert torch.is_grad_enabled()
    with pytest.raises(ZeroDivisionError), evaluating(model):
        raise ZeroDivisionError
    assert {name: module.training for name, module in model.named_modules()} == before


def test_asking_a_model_first_does_not_take_its_gradients_under_autocast() -> None:
    # autocast would keep narrow copies of the weights that were made without a gradient
    model = decoder().float()
    batch = token_batch()
    gradient_lists = []
    for ask_first in (False, True):
        with torch.autocast("cpu", torch.bfloat16):
            if ask_first:
                with open_reference(frozen_reference(model), model) as other:
                    other.hidden_states(batch.ids)
            loss = NextToken()(model, batch).total
        gradient_lists.append(gradients(model, loss))
    torch.testing.assert_close(gradient_lists[0], gradient_lists[1])


def test_autocast_caches_again_after_a_model_was_asked() -> None:
    for enabled in (True, False):
        before = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(enabled)
        try:
            with evaluating(decoder()):
                assert not torch.is_autocast_cache_enabled()
            assert torch.is_autocast_cache_enabled() == enabled
        finally:
            torch.set_autocast_cache_enabled(before)


def test_dropout_does_not_touch_the_reference() -> None:
    from dataclasses import replace

    model_config = VARIANTS["rotary"]
    dropping = replace(model_config, decoder=replace(model_config.decoder, dropout=0.5))
    model = build(dropping).train()
    batch = preference_batch()
    with open_reference(frozen_reference(model), model) as other:
        first = answer_log_p(other, batch.chosen)
        second_log_p = answer_log_p(other, batch.chosen)
    assert torch.equal(first, second_log_p)
    assert not torch.equal(answer_log_p(model, batch.chosen), answer_log_p(model, batch.chosen))


# --- assembling

OBJECTIVES: dict[str, config.Objective] = {
    "next": config.NextToken(label_smoothing=0.1, z_loss=0.2, entropy_bonus=0.3),
    "masked": config.MLM(chosen=0.15, masked=0.8, replaced=0.1),
    "spans": config.SpanCorruption(corrupted=0.15, mean_span=3.0),
    "pairs": config.Seq2Seq(label_smoothing=0.1),
    "classes": config.Classification(label_smoothing=0.1),
    "answers": config.SFT(label_smoothing=0.1, z_loss=0.2, entropy_bonus=0.3),
    "distil": config.Distillation(
        teacher="runs/t", divergence="reverse", temperature=2.0, hard_weight=0.5
    ),
    "prefer": config.DPO(beta=0.1, loss="hinge", label_smoothing=0.0),
    "policy": config.PolicyGradient(
        estimator="grpo", beta=0.1, kl="k3", n_samples=4, max_new_tokens=8, temperature=0.7
    ),
}


def test_every_kind_is_assembled_with_its_numbers() -> None:
    objectives: dict[str, Any] = {
        name: assemble(kind, teacher=decoder(), reference=frozen_reference(decoder()))
        for name, kind in OBJECTIVES.items()
    }
    for name in ("next", "answers"):
        assert isinstance(objectives[name], NextToken)
        loss = objectives[name].loss
        assert (loss.label_smoothing, loss.z_loss, loss.entropy_bonus) == (0.1, 0.2, 0.3)
    assert isinstance(objectives["masked"], MLM)
    assert isinstance(objectives["spans"], Seq2Seq)
    assert isinstance(objectives["pairs"], Seq2Seq)
    assert objectives["pairs"].loss.label_smoothing == objectives["classes"].label_smoothing == 0.1
    assert (objectives["distil"].divergence, objectives["distil"].temperature) == ("reverse", 2.0)
    assert (objectives["prefer"].beta, objectives["prefer"].loss) == (0.1, "hinge")
    assert (objectives["policy"].kl, objectives["policy"].temperature) == ("k3", 0.7)


def test_an_objective_without_the_model_it_needs_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"objective\.teacher"):
        assemble(OBJECTIVES["distil"])
    with pytest.raises(ConfigError, match="start from a trained run"):
        assemble(OBJECTIVES["prefer"])


def test_estimators_are_those_of_the_equations() -> None:
    rewards = torch.tensor([[1.0, 0.0, 0.0, 2.0], [3.0, 3.0, 3.0, 3.0]])
    policy: Any = OBJECTIVES["policy"]
    own_advantages = assemble_advantages(policy)(rewards)
    torch.testing.assert_close(own_advantages, maths.grpo_advantages(rewards, eps=1e-4))
    assert (own_advantages[1] == 0).all()


def test_kl_to_the_reference_is_0_at_step_0() -> None:
    from dataclasses import replace

    model, batch = decoder(), rollout_batch()
    log_p = -torch.nn.functional.cross_entropy(
        model(batch.ids).transpose(1, 2), batch.targets, reduction="none"
    ).detach()
    batch = replace(batch, reference_log_p=log_p, sampled_log_p=log_p)
    for kl in ("in_reward", "k2", "k3"):
        objective = PolicyGradient(beta=1.0, kl=kl, reference=frozen_reference(decoder()))
        parts = objective(model, batch).parts
        for name in ("kl_k1", "kl_k2", "kl_k3", "kl_exact"):
            assert parts[name].item() == pytest.approx(0, abs=1e-12)
        assert parts["reward"] == batch.rewards.mean()
        assert parts["loss_nats"].item() == pytest.approx(-log_p.sum().item() / 4)


def test_exact_kl_is_the_one_over_the_vocabulary_at_the_drawn_positions() -> None:
    model, other, batch = decoder(), decoder(2), rollout_batch()
    objective = PolicyGradient(
        beta=1.0, kl="k3", reference=frozen_reference(other), temperature=1.5
    )
    is_target = batch.targets != -100
    by_hand = (
        maths.reverse_kl(model(batch.ids), other(batch.ids), temperature=1.5)[is_target].sum() / 4
    )
    torch.testing.assert_close(objective(model, batch).parts["kl_exact"], by_hand.detach())


def test_every_case_has_a_kind() -> None:
    kinds = {type(case.objective()) for case in CASES.values()}
    assert {
        type(assemble(o, teacher=decoder(), reference=frozen_reference(None)))
        for o in OBJECTIVES.values()
    } == kinds
