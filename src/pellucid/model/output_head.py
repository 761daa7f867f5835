"""Output heads: a stack's last states in, logits of tokens or of classes out.

The tensors of a head are in its model, under the names of checkpoints: `head.weight`, `head_bias`,
`head_transform.*`, `classifier.*` and `classifier_transform.*`. So a head is installed in a model
before use.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.errors import PellucidError
from pellucid.model.dropout import Drops, dropout
from pellucid.model.facts import (
    ClassificationHeadFacts,
    LanguageHeadFacts,
    NoHeadFacts,
    transform_facts,
)
from pellucid.model.views import Pooling, pool


class HeadTensors(nn.Module):
    """The tensors of a model that its head uses, under the names of checkpoints."""

    d_model: int
    token_embedding: nn.Embedding
    head_transform: nn.Module
    head: nn.Linear | None
    head_bias: Tensor | None
    pooler: nn.Module | None
    classifier: nn.Linear | None
    classifier_transform: nn.Module | None


class OutputHead(nn.Module):
    """The base class of heads: it belongs to a model, and it may have logits for tokens."""

    #: Logits are capped by c tanh(z / c).
    soft_cap: float | None = None
    #: Hidden states are multiplied by this before the head reads them.
    scale: float = 1.0
    #: Whether the head reads a text as a whole, and has one output per text.
    whole_texts: bool = False
    #: The reason why the model has no token probabilities; None if it has.
    no_token_logits: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self._model: tuple[HeadTensors, ...] = ()  # in a tuple: a part does not own its model

    @property
    def model(self) -> HeadTensors:
        """The model that the head is installed in.

        Raises:
            PellucidError: it is in none yet.
        """
        if not self._model:
            raise PellucidError(
                "this head is in no model yet: pass it to Transformer(head=...) before you use it"
            )
        return self._model[0]

    def install(self, model: HeadTensors) -> None:
        """Put the head's tensors into a model, under the names of checkpoints."""
        self._model = (model,)

    @property
    def weight(self) -> Float[Tensor, "vocab width"]:
        """The matrix from hidden states to the logits of tokens.

        Raises:
            PellucidError: the head has no token probabilities.
        """
        raise PellucidError(self.no_token_logits or "this head states no matrix for tokens")

    def require_token_logits(self) -> None:
        """Refuse a model without token probabilities.

        Raises:
            PellucidError: it has none; tells what to do instead.
        """
        if self.no_token_logits is not None:
            raise PellucidError(self.no_token_logits)

    def readable(self, states: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch width"]:
        """States as the head's matrix reads them."""
        return states

    def logits(self, hidden: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocab"]:
        """A logit for each token of the vocabulary, from states that passed `readable`.

        Raises:
            PellucidError: the head has no token probabilities.
        """
        return F.linear(hidden, self.weight.to(hidden.dtype))


class LanguageHead(OutputHead):
    """cap(W (scale transform(x)) + b): a logit for each token of the vocabulary.

    Args:
        tied: whether W is the embedding's matrix.
        bias: whether there is a bias b.
        transform: a module from hidden states to vectors as wide as the embedding's; None for the
            identity.
        soft_cap: c; logits become c tanh(z / c). None for no cap.
        scaled: whether hidden states are divided by sqrt(d_model) first.
        fixed_bias: whether b is a constant: a buffer, which no training changes.
        multiplier: the factor of hidden states, if they are not `scaled`.
    """

    def __init__(
        self,
        tied: bool,
        bias: bool = False,
        transform: nn.Module | None = None,
        soft_cap: float | None = None,
        scaled: bool = False,
        fixed_bias: bool = False,
        multiplier: float | None = None,
    ) -> None:
        super().__init__()
        self.tied, self.scaled, self.soft_cap = tied, scaled, soft_cap
        self.multiplier = 1.0 if multiplier is None else multiplier
        self._bias, self._fixed_bias = bias, fixed_bias
        self._transform = None if transform is None else (transform,)

    def install(self, model: HeadTensors) -> None:
        """Put W, b and the transform into a model."""
        super().install(model)
        rows, width = model.token_embedding.weight.shape
        self.scale = 1 / math.sqrt(model.d_model) if self.scaled else self.multiplier
        if self._transform is None:
            width = model.d_model
        else:
            model.head_transform, self._transform = self._transform[0], None
        if not self.tied:
            model.head = nn.Linear(width, rows, bias=False)
        if self._bias and self._fixed_bias:
            del model.head_bias  # as a parameter
            model.register_buffer("head_bias", torch.zeros(rows))
        elif self._bias:
            model.head_bias = nn.Parameter(torch.zeros(rows))

    @property
    def weight(self) -> Float[Tensor, "vocab width"]:
        """W."""
        model = self.model
        return model.token_embedding.weight if model.head is None else model.head.weight

    def readable(self, states: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch width"]:
        """scale transform(x)."""
        states = self.model.head_transform(states)
        return states if self.scale == 1.0 else states * self.scale

    def logits(self, hidden: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocab"]:
        """cap(W h + b), from states that passed `readable`."""
        logits = F.linear(hidden, self.weight.to(hidden.dtype), self.model.head_bias)
        cap = self.soft_cap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def forward(
        self,
        states: Float[Tensor, "batch time d_model"],
        padding: Bool[Tensor, "batch keys"] | None = None,
    ) -> Float[Tensor, "batch time vocab"]:
        """The logits after each token; padding has no effect here."""
        return self.logits(self.readable(states))

    def facts(self) -> LanguageHeadFacts:
        """How its logits are computed."""
        model = self.model
        return LanguageHeadFacts(
            tied=model.head is None,
            bias=model.head_bias is not None,
            transform=transform_facts(model.head_transform),
            scale=self.scale,
            soft_cap=self.soft_cap,
        )


class ClassificationHead(Drops, OutputHead):
    """A logit for each class, from one vector per text, with dropout.

    With `pooling` "first", the vector passes through the model's pooler, if it has one. Then it
    passes through `transform`, with dropout before and after it.

    Source:
        Liu et al. 2019, "RoBERTa", its released code (the transform).
    """

    whole_texts = True
    no_token_logits = (
        "this model is a classifier and has no token probabilities: use `pellucid classify`, or "
        "a run with a language head"
    )

    def __init__(
        self,
        n_classes: int,
        pooling: Pooling,
        bias: bool,
        dropout: float = 0.0,
        transform: nn.Module | None = None,
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.n_classes, self._bias, self.dropout = n_classes, bias, dropout
        self.pooling: Pooling = pooling
        self._transform = None if transform is None else (transform,)
        self.input_dropout = input_dropout

    def install(self, model: HeadTensors) -> None:
        """Put the matrix of the classes and the transform into a model."""
        super().install(model)
        model.classifier = nn.Linear(model.d_model, self.n_classes, bias=self._bias)
        if self._transform is not None:
            model.classifier_transform, self._transform = self._transform[0], None

    def forward(
        self,
        states: Float[Tensor, "batch time d_model"],
        padding: Bool[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        """The logits of each text's classes; real tokens come first, padding after them."""
        model = self.model
        assert model.classifier is not None
        pooled = pool(states, padding, self.pooling)
        if model.pooler is not None and self.pooling == "first":
            pooled = torch.tanh(model.pooler(pooled))
        if model.classifier_transform is not None:
            pooled = dropout(pooled, self.input_dropout, self.training)
            pooled = model.classifier_transform(pooled)
        return model.classifier(dropout(pooled, self.dropout, self.training))

    def facts(self) -> ClassificationHeadFacts:
        """How its logits are computed."""
        return ClassificationHeadFacts(
            n_classes=self.n_classes,
            pooling=self.pooling,
            pooler=self.model.pooler is not None and self.pooling == "first",
            bias=self._bias,
            dropout=self.dropout,
            transform=transform_facts(self.model.classifier_transform or nn.Identity()),
            input_dropout=self.input_dropout,
        )


class NoHead(OutputHead):
    """The model gives its hidden states, and no logits."""

    no_token_logits = (
        "this model has no head: it gives hidden states, and no token probabilities; compare texts "
        "with `pellucid embed`, or use a run with a language head"
    )

    def forward(
        self,
        states: Float[Tensor, "batch time d_model"],
        padding: Bool[Tensor, "batch keys"] | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        """Refuse: hidden states are at `Transformer.states`.

        Raises:
            PellucidError: always.
        """
        raise PellucidError(self.no_token_logits)

    def facts(self) -> NoHeadFacts:
        """That there are no logits."""
        return NoHeadFacts()
