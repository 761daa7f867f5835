"""How gradients become updates: one frozen class per optimiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import Betas, Checked, Count, Fraction, NotNegative, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamW(Checked):
    """Adam with decoupled weight decay.

    Attributes:
        learning_rate: the peak learning rate.
        betas: how much of the average gradient, and of its average square, stays at each step.
        eps: added to the denominator.
        weight_decay: each step shrinks a weight by learning rate x this.
    """

    learning_rate: Positive
    betas: Betas
    eps: Positive
    weight_decay: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam(Checked):
    """Adam with coupled L2: the penalty passes through the adaptive denominator.

    Attributes:
        learning_rate: the peak learning rate.
        betas: how much of the average gradient, and of its average square, stays at each step.
        eps: added to the denominator.
        l2: this times the weight is added to its gradient.
    """

    learning_rate: Positive
    betas: Betas
    eps: Positive
    l2: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class SGD(Checked):
    """Gradient descent with momentum and L2.

    Attributes:
        learning_rate: the peak learning rate.
        momentum: how much of the sum of gradients stays at each step.
        l2: this times the weight is added to its gradient.
    """

    learning_rate: Positive
    momentum: Fraction
    l2: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class Muon(Checked):
    """Orthogonalised momentum for the hidden matrices, AdamW for everything else.

    Attributes:
        learning_rate: the peak learning rate.
        momentum: how much of the sum of gradients stays at each step.
        weight_decay: each step shrinks a weight by learning rate x this.
        newton_schulz_steps: iterations of the orthogonalisation; 5 in the source.
        polynomials: whose coefficients the iterations have: the source's, or those of "Polar
            Express", with which small singular values grow faster.
        rest: the optimiser of embeddings, head, gains and biases, with a learning rate of its own.
    """

    learning_rate: Positive
    momentum: Fraction
    weight_decay: NotNegative
    newton_schulz_steps: Count
    polynomials: Literal["Jordan", "Polar Express"] = "Jordan"
    rest: AdamW


#: How gradients become updates.
Optimiser = AdamW | Adam | SGD | Muon
