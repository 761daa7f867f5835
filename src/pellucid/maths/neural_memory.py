"""A memory that learns at test time: a matrix trained on every token by gradient descent.

The loss is |M k - v|^2 without a factor 1/2, as in eq. 12 of the paper, so its gradient has a
factor 2. Eq. 17 of the paper has no such factor, so its learning rates are twice as large as here.
"""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, shares
from pellucid.maths.scans import linear_scan


@equation(memory="... d_v d_k", k="... d_k", v="... d_v")
def memory_loss(memory: Array, k: Array, v: Array) -> Array:
    """The squared error of the value that the memory returns for a key.

    l(M; k, v) = |M k - v|^2

    Args:
        memory: M, (..., d_v, d_k). k: (..., d_k). v: (..., d_v). Returns (...).
    Gradient:
        `memory_loss_grad`.
    Source:
        Behrouz, Zhong and Mirrokni 2025, "Titans: Learning to Memorize at Test Time", eq. 12.
    Example:
        memory_loss(zeros((1, 2)), array([1.0, 0.0]), array([3.0]))
    """
    return namespace(memory, k, v).sum(_error(memory, k, v) ** 2, axis=-1)


def _error(memory: Array, k: Array, v: Array) -> Array:
    return (memory @ k[..., None])[..., 0] - v


@equation(memory_loss)
def memory_loss_grad(memory: Array, k: Array, v: Array) -> Array:
    """The gradient of `memory_loss` by the memory: the paper's measure of surprise.

    dl/dM = 2 (M k - v) k^T

    Args:
        As `memory_loss`. Returns like memory.
    """
    return 2 * _error(memory, k, v)[..., :, None] * k[..., None, :]


@equation(
    memory="... d_v d_k",
    k="... d_k",
    v="... d_v",
    momentum="... d_v d_k",
    persistence="...",
    learning_rate="...",
    forgetting=shares("..."),
)
def memory_step(
    memory: Array,
    momentum: Array,
    k: Array,
    v: Array,
    *,
    persistence: Array,
    learning_rate: Array,
    forgetting: Array,
) -> tuple[Array, Array]:
    """Write one token into the memory: a step of gradient descent with momentum and decay.

    S_t = eta_t S_(t-1) - theta_t dl/dM(M_(t-1); k_t, v_t)
    M_t = (1 - alpha_t) M_(t-1) + S_t

    Args:
        memory: M, (..., d_v, d_k). momentum: S, the surprise so far, like memory. k: (..., d_k).
            v: (..., d_v). Returns memory, momentum.
        persistence: eta, (...). learning_rate: theta, (...). forgetting: alpha, (...), in [0, 1].
    Source:
        Behrouz, Zhong and Mirrokni 2025, "Titans: Learning to Memorize at Test Time", eq. 13-14;
        with alpha = 0 eq. 9-10, and with eta = 0 too eq. 8.
    See also:
        `adamw_step`, which trains the model itself with momentum and weight decay.
    Example:
        memory_step(zeros((1, 2)), zeros((1, 2)), array([1.0, 0.0]), array([3.0]),
            persistence=array(0.0), learning_rate=array(0.5), forgetting=array(0.0))
    """
    eta, theta, alpha = (g[..., None, None] for g in (persistence, learning_rate, forgetting))
    momentum = eta * momentum - theta * memory_loss_grad(memory, k, v)
    return (1 - alpha) * memory + momentum, momentum


@equation(
    memory="... d_v d_k",
    momentum="... d_v d_k",
    k="... time d_k",
    v="... time d_v",
    persistence="... time",
    learning_rate="... time",
    forgetting=shares("... time"),
)
def memory_through_time(
    memory: Array,
    momentum: Array,
    k: Array,
    v: Array,
    *,
    persistence: Array,
    learning_rate: Array,
    forgetting: Array,
) -> tuple[Array, Array]:
    """Write a text into the memory token by token; the memory after each token.

    Args:
        As `memory_step`, with k: (..., time, d_k), v: (..., time, d_v) and gates (..., time), time
            at least 1. Returns memory and momentum after every token: (..., time, d_v, d_k).
    Source:
        Behrouz, Zhong and Mirrokni 2025, "Titans: Learning to Memorize at Test Time", eq. 13-14.
    See also:
        `memory_in_chunks`, a faster approximation.
    Example:
        memory_through_time(zeros((1, 2)), zeros((1, 2)), eye(2), ones((2, 1)),
            persistence=zeros(2), learning_rate=0.5 * ones(2), forgetting=zeros(2))
    """
    memories: list[Array] = []
    momenta: list[Array] = []
    for t in range(k.shape[-2]):
        memory, momentum = memory_step(
            memory,
            momentum,
            k[..., t, :],
            v[..., t, :],
            persistence=persistence[..., t],
            learning_rate=learning_rate[..., t],
            forgetting=forgetting[..., t],
        )
        memories.append(memory)
        momenta.append(momentum)
    xp = namespace(memory, k, v)
    return xp.stack(memories, axis=-3), xp.stack(momenta, axis=-3)


def _matrix_scan(factor: Array, added: Array, start: Array) -> Array:
    """h_t = factor_t h_(t-1) + added_t, for matrices."""
    xp = namespace(factor, added, start)
    flat = xp.reshape(added, (*added.shape[:-2], -1))
    h = linear_scan(factor[..., None], flat, xp.reshape(start, (*start.shape[:-2], -1)))
    return xp.reshape(h, added.shape)


@equation(memory_through_time, chunk=COUNT)
def memory_in_chunks(
    memory: Array,
    momentum: Array,
    k: Array,
    v: Array,
    *,
    persistence: Array,
    learning_rate: Array,
    forgetting: Array,
    chunk: int,
) -> tuple[Array, Array]:
    """Write a text into the memory chunk by chunk.

    Every gradient of a chunk is taken at the memory before the chunk, so one matrix product gives
    all of them. Two linear scans then compute momentum and decay:
    u_t = dl/dM(M_before; k_t, v_t),  S_t = eta_t S_(t-1) - theta_t u_t
    M_t = (1 - alpha_t) M_(t-1) + S_t

    With one token per chunk it equals `memory_through_time`. With more, the gradient of a token
    ignores the updates by earlier tokens of its chunk.

    Args:
        As `memory_through_time`. chunk: tokens per chunk. Returns the same.
    Source:
        Behrouz, Zhong and Mirrokni 2025, "Titans: Learning to Memorize at Test Time", section 3.2,
        eq. 16 and 18 (b -> chunk).
    Example:
        memory_in_chunks(zeros((1, 2)), zeros((1, 2)), eye(2), ones((2, 1)),
            persistence=zeros(2), learning_rate=0.5 * ones(2), forgetting=zeros(2), chunk=1)
    """
    xp = namespace(memory, k, v)
    memories: list[Array] = []
    momenta: list[Array] = []
    for start in range(0, k.shape[-2], chunk):
        span = slice(start, min(start + chunk, k.shape[-2]))
        u = memory_loss_grad(memory[..., None, :, :], k[..., span, :], v[..., span, :])
        steps = -learning_rate[..., span, None, None] * u
        momenta.append(_matrix_scan(persistence[..., span], steps, momentum))
        memories.append(_matrix_scan(1 - forgetting[..., span], momenta[-1], memory))
        memory, momentum = memories[-1][..., -1, :, :], momenta[-1][..., -1, :, :]
    return xp.concat(memories, axis=-3), xp.concat(momenta, axis=-3)
