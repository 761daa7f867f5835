"""The tools: their names, their words, and what needs --allow-training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from pellucid.errors import PellucidError
from pellucid.json_text import json_text
from pellucid.mcp import reading, training
from pellucid.mcp.root import Root
from pellucid.reader import parse_json_table

Facts = dict[str, Any]


def add_tools(server: MCPServer, root: Root, *, allow_training: bool) -> None:
    """Add every tool to a server.

    Args:
        server: the server.
        root: what the client sees.
        allow_training: whether it may start trainings and write there.
    """
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    _add_readers(root, lambda tool: server.tool(annotations=reads)(tool))
    trains = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
    _add_trainers(
        root, lambda tool: server.tool(annotations=trains)(tool), allow_training=allow_training
    )


def _add_readers(root: Root, add: Callable[[Callable[..., Any]], object]) -> None:
    """The tools that only read."""

    def list_runs(folder: str = ".") -> Facts:
        """List the runs in a folder and below it: data, size, updates, best loss, vital signs."""
        return _answer(lambda: reading.list_runs(root, folder))

    def read_metrics(run: str, names: list[str] | None = None, points: int = 20) -> Facts:
        """Read the curves of a run by name, such as train/loss_nats and held_out/bits_per_byte.

        Without names you get all. A curve has at most so many points, and its lowest value.
        """
        return _answer(lambda: reading.read_metrics(root, run, names or (), points))

    def explain(run: str, sentence: str, number: str = "", chapter: str = "") -> Facts:
        """Explain what a model computes for a sentence.

        With number, such as L1.H0.scores[3,1], you get that number with its formula and operands.
        With chapter you get that step of the way. Without both: the tokens, the chapters, and the
        address and shape of every number.
        """
        return _answer(lambda: reading.explain(root, run, sentence, number, chapter))

    def diagnose(run: str) -> Facts:
        """Find what went wrong in a run or in the log of another tool, and what to do about it."""
        return _answer(lambda: reading.diagnose(root, run))

    def read_comparison(folder: str, others: list[str] | None = None) -> Facts:
        """Read a finished comparison: means with intervals, and a verdict for each pair.

        With others you get these comparisons too. Those on another corpus are refused.
        """
        return _answer(lambda: reading.read_comparison(root, folder, others or ()))

    for tool in (list_runs, read_metrics, explain, diagnose, read_comparison):
        add(tool)


def _add_trainers(
    root: Root, add: Callable[[Callable[..., Any]], object], *, allow_training: bool
) -> None:
    """The tools that train; without permission each says how to get it."""

    async def work(context: Context, make: Callable[[], list[str]]) -> Facts:
        if not allow_training:
            raise ToolError(
                "this server only reads: start it with `pellucid mcp --allow-training` for this"
            )

        async def beat(seconds: float) -> None:
            await context.report_progress(seconds, message=f"works since {seconds:.0f} s")

        try:
            return await training.run_command(root, make(), beat)
        except PellucidError as error:
            raise ToolError(str(error)) from None

    async def prove(
        run: str, context: Context, steps: int = 100, seeds: int = 3, fixes: int = 3
    ) -> Facts:
        """Diagnose a run and try fixes on forks of it, against the same forks without them.

        The run stays as it was. Needs a server with --allow-training.
        """
        return await work(
            context,
            lambda: training.prove_command(root, run, steps=steps, seeds=seeds, fixes=fixes),
        )

    async def compare(
        variants: list[str],
        context: Context,
        data: list[str] | None = None,
        seeds: int = 3,
        minutes: float | None = None,
        steps: int | None = None,
        folder: str = "comparison",
    ) -> Facts:
        """Train variants with the same seeds, data and budget, and compare every pair.

        variants are TOML files and names of presets, data files and folders, folder the place for
        the runs. Calling it again continues. Needs a server with --allow-training.
        """
        budget = {"--minutes": minutes, "--steps": steps}
        flags = [f"{flag}={value}" for flag, value in budget.items() if value is not None]
        flags.append(f"--seeds={seeds}")
        return await work(
            context, lambda: training.compare_command(root, variants, data or [], folder, flags)
        )

    for tool in (prove, compare):
        add(tool)


def _answer(read: Callable[[], Facts]) -> Facts:
    """The facts as JSON has them; a refusal reaches the client in its own words."""
    try:
        return parse_json_table(json_text(read()), "the answer")
    except PellucidError as error:
        raise ToolError(str(error)) from None
