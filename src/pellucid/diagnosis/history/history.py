"""The history of a training, of pellucid or any other tool: causes are found from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pellucid import config
from pellucid.diagnosis.finding import Finding
from pellucid.vitals import Mark, MarkName, RankReport

#: (update, value) in the order of updates.
Points = tuple[tuple[int, float], ...]


class Reading(NamedTuple):
    """One sign at one update: its value, its word (calm, watch, sick), its place in the model.

    Attributes:
        step: the update.
        value: the number.
        word: calm, watch or sick; None if no rule says one.
        place: the module, parameter or head.
    """

    step: int
    value: float
    word: str
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """How the model was trained; None means unknown.

    `learning_rate` is the highest; `initial_rate` is the one that a torch schedule starts from.
    `norm` is the placement of norms in a block. `decays` says which parameters weight decay
    shrinks: all, or only matrices. `unigram` and `bigram` are the entropies of the labels, in nats.
    `score_scale` is the factor of attention scores, in units of 1 / sqrt(d_head). `frozen` is the
    share of parameters that are not trained, `frozen_at_first` that when the watch was made,
    `norm_eps` the largest eps of the norms. `slow` is the share whose rate is next to nothing of
    the highest of their optimiser. `n_trained` is how many numbers optimisers train; `frozen_body`
    says whether no matrix of any block is trained. `has_prompts` says whether rows of labels begin
    with tokens that nothing pays for, and `own_answers` whether the model wrote most of what
    follows them itself. `untrained` is the share of the blocks' weights that are frozen as they
    were drawn, and `adapted` says whether a small part of each block learns alone; `random_table`
    says whether a frozen token embedding holds random numbers. `bounded` is the share of trained
    matrices that are cut off at a bound. `trains_another` says whether the optimisers have moved
    another model with as many tokens, such as a teacher. `remembered_step` is the size of a step by
    Adam's state, in learning rates, and `below_eps` the share of gradients that are smaller than
    its eps. `rate_fall` is the rate of the first block over that of the last layers, and
    `adapter_scale` the factor of what adapters add.

    Attributes:
        vocab_size: of the model.
        n_layers: blocks of the model.
        d_head: features of a head.
        residual: whether blocks add to a stream.
        dropout: the largest rate.
        optimiser: the name of its class.
        warmup_steps: updates until the highest rate.
        total_steps: updates of the whole training.
        betas: of Adam.
        momentum: of SGD, without the gradient's own share.
        eps: of Adam.
        weight_decay: the largest factor.
        clip_norm: the largest norm that is let through.
        maximizes: whether the optimiser climbs.
        rests: whether the model was called in evaluation mode alone.
        slows_down: whether it adds up all squared gradients, so that its steps fall by themselves.
        batch_tokens: tokens of an update.
        precision: of matrix products.
        weights: the type of the weights.
        pretrained: whether the weights were trained before.
        objective: the name of the objective.
        d_model: features of the residual stream.
        final_norm: whether a norm stands before the head.
    """

    vocab_size: int | None = None
    n_layers: int | None = None
    d_head: int | None = None
    norm: Literal["pre", "post", "both", "none"] | None = None
    residual: bool | None = None
    dropout: float | None = None
    optimiser: str | None = None
    learning_rate: float | None = None
    initial_rate: float | None = None
    warmup_steps: int | None = None
    total_steps: int | None = None
    betas: tuple[float, float] | None = None
    momentum: float | None = None
    eps: float | None = None
    weight_decay: float | None = None
    decays: Literal["all", "matrices"] | None = None
    clip_norm: float | None = None
    maximizes: bool | None = None
    rests: bool | None = None
    slows_down: bool | None = None
    batch_tokens: int | None = None
    precision: str | None = None
    weights: str | None = None
    pretrained: bool | None = None
    objective: str | None = None
    d_model: int | None = None
    final_norm: bool | None = None
    score_scale: float | None = None
    frozen: float | None = None
    frozen_at_first: float | None = None
    n_trained: int | None = None
    slow: float | None = None
    rate_fall: float | None = None
    adapter_scale: float | None = None
    frozen_body: bool | None = None
    has_prompts: bool | None = None
    own_answers: bool | None = None
    untrained: float | None = None
    random_table: bool | None = None
    adapted: bool | None = None
    bounded: float | None = None
    trains_another: bool | None = None
    remembered_step: float | None = None
    below_eps: float | None = None
    norm_eps: float | None = None
    unigram: float | None = None
    bigram: float | None = None

    @property
    def on_preferences(self) -> bool:
        """Whether the loss compares pairs of answers, so that guessing costs ln 2 and not ln V."""
        return self.objective in ("DPO", "preferences")

    @property
    def on_rewards(self) -> bool:
        """Whether the model learns from rewards: its loss says nothing of how well it does."""
        return self.objective in ("PolicyGradient", "rewards")


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The records of a training, and the findings of probes in its model.

    `stopped` is the update at which a value was not finite, the name of that value, and its place.
    pellucid's own runs have a `config`, which fixes change. `samples` are greedy answers to one
    prompt. `measures` are the columns of preferences and rewards, by their kinds in
    `logs/columns.toml`; `gains` are the margins or rewards of a history built without `measures`.
    `marks` are what the ledger saw in every update, by name; `ranks` is what the comparison of
    several processes has shown.

    Attributes:
        name: of the training.
        losses: update and loss.
        held_out: update and held-out loss.
        grad_norms: update and norm of all gradients.
        rates: update and learning rate.
        signs: the readings of each vital sign.
        facts: how the model was trained.
        findings: of probes in the model.
    """

    name: str
    losses: Points = ()
    held_out: Points = ()
    grad_norms: Points = ()
    rates: Points = ()
    signs: Mapping[str, tuple[Reading, ...]] = field(default_factory=dict[str, tuple[Reading, ...]])
    facts: Facts = field(default_factory=Facts)
    findings: tuple[Finding, ...] = ()
    stopped: tuple[int, str, str] | None = None
    config: config.Run | None = None
    samples: tuple[tuple[int, str], ...] = ()
    measures: Mapping[str, Points] = field(default_factory=dict[str, Points])
    gains: Points = ()
    marks: Mapping[MarkName, Mark] = field(default_factory=dict[MarkName, Mark])
    ranks: RankReport | None = None
