"""The library's settings, and its errors as refusals: which server was asked, what you can do."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from huggingface_hub import constants, errors
from huggingface_hub import utils as hub_utils

from pellucid.errors import RunError

#: Transport errors are `OSError` or, in newer releases of the library, an `HTTPError` of its own.
_TRANSPORT: tuple[type[Exception], ...] = (OSError, getattr(errors, "HTTPError", OSError))


def endpoint() -> str:
    """The address of the hub: `HF_ENDPOINT`, or the library's default."""
    return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")


def is_offline() -> bool:
    """Whether `HF_HUB_OFFLINE` forbids connections."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


@contextmanager
def refusing(subject: str) -> Generator[None]:
    """Turn the library's errors into refusals.

    Args:
        subject: what was asked for, such as "the model ada/stories-3m".

    Raises:
        RunError: the hub does not have it, does not allow it, or cannot be reached.
    """
    try:
        yield
    except errors.GatedRepoError:
        raise RunError(
            f"{subject} is gated: accept its conditions at {endpoint()}, then log in with "
            "`hf auth login` or set HF_TOKEN"
        ) from None
    except errors.RevisionNotFoundError:
        raise RunError(f"{endpoint()} has {subject}, but not this revision of it") from None
    except errors.RepositoryNotFoundError:
        raise RunError(
            f"{endpoint()} has no {subject.removeprefix('the ')} that you may see: check the name; "
            "if it is private, log in with `hf auth login` or set HF_TOKEN. If you meant a folder "
            "of this machine: there is none with this name"
        ) from None
    except errors.HfHubHTTPError as error:
        code = getattr(error.response, "status_code", None)
        if code in (401, 403):
            raise RunError(
                f"{endpoint()} does not allow this for {subject}: log in with `hf auth login` or "
                "set HF_TOKEN to a token that may write"
            ) from None
        raise RunError(f"{endpoint()} answered {code} for {subject}: try again later") from None
    except errors.HFValidationError as error:
        raise RunError(f"{subject} is no name on a hub: {error}") from None
    except RuntimeError as error:  # an upload that broke off, with its cause
        raise RunError(
            f"the upload of {subject} broke off ({error.__cause__ or error}): the same command "
            "sends the rest"
        ) from None
    except _TRANSPORT as error:
        raise RunError(
            f"{endpoint()} cannot be reached for {subject} ({type(error).__name__}: {error}): "
            "check the connection"
        ) from None


@contextmanager
def progress_bars() -> Generator[None]:
    """Bars on a terminal, nothing elsewhere."""
    bars = cast("Any", hub_utils)
    if sys.stderr.isatty() or bars.are_progress_bars_disabled():
        yield
        return
    bars.disable_progress_bars()
    try:
        yield
    finally:
        bars.enable_progress_bars()
