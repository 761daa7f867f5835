"""`pellucid plan`: the memory, the speed and the price of a training on other machines."""

from __future__ import annotations

import argparse
from typing import Any

from pellucid.cli.flags.config_source import read_config_source
from pellucid.cli.flags.numbers import integer
from pellucid.cli.flags.shared import add_settings, finish_parser, list_given
from pellucid.cli.output.printing import print_result
from pellucid.errors import ConfigError


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "plan",
        help="predict the memory, speed and price of a training on GPUs you do not have",
        description="Predict the memory of each device, the seconds of an update, tokens per "
        "second, the share of the peak, what devices send each other, and the price. This builds "
        "nothing and asks no device. Without --devices it proposes the cheapest layouts that fit.",
    )
    parser.add_argument(
        "source",
        metavar="CONFIG",
        help="a TOML file, a preset's name, a run's folder, or a published model's",
    )
    parser.add_argument(
        "--devices", type=integer(1, 10**6), metavar="N", help="how many (default: propose some)"
    )
    parser.add_argument(
        "--device-kind",
        metavar="KIND",
        help="h100, h200, b200, a100-80gb, a100-40gb, cpu, or a TOML file of your own (needed)",
    )
    parser.add_argument(
        "--shard",
        choices=("none", "full", "node"),
        help="over which devices to cut weights, gradients and moments (none)",
    )
    parser.add_argument(
        "--tensor", type=integer(1, 10**6), metavar="N", help="devices that share products (1)"
    )
    parser.add_argument(
        "--offload", action="store_true", help="keep weights and moments on the processor"
    )
    parser.add_argument(
        "--recompute",
        choices=("none", "selective", "full"),
        help="what the backward pass computes again (none)",
    )
    parser.add_argument(
        "--assume",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="something about the loop that is not so in ours, such as logits=whole: docs/plan.md",
    )
    add_settings(parser, example="training.batch_size=512")
    finish_parser(parser, call)


def call(arguments: argparse.Namespace) -> None:
    """Print the plan, or the proposals."""
    from pellucid.cli.output.plan import plan_facts, plan_lines, proposal_lines
    from pellucid.planning import find_kind, kinds, layout_of, plan_training, propose

    if arguments.device_kind is None:
        raise ConfigError(f"--device-kind is missing: name one of {', '.join(kinds())}")
    kind = find_kind(arguments.device_kind)
    name, run = read_config_source(arguments.source, arguments.set)
    if arguments.devices is None:
        _refuse_layout(arguments)
        plans = propose(run, kind, assume=arguments.assume)
        lines = proposal_lines(name, arguments.device_kind, plans)
        print_result(arguments, {"proposals": [plan_facts(plan) for plan in plans]}, lines)
        return
    layout = layout_of(
        run,
        kind,
        arguments.devices,
        shard=arguments.shard,
        tensor=arguments.tensor,
        offload=arguments.offload or None,
        recompute=arguments.recompute,
    )
    plan = plan_training(run, kind, layout, assume=arguments.assume)
    print_result(arguments, plan_facts(plan), plan_lines(name, arguments.device_kind, plan))


def _refuse_layout(arguments: argparse.Namespace) -> None:
    """Refuse the flags of one layout where pellucid proposes several."""
    flags = list_given(arguments, ("shard", "tensor", "offload", "recompute"))
    if flags:
        raise ConfigError(f"{flags}: without --devices pellucid chooses the layout; pass --devices")
