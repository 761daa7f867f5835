"""Claims about predicted probabilities: p - y, smoothing, calibration, factuality."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid.course.experiments.picture import Curves, bars, curve
from pellucid.course.experiments.record import (
    Experiment,
    Question,
    Reading,
    Setting,
    Source,
    in_range,
    lower_bound,
    upper_bound,
)
from pellucid.course.experiments.small_models import (
    BYTES,
    bundled_text,
    loss_of,
    next_token_batch,
    small_model,
    text_batches,
    train,
    train_on_text,
)
from pellucid.maths.classification import expected_calibration_error
from pellucid.model import Transformer
from pellucid.objectives import NextToken
from pellucid.typed import gradients, length


def _p_minus_y(setting: Setting) -> Reading:
    _, held_out = bundled_text()
    model = small_model(vocab_size=BYTES, context_length=32)
    model = train_on_text(model, length=32, setting=setting, steps=30).model
    batch = text_batches(held_out, rows=8, length=32, seed=setting.seed)(0)
    loss = NextToken()(model, batch).total
    (measured,) = gradients(loss, [model.head_weight], None)
    assert measured is not None
    with torch.no_grad():
        states = model.hidden_states(batch.ids).flatten(0, 1)
        p = model.logits(states).softmax(-1)
        y = F.one_hot(batch.targets.flatten(), BYTES).float()
        predicted = (p - y).T @ states / len(states)
    pull = (p - y).abs()
    is_right = y.bool()
    return Reading(
        numbers={
            "difference of the head's gradient from (p - y) times states, relative": length(
                measured - predicted
            )
            / length(measured),
            "largest sum of p - y over the vocabulary": float((p - y).sum(-1).abs().max()),
            "share of p - y at the right tokens": float(pull[is_right].sum() / pull.sum()),
        },
        picture=bars(
            "p - y at the first predicted byte: the five largest",
            {
                f"byte {int(i)}{' (right)' if y[0, i] else ''}": float((p - y)[0, i])
                for i in pull[0].topk(5).indices
            },
        ),
    )


def _calibration(setting: Setting) -> Reading:
    steps = 200 if setting.quick else 600
    training, held_out = bundled_text()
    errors: dict[str, float] = {}
    gaps: dict[str, float] = {}
    for smoothing in (0.0, 0.1):
        model = train_on_text(
            small_model(vocab_size=BYTES, context_length=32),
            length=32,
            text=training[:4096],
            setting=setting,
            steps=steps,
            objective=NextToken(label_smoothing=smoothing),
        ).model
        name = f"smoothing {smoothing:g}"
        errors[name], gaps[name] = _calibration_error(model, held_out)
    return Reading(
        numbers={
            "confidence minus share right, without smoothing": gaps["smoothing 0"],
            "calibration error, smoothing 0.1 minus none": errors["smoothing 0.1"]
            - errors["smoothing 0"],
        },
        picture=bars(
            "Held-out calibration error of a model that overfits 4 kB (0 is perfect)", errors
        ),
    )


def _calibration_error(model: Transformer, ids: Tensor) -> tuple[float, float]:
    """The expected calibration error, and by how much confidence exceeds the share right."""
    batch = text_batches(ids, rows=64, length=32, seed=0)(0)
    with torch.no_grad():
        confidence, answers = model(batch.ids).softmax(-1).max(-1)
    right = (answers == batch.targets).flatten()
    confidence = confidence.flatten()
    error = expected_calibration_error(confidence, right.to(confidence.dtype), n_bins=10)
    return float(error), float(confidence.mean() - right.float().mean())


_FACTS, _VALUES = 24, 12


def _factuality(setting: Setting) -> Reading:
    """The text repeats twelve facts, and for twelve others a myth three times as often."""
    steps = 200 if setting.quick else 500
    seeded = torch.Generator().manual_seed(setting.seed)
    truth = torch.randint(_VALUES, (_FACTS,), generator=seeded)
    myth = (truth + 1 + torch.randint(_VALUES - 1, (_FACTS,), generator=seeded)) % _VALUES
    has_myth = torch.arange(_FACTS) >= _FACTS // 2

    def texts(step: int, rows: int = 32) -> Tensor:
        generator = torch.Generator().manual_seed(setting.seed * 1_000_003 + step)
        subjects = torch.randint(_FACTS, (rows, 4), generator=generator)
        told_myth = (torch.rand(rows, 4, generator=generator) < 0.75) & has_myth[subjects]
        values = torch.where(told_myth, myth[subjects], truth[subjects])
        return torch.stack([subjects, values + _FACTS], 2).flatten(1)

    test = next_token_batch(texts(10**6, 128))
    subjects = torch.arange(_FACTS)[has_myth][:, None]
    losses: dict[int, float] = {}
    true_shares: dict[int, float] = {}

    def look(step: int, model: Transformer) -> None:
        if step == 2 or step % (steps // 10) == 0:
            losses[step] = loss_of(model, test)
            with torch.no_grad():
                p = model(subjects)[:, -1].softmax(-1)
            true_p = p.gather(1, truth[has_myth][:, None] + _FACTS)
            myth_p = p.gather(1, myth[has_myth][:, None] + _FACTS)
            true_shares[step] = float((true_p > myth_p).float().mean())

    train(
        small_model(vocab_size=_FACTS + _VALUES, context_length=8),
        lambda step: next_token_batch(texts(step)),
        setting=setting,
        steps=steps,
        after=look,
    )
    return Reading(
        numbers={
            "fall of held-out loss (nats per token)": losses[2] - losses[steps],
            "myths: truth preferred, at the start": true_shares[2],
            "myths: truth preferred, at the end": true_shares[steps],
            "myths: change of the share that prefers the truth": true_shares[steps]
            - true_shares[2],
        },
        picture=Curves(
            title="A text tells a myth three times as often as the truth",
            x_label="update",
            y_label="nats per token; share",
            curves=(
                curve("held-out loss", losses, losses.values()),
                curve("truth preferred to the myth", true_shares, true_shares.values()),
            ),
        ),
    )


EXPERIMENTS = (
    Experiment(
        name="p-minus-y",
        title="p - y at the head of a real model",
        description="Compare the gradient of a trained model's head with p - y times its states.",
        question=Question(
            text="The gradient of cross-entropy at a logit is",
            choices=("the probability, minus 1 at the right token", "-log p", "1 / p"),
        ),
        claim="The gradient at the logits is p - y: its entries sum to zero, and half of its size "
        "pulls the right token up.",
        source=Source(
            authors="Bishop",
            year=2006,
            title="Pattern Recognition and Machine Learning",
            place="section 4.3.4",
        ),
        concepts=("cross_entropy_grad", "linear_head_grads", "softmax"),
        checks=(
            upper_bound(
                "difference of the head's gradient from (p - y) times states, relative", 1e-3
            ),
            upper_bound("largest sum of p - y over the vocabulary", 1e-4),
            in_range("share of p - y at the right tokens", 0.499, 0.501),
        ),
        measure=_p_minus_y,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="label-smoothing",
        title="Label smoothing and calibration",
        description="Overfit a short text with and without smoothing, and compare confidence with "
        "the share of right answers.",
        question=Question(
            text="A model that overfits is too sure. Label smoothing makes its calibration",
            choices=("better", "worse", "no different"),
        ),
        claim="Label smoothing makes an overconfident model better calibrated.",
        source=Source(
            authors="Müller, Kornblith and Hinton",
            year=2019,
            title="When Does Label Smoothing Help?",
            place="section 3",
        ),
        concepts=("cross_entropy", "expected_calibration_error", "objective.label_smoothing"),
        checks=(
            lower_bound("confidence minus share right, without smoothing", 0.0),
            upper_bound("calibration error, smoothing 0.1 minus none", 0.0),
        ),
        measure=_calibration,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="perplexity-against-factuality",
        title="Lower perplexity is not more truth",
        description="Train on text that tells some myths more often than the truth, and watch both "
        "the loss and the preference for true statements.",
        question=Question(
            text="The loss on such text keeps falling. Does the model prefer the truth more often?",
            choices=("no, less often", "yes", "it stays even"),
        ),
        claim="A lower perplexity means a better copy of the text, its falsehoods included: the "
        "model need not become more truthful.",
        source=Source(
            authors="Lin, Hilton and Evans",
            year=2022,
            title="TruthfulQA: Measuring How Models Mimic Human Falsehoods",
            place="section 4",
        ),
        concepts=("perplexity", "language_model_loss"),
        checks=(
            lower_bound("fall of held-out loss (nats per token)", 0.1),
            upper_bound("myths: change of the share that prefers the truth", 0.0),
        ),
        measure=_factuality,
        seeds=5,
        quick_seeds=4,
    ),
)
