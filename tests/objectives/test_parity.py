"""The same numbers as libraries that train with these losses: `trl`, `transformers`, `torch`."""

from __future__ import annotations

import warnings
from collections import defaultdict
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid import maths
from pellucid.batches import IGNORED
from pellucid.objectives import (
    DPO,
    MLM,
    Classification,
    Distillation,
    NextToken,
    PolicyGradient,
    Seq2Seq,
    answer_log_p,
    frozen_reference,
    row_log_p,
)
from support.models import ENCODERS, PAIRS, VARIANTS, build
from support.objectives import (
    CASES,
    MULTIPLE,
    SINGLE,
    decoder,
    label_batch,
    padded_batch,
    pair_batch,
    preference_batch,
    rollout_batch,
    token_batch,
)

pytestmark = pytest.mark.parity


def theirs(name: str) -> Any:
    """A module of another library, whose own warnings are not ours."""
    pytest.importorskip(name.partition(".")[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_module(name)


# --- trl


def trl_preference(kind: str, *, beta: float, smoothing: float, log_ps: list[Tensor]) -> Tensor:
    """What trl's trainer makes of log P of answers, each handed to it as one token."""
    trainer = theirs("trl.trainer.dpo_trainer").DPOTrainer
    chosen, rejected, reference_chosen, reference_rejected = log_ps
    rows = 2 * len(chosen)
    outputs = SimpleNamespace(
        log_probs=torch.cat([chosen, rejected])[:, None],
        entropy=torch.zeros(rows, 1),
        mean_logits=torch.zeros(rows, 1),
        is_top1=torch.zeros(rows, 1, dtype=torch.bool),
    )
    stand_in = SimpleNamespace(
        model=SimpleNamespace(training=False),
        accelerator=SimpleNamespace(
            device="cpu", gather=lambda x: x, gather_for_metrics=lambda x: x
        ),
        aux_loss_enabled=False,
        ld_alpha=None,
        precompute_ref_logps=True,
        f_divergence_type="reverse_kl",
        loss_types=[kind],
        loss_weights=[1.0],
        beta=beta,
        label_smoothing=smoothing,
        use_weighting=False,
        _metrics={"eval": defaultdict(list)},
        _total_train_tokens=0,
    )
    inputs = {
        "input_ids": torch.zeros(rows, 2, dtype=torch.int64),
        "completion_mask": torch.tensor([[0, 1]] * rows),
        "ref_chosen_logps": reference_chosen,
        "ref_rejected_logps": reference_rejected,
    }
    return trainer._compute_loss(stand_in, lambda **given: outputs, inputs, False)


@pytest.mark.parametrize(
    ("kind", "smoothing", "name"),
    [("sigmoid", 0.0, "sigmoid"), ("hinge", 0.0, "hinge"), ("sigmoid", 0.2, "aot")],
)
def test_preference_is_that_of_trl(kind: Any, smoothing: float, name: str) -> None:
    # trl's "sigmoid" takes no smoothing; "aot" of a single pair is the smoothed loss
    model, other, batch = decoder(), decoder(2), preference_batch()
    batch = replace(batch.part(slice(0, 1)), n_supervised=1) if smoothing else batch
    objective = DPO(frozen_reference(other), beta=0.05, loss=kind, label_smoothing=smoothing)
    pairs = (batch.chosen, batch.rejected)
    log_ps = [answer_log_p(m, tokens) for m in (model, other) for tokens in pairs]
    trl_loss = trl_preference(name, beta=0.05, smoothing=smoothing, log_ps=log_ps)
    torch.testing.assert_close(objective(model, batch).total, trl_loss)


@pytest.mark.parametrize(
    ("divergence", "beta"), [("forward", 0), ("reverse", 1), ("jensen_shannon", 0.5)]
)
def test_distillation_is_that_of_trl(divergence: Any, beta: float) -> None:
    trainer = theirs("trl.experimental.gkd").GKDTrainer
    model, teacher, batch = decoder(), decoder(3), token_batch()
    objective = Distillation(teacher, divergence=divergence, temperature=2.0, hard_weight=0.0)
    trl_loss = trainer.generalized_jsd_loss(
        model(batch.ids), teacher(batch.ids), labels=batch.targets, beta=beta, temperature=2.0
    )
    loss = objective(model, batch)
    torch.testing.assert_close(loss.parts["divergence"], trl_loss.detach())
    # trl leaves T^2 out
    torch.testing.assert_close(loss.total, 4 * trl_loss)
    weights = list(model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(loss.total, weights, materialize_grads=True),
        torch.autograd.grad(4 * trl_loss, weights, materialize_grads=True),
    )


def test_the_spread_that_grpo_divides_by_is_that_of_trl() -> None:
    nanstd = theirs("trl.trainer.utils").nanstd
    rewards = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    trl_advantages = (rewards - rewards.mean(1, keepdim=True)) / (
        nanstd(rewards, dim=1)[:, None] + 1e-4
    )
    torch.testing.assert_close(maths.grpo_advantages(rewards, eps=1e-4), trl_advantages)


def test_log_p_of_tokens_is_that_of_trl() -> None:
    selective = theirs("trl.trainer.utils").selective_log_softmax
    model, batch = decoder(), token_batch()
    own_log_p = row_log_p(model, model.hidden_states(batch.ids), batch.targets)
    is_target = batch.targets != IGNORED
    trl_log_p = selective(model(batch.ids), batch.targets.clamp(min=0))
    torch.testing.assert_close(own_log_p[is_target], trl_log_p[is_target])


# --- transformers


@pytest.mark.parametrize("kind", ["decoder", "pair"])
def test_label_smoothing_is_that_of_transformers(kind: str) -> None:
    smoother = theirs("transformers.trainer_pt_utils").LabelSmoother(epsilon=0.1)
    if kind == "decoder":
        model, batch = build(VARIANTS["rotary"], double=False), token_batch()
        loss, logits = NextToken(label_smoothing=0.1)(model, batch), model(batch.ids)
    else:
        model, batch = build(PAIRS["t5"], double=False), pair_batch()
        loss = Seq2Seq(label_smoothing=0.1)(model, batch)
        encoded = model.encode(batch.source, padding=batch.source_padding)
        logits = model(batch.ids, encoded=encoded)
    torch.testing.assert_close(loss.total, smoother({"logits": logits}, batch.targets))


@pytest.mark.parametrize("name", ["ForMaskedLM", "ForCausalLM"])
def test_token_losses_are_those_of_transformers(name: str) -> None:
    of_logits = theirs("transformers.loss.loss_utils").LOSS_MAPPING[name]
    if name == "ForMaskedLM":
        model, batch = build(ENCODERS["bert"], double=False), padded_batch()
        logits = model(batch.ids, padding=batch.padding)
        own_loss = MLM()(model, batch).total
        reference_loss = of_logits(logits, batch.targets, vocab_size=23)
    else:
        model, batch = build(VARIANTS["rotary"], double=False), token_batch()
        own_loss = NextToken()(model, batch).total
        reference_loss = of_logits(
            model(batch.ids), None, vocab_size=23, shift_labels=batch.targets
        )
    torch.testing.assert_close(own_loss, reference_loss)


# --- torch


def test_classification_is_that_of_torch() -> None:
    model = CASES["classes"].model()
    batch = label_batch(SINGLE)
    logits = model.class_logits(batch.ids, padding=batch.padding)
    for smoothing in (0.0, 0.1):
        own_loss = Classification(label_smoothing=smoothing)(model, batch).total
        torch.testing.assert_close(
            own_loss, torch.nn.CrossEntropyLoss(label_smoothing=smoothing)(logits, SINGLE)
        )
        equation = maths.cross_entropy(logits, SINGLE, label_smoothing=smoothing).mean()
        torch.testing.assert_close(own_loss, equation)
    own_loss = Classification(multi_label=True)(model, label_batch(MULTIPLE)).total
    torch.testing.assert_close(own_loss, torch.nn.BCEWithLogitsLoss()(logits, MULTIPLE.double()))
    equation = maths.binary_cross_entropy_from_logits(logits, MULTIPLE.double()).mean()
    torch.testing.assert_close(own_loss, equation)


def test_forward_and_reverse_are_those_of_torch() -> None:
    model, teacher, batch = decoder(), decoder(3), token_batch()
    is_target = batch.targets != IGNORED
    student_log_p, teacher_log_p = (
        m(batch.ids)[is_target].log_softmax(-1).detach() for m in (model, teacher)
    )
    for divergence, torch_divergence in (
        ("forward", F.kl_div(student_log_p, teacher_log_p, log_target=True, reduction="batchmean")),
        ("reverse", F.kl_div(teacher_log_p, student_log_p, log_target=True, reduction="batchmean")),
    ):
        objective = Distillation(teacher, divergence=divergence, temperature=1.0, hard_weight=0.0)  # type: ignore[arg-type]
        torch.testing.assert_close(objective(model, batch).total.detach(), torch_divergence)


def test_exact_kl_is_that_of_torch() -> None:
    model, other, batch = decoder(), decoder(2), rollout_batch()
    is_target = batch.targets != IGNORED
    policy, reference_policy = (
        torch.distributions.Categorical(logits=m(batch.ids)[is_target].detach())
        for m in (model, other)
    )
    torch_kl = torch.distributions.kl_divergence(policy, reference_policy).sum() / 4
    parts = PolicyGradient(beta=0.1, kl="k2", reference=frozen_reference(other))(model, batch).parts
    torch.testing.assert_close(parts["kl_exact"], torch_kl)
