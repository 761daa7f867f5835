"""What an objective needs besides a model: batches, a way to be judged, something to show.

Comes in: nothing. Goes out: types. It does not know any particular objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pellucid import config
from pellucid.batches import Batch
from pellucid.data import Examples, PreparedText, StoredExamples
from pellucid.evaluation.metrics import Classified
from pellucid.generation import Beams
from pellucid.model import Transformer
from pellucid.objectives import Objective
from pellucid.saved_runs.folder import RunFolder
from pellucid.tokenizers import Tokenizer
from pellucid.training import Example, HeldOut, Precision, Sampled

Fact = tuple[str, str]
#: How a model does on examples.
VerdictTracker = Callable[[Examples, Precision], HeldOut]
#: What a model takes examples for, class by class.
Classify = Callable[[Examples, Precision], Classified]


@dataclass(frozen=True, slots=True)
class Reward:
    """What an answer to the prompt of a row is worth, and what the user called it by."""

    name: str
    function: Callable[[dict[str, object], str], float]

    def __call__(self, row: dict[str, object], answer: str) -> float:
        """The worth of one answer."""
        return self.function(row, answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInputs:
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
class Written:
    """A text, what a model wrote of it or after it, and what was to be written: one, or several."""

    given: str
    text: str
    references: tuple[str, ...]


#: What a model writes for examples, by a search, and what was to be written.
Write = Callable[[Examples, Beams], list[Written]]


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
    judge: VerdictTracker | None = None
    #: What it takes examples for, where it names classes.
    classify: Classify | None = None
    #: What it writes for examples, where there is something to compare with.
    write: Write | None = None
