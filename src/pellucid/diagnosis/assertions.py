"""Probes as assertions, for a test suite: each fails with the finding's own words.

A note passes; every other finding fails. `declared` is what you intend, so that it does not fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn

from pellucid.diagnosis.batches import examples
from pellucid.diagnosis.expectations import Expectations, declare
from pellucid.diagnosis.finding import Finding
from pellucid.diagnosis.model_adapter import ModelAdapter
from pellucid.diagnosis.probes.labels import probe_labels, probe_supervised
from pellucid.diagnosis.probes.leakage import (
    probe_batch,
    probe_causality,
    probe_documents,
    probe_padding,
)
from pellucid.diagnosis.probes.learning import probe_gradients, probe_moves, probe_overfit
from pellucid.diagnosis.probes.losses import Reported, probe_initial_loss, probe_loss
from pellucid.diagnosis.probes.numerics import probe_chance, probe_dtypes, probe_finite
from pellucid.diagnosis.probes.receptive_field import (
    probe_positions,
    probe_receptive_field,
    probe_rotary,
)
from pellucid.diagnosis.probes.token_ids import probe_duplicates, probe_ids, probe_tokenizer
from pellucid.diagnosis.probes.weights import probe_import, probe_numbers, probe_ties, probe_weights


def _assert_none(findings: Iterable[Finding], *, notes: bool = False) -> None:
    texts = [finding.text() for finding in findings if notes or finding.severity != "note"]
    if texts:
        raise AssertionError("\n" + "\n\n".join(texts))


def assert_causal(model: nn.Module) -> None:
    """No output depends on a token after it (ATT001)."""
    _assert_none(probe_causality(ModelAdapter(model, declare(causal=True))))


def assert_rows_apart(model: nn.Module, declared: Expectations | None = None) -> None:
    """No row of a batch depends on another (ATT002)."""
    _assert_none(probe_batch(ModelAdapter(model, declared)))


def assert_padding_unseen(model: nn.Module, declared: Expectations | None = None) -> None:
    """The ids under padding change nothing (ATT003, ATT006)."""
    _assert_none(probe_padding(ModelAdapter(model, declared)))


def assert_documents_apart(model: nn.Module) -> None:
    """Documents packed into one row do not see each other (ATT004)."""
    _assert_none(probe_documents(ModelAdapter(model)))


def assert_sees_its_window(model: nn.Module, declared: Expectations | None = None) -> None:
    """Every token within reach has an influence on the last output (ATT005)."""
    _assert_none(probe_receptive_field(ModelAdapter(model, declared)))


def assert_knows_order(model: nn.Module, declared: Expectations | None = None) -> None:
    """The model knows the order of tokens; rotary scores depend on distance (POS001, POS002)."""
    adapter = ModelAdapter(model, declared)
    _assert_none(probe_positions(adapter) + probe_rotary(adapter))


def assert_labels_aligned(
    model: nn.Module, ids: Tensor, labels: Tensor, declared: Expectations | None = None
) -> None:
    """The labels are the next tokens, and not too few (LOS001 to LOS004, LOS011).

    Args:
        model: a module that maps ids to logits.
        ids: (batch, time).
        labels: (batch, time), in the form that the loss takes.
        declared: what you intend.
    """
    adapter, data = ModelAdapter(model, declared), examples(ids, labels)
    _assert_none(probe_labels(adapter, data) + probe_supervised(adapter, data))


def assert_loss_is_cross_entropy(
    model: nn.Module,
    ids: Tensor,
    labels: Tensor | None = None,
    loss: Reported | None = None,
    declared: Expectations | None = None,
) -> None:
    """The reported loss is the mean cross-entropy of supervised positions (LOS005 to LOS010).

    Args:
        model: a module that maps ids to logits.
        ids: (batch, time).
        labels: (batch, time), in the form that the loss takes; by default the next tokens.
        loss: the reported loss, or a function that gives it, as for `check`.
        declared: what you intend.
    """
    _assert_none(probe_loss(ModelAdapter(model, declared), examples(ids, labels), loss))


def assert_starts_at_chance(model: nn.Module, ids: Tensor, labels: Tensor | None = None) -> None:
    """The first loss of an untrained model is near ln V (INI001, INI002).

    Args:
        model: a module that maps ids to logits.
        ids: (batch, time).
        labels: (batch, time), in the form that the loss takes; by default the next tokens.
    """
    adapter = ModelAdapter(model, declare(pretrained=False))
    _assert_none(probe_initial_loss(adapter, examples(ids, labels)))


def assert_all_parameters_learn(
    model: nn.Module, optimizer: Any | None = None, declared: Expectations | None = None
) -> None:
    """Every weight gets a gradient, and `optimizer` moves it (GRD001, GRD002, OPT001 to OPT003).

    Args:
        model: a module that maps ids to logits.
        optimizer: the optimiser, if you want to test it too.
        declared: what you intend.
    """
    adapter = ModelAdapter(model, declared)
    findings = probe_gradients(adapter)
    _assert_none(findings if optimizer is None else findings + probe_moves(adapter, optimizer))


def assert_learns_one_batch(model: nn.Module, ids: Tensor | None = None) -> None:
    """Sixty updates on one small batch halve its loss (LRN001)."""
    _assert_none(probe_overfit(ModelAdapter(model), ids))


def assert_tied(model: nn.Module, tied: bool = True) -> None:
    """Embedding and head are one tensor, or two (TIE001, TIE002)."""
    _assert_none(probe_ties(ModelAdapter(model, declare(tied=tied))))


def assert_weights_sound(
    model: nn.Module, ids: Tensor | None = None, declared: Expectations | None = None
) -> None:
    """Weights are finite, none is a copy, and pretrained ones know the text (WGT, INI003).

    Args:
        model: a module that maps ids to logits.
        ids: (batch, time) of a text that pretrained weights should know.
        declared: what you intend.
    """
    _assert_none(probe_numbers(model))
    adapter = ModelAdapter(model, declared)
    _assert_none(probe_weights(adapter))
    if ids is not None:
        _assert_none(probe_import(adapter, examples(ids)))


def assert_ids_fit(
    model: nn.Module, ids: Tensor | Sequence[Tensor], tokenizer: Any | None = None
) -> None:
    """Every id has an embedding, no batch or row comes twice (DAT001 to DAT004, DAT007).

    Args:
        model: a module that maps ids to logits.
        ids: (batch, time), or several batches in the order of the loader.
        tokenizer: the tokenizer, if you want to test it too.
    """
    adapter, data = ModelAdapter(model), examples(ids)
    _assert_none(probe_ids(data, adapter.vocab) + probe_duplicates(data))
    if tokenizer is not None:
        _assert_none(probe_tokenizer(tokenizer, adapter.vocab, data))


def assert_numbers_hold(
    model: nn.Module, optimizer: Any | None = None, ids: Tensor | None = None
) -> None:
    """Outputs are finite, and small numbers survive the dtype (NUM).

    Args:
        model: a module that maps ids to logits.
        optimizer: the optimiser, if you want to test its eps too.
        ids: (batch, time); by default random ids.
    """
    adapter = ModelAdapter(model)
    _assert_none(probe_finite(adapter, ids) + probe_dtypes(adapter, optimizer))


def assert_repeatable(model: nn.Module, ids: Tensor | None = None) -> None:
    """Evaluation is deterministic, and dropout differs from pass to pass (RND)."""
    # who asserts this does not want a model that samples, either
    _assert_none(probe_chance(ModelAdapter(model), ids), notes=True)
