"""The config that a proof recommends, as a file, and the command that trains with it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from pellucid import config
from pellucid.config import run_to_toml
from pellucid.diagnosis.fixes.propose import apply_assignments
from pellucid.diagnosis.proof.verdict import Proof
from pellucid.disk import free_name, write_output
from pellucid.saved_runs.folder import RunFolder


def write_fixed(
    proof: Proof,
    folder: RunFolder,
    run: config.Run,
    start: int,
    *,
    reward: str | None,
    out: str | Path | None,
) -> Proof:
    """The proof with its patched config on disk, where a fix helped, and what trains with it."""
    best = proof.best
    if best is None:
        return proof
    name = folder.path.resolve().name
    file = folder.path.parent / f"{name}-fixed.toml" if out is None else Path(out)
    if out is None:
        file = free_name(file)
    comments = [
        f"# {name} with {best.fix.does}, for {', '.join(best.codes)}:",
        f"# {best.fix.why}",
        f"# Measured on {len(best.pairs)} pairs of forks of {best.pairs[0][1].steps} updates: "
        f"{best.words}.",
    ]
    text = run_to_toml(apply_assignments(run, best.fix.assignments))
    file.parent.mkdir(parents=True, exist_ok=True)
    write_output(file, "\n".join([*comments, "", text]))
    again = "" if reward is None else f" --reward {shlex.quote(reward)}"
    command, checkpoint = f"pellucid train --config {shlex.quote(str(file))}{again}", ""
    if best.fix.needs == "replay" and start:
        checkpoint = str(folder.shelf.path(start))
        target = shlex.quote(str(file.with_suffix("")))
        command = (
            f"pellucid train --resume {shlex.quote(checkpoint)} --config {shlex.quote(str(file))} "
            f"--out {target}{again}"
        )
    return replace(proof, file=str(file), command=command, checkpoint=checkpoint)
