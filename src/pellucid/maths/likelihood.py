"""The probability of a whole text, which language models are trained for, and ways to report it."""

from __future__ import annotations

import math

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.cross_entropy import cross_entropy, cross_entropy_grad
from pellucid.maths.door import checks
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COST, COUNT, FROM_ZERO, index, scores


@equation(logits=scores("... time>=0 classes"), targets=index("... time>=0", size="classes"))
def sequence_log_likelihood(logits: Array, targets: Array) -> Array:
    """log P of a text: the sum over its tokens of log P of each, given the tokens before it.

    log P(x_1 ... x_T) = sum_t log p_t(x_t)

    Args:
        logits: (..., time, classes). targets: (..., time), whole numbers. Returns (...).
    Units:
        Nats; never positive.
    Gradient:
        `sequence_log_likelihood_grad`.
    Fails:
        The product of the probabilities underflows: 0.1^400 is 0 in float64. The sum does not.
    Raises:
        MathsError: the targets are not one class for each position.
    Source:
        Bengio et al. 2003, "A Neural Probabilistic Language Model", section 2.
    Example:
        sequence_log_likelihood(array([[1.0, 2.0], [3.0, 0.0]]), array([1, 0]))
    """
    return -namespace(logits).sum(cross_entropy(logits, targets), axis=-1)


@equation(sequence_log_likelihood)
def sequence_log_likelihood_grad(logits: Array, targets: Array) -> Array:
    """The gradient of `sequence_log_likelihood` by the logits.

    d log P / dlogits_t = y_t - p_t

    Args:
        As `sequence_log_likelihood`. Returns like logits.
    """
    return -cross_entropy_grad(logits, targets)


def _at_least_one_target(targets: Array) -> None:
    checks.at_least(1, **{"the number of targets": math.prod(targets.shape)})


@equation(
    _at_least_one_target,
    logits=scores("... time classes"),
    targets=index("... time", size="classes"),
)
def language_model_loss(logits: Array, targets: Array) -> Array:
    """The mean surprise per token: the loss of a language model, and the logarithm of perplexity.

    L = -1/T sum_t log p_t(x_t)

    Args:
        logits: (..., time, classes). targets: (..., time), whole numbers. Returns one number: the
            mean over every position of every row.
    Units:
        Nats per token.
    Gradient:
        `language_model_loss_grad`.
    Fails:
        You cannot compare it between tokenizers: longer tokens have a larger loss each. Compare
        `bits_per_byte` instead.
    Raises:
        MathsError: the targets are not one class for each position, or there are none.
    Source:
        Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training", eq. 1
        (a mean instead of the sum).
    Example:
        language_model_loss(array([[1.0, 2.0], [3.0, 0.0]]), array([1, 0]))
    """
    return namespace(logits).mean(cross_entropy(logits, targets))


@equation(language_model_loss)
def language_model_loss_grad(logits: Array, targets: Array) -> Array:
    """The gradient of `language_model_loss` by the logits.

    dL/dlogits_t = (p_t - y_t) / T,  T the number of positions

    Args:
        As `language_model_loss`. Returns like logits.
    """
    return cross_entropy_grad(logits, targets) / math.prod(targets.shape)


@equation(loss_nats=COST)
def perplexity(loss_nats: float) -> float:
    """The number of equally likely tokens that would give the same loss.

    PPL = exp(nats) = 2^bits

    A uniform guess over K tokens has a perplexity of exactly K.

    Args:
        loss_nats: nats per token. Returns tokens; inf if it overflows.
    Units:
        Tokens.
    Fails:
        The mean of perplexities is not the perplexity of the mean: average nats first.
    Source:
        Jelinek et al. 1977, "Perplexity: a measure of the difficulty of speech recognition tasks".
    Example:
        perplexity(1.0986122886681098)
    """
    try:
        return math.exp(loss_nats)
    except OverflowError:
        return math.inf


@equation(loss_nats=COST, tokens=FROM_ZERO, n_bytes=COUNT)
def bits_per_byte(loss_nats: float, *, tokens: int, n_bytes: int) -> float:
    """The loss per byte of text: it does not depend on how a tokenizer cuts the text.

    bits per byte = nats per token x tokens / (ln 2 x bytes)

    Args:
        loss_nats: nats per token. tokens, n_bytes: of the same text.
    Units:
        Bits per byte.
    Fails:
        You cannot compare it if a tokenizer has unknown tokens or changes the text.
    Raises:
        MathsError: there is no byte.
    Source:
        Gao et al. 2020, "The Pile: An 800GB Dataset of Diverse Text for Language Modeling",
        section 3.1.
    Example:
        bits_per_byte(2.0, tokens=250, n_bytes=1000)
    """
    return loss_nats * tokens / (math.log(2) * n_bytes)
