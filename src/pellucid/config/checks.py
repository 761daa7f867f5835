"""Checks that config classes share; each error says the name, the value and what is allowed."""

from __future__ import annotations

import math

from pellucid.errors import ConfigError


def at_least(name: str, value: float, least: float) -> None:
    """Refuse a value below `least`, and what is not finite."""
    _finite(name, value)
    if not value >= least:
        raise ConfigError(f"{name} must be at least {least}, was {value}")


def positive(name: str, value: float) -> None:
    """Refuse zero, negative, and what is not finite."""
    _finite(name, value)
    if not value > 0:
        raise ConfigError(f"{name} must be greater than 0, was {value}")


def fraction(name: str, value: float) -> None:
    """Refuse what is not in [0, 1)."""
    if not 0 <= value < 1:
        raise ConfigError(f"{name} must be at least 0 and less than 1, was {value}")


def _finite(name: str, value: float) -> None:
    if not -math.inf < value < math.inf:
        raise ConfigError(f"{name} must be a finite number, was {value}")
