"""Counts of a model: weights, operations, the cache, and the loss that scaling laws predict."""

from __future__ import annotations

from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, NOT_NEGATIVE, POSITIVE


@equation(vocab_size=COUNT, context_length=COUNT, d_model=COUNT, n_layers=COUNT)
def gpt2_parameters(*, vocab_size: int, context_length: int, d_model: int, n_layers: int) -> int:
    """The weights of GPT-2's stack: tied embedding, positions, blocks of 12 d^2 + 13 d, last norm.

    N = V d + T d + L (12 d^2 + 13 d) + 2 d

    Of a block, 4 d^2 + 4 d are in attention, 8 d^2 + 5 d in the feed-forward layer, 4 d in norms.

    Args:
        vocab_size: V. context_length: T. d_model: d. n_layers: L. Returns N.
    Source:
        Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3;
        counted from the released weights.
    Example:
        gpt2_parameters(vocab_size=50257, context_length=1024, d_model=768, n_layers=12)
    """
    block = 12 * d_model**2 + 13 * d_model
    return (vocab_size + context_length + 2) * d_model + n_layers * block


@equation(parameters=COUNT, tokens=COUNT)
def training_flops(parameters: int, tokens: int) -> int:
    """The operations of a training: 6 N D for N weights and D tokens, without attention's scores.

    C = 6 N D

    A weight costs a multiplication and an addition for each token. The backward pass needs two such
    products: for the gradient of the input and of the weight.

    Units:
        Floating point operations.
    Fails:
        It leaves out the scores of attention, and an embedding that is looked up costs nothing.
    Source:
        Kaplan et al. 2020, "Scaling Laws for Neural Language Models", section 2.1.
    See also:
        `attention_flops`.
    Example:
        training_flops(124439808, 1000)
    """
    return 6 * parameters * tokens


@equation(n_layers=COUNT, d_model=COUNT, context_length=COUNT)
def attention_flops(n_layers: int, d_model: int, context_length: int) -> int:
    """The operations of attention's scores and mixtures for one token in training.

    C = 12 L d T

    Forward a token meets T keys and T values of d features in all heads together: 4 d T operations
    in each layer. The backward pass costs twice as much. With a causal mask half of them are idle.

    Args:
        n_layers: L. d_model: d. context_length: T. Returns C.
    Units:
        Floating point operations per token; times T it is quadratic in the length of the text.
    Source:
        Chowdhery et al. 2022, "PaLM: Scaling Language Modeling with Pathways", appendix B.
    See also:
        `training_flops`.
    Example:
        attention_flops(12, 768, 1024)
    """
    return 12 * n_layers * d_model * context_length


@equation(n_layers=COUNT, n_kv_heads=COUNT, d_head=COUNT, tokens=COUNT)
def kv_cache_size(n_layers: int, n_kv_heads: int, d_head: int, tokens: int) -> int:
    """The numbers that a cache holds: a key and a value for each layer, head and token.

    S = 2 L h d T

    Args:
        n_layers: L. n_kv_heads: h. d_head: d. tokens: T. Returns S.
    Units:
        Numbers; in 16 bits two bytes each.
    Source:
        Shazeer 2019, "Fast Transformer Decoding: One Write-Head is All You Need", section 2.4; Pope
        et al. 2022, "Efficiently Scaling Transformer Inference", section 3.3.
    Example:
        kv_cache_size(12, 12, 64, 1024)
    """
    return 2 * n_layers * n_kv_heads * d_head * tokens


@equation(
    parameters=POSITIVE,
    tokens=POSITIVE,
    floor=NOT_NEGATIVE,
    a=NOT_NEGATIVE,
    alpha=POSITIVE,
    b=NOT_NEGATIVE,
    beta=POSITIVE,
)
def scaling_law_loss(
    parameters: float,
    tokens: float,
    *,
    floor: float,
    a: float,
    alpha: float,
    b: float,
    beta: float,
) -> float:
    """The loss that a model of N weights reaches after D tokens, by a fitted law.

    L = E + A / N^alpha + B / D^beta

    E is the entropy of the text. The second term is what the model is too small for, and the third
    what it has not seen yet. For C = 6 N D operations the best N grows as
    C^(beta / (alpha + beta)).

    Args:
        parameters: N. tokens: D. floor: E. a, alpha: A and its exponent. b, beta: B and its
            exponent. Returns the loss in nats per token.
    Fails:
        It is a fit. Beyond the sizes that it was fitted to, it is a guess.
    Source:
        Hoffmann et al. 2022, "Training Compute-Optimal Large Language Models", eq. 10.
    Example:
        scaling_law_loss(70e9, 1.4e12, floor=1.69, a=406.4, alpha=0.34, b=410.7, beta=0.28)
    """
    return floor + a / parameters**alpha + b / tokens**beta
