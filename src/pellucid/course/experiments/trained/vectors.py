"""Claims about vectors of words: senses in context, and neighbours."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid.batches import TokenBatch
from pellucid.course.experiments.picture import bars
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
from pellucid.course.experiments.small_models import next_token_batch, small_model, train

_RIVER = ("river", "water", "boat", "shore", "fish", "flow")
_MONEY = ("money", "loan", "cash", "account", "pay", "credit")
_SENSES = ("bank", *_RIVER, *_MONEY)


def _sentences(seed: int, rows: int = 32) -> Callable[[int], Tensor]:
    """Three words of one sense, the word bank, and three more of the same sense."""

    def draw(step: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        sense = torch.randint(2, (rows, 1), generator=generator)
        words = torch.randint(6, (rows, 6), generator=generator) + 1 + 6 * sense
        bank = torch.zeros(rows, 1, dtype=torch.long)
        return torch.cat([words[:, :3], bank, words[:, 3:]], 1)

    return draw


def _bank(setting: Setting) -> Reading:
    draw = _sentences(setting.seed)
    model = train(
        small_model(vocab_size=len(_SENSES), context_length=8),
        lambda step: next_token_batch(draw(step)),
        setting=setting,
        steps=100,
    ).model
    rows = _sentences(setting.seed + 500, rows=64)(0)
    with torch.no_grad():
        embedded = model.token_embedding(rows[:, 3])
        states = F.normalize(model.hidden_states(rows)[:, 3], dim=-1)
    is_money = rows[:, 0] > len(_RIVER)
    cosines = states @ states.T
    same_sense = (is_money[:, None] == is_money) & ~torch.eye(64, dtype=torch.bool)
    within_sense = float(cosines[same_sense].mean())
    other_sense = float(cosines[is_money][:, ~is_money].mean())
    return Reading(
        numbers={
            "largest difference of bank's embeddings": float((embedded - embedded[0]).abs().max()),
            "cosine of bank in context, same sense": within_sense,
            "cosine of bank in context, other sense": other_sense,
            "same sense minus other sense": within_sense - other_sense,
        },
        picture=bars(
            "How alike the vectors of bank are: in the embedding, and after two layers",
            {"embedding": 1.0, "in context, same sense": within_sense, "other sense": other_sense},
        ),
    )


def _neighbours(setting: Setting) -> Reading:
    """Words of four classes; texts follow a grammar of the classes, so a class shares contexts."""
    n_classes, size = 4, 6

    def batch(step: int) -> TokenBatch:
        generator = torch.Generator().manual_seed(setting.seed * 1_000_003 + step)
        start = torch.randint(n_classes, (32, 1), generator=generator)
        classes = (start + torch.arange(13)) % n_classes
        words = torch.randint(size, (32, 13), generator=generator)
        return next_token_batch(classes * size + words)

    architecture = small_model(vocab_size=n_classes * size, context_length=12, tied=True)
    trained = train(architecture, batch, setting=setting, steps=80).model
    shares: dict[str, float] = {}
    for name, vectors in (
        ("before training", torch.randn(n_classes * size, 64)),
        ("after training", trained.token_embedding.weight.detach()),
    ):
        unit = F.normalize(vectors, dim=-1)
        cosines = unit @ unit.T - 2 * torch.eye(n_classes * size)
        nearest = cosines.argmax(-1)
        classes = torch.arange(n_classes * size) // size
        shares[name] = float((classes[nearest] == classes).float().mean())
    return Reading(
        numbers={
            "nearest neighbour of the same class, random vectors": shares["before training"],
            "nearest neighbour of the same class, trained": shares["after training"],
        },
        picture=bars("Words whose nearest neighbour is of their class (by chance 0.22)", shares),
    )


EXPERIMENTS = (
    Experiment(
        name="bank-in-context",
        title="Bank by a river and with money",
        description="Train on sentences of two senses, and compare the vectors of one word.",
        question=Question(
            text="Bank occurs by a river and with money. How many vectors has it after two layers?",
            choices=("two kinds, one for each sense", "one", "none"),
        ),
        claim="A word has one embedding, and in context one vector for each sense.",
        source=Source(
            authors="Ethayarajh",
            year=2019,
            title="How Contextual are Contextualized Word Representations?",
            place="section 4",
        ),
        concepts=("embedding", "attention"),
        checks=(
            in_range("largest difference of bank's embeddings", 0, 0),
            lower_bound("same sense minus other sense", 0.2),
        ),
        measure=_bank,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="embedding-neighbours",
        title="Neighbours in embedding space",
        description="Train on texts in which words of a class share contexts, and look up the "
        "nearest neighbours.",
        question=Question(
            text="Words of a class occur in the same contexts. Their trained embeddings are",
            choices=("near each other", "no nearer than others", "identical"),
        ),
        claim="Words with similar contexts get similar vectors.",
        source=Source(
            authors="Mikolov et al.",
            year=2013,
            title="Efficient Estimation of Word Representations in Vector Space",
            place="section 4",
        ),
        concepts=("embedding", "embedding_grad"),
        checks=(
            lower_bound("nearest neighbour of the same class, trained", 0.8),
            upper_bound("nearest neighbour of the same class, random vectors", 0.5),
        ),
        measure=_neighbours,
        seeds=8,
        quick_seeds=5,
    ),
)
