"""A folder at a URL such as `s3://bucket/folder`, by the library `fsspec`: read, checked, written.

A store fails at times. So a request that fails, or takes too long, is sent again after a pause, and
asks only for the missing parts. The bytes of each answer are compared with their SHA-256 first.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pellucid.errors import LibraryError, TextError
from pellucid.extras import import_extra

T = TypeVar("T")

#: Seconds before each further attempt, and the longest time that one may take.
_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_ATTEMPT_SECONDS = 120.0
#: Not the generators of the training: those belong to the run.
_jitter = random.Random()


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A part of a file.

    Attributes:
        start: the first byte.
        end: the byte behind the last one.
        sha256: of the bytes.
    """

    start: int
    end: int
    sha256: str


class _Damaged(Exception):  # noqa: N818  a state of the reply, which is asked for again
    """The bytes that came are not those that were put there."""


def is_url(path: str) -> bool:
    """Whether a path is a URL, such as `s3://bucket/folder`."""
    return "://" in path


class UrlStore:
    """The files of a folder at a URL.

    Args:
        url: the folder. fsspec and the library of the store read credentials and addresses.

    Raises:
        LibraryError: the library of this kind of URL is missing.
        TextError: fsspec knows no such kind of URL, or the store refuses the credentials.
    """

    def __init__(self, url: str) -> None:
        core = import_extra("remote", "fsspec.core")
        self.url = url.rstrip("/")
        try:
            files, root = core.url_to_fs(self.url)
        except ImportError as error:
            raise LibraryError(
                f"{url}: a library for {url.split('://')[0]}:// cannot be imported ({error}). For "
                's3:// install pellucid with its extra, pip install -U "pellucid[remote]"; for '
                "another kind, the library that this message names"
            ) from None
        except ValueError as error:
            raise TextError(
                f"{url} is no URL that the library fsspec knows ({error}): expected one such as "
                "s3://bucket/folder, or a folder of this machine"
            ) from None
        self._files: Any = files
        self._root = str(root).rstrip("/")

    def read(self, name: str) -> bytes:
        """All bytes of a small file.

        Raises:
            TextError: it is missing, not allowed, or the store does not answer.
        """
        return self._retried(name, lambda: self._files.cat_file(f"{self._root}/{name}"))

    def exists(self, name: str) -> bool:
        """Whether the folder has a file.

        Raises:
            TextError: as `read`.
        """
        return self._retried(name, lambda: bool(self._files.exists(f"{self._root}/{name}")))

    def fetch(self, name: str, sha256: str, target: Path) -> None:
        """Copy a file to this machine.

        Args:
            name: of the file in the folder.
            sha256: of its content.
            target: the file to write.

        Raises:
            TextError: as `read`, or its content is not the one with this hash.
        """

        def fetch() -> None:
            self._files.get_file(f"{self._root}/{name}", str(target))
            with target.open("rb") as stream:
                if hashlib.file_digest(stream, "sha256").hexdigest() != sha256:
                    raise _Damaged(name)

        self._retried(name, fetch)

    def read_ranges(self, name: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of a file; a store that can is asked for all of them at once.

        Args:
            name: of the file in the folder.
            ranges: which bytes.

        Raises:
            TextError: as `fetch`.
        """
        contents: dict[ByteRange, bytes] = {}

        def read_missing() -> None:
            missing = [part for part in ranges if part not in contents]
            failures: list[Exception] = []
            for part, content in zip(missing, self._cat_ranges(name, missing), strict=True):
                if isinstance(content, Exception):
                    failures.append(content)
                elif hashlib.sha256(content).hexdigest() != part.sha256:
                    failures.append(_Damaged(f"bytes {part.start:,} to {part.end:,} of {name}"))
                else:
                    contents[part] = content
            if failures:
                raise failures[0]

        self._retried(name, read_missing)
        return [contents[part] for part in ranges]

    def send(self, file: Path, name: str) -> None:
        """Write a file of this machine to the folder.

        Args:
            file: on this machine.
            name: in the folder.

        Raises:
            TextError: it may not be written, or the store does not answer.
        """

        def send() -> None:
            self._files.makedirs(self._root, exist_ok=True)
            self._files.put_file(str(file), f"{self._root}/{name}")

        self._retried(name, send)

    def _cat_ranges(self, name: str, ranges: Sequence[ByteRange]) -> list[Any]:
        arguments = (
            [f"{self._root}/{name}"] * len(ranges),
            [part.start for part in ranges],
            [part.end for part in ranges],
        )
        if not self._files.async_impl:
            return self._files.cat_ranges(*arguments, on_error="return")
        sync = import_extra("remote", "fsspec.asyn").sync
        call = self._files._cat_ranges
        return sync(self._files.loop, call, *arguments, on_error="return", timeout=_ATTEMPT_SECONDS)

    def _retried(self, name: str, request: Callable[[], T]) -> T:
        for pause in (*_PAUSES, None):
            try:
                return request()
            except FileNotFoundError:
                raise TextError(
                    f"{self.url} has no {name}: name a folder that pellucid data prepare has "
                    f"made, or make one with pellucid data prepare FILES --out {self.url}"
                ) from None
            except ImportError as error:  # a store can load its parts late
                raise LibraryError(
                    f"{self.url} cannot be read ({error}): install that library"
                ) from None
            except Exception as error:  # each store has errors of its own
                if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
                    raise TextError(
                        f"{self.url} does not allow access to {name} ({_describe(error)}): check "
                        "the URL, and the credentials that the store's library reads (for s3:// "
                        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE)"
                    ) from None
                if pause is None:
                    raise self._refusal(name, error) from None
            time.sleep(pause * (1 + _jitter.random() / 2))
        raise AssertionError("the last attempt returns or raises")

    def _refusal(self, name: str, error: Exception) -> TextError:
        if isinstance(error, _Damaged):
            return TextError(
                f"{error} at {self.url} does not match its checksum: the file is damaged, or "
                "another one than its list was made for; put the prepared folder there again"
            )
        return TextError(
            f"{self.url} did not give {name} in {len(_PAUSES) + 1} attempts "
            f"({_describe(error)}): check the connection and try again; a run continues with "
            "--resume"
        )


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")[:300]
