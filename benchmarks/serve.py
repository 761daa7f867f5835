"""How many requests does the API answer, and how soon does the first token come?

    python -m benchmarks.serve RUN
    python -m benchmarks.serve RUN --clients 1 4 16 --rows 8
    python -m benchmarks.serve RUN --peer PYTHON --gguf FILE

The last compares with the server of `llama-cpp-python[server]`, which PYTHON has and which reads
FILE (`pellucid export RUN --format gguf`). Both servers run, and are measured in turns.
A second thread makes its server slower on two cores, so it has one by default.

It starts `pellucid serve` in a process of its own. For each number of clients, so many threads send
one streamed completion after another for some seconds, after a warm-up. Each client waits for its
answer before it asks again. A different seed for each request; no request has a stop text.

Comes in: a run, flags. Goes out: a table on standard output, and a dated JSON file with `--out`.
The clients share the machine with the server, so the numbers are lower bounds.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import count, product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

from benchmarks.machine import header, write
from benchmarks.workers import print_progress

PROMPT = "Once upon a time there was a"


@dataclass(frozen=True)
class Answered:
    """One request: seconds to the first token and to the last, and how many tokens came."""

    first: float
    total: float
    tokens: int


@dataclass(frozen=True)
class Row:
    """What so many clients got."""

    server: str
    clients: int
    requests_per_second: float
    tokens_per_second: float
    first_token_median: float
    first_token_p95: float
    refused: int


def flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="a run of a decoder")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--rows", type=int, default=8, help="texts written at a time")
    parser.add_argument("--new-tokens", type=int, default=64, help="of a request")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each number of clients")
    parser.add_argument("--threads", type=int, default=2, help="of the server")
    parser.add_argument("--weights", default="float32", help="of pellucid's model")
    parser.add_argument("--peer", type=Path, help="the Python that has llama-cpp-python's server")
    parser.add_argument("--peer-threads", type=int, default=1, help="of its server: try several")
    parser.add_argument("--gguf", type=Path, help="the same model for it")
    parser.add_argument("--rounds", type=int, default=1, help="of all servers and clients")
    parser.add_argument("--out", type=Path, help="a folder for the dated JSON file")
    return parser


@contextmanager
def served(arguments: argparse.Namespace) -> Generator[tuple[str, str]]:
    """The address of the API and the name of its model."""
    command = [sys.executable, "-m", "pellucid", "serve", str(arguments.run), "--port", "0"]
    command += ["--json", "--rows", str(arguments.rows), "--queue", "1000"]
    server = subprocess.Popen(
        [*command, "--weights", arguments.weights],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": str(arguments.threads)},
    )
    try:
        assert server.stdout is not None
        lines = ""
        while line := server.stdout.readline():
            lines += line
            if line.startswith("}"):
                break
        started = json.loads(lines)
        yield started["api"], started["models"][0]
    finally:
        server.terminate()
        server.wait(30)


@contextmanager
def served_by_peer(arguments: argparse.Namespace) -> Generator[tuple[str, str]]:
    """The same of llama-cpp-python's server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(arguments.peer), "-m", "llama_cpp.server", "--model", str(arguments.gguf)]
    command += ["--port", str(port), "--n_threads", str(arguments.peer_threads), "--n_ctx", "0"]
    command += ["--interrupt_requests", "false"]  # by default a new request ends the one before
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    api = f"http://127.0.0.1:{port}/v1"
    try:
        for _ in range(600):
            try:
                with urlopen(f"{api}/models", timeout=5) as response:
                    models = json.load(response)
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise SystemExit("the other server did not start in a minute")
        yield api, models["data"][0]["id"]
    finally:
        server.terminate()
        server.wait(30)


def ask(api: str, model: str, seed: int, new_tokens: int) -> Answered | None:
    """Send one request and read its stream; None if the server refuses it."""
    address = urlsplit(api)
    connection = http.client.HTTPConnection(address.netloc, timeout=600)
    settings = {"model": model, "prompt": PROMPT, "max_tokens": new_tokens, "seed": seed}
    body = json.dumps(settings | {"stream": True, "stream_options": {"include_usage": True}})
    started = time.perf_counter()
    connection.request(
        "POST", f"{address.path}/completions", body, {"content-type": "application/json"}
    )
    response = connection.getresponse()
    if response.status != 200:
        connection.close()
        return None
    first, tokens = 0.0, 0
    for line in response:
        if line.startswith(b"data: {"):
            first = first or time.perf_counter() - started
            usage = json.loads(line[6:]).get("usage")
            # a server without usage sends a line for each token
            tokens = usage["completion_tokens"] if usage else tokens + 1
    connection.close()
    return Answered(first, time.perf_counter() - started, tokens)


def measure(server: str, api: str, model: str, clients: int, arguments: argparse.Namespace) -> Row:
    """What so many clients get for some seconds."""
    answers: list[Answered] = []
    refused, seeds, end = count(), count(), time.perf_counter() + arguments.seconds

    def client() -> None:
        while time.perf_counter() < end:
            answer = ask(api, model, next(seeds), arguments.new_tokens)
            if answer is None:
                next(refused)
            else:
                answers.append(answer)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return summary(server, answers, clients, time.perf_counter() - started, next(refused))


def summary(
    server: str, answers: list[Answered], clients: int, seconds: float, refused: int
) -> Row:
    """A row of the table; a refused request counts as no request."""
    if not answers:
        raise SystemExit(f"none of {clients} clients got an answer in {seconds:.1f} seconds")
    firsts = sorted(answer.first for answer in answers)
    return Row(
        server=server,
        clients=clients,
        requests_per_second=len(answers) / seconds,
        tokens_per_second=sum(answer.tokens for answer in answers) / seconds,
        first_token_median=statistics.median(firsts),
        first_token_p95=firsts[min(len(firsts) - 1, int(0.95 * len(firsts)))],
        refused=refused,
    )


def table(rows: list[Row]) -> str:
    """The rows for people."""
    lines = [
        "| server | clients | requests / s | tokens / s | first token, median | first token, p95 |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.server} | {row.clients} "
        f"| {row.requests_per_second:.2f} | {row.tokens_per_second:.0f} "
        f"| {row.first_token_median * 1000:.0f} ms | {row.first_token_p95 * 1000:.0f} ms |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = flags()
    arguments = parser.parse_args()
    result: dict[str, Any] = header("benchmarks.serve", parser, arguments)
    rows: list[Row] = []
    with ExitStack() as stack:
        servers = {"pellucid": stack.enter_context(served(arguments))}
        if arguments.peer is not None:
            servers["llama-cpp-python"] = stack.enter_context(served_by_peer(arguments))
        for api, model in servers.values():
            ask(api, model, 0, arguments.new_tokens)  # code is compiled, memory is there
        for _, clients in product(range(arguments.rounds), arguments.clients):
            for server, (api, model) in servers.items():
                rows.append(measure(server, api, model, clients, arguments))
                print_progress(
                    f"{server}, {clients} clients: {rows[-1].requests_per_second:.2f} requests/s"
                )
    print(table(rows))
    if arguments.out is not None:
        write(result | {"rows": [asdict(row) for row in rows]}, arguments.out, "serve")


if __name__ == "__main__":
    main()
