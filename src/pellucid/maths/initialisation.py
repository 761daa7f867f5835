"""The standard deviation of initial weights, from the shape of a matrix or the depth of a model.

Nothing here draws a random number.
"""

from __future__ import annotations

import math

from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, FROM_ZERO, NOT_NEGATIVE


@equation(n_in=COUNT)
def he_std(n_in: int) -> float:
    """sqrt(2 / n_in): a layer followed by ReLU keeps the mean square of its input.

    Fails:
        Without the ReLU the standard deviation grows by a factor of 1.41 with every layer.
    Source:
        He et al. 2015, "Delving Deep into Rectifiers", eq. 10.
    Example:
        he_std(512)
    """
    return math.sqrt(2 / n_in)


@equation(n_in=COUNT, n_out=COUNT)
def xavier_std(n_in: int, n_out: int) -> float:
    """sqrt(2 / (n_in + n_out)): a compromise between keeping the variance forward and backward.

    Fails:
        With ReLU, every layer loses half of the mean square.
    Source:
        Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward neural
        networks", eq. 12.
    Example:
        xavier_std(512, 2048)
    """
    return math.sqrt(2 / (n_in + n_out))


@equation(n_in=COUNT)
def lecun_std(n_in: int) -> float:
    """sqrt(1 / n_in): a linear layer keeps the mean square of its input.

    Fails:
        1 / n_in is the variance: used as a standard deviation it is sqrt(n_in) times too small.
    Source:
        LeCun et al. 1998, "Efficient BackProp", eq. 16.
    Example:
        lecun_std(512)
    """
    return math.sqrt(1 / n_in)


@equation(n_in=COUNT)
def torch_linear_std(n_in: int) -> float:
    """1 / sqrt(3 n_in): torch's default for `nn.Linear`.

    The weights are uniform between -1 / sqrt(n_in) and 1 / sqrt(n_in). A layer changes a standard
    deviation of 1 to 0.577. The bias is drawn from the same range.

    Source:
        He et al. 2015, "Delving Deep into Rectifiers", with a leaky ReLU of slope sqrt(5): torch
        `nn.init.kaiming_uniform_`.
    Example:
        torch_linear_std(512)
    """
    return 1 / math.sqrt(3 * n_in)


@equation()
def gpt2_std() -> float:
    """0.02 for every shape: 1 / sqrt(n_in) for 2500 inputs, and smaller than that for fewer.

    std = 0.02

    Source:
        Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training",
        section 4.1.
    See also:
        `depth_scale`, GPT-2's factor for matrices that write to the residual stream.
    Example:
        gpt2_std() * depth_scale(12)
    """
    return 0.02


@equation(mean_square=NOT_NEGATIVE, n_in=COUNT, std=NOT_NEGATIVE)
def linear_variance(mean_square: float, *, n_in: int, std: float) -> float:
    """The variance of a linear layer's outputs.

    var(y) = n_in std^2 E[x^2]

    The weights are independent with mean 0. The mean square of x counts, not its variance: inputs
    that are uniform between 0 and 1 have 1/3, not 1/12.

    Args:
        mean_square: E[x^2] of the inputs. n_in: the number of inputs. std: standard deviation of
            the weights.
    Fails:
        Weights whose mean is not 0, as from `rand`, add (n_in mean(w) mean(x))^2 and more.
    Source:
        He et al. 2015, "Delving Deep into Rectifiers", eq. 7.
    Example:
        linear_variance(1.0, n_in=512, std=lecun_std(512))
    """
    return n_in * std**2 * mean_square


@equation(variance=NOT_NEGATIVE)
def relu_mean_square(variance: float) -> float:
    """The mean square after ReLU: half of the variance, if x is symmetric about 0.

    E[max(x, 0)^2] = var(x) / 2

    Source:
        He et al. 2015, "Delving Deep into Rectifiers", section 2.2.
    Example:
        relu_mean_square(linear_variance(1.0, n_in=512, std=he_std(512)))
    """
    return variance / 2


@equation(variance=NOT_NEGATIVE, factor=NOT_NEGATIVE, n_layers=FROM_ZERO)
def chained_variance(variance: float, *, factor: float, n_layers: int) -> float:
    """The variance after many layers that each multiply it: it vanishes or explodes.

    var_L = factor^L var_0

    Args:
        variance: var_0. n_layers: L.
        factor: of one layer: n_in std^2 for a linear layer, half of that with ReLU.
    Source:
        He et al. 2015, "Delving Deep into Rectifiers", eq. 9.
    Example:
        chained_variance(1.0, factor=0.5, n_layers=30)
    """
    return factor**n_layers * variance


@equation(variance=NOT_NEGATIVE, attention=NOT_NEGATIVE, feed_forward=NOT_NEGATIVE)
def block_variance(variance: float, *, attention: float, feed_forward: float) -> float:
    """The variance of the residual stream after a block: the sum of three variances.

    var(x + a + f) = var(x) + var(a) + var(f)

    With norms before the sublayers, a and f do not depend on the size of the stream.

    Args:
        variance: of the stream x. attention, feed_forward: the variances of the sublayers' outputs
            a and f, assumed independent of x.
    Fails:
        After training, x, a and f are not independent.
    Source:
        Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", lemma 2.
    Example:
        block_variance(1.0, attention=0.25, feed_forward=0.5)
    """
    return variance + attention + feed_forward


@equation(variance=NOT_NEGATIVE, added=NOT_NEGATIVE, n_layers=FROM_ZERO)
def stream_variance(variance: float, *, added: float, n_layers: int) -> float:
    """The variance of the residual stream after L pre-norm blocks: it grows linearly.

    var_L = var_0 + 2 L added

    With `depth_scale`, a sublayer adds only added / (2 L), and the sum is var_0 + added.

    Args:
        variance: var_0. n_layers: L.
        added: the variance that each of the two sublayers of a block adds.
    Source:
        Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", lemma 2.
    Example:
        stream_variance(1.0, added=0.5, n_layers=12)
        stream_variance(1.0, added=0.5 * depth_scale(12) ** 2, n_layers=12)
    """
    return variance + 2 * n_layers * added


@equation(n_layers=COUNT)
def depth_scale(n_layers: int) -> float:
    """1 / sqrt(2 n_layers): the factor for the two outputs that each block adds to the stream.

    Without it the variance of the residual stream grows with the depth.

    Source:
        Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3.
    Example:
        depth_scale(12)
    """
    return 1 / math.sqrt(2 * n_layers)


@equation(n_layers=COUNT)
def deep_norm_one_stack(n_layers: int) -> tuple[float, float]:
    """alpha and beta of DeepNorm, for an encoder only or a decoder only.

    alpha = (2 N)^(1/4),  beta = (8 N)^(-1/4)

    alpha multiplies the residual stream before the sum: norm(alpha x + f(x)). beta multiplies
    Xavier's standard deviation for the matrices of the feed-forward layer and for the value and
    output matrices of attention. Then the change of the output per update is bounded at any depth.

    Args:
        n_layers: N, or M for a decoder. Returns alpha, beta.
    Source:
        Wang et al. 2022, "DeepNet: Scaling Transformers to 1,000 Layers", figure 2.
    Example:
        deep_norm_one_stack(100)
    """
    return (2 * n_layers) ** 0.25, (8 * n_layers) ** -0.25


@equation(n_encoder_layers=COUNT, n_decoder_layers=COUNT)
def deep_norm_encoder(n_encoder_layers: int, n_decoder_layers: int) -> tuple[float, float]:
    """alpha and beta of DeepNorm, for the encoder of an encoder-decoder.

    alpha = 0.81 (N^4 M)^(1/16),  beta = 0.87 (N^4 M)^(-1/16)

    Args:
        n_encoder_layers: N. n_decoder_layers: M. Returns alpha, beta.
    Source:
        Wang et al. 2022, "DeepNet: Scaling Transformers to 1,000 Layers", figure 2.
    See also:
        `deep_norm_one_stack`, which explains them.
    Example:
        deep_norm_encoder(6, 6)
    """
    depth = (n_encoder_layers**4 * n_decoder_layers) ** (1 / 16)
    return 0.81 * depth, 0.87 / depth


@equation(n_decoder_layers=COUNT)
def deep_norm_decoder(n_decoder_layers: int) -> tuple[float, float]:
    """alpha and beta of DeepNorm, for the decoder of an encoder-decoder (3 sublayers per block).

    alpha = (3 M)^(1/4),  beta = (12 M)^(-1/4)

    Args:
        n_decoder_layers: M. Returns alpha, beta.
    Source:
        Wang et al. 2022, "DeepNet: Scaling Transformers to 1,000 Layers", figure 2.
    See also:
        `deep_norm_one_stack`, which explains them.
    Example:
        deep_norm_decoder(6)
    """
    return (3 * n_decoder_layers) ** 0.25, (12 * n_decoder_layers) ** -0.25
