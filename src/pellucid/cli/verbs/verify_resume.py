"""`pellucid verify-resume`: proof that resuming a run changes nothing."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import KILLS, SEED, STEPS_VERIFIED
from pellucid.cli.flags.shared import add_force, add_json
from pellucid.cli.output.printing import print_json
from pellucid.errors import RunError

if TYPE_CHECKING:
    from pellucid.runs import KillProof, ResumeProof


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "verify-resume",
        help="prove that resuming a run changes nothing",
        description="Continue from a checkpoint twice, on copies: once straight, and once stopped "
        "half-way and resumed in another process. Compare losses and weights bit for bit. With "
        "--kills, kill a copy at random moments instead. The run stays unchanged.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder")
    parser.add_argument(
        "--steps", type=STEPS_VERIFIED, default=10, metavar="N", help="number of updates (10)"
    )
    parser.add_argument(
        "--kills", type=KILLS, metavar="N", help="kill a copy N times at random moments"
    )
    parser.add_argument(
        "--seed", type=SEED, default=1337, metavar="S", help="seed of these moments (default: 1337)"
    )
    parser.add_argument("--reward", metavar="M:F", help="the reward that the run is trained for")
    add_force(parser)
    add_json(parser)
    parser.set_defaults(call=call)


def call(arguments: argparse.Namespace) -> None:
    """Print the comparison, and whether all was equal."""
    from dataclasses import asdict

    from pellucid import runs

    if arguments.kills is not None:
        proof = runs.verify_kills(
            arguments.run,
            kills=arguments.kills,
            steps=arguments.steps,
            seed=arguments.seed,
            reward=arguments.reward,
            force=arguments.force,
        )
    else:
        proof = runs.verify_resume(
            arguments.run, steps=arguments.steps, reward=arguments.reward, force=arguments.force
        )
    if arguments.json:
        print_json(asdict(proof) | {"holds": proof.is_equal})
    else:
        print("\n".join(_lines(proof)))
        print(f"losses   {_format_equality(proof.losses_equal)}")
        print(f"weights  {_format_equality(proof.weights_equal)} (and the optimiser's memory)")
    if not proof.is_equal:
        raise RunError(
            "resuming changes this run on this machine; torch_version and device_name in "
            "plan.json describe the machine it was computed on"
        )


def _lines(proof: ResumeProof | KillProof) -> list[str]:
    stretch = f"from step {proof.from_step} to {proof.to_step}"
    from pellucid.runs import ResumeProof

    if isinstance(proof, ResumeProof):
        return [f"{stretch}, stopped and resumed at {proof.stopped_at}"]
    kills = proof.kills
    return [
        f"{stretch}, killed {len(kills)} times at random moments (seed {proof.seed})",
        *(
            f"kill {number:<3} after step {kill.step}, resumed from step {kill.saved}: "
            f"{_format_equality(kill.equal)}"
            for number, kill in enumerate(kills, start=1)
        ),
    ]


def _format_equality(equal: bool) -> str:
    return "equal, bit for bit" if equal else "DIFFERENT"
