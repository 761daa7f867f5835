"""Tokens as whole numbers: equal indices, counts of pairs, and the score of a merge."""

from __future__ import annotations

from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, index, not_negative, positive, wholes


@equation(i=wholes("..."), j=wholes("..."))
def kronecker_delta(i: Array, j: Array) -> Array:
    """1 where two indices are equal, else 0: the entries of the identity matrix.

    d_ij = 1 if i = j, else 0

    It writes both cases of a derivative as one: dp_i / dx_j = p_i (d_ij - p_j) for a softmax.

    Args:
        i, j: whole numbers, (...). Returns like i.
    Raises:
        MathsError: the shapes differ, or the numbers are not whole.
    Source:
        Goodfellow, Bengio and Courville 2016, "Deep Learning", section 2.3 (the identity matrix).
    See also:
        `softmax_jacobian`.
    Example:
        kronecker_delta(array([0, 1, 2]), array([0, 2, 2]))
    """
    return namespace(i, j).astype(i == j, i.dtype)


@equation(ids=index("... time", size="size"), size=COUNT)
def pair_counts(ids: Array, *, size: int) -> Array:
    """How often each pair of neighbours occurs: what byte-pair encoding joins by.

    N_ab = how often b follows a

    BPE joins the pair with the largest count into a new token, and counts again. A vocabulary of V
    tokens over n symbols needs V - n merges.

    Args:
        ids: (..., time), in 0 ... size - 1. size: the number of tokens. Returns (size, size),
            summed over all rows.
    Raises:
        MathsError: an id is not below size.
    Source:
        Sennrich, Haddow and Birch 2016, "Neural Machine Translation of Rare Words with Subword
        Units", algorithm 1.
    Example:
        pair_counts(array([0, 1, 0, 1, 2]), size=3)
    """
    xp = namespace(ids)
    tokens = xp.arange(size, dtype=ids.dtype, device=device_of(ids))
    rows = xp.astype(ids[..., None] == tokens, ids.dtype)
    first, second = (xp.reshape(part, (-1, size)) for part in (rows[..., :-1, :], rows[..., 1:, :]))
    return xp.matrix_transpose(first) @ second


@equation(pair=not_negative("..."), first=positive("..."), second=positive("..."))
def word_piece_score(pair: Array, first: Array, second: Array) -> Array:
    """How much more often two pieces meet than by chance: what WordPiece joins by.

    s = N_ab / (N_a N_b)

    Up to a factor it is the pair's probability over the product of both, so a
    merge by it raises the likelihood of the text most.

    Args:
        pair: N_ab, how often the pieces are neighbours. first: N_a. second: N_b. All (...), like
            the result.
    Fails:
        Rare pieces that always meet win over frequent pairs, so a least count is usual.
    Raises:
        MathsError: the shapes differ, the count of a pair is negative, or of a piece not above 0.
    Source:
        Schuster and Nakajima 2012, "Japanese and Korean Voice Search", section 2 (by likelihood).
    See also:
        `pair_counts`.
    Example:
        word_piece_score(array([20.0, 5.0]), array([100.0, 5.0]), array([50.0, 5.0]))
    """
    return pair / (first * second)
