"""Probes as assertions, for a test suite: each fails with the finding's own words.

Notes pass; every other finding fails.
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


def _none(findings: Iterable[Finding]) -> None:
    texts = [finding.text() for finding in findings if finding.severity != "note"]
    if texts:
        raise AssertionError("\n" + "\n\n".join(texts))


def assert_causal(model: nn.Module) -> None:
    """No output depends on a token after it (ATT001)."""
    _none(probe_causality(ModelAdapter(model, declare(causal=True))))


def assert_rows_apart(model: nn.Module, declared: Expectations | None = None) -> None:
    """No row of a batch depends on another (ATT002)."""
    _none(probe_batch(ModelAdapter(model, declared)))


def assert_padding_unseen(model: nn.Module, declared: Expectations | None = None) -> None:
    """What stands under padding changes nothing (ATT003, ATT006)."""
    _none(probe_padding(ModelAdapter(model, declared)))


def assert_documents_apart(model: nn.Module) -> None:
    """Documents packed into one row do not see each other (ATT004)."""
    _none(probe_documents(ModelAdapter(model)))


def assert_sees_its_window(model: nn.Module, declared: Expectations | None = None) -> None:
    """Every token within reach has an influence on the last output (ATT005)."""
    _none(probe_receptive_field(ModelAdapter(model, declared)))


def assert_knows_order(model: nn.Module, declared: Expectations | None = None) -> None:
    """Positions are told to the model, and rotary ones by distance alone (POS001, POS002)."""
    adapter = ModelAdapter(model, declared)
    _none(probe_positions(adapter) + probe_rotary(adapter))


def assert_labels_aligned(
    model: nn.Module, ids: Tensor, labels: Tensor, declared: Expectations | None = None
) -> None:
    """Labels are the next tokens, and enough of them are there (LOS001 to LOS004, LOS011)."""
    adapter, data = ModelAdapter(model, declared), examples(ids, labels)
    _none(probe_labels(adapter, data) + probe_supervised(adapter, data))


def assert_loss_is_cross_entropy(
    model: nn.Module,
    ids: Tensor,
    labels: Tensor | None = None,
    loss: Reported | None = None,
    declared: Expectations | None = None,
) -> None:
    """The reported loss is the mean cross-entropy of supervised places (LOS005 to LOS010)."""
    _none(probe_loss(ModelAdapter(model, declared), examples(ids, labels), loss))


def assert_starts_at_chance(model: nn.Module, ids: Tensor, labels: Tensor | None = None) -> None:
    """An untrained model's first loss is that of guessing (INI001, INI002)."""
    adapter = ModelAdapter(model, declare(pretrained=False))
    _none(probe_initial_loss(adapter, examples(ids, labels)))


def assert_all_parameters_learn(
    model: nn.Module, optimizer: Any | None = None, declared: Expectations | None = None
) -> None:
    """Every weight gets a gradient, and `optimizer` moves it (GRD001, GRD002, OPT001 to OPT003)."""
    adapter = ModelAdapter(model, declared)
    findings = probe_gradients(adapter)
    _none(findings if optimizer is None else findings + probe_moves(adapter, optimizer))


def assert_learns_one_batch(model: nn.Module, ids: Tensor | None = None) -> None:
    """Sixty updates on one small batch halve its loss (LRN001)."""
    _none(probe_overfit(ModelAdapter(model), ids))


def assert_tied(model: nn.Module, tied: bool = True) -> None:
    """Embedding and head are one tensor, or two (TIE001, TIE002)."""
    _none(probe_ties(ModelAdapter(model, declare(tied=tied))))


def assert_weights_sound(
    model: nn.Module, ids: Tensor | None = None, declared: Expectations | None = None
) -> None:
    """Weights are numbers, none is a copy; pretrained ones know the text (WGT, INI003)."""
    _none(probe_numbers(model))
    adapter = ModelAdapter(model, declared)
    _none(probe_weights(adapter))
    if ids is not None:
        _none(probe_import(adapter, examples(ids)))


def assert_ids_fit(
    model: nn.Module, ids: Tensor | Sequence[Tensor], tokenizer: Any | None = None
) -> None:
    """Every id has a row, and no batch or row comes twice (DAT001 to DAT004, DAT007)."""
    adapter, data = ModelAdapter(model), examples(ids)
    _none(probe_ids(data, adapter.vocab) + probe_duplicates(data))
    if tokenizer is not None:
        _none(probe_tokenizer(tokenizer, adapter.vocab, data))


def assert_numbers_hold(
    model: nn.Module, optimizer: Any | None = None, ids: Tensor | None = None
) -> None:
    """Outputs are finite, and what is small survives the dtype (NUM)."""
    adapter = ModelAdapter(model)
    _none(probe_finite(adapter, ids) + probe_dtypes(adapter, optimizer))


def assert_repeatable(model: nn.Module, ids: Tensor | None = None) -> None:
    """Evaluation is free of chance, and dropout differs from pass to pass (RND)."""
    _none(probe_chance(ModelAdapter(model), ids))
