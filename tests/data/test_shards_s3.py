"""Training from S3 (`moto` on this machine), while the store fails and slows down."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.runs import RunFolder, read_events
from pellucid.training import Logged
from support.ranks import finish, start_ranks
from support.tiny import ADAMW, TINY, write_text

URL = "s3://corpora/prepared"
#: Bytes of a shard, and of the cache: most shards of the text have to go again.
SHARD, BOUND = 256, 1024


class Store:
    """A store that answers every third request for tokens with 503, and others late."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.requests = 0
        self.fails = True

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        if environ["REQUEST_METHOD"] == "GET" and environ["PATH_INFO"].endswith("train.npy"):
            self.requests += 1
            if self.fails and self.requests % 3 == 0:
                start_response("503 Slow Down", [("Content-Length", "0")])
                return []
            if self.fails and self.requests % 5 == 0:
                time.sleep(0.2)
        return self._inner(environ, start_response)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.server")
    serving = pytest.importorskip("werkzeug.serving")
    store = Store(moto.DomainDispatcherApplication(moto.create_backend_app))
    server = serving.make_server("127.0.0.1", 0, store, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "OMP_NUM_THREADS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    yield store
    server.shutdown()
    thread.join()
    server.server_close()


def flags(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def run(*words: str, code: int = 0) -> str:
    """What `pellucid WORDS` says in a process of its own."""
    process = subprocess.run(
        [sys.executable, "-m", "pellucid", *words], capture_output=True, text=True, env=os.environ
    )
    assert process.returncode == code, process.stderr
    return " ".join(process.stderr.split())


def losses(folder: Path) -> list[float]:
    events = read_events(RunFolder(folder).metrics)
    return [loss for event in events if isinstance(event, Logged) for loss in event.losses]


@pytest.mark.nightly
def test_a_store_that_fails_gives_the_curve_of_the_files(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    client = boto3.client("s3")
    client.create_bucket(Bucket="corpora")
    client.close()
    file, cache = str(write_text(tmp_path)), tmp_path / "cache"
    shared = {"PELLUCID_CACHE": str(cache), "PELLUCID_SHARD_BYTES": str(BOUND)}
    for name, value in shared.items():
        monkeypatch.setenv(name, value)
    prepare = ["data", "prepare", file, "--out", URL, "--shard-bytes", str(SHARD)]
    run(*prepare, *flags("text.tokenizer=Bytes"))
    settings = flags(*TINY, *ADAMW, "training.accumulation=2")
    words = ["--no-vitals", "--steps", "12", *settings]
    outs = {name: tmp_path / name for name in ("files", "url", "two")}
    run("train", file, "--out", str(outs["files"]), *words)
    expected = losses(outs["files"])
    assert len(expected) == 12

    run("train", URL, "--out", str(outs["url"]), *words)
    assert losses(outs["url"]) == expected
    assert sum(shard.stat().st_size for shard in (cache / "shards").iterdir()) <= BOUND

    # two ranks share the cache
    ends = finish(
        start_ranks(
            2,
            ["-m", "pellucid", "train", URL, "--out", str(outs["two"]), *words],
            tmp_path,
            **shared,
        )
    )
    assert [code for code, _, _ in ends] == [0, 0], ends
    assert losses(outs["two"]) == pytest.approx(expected, abs=1e-5)
    assert sum(shard.stat().st_size for shard in (cache / "shards").iterdir()) <= BOUND

    # resumed in the middle, from its checkpoint, the rest is the same
    run("train", "--resume", str(outs["url"] / "checkpoints" / "step-8"))
    assert losses(outs["url"]) == expected
    run("verify-resume", str(outs["url"]))

    # and credentials that the store does not know
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    message = run("train", URL, "--out", str(tmp_path / "none"), *words, code=2)
    assert "check the URL, and the credentials" in message
