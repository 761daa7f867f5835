"""KL between Gaussians: in one dimension, with independent features, and with a full covariance."""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door import checks
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import positive


@equation(mean="...", std=positive("..."), other_mean="...", other_std=positive("..."))
def gaussian_kl(mean: Array, std: Array, other_mean: Array, other_std: Array) -> Array:
    """KL between two Gaussians in one dimension.

    log(s_1 / s_0) + (s_0^2 + (m_0 - m_1)^2) / (2 s_1^2) - 1/2

    Args:
        mean, std: m_0 and s_0, (...). other_mean, other_std: m_1 and s_1, (...). Returns (...).
    Units:
        Nats.
    Gradient:
        `gaussian_kl_grad`.
    Fails:
        It grows without bound as the other standard deviation goes to 0.
    Raises:
        MathsError: the shapes differ, or a standard deviation is not above 0.
    Source:
        Bishop 2006, "Pattern Recognition and Machine Learning", exercise 2.13 (one dimension).
    Example:
        gaussian_kl(array(1.0), array(2.0), array(0.0), array(1.0))
        gaussian_kl(array(0.0), array(1.0), array(1.0), array(2.0))
    """
    relative, distance = std / other_std, (mean - other_mean) / other_std
    return (relative**2 + distance**2 - 1) / 2 - namespace(mean).log(relative)


@equation(gaussian_kl)
def gaussian_kl_grad(
    mean: Array, std: Array, other_mean: Array, other_std: Array
) -> tuple[Array, Array, Array, Array]:
    """The gradients of `gaussian_kl` by all four.

    dm_0 = (m_0 - m_1) / s_1^2 = -dm_1,  ds_0 = s_0 / s_1^2 - 1 / s_0
    ds_1 = 1 / s_1 - (s_0^2 + (m_0 - m_1)^2) / s_1^3

    Args:
        As `gaussian_kl`. Returns dm_0, ds_0, dm_1, ds_1.
    """
    relative, distance = std / other_std, (mean - other_mean) / other_std
    by_mean = distance / other_std
    by_other_std = (1 - relative**2 - distance**2) / other_std
    return by_mean, relative / other_std - 1 / std, -by_mean, by_other_std


@equation(
    mean="... features",
    log_variance="... features",
    other_mean="... features",
    other_log_variance="... features",
)
def gaussian_kl_diagonal(
    mean: Array, log_variance: Array, other_mean: Array, other_log_variance: Array
) -> Array:
    """KL between two Gaussians with independent features: the sum over the features.

    1/2 sum_i [ l_1 - l_0 + exp(l_0 - l_1) + (m_0 - m_1)^2 exp(-l_1) - 1 ],  l = log variance

    With m_1 = 0 and l_1 = 0 it is the KL term of a VAE: 1/2 sum [ m^2 + exp(l) - l - 1 ].

    Args:
        mean, log_variance: m_0 and l_0, (..., features). other_mean, other_log_variance: m_1 and
            l_1, like them. Returns (...).
    Units:
        Nats.
    Gradient:
        `gaussian_kl_diagonal_grad`.
    Raises:
        MathsError: the shapes differ.
    Source:
        Kingma and Welling 2014, "Auto-Encoding Variational Bayes", appendix B (for N_1 = N(0, 1)).
    Example:
        gaussian_kl_diagonal(array([1.0, 0.0]), array([0.0, 1.0]), zeros(2), zeros(2))
    """
    log_ratio, distance, precision = _diagonal(mean, log_variance, other_mean, other_log_variance)
    xp = namespace(mean)
    return xp.sum(xp.expm1(log_ratio) - log_ratio + distance**2 * precision, axis=-1) / 2


@equation(gaussian_kl_diagonal)
def gaussian_kl_diagonal_grad(
    mean: Array, log_variance: Array, other_mean: Array, other_log_variance: Array
) -> tuple[Array, Array, Array, Array]:
    """The gradients of `gaussian_kl_diagonal` by all four.

    dm_0 = (m_0 - m_1) exp(-l_1) = -dm_1,  dl_0 = (exp(l_0 - l_1) - 1) / 2
    dl_1 = -dl_0 - (m_0 - m_1)^2 exp(-l_1) / 2

    Towards N(0, 1): dm = m, dl = (exp(l) - 1) / 2.

    Args:
        As `gaussian_kl_diagonal`. Returns dm_0, dl_0, dm_1, dl_1.
    """
    log_ratio, distance, precision = _diagonal(mean, log_variance, other_mean, other_log_variance)
    by_mean = distance * precision
    by_log_variance = namespace(mean).expm1(log_ratio) / 2
    return by_mean, by_log_variance, -by_mean, -by_log_variance - distance * by_mean / 2


def _diagonal(
    mean: Array, log_variance: Array, other_mean: Array, other_log_variance: Array
) -> tuple[Array, Array, Array]:
    """l_0 - l_1, m_0 - m_1, exp(-l_1)."""
    precision = namespace(mean).exp(-other_log_variance)
    return log_variance - other_log_variance, mean - other_mean, precision


def _positive_definite(covariance: Array, other_covariance: Array) -> None:
    checks.positive_definite(covariance=covariance, other_covariance=other_covariance)


@equation(
    _positive_definite,
    mean="... features",
    covariance="... features features",
    other_mean="... features",
    other_covariance="... features features",
)
def gaussian_kl_full(
    mean: Array, covariance: Array, other_mean: Array, other_covariance: Array
) -> Array:
    """KL between two Gaussians with correlated features.

    1/2 [ tr(S_1^-1 S_0) + (m_1 - m_0)^T S_1^-1 (m_1 - m_0) - d + log(det S_1 / det S_0) ]

    Args:
        mean: m_0, (..., features). covariance: S_0, (..., features, features), positive definite.
            other_mean, other_covariance: m_1 and S_1, like them. Returns (...).
    Units:
        Nats.
    Gradient:
        `gaussian_kl_full_grad`.
    Fails:
        If a covariance is nearly singular, its inverse and its logarithm are mostly rounding error.
    Raises:
        MathsError: the shapes do not fit, or a covariance is not symmetric and positive definite.
    Source:
        Bishop 2006, "Pattern Recognition and Machine Learning", exercise 2.13.
    Example:
        gaussian_kl_full(zeros(2), array([[1.0, 0.5], [0.5, 1.0]]), zeros(2), eye(2))
    """
    inverse, distance = _full(mean, covariance, other_mean, other_covariance)
    xp = namespace(mean)
    log_det = xp.linalg.slogdet(covariance)[1]
    other_log_det = xp.linalg.slogdet(other_covariance)[1]
    trace = xp.sum(inverse * xp.matrix_transpose(covariance), axis=(-2, -1))
    stretched = xp.sum(distance * (inverse @ distance[..., None])[..., 0], axis=-1)
    return (trace + stretched - mean.shape[-1] + other_log_det - log_det) / 2


@equation(gaussian_kl_full)
def gaussian_kl_full_grad(
    mean: Array, covariance: Array, other_mean: Array, other_covariance: Array
) -> tuple[Array, Array, Array, Array]:
    """The gradients of `gaussian_kl_full` by all four.

    dm_0 = S_1^-1 (m_0 - m_1) = -dm_1,  dS_0 = (S_1^-1 - S_0^-1) / 2
    dS_1 = (S_1^-1 - S_1^-1 (S_0 + (m_0 - m_1) (m_0 - m_1)^T) S_1^-1) / 2

    Args:
        As `gaussian_kl_full`; covariances are symmetric. Returns dm_0, dS_0, dm_1, dS_1.
    """
    inverse, distance = _full(mean, covariance, other_mean, other_covariance)
    xp = namespace(mean)
    by_mean = (inverse @ distance[..., None])[..., 0]
    by_covariance = (inverse - xp.linalg.inv(covariance)) / 2
    spread = covariance + distance[..., :, None] * distance[..., None, :]
    by_other = (inverse - inverse @ spread @ inverse) / 2
    return by_mean, by_covariance, -by_mean, by_other


def _full(
    mean: Array, covariance: Array, other_mean: Array, other_covariance: Array
) -> tuple[Array, Array]:
    """S_1^-1, m_0 - m_1."""
    return namespace(mean).linalg.inv(other_covariance), mean - other_mean
