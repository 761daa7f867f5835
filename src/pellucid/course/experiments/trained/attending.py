"""Claims about attention that a training decides: heads, scale, masks, induction."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from pellucid import config, explain
from pellucid.course.experiments.picture import Curves, bars, curve
from pellucid.course.experiments.record import (
    Experiment,
    Question,
    Reading,
    Setting,
    Source,
    lower_bound,
    upper_bound,
)
from pellucid.course.experiments.small_models import (
    BYTES,
    bundled_text,
    held_out_loss,
    loss_of,
    next_token_batch,
    share_right,
    small_model,
    text_batches,
    train,
    train_on_text,
)
from pellucid.model import Transformer
from pellucid.presets.recipe import heads
from pellucid.typed import to_list

_LENGTH = 32


def _heads(setting: Setting) -> Reading:
    steps = 120 if setting.quick else 500
    losses: dict[int, float] = {}
    for n_heads in (1, 4):
        model = small_model(
            vocab_size=BYTES,
            context_length=_LENGTH,
            attention=heads(n_heads, n_heads, 64 // n_heads),
        )
        trained = train_on_text(model, length=_LENGTH, setting=setting, steps=steps)
        losses[n_heads] = held_out_loss(trained.model, length=_LENGTH)
    return Reading(
        numbers={f"held-out loss, {n} heads (nats per byte)": v for n, v in losses.items()}
        | {"one head minus four heads (nats per byte)": losses[1] - losses[4]},
        picture=bars(
            f"Held-out loss after {steps} updates, by heads of the same total width",
            {f"{n} heads of {64 // n}": value for n, value in losses.items()},
        ),
    )


def _scale(setting: Setting) -> Reading:
    steps = 120 if setting.quick else 500
    losses: dict[str, float] = {}
    for name, scale in (("1/root d", None), ("1", 1.0), ("1/d", 1 / 64)):
        attention = replace(heads(1, 1, 64), scale=scale)
        model = small_model(
            vocab_size=BYTES,
            context_length=_LENGTH,
            attention=attention,
            initialisation=config.Initialisation(
                weights=config.Xavier(), embedding_std=0.05, outputs="depth_scaled"
            ),
        )
        trained = train_on_text(model, length=_LENGTH, setting=setting, steps=steps)
        losses[name] = held_out_loss(trained.model, length=_LENGTH)
    return Reading(
        numbers={
            "no scale minus 1/root d (nats per byte)": losses["1"] - losses["1/root d"],
            "1/d minus 1/root d (nats per byte)": losses["1/d"] - losses["1/root d"],
        },
        picture=bars(
            f"Held-out loss after {steps} updates, one head of 64, by the scale of its scores",
            losses,
        ),
    )


def _causal_leak(setting: Setting) -> Reading:
    steps = 120 if setting.quick else 300
    _, held_out = bundled_text()
    causal = small_model(vocab_size=BYTES, context_length=_LENGTH)
    leaking = replace(causal, encoder=causal.decoder, decoder=None)
    shown_loss: dict[str, float] = {}
    honest_loss: dict[str, float] = {}
    for name, model in (("causal", causal), ("leaking", leaking)):
        trained = train_on_text(model, length=_LENGTH, setting=setting, steps=steps).model
        batch = text_batches(held_out, rows=64, length=_LENGTH, seed=0)(0)
        shown_loss[name] = loss_of(trained, batch)
        # the future is not there when a model writes: only the last position counts
        last = torch.zeros_like(batch.ids, dtype=torch.bool)
        last[:, -1] = True
        windows = torch.cat([batch.ids, batch.targets[:, -1:]], 1)
        supervised = torch.cat([torch.zeros_like(last[:, :1]), last], 1)
        honest_loss[name] = loss_of(trained, next_token_batch(windows, supervised))
    return Reading(
        numbers={
            "loss that a leaking model shows (nats)": shown_loss["leaking"],
            "loss that a causal model shows (nats)": shown_loss["causal"],
            "leaking model, loss without the future (nats)": honest_loss["leaking"],
            "without the future: leaking minus causal (nats)": honest_loss["leaking"]
            - honest_loss["causal"],
        },
        picture=bars(
            "Held-out loss in nats: as evaluation shows it, and where no future is there",
            {f"{name}, as shown": value for name, value in shown_loss.items()}
            | {f"{name}, without the future": value for name, value in honest_loss.items()},
        ),
    )


def _induction(setting: Setting) -> Reading:
    steps = 200 if setting.quick else 800
    half, vocab_size = 16, 32

    def batch(step: int, rows: int = 16) -> Tensor:
        generator = torch.Generator().manual_seed(setting.seed * 1_000_003 + step)
        first = torch.randint(vocab_size, (rows, half), generator=generator)
        return torch.cat([first, first, first[:, :1]], 1)

    # the second copy, after its first token, can be known
    is_known = torch.zeros(1, 2 * half + 1, dtype=torch.bool)
    is_known[:, half + 1 :] = True
    held_out = batch(10**6, 64)
    test = next_token_batch(held_out, is_known.expand(64, -1))
    losses: dict[int, float] = {}
    shares: dict[int, float] = {}

    def look(step: int, model: Transformer) -> None:
        if step == 1 or step % (steps // 10) == 0:
            losses[step] = loss_of(model, test)
            shares[step] = _induction_share(model, held_out[:2, :-1], half)

    model = small_model(vocab_size=vocab_size, context_length=2 * half)
    trained = train(
        model, lambda step: next_token_batch(batch(step)), setting=setting, steps=steps, after=look
    )
    log_loss = torch.tensor(list(losses.values()))
    share = torch.tensor(list(shares.values()))
    correlation = float(torch.corrcoef(torch.stack([log_loss, share]))[0, 1])
    return Reading(
        numbers={
            "attention of the best head to the token after the earlier copy, at the start": shares[
                1
            ],
            "the same at the end": shares[steps],
            "correlation of that attention with the loss on the second copy": correlation,
            "share of the second copy told right": share_right(trained.model, test),
        },
        picture=Curves(
            title="Random texts that repeat: the loss on the second copy, and the induction head",
            x_label="update",
            y_label="loss in nats; share of attention",
            curves=(
                curve("loss on the second copy", losses, losses.values()),
                curve("attention to the token after the earlier copy", shares, shares.values()),
            ),
        ),
    )


def _induction_share(model: Transformer, texts: Tensor, half: int) -> float:
    """The largest mean attention, over all heads, from a token to the successor of its copy."""
    best = 0.0
    traces = [explain.trace(model, ids=to_list(text)) for text in texts]
    for layer, head in product((0, 1), repeat=2):
        weights = [torch.as_tensor(trace[f"L{layer}.H{head}.weights"]) for trace in traces]
        places = torch.arange(half, 2 * half - 1)
        shares = [float(weight[places, places - half + 1].mean()) for weight in weights]
        best = max(best, sum(shares) / len(shares))
    return best


EXPERIMENTS = (
    Experiment(
        name="heads",
        title="Many heads against one of the same size",
        description="Train models whose attention has one head, or four of the same total width.",
        question=Question(
            text="Four heads of 16 features, or one head of 64. Which learns more?",
            choices=("four heads", "one head", "no difference"),
        ),
        claim="Several heads learn more than one head of the same total size.",
        source=Source(
            authors="Vaswani et al.",
            year=2017,
            title="Attention Is All You Need",
            place="table 3, rows A",
        ),
        concepts=("multi_head_attention", "model.decoder.attention.n_heads"),
        checks=(lower_bound("one head minus four heads (nats per byte)", 0.0),),
        measure=_heads,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="score-scale-in-training",
        title="The scale of scores, in training",
        description="Train one head of 64 features with scores times 1/root d, 1 and 1/d.",
        question=Question(
            text="A head of 64 trains without the factor 1/8 on its scores. Its loss is",
            choices=("higher", "the same", "lower"),
        ),
        claim="Without the factor 1/root d attention learns worse.",
        source=Source(
            authors="Vaswani et al.",
            year=2017,
            title="Attention Is All You Need",
            place="section 3.2.1",
        ),
        concepts=("attention_weights", "model.decoder.attention.scale"),
        checks=(lower_bound("no scale minus 1/root d (nats per byte)", 0.0),),
        measure=_scale,
        seeds=5,
        quick_seeds=4,
    ),
    Experiment(
        name="causal-leak",
        title="What a causal leak looks like",
        description="Train a next-token model that sees the future, then take the future away.",
        question=Question(
            text="A model that sees the next token while it learns to predict it shows a loss of",
            choices=("almost 0, and cannot write", "almost 0, and writes well", "the usual size"),
        ),
        claim="A leak shows as a loss that is far too good; where the future is missing, the "
        "model is worse than an honest one.",
        source=Source(
            authors="Kaufman, Rosset and Perlich",
            year=2011,
            title="Leakage in Data Mining: Formulation, Detection, and Avoidance",
            place="section 2",
        ),
        concepts=("attention", "cross_entropy"),
        checks=(
            upper_bound("loss that a leaking model shows (nats)", 0.5),
            lower_bound("without the future: leaking minus causal (nats)", 0.5),
        ),
        measure=_causal_leak,
        seeds=4,
        quick_seeds=3,
    ),
    Experiment(
        name="induction-heads",
        title="Induction heads appear with the drop in loss",
        description="Train two layers on random texts that repeat, and watch where heads look.",
        question=Question(
            text="To copy from an earlier copy, a head has to look at",
            choices=("the token after the earlier copy", "the same token earlier", "the start"),
        ),
        claim="When the loss on repeated text drops, a head appears that attends to the token "
        "after the earlier copy of the current one.",
        source=Source(
            authors="Olsson et al.",
            year=2022,
            title="In-context Learning and Induction Heads",
            place="argument 1",
        ),
        concepts=("attention_weights", "model.decoder.n_layers"),
        checks=(
            lower_bound("the same at the end", 0.3),
            upper_bound("correlation of that attention with the loss on the second copy", -0.7),
        ),
        measure=_induction,
        seeds=4,
        quick_seeds=3,
    ),
)
