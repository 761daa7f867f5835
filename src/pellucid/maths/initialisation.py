"""How wide weights start, by the shape of a matrix or the depth of a model.

Comes in: numbers of inputs, outputs and layers. Goes out: standard deviations, or factors of them.
It draws nothing.
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


def deep_norm_one_stack(n_layers: int) -> tuple[float, float]:
    """alpha and beta of DeepNorm, for an encoder alone or a decoder alone.

    alpha = (2 N)^(1/4),  beta = (8 N)^(-1/4)

    The stream is multiplied by alpha before a sublayer's output is added: norm(alpha x + f(x)).
    The matrices of the feed-forward, and value and output of attention, start beta times as wide
    as Xavier says. Then an update moves the output by a bounded amount, whatever the depth.

    Args:
        n_layers: N, or M for a decoder. Returns alpha, beta.
    Source:
        Wang et al. 2022, "DeepNet: Scaling Transformers to 1,000 Layers", figure 2.
    """
    return (2 * n_layers) ** 0.25, (8 * n_layers) ** -0.25


def deep_norm_encoder(n_encoder_layers: int, n_decoder_layers: int) -> tuple[float, float]:
    """alpha and beta of DeepNorm, for the encoder of an encoder-decoder.

    alpha = 0.81 (N^4 M)^(1/16),  beta = 0.87 (N^4 M)^(-1/16)

    Args:
        n_encoder_layers: N. n_decoder_layers: M. Returns alpha, beta.
    Source:
        Wang et al. 2022, "DeepNet: Scaling Transformers to 1,000 Layers", figure 2.
    See also:
        `deep_norm_one_stack`, which says what they are for.
    """
    depth = (n_encoder_layers**4 * n_decoder_layers) ** (1 / 16)
    return 0.81 * depth, 0.87 / depth


def deep_norm_decoder(n_decoder_layers: int) -> tuple[float, float]:
    """alpha and beta of DeepNorm, for the decoder of an encoder-decoder, of 3 sublayers each.

    alpha = (3 M)^(1/4),  beta = (12 M)^(-1/4)

    Args:
        n_decoder_layers: M. Returns alpha, beta.
    Source:
        Wang et al. 2022, "DeepNet: Scaling Transformers to 1,000 Layers", figure 2.
    See also:
        `deep_norm_one_stack`, which says what they are for.
    """
    return (3 * n_decoder_layers) ** 0.25, (12 * n_decoder_layers) ** -0.25
