"""An array of tokens whose shards lie at a URL."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid import config
from pellucid.data.manifest import ShardTable
from pellucid.data.shards.cache import ShardCache
from pellucid.errors import PellucidError, TextError
from pellucid.hub import is_url

#: Batches whose shards are fetched before they are needed.
BATCHES_AHEAD = 4


class RemoteTokens:
    """Tokens that are indexed as an array is; a shard is fetched when one of its tokens is read.

    Args:
        table: how the tokens are cut into shards.
        n_tokens: of all shards.
        digests: the SHA-256 of each shard, (shards, 32).

    Raises:
        ValueError: table, tokens and digests do not belong together.
    """

    def __init__(self, table: ShardTable, n_tokens: int, digests: npt.NDArray[Any]) -> None:
        self.dtype = np.dtype(table.dtype)
        self.shard_tokens = table.shard_tokens
        self._n_tokens = n_tokens
        if table.offset + n_tokens * self.dtype.itemsize != table.n_bytes:
            raise ValueError(f"{n_tokens} tokens do not have {table.n_bytes} bytes")
        if digests.shape != (table.n_shards, 32) or digests.dtype != np.uint8:
            raise ValueError(f"the digests are not those of {table.n_shards} shards")
        self._table, self._digests = table, digests
        self._cache: ShardCache | None = None
        self._ahead: Thread | None = None
        self._failure: PellucidError | None = None

    def connect(self, corpus: config.Corpus) -> None:
        """Read tokens from the URL of a corpus from now on.

        Raises:
            ConfigError: the cache has no room for a shard.
            TextError: the corpus has no URL, or there is no cache, or no such store.
        """
        if not isinstance(corpus, config.Prepared) or not is_url(corpus.path):
            raise TextError(
                "train.npy is missing, and the run's config names no URL that has it: restore the "
                "file, or start a new run"
            )
        self._cache = ShardCache(corpus.path, self._table, self._digests)

    def __len__(self) -> int:
        return self._n_tokens

    def __getitem__(self, places: Any) -> npt.NDArray[Any]:
        """The tokens at some places: an array of them, or a slice.

        Raises:
            TextError: a shard cannot be fetched, now or ahead of this.
        """
        self._raise_failure()
        indices: npt.NDArray[np.int64] = np.asarray(
            np.arange(*places.indices(self._n_tokens)) if isinstance(places, slice) else places
        )
        flat = indices.ravel()
        numbers = flat // self.shard_tokens
        by_shard = np.argsort(numbers, kind="stable")
        distinct, first = np.unique(numbers[by_shard], return_index=True)
        values = np.empty(len(flat), dtype=self.dtype)
        chosen_by_shard = iter(np.split(by_shard, first[1:]))
        for group in self._groups(distinct):
            for number, shard in zip(group, self._require_cache().take(group), strict=True):
                chosen = next(chosen_by_shard)
                values[chosen] = shard[flat[chosen] - number * self.shard_tokens]
        return values.reshape(indices.shape)

    def fetch_ahead(self, places: npt.NDArray[Any]) -> None:
        """Begin to fetch the shards of these places, unless that is going on already.

        A failure is raised when tokens are read next.

        Args:
            places: of tokens, those that are needed first in the first rows.
        """
        cache = self._require_cache()
        if self._ahead is not None and self._ahead.is_alive():
            return
        distinct, first = np.unique(places // self.shard_tokens, return_index=True)
        in_order = distinct[np.argsort(first)][: cache.n_ahead]
        missing = [int(number) for number in in_order if not cache.is_here(int(number))]
        if missing:
            # it ends with the process, and with its last shard
            self._ahead = Thread(target=self._fetch, args=(missing,), daemon=True)
            self._ahead.start()

    def _fetch(self, numbers: list[int]) -> None:
        try:
            for group in self._groups(np.array(numbers)):
                self._require_cache().take(group)
        except PellucidError as error:
            self._failure = error

    def _groups(self, numbers: npt.NDArray[Any]) -> Iterator[list[int]]:
        size = self._require_cache().at_once
        for first in range(0, len(numbers), size):
            yield [int(number) for number in numbers[first : first + size]]

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _require_cache(self) -> ShardCache:
        if self._cache is None:
            raise TextError(
                "the tokens that this run learns from are at its URL, not in its folder: resume "
                "the run to read them"
            )
        return self._cache
