"""Fields of a JSON object, read one by one; a wrong one is refused by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard, cast

from pellucid.api.refusals import ApiError
from pellucid.reader import short


class Fields:
    """The fields of one JSON object.

    Args:
        value: the object.
        name: its place in the request; empty for the request itself.

    Raises:
        ApiError: it is no object.
    """

    def __init__(self, value: object, name: str = "") -> None:
        if not isinstance(value, dict):
            raise ApiError(
                f"{name or 'the request'} must be a JSON object, was {short(value)}",
                param=name or None,
            )
        self.table = cast("Mapping[str, object]", value)
        self._name = name

    def get(self, key: str) -> object:
        """The value of a field; None if it is missing or null."""
        return self.table.get(key)

    def refuse_unknown(self, names: frozenset[str]) -> None:
        """Refuse a field that is not in `names`.

        Raises:
            ApiError: names the first.
        """
        for key in self.table:
            if key not in names:
                raise self.refusal(key, "is not supported: leave it out", code="unknown_parameter")

    def text(self, key: str, default: str | None = None) -> str:
        """A text.

        Raises:
            ApiError: it is another value, or missing without a default.
        """
        value = self.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.wrong(key, "a text")
        return value

    def truth(self, key: str) -> bool:
        """True or false; false by default.

        Raises:
            ApiError: it is another value.
        """
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return bool(value)

    def integer(
        self, key: str, default: int | None, *, minimum: int, maximum: int | None = None
    ) -> int | None:
        """A whole number.

        Args:
            key: the field.
            default: the value if it is missing.
            minimum: the smallest.
            maximum: the largest; None for no limit.

        Raises:
            ApiError: it is another value, or out of range.
        """
        value = self.get(key)
        if value is None:
            return default
        if not is_integer(value) or value < minimum or (maximum is not None and value > maximum):
            limit = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
            raise self.wrong(key, f"a whole number, {limit}")
        return value

    def number(self, key: str, default: float, *, minimum: float, maximum: float) -> float:
        """A number.

        Args:
            key: the field.
            default: the value if it is missing.
            minimum: the smallest.
            maximum: the largest.

        Raises:
            ApiError: it is another value, or out of range.
        """
        value = self.get(key)
        if value is None:
            return default
        if not is_number(value) or not minimum <= value <= maximum:
            raise self.wrong(key, f"a number from {minimum:g} to {maximum:g}")
        return float(value)

    def wrong(self, key: str, expected: str) -> ApiError:
        """The refusal of a value."""
        return self.refusal(key, f"must be {expected}, was {short(self.get(key))}")

    def refusal(self, key: str, message: str, code: str | None = None) -> ApiError:
        """A refusal that names a field."""
        place = f"{self._name}.{key}" if self._name else key
        return ApiError(f"{short(place)[1:-1]} {message}", param=place[:200], code=code)


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a JSON value is a whole number, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a JSON value is a number."""
    return isinstance(value, float) or is_integer(value)
