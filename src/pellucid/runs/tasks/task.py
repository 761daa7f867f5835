"""What an objective needs besides a model: batches, a way to be judged, something to show.

Comes in: nothing. Goes out: types. It does not know any particular objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pellucid import config
from pellucid.batches import Batch
from pellucid.examples import Examples, StoredExamples
from pellucid.model import Transformer
from pellucid.objectives import Objective
from pellucid.runs.folder import RunFolder
from pellucid.text import PreparedText, Tokenizer
from pellucid.training import Example, HeldOut, Precision, Sampled

Fact = tuple[str, str]
#: How a model does on examples.
Judge = Callable[[Examples, Precision], HeldOut]


@dataclass(frozen=True, slots=True)
class Reward:
    """What an answer to the prompt of a row is worth, and what the user called it by."""

    name: str
    function: Callable[[dict[str, object], str], float]

    def __call__(self, row: dict[str, object], answer: str) -> float:
        """The worth of one answer."""
        return self.function(row, answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a task is made of: the config, the model as it stands, and prepared data."""

    run: config.Run
    folder: RunFolder
    model: Transformer
    tokenizer: Tokenizer
    data: PreparedText | StoredExamples
    reward: Reward | None = None

    @property
    def text(self) -> PreparedText:
        """The data, where they are documents."""
        assert isinstance(self.data, PreparedText)
        return self.data

    @property
    def examples(self) -> StoredExamples:
        """The data, where they are rows."""
        assert isinstance(self.data, StoredExamples)
        return self.data


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """An objective with all that goes with it.

    `batch` gives so many rows from a place in the data on, and is a function of these two and, for
    answers that the model draws itself, of its weights. `tokens_per_row` is a mean.
    """

    objective: Objective
    batch: Callable[[int, int], Batch]
    rows_per_epoch: int
    tokens_per_row: float
    #: How the model does on held-out data, or a part of them, while it trains.
    evaluate: Callable[[Precision], HeldOut]
    #: What the model makes of something fixed after so many steps.
    sample: Callable[[int], Sampled | None]
    #: The loss of guessing evenly, where guessing has one.
    guessing_nats: float | None
    #: What the loss is a mean over.
    unit: str = "tokens"
    #: What there is to say of the data, in order.
    facts: tuple[Fact, ...] = field(default=())
    #: The parameters of other models that lie in memory: asked, and not trained.
    asked: int = 0
    #: One example as it is trained on.
    example: Example | None = None
    #: How the model does on any examples of this form, where the data are rows.
    judge: Judge | None = None
