"""How wide weights start: a standard deviation as a function of a matrix's shape.

Comes in: numbers of inputs and outputs. Goes out: a standard deviation. It draws nothing.
"""

from __future__ import annotations

import math


def he_std(n_in: int) -> float:
    """sqrt(2 / n_in): a layer followed by ReLU keeps the mean square of its input.

    Source:
        He et al. 2015, "Delving Deep into Rectifiers", eq. 10.
    """
    return math.sqrt(2 / n_in)


def xavier_std(n_in: int, n_out: int) -> float:
    """sqrt(2 / (n_in + n_out)): between keeping the variance forward and backward.

    Source:
        Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward neural
        networks", eq. 12.
    """
    return math.sqrt(2 / (n_in + n_out))


def depth_scale(n_layers: int) -> float:
    """1 / sqrt(2 n_layers): each block adds two outputs to the residual stream, whose variance
    would otherwise grow with the depth.

    Source:
        Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3.
    """
    return 1 / math.sqrt(2 * n_layers)
