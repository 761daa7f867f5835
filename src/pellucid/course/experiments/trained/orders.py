"""Claims about positions and memory: beyond the trained length, without positions, far back."""

from __future__ import annotations

import torch

from pellucid import config
from pellucid.batches import TokenBatch
from pellucid.course.experiments.picture import bars
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
from pellucid.model import assemble

_SCHEMES: dict[str, config.Positions] = {
    "learned": config.Learned(),
    "sinusoidal": config.Sinusoidal(base=10_000.0),
    "Shaw": config.ShawRelative(max_distance=16, values=True),
    "rotary": config.Rotary(base=10_000.0),
    "ALiBi": config.ALiBi(),
    "none": config.NoPositions(),
}


def _beyond_length(setting: Setting) -> Reading:
    steps, short, long = (150 if setting.quick else 500), 32, 128
    _, held_out = bundled_text()
    rises: dict[str, float] = {}
    for name in ("learned", "sinusoidal", "Shaw", "rotary", "ALiBi"):
        positions = _SCHEMES[name]
        model = small_model(vocab_size=BYTES, context_length=long, positions=positions)
        trained = train_on_text(model, length=short, setting=setting, steps=steps).model
        windows = text_batches(held_out, rows=64, length=long, seed=0)(0)
        rows = torch.cat([windows.ids, windows.targets[:, -1:]], 1)
        # the same targets, with the usual context and with four times as much
        late = torch.zeros_like(rows, dtype=torch.bool)
        late[:, -16:] = True
        far_loss = loss_of(trained, next_token_batch(rows, late))
        near_loss = loss_of(trained, next_token_batch(rows[:, -short - 1 :], late[:, -short - 1 :]))
        rises[name] = far_loss - near_loss
    return Reading(
        numbers={f"rise of loss, {name} (nats per byte)": value for name, value in rises.items()},
        picture=bars(
            "Trained at 32 bytes, tested at 128: by how much the loss rises, nats per byte", rises
        ),
    )


def _without_positions(setting: Setting) -> Reading:
    steps = 150 if setting.quick else 500
    losses: dict[str, float] = {}
    for name in ("rotary", "none"):
        model = small_model(vocab_size=BYTES, context_length=32, positions=_SCHEMES[name])
        trained = train_on_text(model, length=32, setting=setting, steps=steps)
        losses[name] = held_out_loss(trained.model, length=32)
    blind = small_model(vocab_size=BYTES, context_length=32, positions=_SCHEMES["none"])
    encoder = assemble(
        config.Transformer(
            vocab_size=BYTES,
            context_length=32,
            d_model=64,
            embedding=blind.embedding,
            encoder=blind.decoder,
            initialisation=blind.initialisation,
        ),
        seed=setting.seed,
    ).eval()
    ids = torch.randint(BYTES, (4, 32))
    order = torch.randperm(32)
    with torch.no_grad():
        shuffled = encoder.hidden_states(ids[:, order])
        change = float((shuffled - encoder.hidden_states(ids)[:, order]).abs().max())
    right = {name: _which_came_first(setting, name) for name in ("none", "rotary")}
    return Reading(
        numbers={
            "encoder without positions: change by shuffling": change,
            "causal decoder without positions: told right which of two came first": right["none"],
            "loss without positions minus loss with them (nats per byte)": losses["none"]
            - losses["rotary"],
        },
        picture=bars(
            "A causal decoder with and without positions",
            {f"held-out loss, {name}": value for name, value in losses.items()}
            | {f"which came first, {name}": value for name, value in right.items()},
        ),
    )


def _which_came_first(setting: Setting, scheme: str) -> float:
    """Tokens 0 and 1 among twelve others; the model names the one that came first."""

    def batch(step: int, rows: int = 32) -> TokenBatch:
        generator = torch.Generator().manual_seed(setting.seed * 7_919 + step)
        ids = torch.randint(2, 10, (rows, 14), generator=generator)
        places = torch.rand(rows, 12, generator=generator).argsort(1)[:, :2].sort(1).values
        first = torch.randint(2, (rows, 1), generator=generator)
        ids.scatter_(1, places, torch.cat([first, 1 - first], 1))
        ids[:, 12:13], ids[:, 13:] = 10, first
        is_asked = torch.zeros_like(ids, dtype=torch.bool)
        is_asked[:, -1] = True
        return next_token_batch(ids, is_asked)

    model = small_model(vocab_size=11, context_length=13, positions=_SCHEMES[scheme])
    trained = train(model, batch, setting=setting, steps=200)
    return share_right(trained.model, batch(10**6, 256))


EXPERIMENTS = (
    Experiment(
        name="beyond-the-trained-length",
        title="Positions beyond the trained length",
        description="Train five schemes of positions at 32 bytes, and test them at 128.",
        question=Question(
            text="Trained on 32 bytes and tested on 128: which positions lose nothing?",
            choices=("ALiBi", "learned", "sinusoidal"),
        ),
        claim="ALiBi keeps its loss on longer texts; learned and sinusoidal positions do not.",
        source=Source(
            authors="Press, Smith and Lewis",
            year=2022,
            title="Train Short, Test Long",
            place="section 4",
        ),
        concepts=("alibi_bias", "sinusoid", "rotate", "clipped_distance_index"),
        checks=(
            upper_bound("rise of loss, ALiBi (nats per byte)", 0.05),
            lower_bound("rise of loss, learned (nats per byte)", 0.05),
            lower_bound("rise of loss, sinusoidal (nats per byte)", 0.05),
        ),
        measure=_beyond_length,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="without-positions",
        title="Positions removed",
        description="Take all positions from an encoder and from a causal decoder.",
        question=Question(
            text="A causal decoder has no positions. Can it tell which of two tokens came first?",
            choices=("no", "yes"),
        ),
        claim="Without positions attention sees a set of tokens and knows nothing of their order.",
        source=Source(
            authors="Vaswani et al.",
            year=2017,
            title="Attention Is All You Need",
            place="section 3.5",
        ),
        concepts=("attention", "sinusoid", "model.decoder.positions"),
        checks=(
            upper_bound("encoder without positions: change by shuffling", 1e-4),
            upper_bound(
                "causal decoder without positions: told right which of two came first", 0.6
            ),
            lower_bound("loss without positions minus loss with them (nats per byte)", 0.0),
        ),
        measure=_without_positions,
        seeds=5,
        quick_seeds=3,
    ),
)
