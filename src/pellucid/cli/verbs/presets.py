"""`pellucid presets`: list, show, compare and count presets."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.shared import add_settings, finish_parser
from pellucid.cli.output.printing import print_result
from pellucid.config import (
    Run,
    Transformer,
    data_for,
    encode,
    run_from_table,
    run_to_toml,
)
from pellucid.presets import FAMILIES, OBJECTIVES, PRESETS, ObjectivePreset, diff, find
from pellucid.printable import join_counts

if TYPE_CHECKING:
    from pellucid.counting import GrowthRow
    from pellucid.counting.flops import FlopRow

#: A number with or without a unit, as against a name or a formula.
_QUANTITY = re.compile(r"[\d,.e+-]+( [A-Z]+)?")
_WIDTH = 96
_SYMBOLS = (
    "symbols: h = n_heads, h_kv = n_kv_heads, d_k = d_head, d_v = d_value or d_head, w = window, "
    "c = chunk, T = tokens of the text (context_length in the counts), n = tokens of the encoder's "
    "text"
)


def add_to(verbs: Any) -> None:
    """The verb, its four sub-verbs and their flags."""
    parser = verbs.add_parser("presets", help="list, show, compare and count presets")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list the presets")
    listing.add_argument(
        "--objectives", action="store_true", help="list the objectives instead of the presets"
    )
    showing = actions.add_parser("show", help="one preset as TOML")
    showing.add_argument("name", metavar="NAME")
    comparing = actions.add_parser("diff", help="the differences of two presets")
    comparing.add_argument("left", metavar="NAME")
    comparing.add_argument("right", metavar="NAME")
    counting = actions.add_parser(
        "count", help="parameters, memory, FLOPs, and how they grow, by part"
    )
    counting.add_argument("name", metavar="NAME")
    add_settings(counting, example="model.d_model=384")
    calls = ((listing, _list), (showing, _show), (comparing, _diff), (counting, _count))
    for action, call in calls:
        finish_parser(action, call)


def _list(arguments: argparse.Namespace) -> None:
    if arguments.objectives:
        objectives = {name: _describe_objective(preset) for name, preset in OBJECTIVES.items()}
        print_result(arguments, objectives, _format_objectives(objectives))
        return
    sizes = {name: _size_of(run) for name, run in PRESETS.items()}
    print_result(arguments, sizes, _format_presets(sizes))


def _format_presets(sizes: Mapping[str, str | None]) -> Iterator[str]:
    for family, presets in FAMILIES.items():
        yield family
        for name, run in presets.items():
            yield f"  {name:<16} {sizes[name] or 'by tokenizer':>14}  {_describe_model(run.model)}"


def _format_objectives(objectives: Mapping[str, dict[str, str]]) -> Iterator[str]:
    for name, objective in objectives.items():
        yield f"{name:<16} {objective['learns']}"
        yield f"{'':<16} from {objective['from']}; preset {objective['preset']}"


def _describe_objective(preset: ObjectivePreset) -> dict[str, str]:
    data = " or ".join(kind.__name__ for kind in data_for(preset.objective))
    kind = type(preset.objective).__name__
    return {"learns": preset.summary, "kind": kind, "from": data, "preset": preset.preset}


def _describe_model(model: Transformer) -> str:
    """The shape of a model in one line."""
    if model.encoder is None:
        shape = "decoder"
    else:
        shape = "encoder" if model.decoder is None else "encoder-decoder"
    layers = join_counts((stack.n_layers for stack in model.stacks), "layer")
    return f"{shape:<16} {layers} of {model.d_model}, context {model.context_length:,}"


def _size_of(run: Run) -> str | None:
    from pellucid.counting import parameter_count

    return None if run.model.vocab_size is None else f"{parameter_count(run.model):,}"


def _show(arguments: argparse.Namespace) -> None:
    run = find(arguments.name)
    print_result(arguments, encode(run), [run_to_toml(run).removesuffix("\n")])


def _diff(arguments: argparse.Namespace) -> None:
    differences = diff(find(arguments.left), find(arguments.right))
    rows = [(path, str(left), str(right)) for path, (left, right) in differences.items()]
    print_result(
        arguments,
        {path: list(values) for path, values in differences.items()},
        _table(("", arguments.left, arguments.right), rows)
        if rows
        else [f"{arguments.left} and {arguments.right} are the same"],
    )


def _count(arguments: argparse.Namespace) -> None:
    from pellucid.counting import (
        active_parameter_count,
        flops_per_token,
        growth,
        parameter_count,
        parameters,
        peak_memory,
        with_vocabulary,
    )

    run = with_vocabulary(run_from_table({"base": arguments.name}, find, arguments.set))
    sequences = run.training.batch_size // run.training.accumulation
    parts = parameters(run.model)
    flops = flops_per_token(run.model)
    bytes_needed = peak_memory(run).rows
    grows = growth(run.model, precision="float32")
    facts = {
        "parameters": parameter_count(run.model),
        "active_parameters": active_parameter_count(run.model),
        "parameters_by_part": {row.part: row.count for row in parts},
        "flops_per_token": sum(map(_both, flops)),
        "flops_by_part": {row.part: _both(row) for row in flops},
        "memory_bytes": sum(row.n_bytes for row in bytes_needed),
        "memory_by_part": {row.part: row.n_bytes for row in bytes_needed},
        "growth_by_part": {row.part: _growth_facts(row) for row in grows},
    }
    sections = (
        (
            "parameters",
            [(row.part, f"{row.count:,}", row.formula) for row in parts],
            _format_total(run.model),
        ),
        (
            f"peak memory ({sequences} sequences, float32)",
            [(row.part, _mb(row.n_bytes), row.formula) for row in bytes_needed if row.n_bytes],
            _mb(sum(row.n_bytes for row in bytes_needed)),
        ),
        (
            "FLOPs per token (forward and backward)",
            [(row.part, _mega(_both(row)), f"3 x ({row.formula})") for row in flops],
            _mega(sum(map(_both, flops))),
        ),
    )
    lines: list[str] = []
    for title, rows, total in sections:
        lines += [*_table((title, "", ""), [*rows, ("total", total, "")]), ""]
    print_result(arguments, facts, [*lines, *_format_growth(grows)])


def _format_total(model: Transformer) -> str:
    from pellucid.counting import active_parameter_count, parameter_count

    n, n_active = parameter_count(model), active_parameter_count(model)
    return f"{n:,}" if n == n_active else f"{n:,}, a token uses {n_active:,}"


def _mb(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB"


def _mega(flops: int) -> str:
    return f"{flops / 1e6:,.2f} M"


def _both(row: FlopRow) -> int:
    """The FLOPs of both passes."""
    return row.forward + row.backward


def _format_growth(grows: Sequence[GrowthRow]) -> Iterator[str]:
    yield from _table(
        ("growth with the length T", "layers", "work", "memory", "one more token"),
        [(row.part, str(row.layers), row.work, row.memory, row.step) for row in grows],
    )
    for row in grows:
        yield ""
        yield textwrap.fill(f"{row.part}: {row.words}.", _WIDTH)
        yield f"  FLOPs of a layer over a text: {row.work_formula}"
        if row.kept_formula != "none":
            yield f"  kept by a layer in generation: {row.kept_formula}"
            yield f"  kept by all of them, in float32: {_format_cache(row)}"
    yield ""
    yield textwrap.fill(_SYMBOLS, _WIDTH)


def _format_cache(row: GrowthRow) -> str:
    cached = f"{row.cache_bytes_per_token:,} bytes per token" if row.cache_bytes_per_token else ""
    state = f"{row.state_bytes:,} bytes once" if row.state_bytes else ""
    return " and ".join(part for part in (cached, state) if part)


def _growth_facts(row: GrowthRow) -> dict[str, object]:
    return {key: value for key, value in asdict(row).items() if key != "part"}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    table = [head, *rows]
    body = rows if len(head) == 3 else table
    widths = [max(len(row[column]) for row in body) for column in range(len(head))]
    for row in table:
        cells = [
            cell.rjust(width) if _QUANTITY.fullmatch(cell) else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip()
