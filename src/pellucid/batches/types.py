"""The types that rooms exchange: batches, a model as objectives see it, a loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

#: Not `Self`: the checker of shapes in tests looks at single methods, and cannot resolve it.
_B = TypeVar("_B", bound="Batch")

#: The target of a position without a prediction.
IGNORED = -100


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows to learn from: the first dimension of every tensor is the row.

    `n_supervised` is the number of terms (tokens, rows, pairs) in the mean loss of the whole
    update. The batch states it, so that no code has to read it from the device. Each part of a
    batch has the same number, so the losses of the parts add up to the loss of the whole batch.
    """

    n_supervised: int

    def named_tensors(self) -> dict[str, Tensor]:
        """Every tensor by name; a tensor of an inner batch as `chosen.ids`."""
        tensors: dict[str, Tensor] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                tensors[field.name] = value
            elif isinstance(value, Batch):
                inner = value.named_tensors()
                tensors |= {f"{field.name}.{name}": tensor for name, tensor in inner.items()}
        return tensors

    def map_tensors(self: _B, change: Callable[[Tensor], Tensor]) -> _B:
        """The same batch, with `change` applied to each of its tensors."""
        changes: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                changes[field.name] = change(value)
            elif isinstance(value, Batch):
                changes[field.name] = value.map_tensors(change)
        return replace(self, **changes)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return next(iter(self.named_tensors().values())).shape[0]

    def part(self: _B, rows: slice) -> _B:
        """Some of the rows."""
        return self.map_tensors(lambda tensor: tensor[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBatch(Batch):
    """Token ids, and for each position the token to predict there (or `IGNORED`).

    If attention must not cross documents, `documents` has the number of each token's document. If
    rows have padding, `padding` is true for real tokens.

    Attributes:
        n_supervised: targets that count in the loss.
        ids: token ids, (batch, time).
        targets: (batch, time).
    """

    ids: Int[Tensor, "batch time"]
    targets: Int[Tensor, "batch time"]
    documents: Int[Tensor, "batch time"] | None = None
    padding: Bool[Tensor, "batch time"] | None = None

    def cut(self, length: int) -> TokenBatch:
        """The same tokens as rows of `length`, which do not see each other."""
        return self.map_tensors(lambda tensor: tensor.reshape(-1, length))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairBatch(Batch):
    """A source for the encoder, and a target for the decoder.

    `ids` begin with the token that starts the decoder; `targets` are shifted by one place.

    Attributes:
        n_supervised: targets that count in the loss.
        source: ids of the encoder, (batch, source).
        source_padding: true for real tokens, (batch, source).
    """

    source: Int[Tensor, "batch source"]
    source_padding: Bool[Tensor, "batch source"]
    ids: Int[Tensor, "batch time"]
    targets: Int[Tensor, "batch time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelBatch(Batch):
    """Texts, and the class of each: a number, or a 0 or 1 for every class.

    Attributes:
        n_supervised: texts that count in the loss.
        ids: token ids, (batch, time).
        padding: true for real tokens, (batch, time).
        labels: (batch,) with the number of a class, or (batch, classes) with 0 and 1.
    """

    ids: Int[Tensor, "batch time"]
    padding: Bool[Tensor, "batch time"]
    labels: Int[Tensor, " batch"] | Float[Tensor, "batch classes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceBatch(Batch):
    """Two answers to each prompt, a chosen and a rejected one; the targets are their tokens.

    A row of `chosen` and the same row of `rejected` are a pair; they may differ in length.

    Attributes:
        n_supervised: pairs that count in the loss.
    """

    chosen: TokenBatch
    rejected: TokenBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutBatch(Batch):
    """Answers that the model sampled, and their advantages.

    Targets are the sampled tokens. `sampled_log_p` and `reference_log_p` are the log-probabilities
    of the targets under the model that sampled them and under the reference, and 0 at positions
    without a target.

    Attributes:
        n_supervised: targets that count in the loss.
        ids: token ids, (batch, time).
        targets: (batch, time); `IGNORED` outside of answers.
        advantages: how much better each answer is than the others of its prompt, (batch,).
        rewards: of each answer, (batch,).
    """

    ids: Int[Tensor, "batch time"]
    targets: Int[Tensor, "batch time"]
    advantages: Float[Tensor, " batch"]
    rewards: Float[Tensor, " batch"]
    sampled_log_p: Float[Tensor, "batch time"]
    reference_log_p: Float[Tensor, "batch time"]


@runtime_checkable
class LanguageModel(Protocol):
    """A model as an objective sees it: final hidden states, and the head's matrix."""

    @property
    def head_weight(self) -> Float[Tensor, "vocab d_model"]:
        """The matrix that turns hidden states into logits."""
        ...

    if TYPE_CHECKING:
        # a parameter, which `isinstance` does not find in a module from Python 3.12 on
        @property
        def head_bias(self) -> Float[Tensor, " vocab"] | None:
            """The bias of the logits, if there is one."""
            ...

    @property
    def soft_cap(self) -> float | None:
        """c if logits are capped by c tanh(z / c), else None."""
        ...

    def encode(
        self, ids: Int[Tensor, "batch time"], *, padding: Bool[Tensor, "batch time"] | None = None
    ) -> Any:
        """The states of an encoder-decoder's encoder, for `hidden_states` as `encoded`."""
        ...

    def hidden_states(
        self,
        ids: Int[Tensor, "batch time"],
        *,
        encoded: Any = None,
        padding: Bool[Tensor, "batch keys"] | None = None,
        documents: Int[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        """The final hidden states, after the last norm: the input of the head.

        Args:
            ids: token ids, (batch, time).
            encoded: the states of the encoder, from `encode`.
            padding: true for real tokens, (batch, keys).
            documents: the number of each token's document, (batch, time).

        Returns:
            Hidden states, (batch, time, d_model).
        """
        ...


@runtime_checkable
class Classifier(Protocol):
    """A classifier as an objective sees it."""

    def class_logits(
        self, ids: Int[Tensor, "batch time"], *, padding: Bool[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch classes"]:
        """A logit for each class of each text."""
        ...


@dataclass(frozen=True, slots=True)
class Loss:
    """A scalar to minimise, and its named parts, on the device.

    The part `loss_nats` always exists: the loss without smoothing and penalties, to compare runs.
    Each part is the batch's share of the whole update, so that the parts add up.

    Attributes:
        total: what is minimised.
        parts: each part, by name.
    """

    total: Float[Tensor, ""]
    parts: Mapping[str, Float[Tensor, ""]]
