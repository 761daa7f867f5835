"""Claims about parts of a model: the place of the norm, tied embeddings, dropout and experts."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from pellucid import config
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
    small_model,
    text_batches,
    train,
    train_on_text,
)
from pellucid.presets.recipe import normal
from pellucid.tokenizers.train import train_byte_pairs
from pellucid.typed import to_list


def _norm_placement(setting: Setting) -> Reading:
    steps, depths = (50 if setting.quick else 200), (2, 10)
    losses: dict[str, list[float]] = {}
    for name, residual in (("pre-norm", config.PreNorm()), ("post-norm", config.PostNorm())):
        losses[name] = []
        for depth in depths:
            model = small_model(
                vocab_size=BYTES,
                context_length=32,
                n_layers=depth,
                residual=residual,
                final_norm=name == "pre-norm",
                initialisation=normal(0.125),
            )
            trained = train_on_text(
                model,
                length=32,
                setting=setting,
                steps=steps,
                schedule=config.Constant(warm_up=0.0),
            )
            losses[name].append(held_out_loss(trained.model, length=32))
    gaps = [post - pre for pre, post in zip(*losses.values(), strict=True)]
    return Reading(
        numbers={
            "post-norm minus pre-norm, 2 layers (nats per byte)": gaps[0],
            "post-norm minus pre-norm, 10 layers (nats per byte)": gaps[1],
            "gap at 10 layers minus gap at 2 (nats per byte)": gaps[1] - gaps[0],
        },
        picture=bars(
            f"Held-out loss after {steps} updates without warm-up, nats per byte",
            {
                f"{name}, {depth} layers": value
                for name, values in losses.items()
                for depth, value in zip(depths, values, strict=True)
            },
        ),
    )


def _tied(setting: Setting) -> Reading:
    steps = 120 if setting.quick else 500
    training, held_out, vocab_size = _byte_pairs()
    losses: dict[str, float] = {}
    for name in ("tied", "untied"):
        model = small_model(
            vocab_size=vocab_size,
            context_length=32,
            tied=name == "tied",
            initialisation=normal(0.05),
        )
        trained = train_on_text(model, length=32, setting=setting, steps=steps, text=training).model
        losses[name] = held_out_loss(trained, length=32, text=held_out)
    return Reading(
        numbers={f"held-out loss, {name} (nats per token)": v for name, v in losses.items()}
        | {"tied minus untied (nats per token)": losses["tied"] - losses["untied"]},
        picture=bars(f"Held-out loss after {steps} updates, nats per token", losses),
    )


@cache
def _byte_pairs() -> tuple[Tensor, Tensor, int]:
    """The bundled text in 1,024 byte pairs: for training, held out, and the vocabulary's size."""
    texts = [bytes(to_list(part)).decode("utf-8", "replace") for part in bundled_text()]
    tokenizer = train_byte_pairs(texts[:1], 1024)
    training, held_out = (torch.tensor(tokenizer.encode(text)) for text in texts)
    return training, held_out, tokenizer.vocab_size


def _dropout(setting: Setting) -> Reading:
    steps = 200 if setting.quick else 800
    training, _ = bundled_text()
    losses: dict[str, float] = {}
    learnt: dict[str, float] = {}
    for share in (0.0, 0.2):
        model = small_model(vocab_size=BYTES, context_length=32, dropout=share)
        batches = text_batches(training[:4096], rows=8, length=32, seed=setting.seed)
        trained = train(model, batches, setting=setting, steps=steps).model
        name = f"dropout {share:g}"
        losses[name] = held_out_loss(trained, length=32)
        learnt[name] = loss_of(trained, batches(10**6))
    return Reading(
        numbers={
            "held-out loss, dropout 0.2 minus none (nats)": losses["dropout 0.2"]
            - losses["dropout 0"],
            "training loss, dropout 0.2 minus none (nats)": learnt["dropout 0.2"]
            - learnt["dropout 0"],
        },
        picture=bars(
            f"Nats per byte after {steps} updates on 4 kB of text",
            {f"held out, {name}": value for name, value in losses.items()}
            | {f"training, {name}": value for name, value in learnt.items()},
        ),
    )


def _experts(setting: Setting) -> Reading:
    steps = 120 if setting.quick else 500
    expert = config.MLP(d_ff=128, activation="gelu", bias=False)
    kinds: dict[str, config.FeedForward] = {
        "dense": config.MLP(d_ff=256, activation="gelu", bias=False),
        "experts": config.Experts(
            n_experts=8,
            n_active=2,
            expert=expert,
            router=config.Router(scores="softmax", normalised=True),
            load_loss=0.01,
        ),
    }
    losses: dict[str, float] = {}
    for name, feed_forward in kinds.items():
        model = small_model(vocab_size=BYTES, context_length=32, feed_forward=feed_forward)
        trained = train_on_text(model, length=32, setting=setting, steps=steps).model
        losses[name] = held_out_loss(trained, length=32)
    return Reading(
        numbers={f"held-out loss, {name} (nats per byte)": v for name, v in losses.items()}
        | {"experts minus dense (nats per byte)": losses["experts"] - losses["dense"]},
        picture=bars(
            f"Held-out loss after {steps} updates: 2 of 8 experts of half the width, or one layer",
            losses,
        ),
    )


EXPERIMENTS = (
    Experiment(
        name="pre-norm-against-post-norm",
        title="Pre-norm against post-norm by depth",
        description="Train both without warm-up, with 2 and with 10 layers.",
        question=Question(
            text="Ten layers train without warm-up. Which place of the norm learns more?",
            choices=("pre-norm", "post-norm", "both the same"),
        ),
        claim="Pre-norm trains without warm-up where post-norm does not, and the gap grows with "
        "depth.",
        source=Source(
            authors="Xiong et al.",
            year=2020,
            title="On Layer Normalization in the Transformer Architecture",
            place="section 4",
        ),
        concepts=("layer_norm", "residual_jacobian", "model.decoder.residual", "schedule.warm_up"),
        checks=(
            lower_bound("post-norm minus pre-norm, 10 layers (nats per byte)", 0.05),
            lower_bound("gap at 10 layers minus gap at 2 (nats per byte)", 0.0),
        ),
        measure=_norm_placement,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="tied-embeddings",
        title="Tied embeddings",
        description="Train a model of 1,024 byte pairs with one matrix for embedding and head, "
        "and with two.",
        question=Question(
            text="Embedding and head share one matrix. The held-out loss is",
            choices=("lower", "higher", "the same"),
        ),
        claim="Tying the embedding to the head saves parameters and lowers the loss.",
        source=Source(
            authors="Press and Wolf",
            year=2017,
            title="Using the Output Embedding to Improve Language Models",
            place="section 4",
        ),
        concepts=("tied_loss", "embedding", "model.embedding.tied"),
        checks=(upper_bound("tied minus untied (nats per token)", 0.0),),
        measure=_tied,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="dropout",
        title="Dropout on little text",
        description="Train on 4 kB of text with and without dropout until it overfits.",
        question=Question(
            text="On a text that is much too short, dropout makes the held-out loss",
            choices=("lower, and the training loss higher", "higher", "no different"),
        ),
        claim="Dropout raises the training loss and lowers the held-out loss of a model that "
        "overfits.",
        source=Source(
            authors="Srivastava et al.",
            year=2014,
            title="Dropout: A Simple Way to Prevent Neural Networks from Overfitting",
            place="section 6",
        ),
        concepts=("cross_entropy", "model.decoder.dropout"),
        checks=(
            upper_bound("held-out loss, dropout 0.2 minus none (nats)", 0.0),
            lower_bound("training loss, dropout 0.2 minus none (nats)", 0.0),
        ),
        measure=_dropout,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="experts-against-dense",
        title="A mixture of experts against its dense twin",
        description="Train both with as many active weights for each token.",
        question=Question(
            text="Each token uses 2 of 8 experts of half the width. Against one layer, the loss is",
            choices=("lower", "higher", "the same"),
        ),
        claim="At equal active weights a mixture of experts reaches a lower loss than its dense "
        "twin.",
        source=Source(
            authors="Fedus, Zoph and Shazeer",
            year=2022,
            title="Switch Transformers",
            place="section 2",
        ),
        concepts=("mixture_of_experts", "softmax_router", "load_balancing_loss"),
        checks=(upper_bound("experts minus dense (nats per byte)", 0.0),),
        measure=_experts,
        seeds=5,
        quick_seeds=3,
    ),
)
