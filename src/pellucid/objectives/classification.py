"""Predict the class of a text, or yes or no for each class."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid.batches import IGNORED, Classifier, LabelBatch, Loss


class Classification:
    """-log p(class | text) / texts; with `multi_label` the binary loss below, a mean over classes.

    L = mean over classes of -y log s(x) - (1 - y) log s(-x)

    It is the mean, not the sum, as in torch's `BCEWithLogitsLoss`: for any number of classes,
    guessing has a loss of ln 2. Parts: `loss_nats`, without smoothing; `accuracy`, the share of
    texts whose class has the largest logit, or with `multi_label` the share of right answers.

    Source:
        Bishop 2006, "Pattern Recognition and Machine Learning", eq. 4.108 and 4.90.
    See also:
        `pellucid.maths.cross_entropy`, `pellucid.maths.binary_cross_entropy_from_logits`: the same
        equations, but they check the labels' values, which would wait for the device.
    """

    def __init__(self, *, label_smoothing: float = 0.0, multi_label: bool = False) -> None:
        self.label_smoothing = label_smoothing
        self.multi_label = multi_label

    def __call__(self, model: Classifier, batch: LabelBatch) -> Loss:
        """The batch's share of the mean over labelled texts."""
        logits = model.class_logits(batch.ids, padding=batch.padding)
        with torch.autocast(logits.device.type, enabled=False):
            logits = logits if logits.dtype == torch.float64 else logits.float()
            measure = self._yes_or_no if self.multi_label else self._one_class
            loss, plain, correct = measure(logits, batch.labels)
        n = batch.n_supervised
        parts = {"loss_nats": plain.detach().sum() / n, "accuracy": correct.sum() / n}
        return Loss(total=loss.sum() / n, parts=parts)

    def _one_class(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """For each text the loss, the loss without smoothing, and whether the class is right."""
        plain = loss = F.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none")
        if self.label_smoothing:
            loss = F.cross_entropy(
                logits,
                labels,
                ignore_index=IGNORED,
                label_smoothing=self.label_smoothing,
                reduction="none",
            )
        return loss, plain, (logits.argmax(-1) == labels).to(logits.dtype)

    def _yes_or_no(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = labels.to(logits.dtype)
        loss = F.binary_cross_entropy_with_logits(logits, y, reduction="none").mean(-1)
        return loss, loss, ((logits > 0) == (y > 0.5)).to(logits.dtype).mean(-1)
