"""How wide weights start, by the shape of a matrix or the depth of a model.

It draws nothing.
"""

from __future__ import annotations

import math

from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, FROM_ZERO, NOT_NEGATIVE


@equation(n_in=COUNT)
def he_std(n_in: int) -> float:
    """sqrt(2 / n_in): a layer followed by ReLU keeps the mean square of its input.

    Fails:
        Without the ReLU the standard deviation grows by 1.41 with every layer.
    Source:
        He et al. 2015, "Delving Deep into Rectifiers", eq. 10.
    Example:
        he_std(512)
    """
    return math.sqrt(2 / n_in)


@equation(n_in=COUNT, n_out=COUNT)
def xavier_std(n_in: int, n_out: int) -> float:
    """sqrt(2 / (n_in + n_out)): between keeping the variance forward and backward.

    Fails:
        With ReLU half of the mean square is lost in every layer.
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
        1 / n_in is the variance; as a standard deviation it is sqrt(n_in) times too small.
    Source:
        LeCun et al. 1998, "Efficient BackProp", eq. 16.
    Example:
        lecun_std(512)
    """
    return math.sqrt(1 / n_in)


@equation(n_in=COUNT)
def torch_linear_std(n_in: int) -> float:
    """1 / sqrt(3 n_in): what torch gives an `nn.Linear` that nobody initialised.

    Uniform between -1 / sqrt(n_in) and 1 / sqrt(n_in). A layer turns a standard deviation of 1 into
    0.577, and its bias is drawn from the same range besides.

    Source:
        He et al. 2015, "Delving Deep into Rectifiers", with a leaky ReLU of slope sqrt(5): torch
        `nn.init.kaiming_uniform_`.
    Example:
        torch_linear_std(512)
    """
    return 1 / math.sqrt(3 * n_in)


@equation()
def gpt2_std() -> float:
    """0.02, whatever the shape: about 1 / sqrt(n_in) for 2500 inputs, less than that for fewer.

    std = 0.02

    Source:
        Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training",
        section 4.1.
    See also:
        `depth_scale`, by which GPT-2 multiplies it where a block writes to the stream.
    Example:
        gpt2_std() * depth_scale(12)
    """
    return 0.02


@equation(mean_square=NOT_NEGATIVE, n_in=COUNT, std=NOT_NEGATIVE)
def linear_variance(mean_square: float, *, n_in: int, std: float) -> float:
    """The variance that a linear layer gives to what comes in.

    var(y) = n_in std^2 E[x^2]

    Weights are independent with mean 0. It is the mean square of x that counts, not its variance:
    inputs between 0 and 1 come with 1/3, not 1/12.

    Args:
        mean_square: E[x^2] of the inputs. std: of the weights.
    Fails:
        Weights with a mean, as those of `rand`, add (n_in mean(w) mean(x))^2 and more.
    Source:
        He et al. 2015, "Delving Deep into Rectifiers", eq. 7.
    Example:
        linear_variance(1.0, n_in=512, std=lecun_std(512))
    """
    return n_in * std**2 * mean_square


@equation(variance=NOT_NEGATIVE)
def relu_mean_square(variance: float) -> float:
    """What ReLU leaves of a mean square: half, of what is symmetric about 0.

    E[max(x, 0)^2] = var(x) / 2

    Source:
        He et al. 2015, "Delving Deep into Rectifiers", section 2.2.
    Example:
        relu_mean_square(linear_variance(1.0, n_in=512, std=he_std(512)))
    """
    return variance / 2


@equation(variance=NOT_NEGATIVE, factor=NOT_NEGATIVE, n_layers=FROM_ZERO)
def chained_variance(variance: float, *, factor: float, n_layers: int) -> float:
    """The variance after layers that each multiply it: it vanishes or explodes.

    var_L = factor^L var_0

    Args:
        factor: what one layer does to it: n_in std^2 for a linear layer, half of it with ReLU.
    Source:
        He et al. 2015, "Delving Deep into Rectifiers", eq. 9.
    Example:
        chained_variance(1.0, factor=0.5, n_layers=30)
    """
    return factor**n_layers * variance


@equation(variance=NOT_NEGATIVE, attention=NOT_NEGATIVE, feed_forward=NOT_NEGATIVE)
def block_variance(variance: float, *, attention: float, feed_forward: float) -> float:
    """The variance of the stream after a block: what came, and what two sublayers added.

    var(x + a + f) = var(x) + var(a) + var(f)

    With norms before the sublayers, what they add does not depend on how large the stream is.

    Args:
        attention, feed_forward: the variances of what they add, taken as independent of x.
    Fails:
        Once trained they are not independent of x, nor of each other.
    Source:
        Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", lemma 2.
    Example:
        block_variance(1.0, attention=0.25, feed_forward=0.5)
    """
    return variance + attention + feed_forward


@equation(variance=NOT_NEGATIVE, added=NOT_NEGATIVE, n_layers=FROM_ZERO)
def stream_variance(variance: float, *, added: float, n_layers: int) -> float:
    """The variance of the stream after blocks with norms before their sublayers: a straight line.

    var_L = var_0 + 2 L added

    Scaled by `depth_scale`, a sublayer adds added / (2 L), and the sum is var_0 + added.

    Args:
        added: the variance that each of two sublayers adds.
    Source:
        Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", lemma 2.
    Example:
        stream_variance(1.0, added=0.5, n_layers=12)
        stream_variance(1.0, added=0.5 * depth_scale(12) ** 2, n_layers=12)
    """
    return variance + 2 * n_layers * added


@equation(n_layers=COUNT)
def depth_scale(n_layers: int) -> float:
    """1 / sqrt(2 n_layers): each block adds two outputs to the residual stream, whose variance
    would otherwise grow with the depth.

    Source:
        Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3.
    Example:
        depth_scale(12)
    """
    return 1 / math.sqrt(2 * n_layers)


@equation(n_layers=COUNT)
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
        `deep_norm_one_stack`, which says what they are for.
    Example:
        deep_norm_encoder(6, 6)
    """
    depth = (n_encoder_layers**4 * n_decoder_layers) ** (1 / 16)
    return 0.81 * depth, 0.87 / depth


@equation(n_decoder_layers=COUNT)
def deep_norm_decoder(n_decoder_layers: int) -> tuple[float, float]:
    """alpha and beta of DeepNorm, for the decoder of an encoder-decoder, of 3 sublayers each.

    alpha = (3 M)^(1/4),  beta = (12 M)^(-1/4)

    Args:
        n_decoder_layers: M. Returns alpha, beta.
    Source:
        Wang et al. 2022, "DeepNet: Scaling Transformers to 1,000 Layers", figure 2.
    See also:
        `deep_norm_one_stack`, which says what they are for.
    Example:
        deep_norm_decoder(6)
    """
    return (3 * n_decoder_layers) ** 0.25, (12 * n_decoder_layers) ** -0.25
