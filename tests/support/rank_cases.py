"""Small trainings by ranks together: `python -m support.rank_cases FILE UPDATES LAYOUT/NAME...`.

Comes in: torchrun's variables, or none. Goes out: a JSON file of rank 0, with the losses of
each update by name. `support.ranks` starts it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from pellucid import config
from pellucid.batches import Batch, Loss
from pellucid.model import Block, Transformer, assemble_trained
from pellucid.optim import assemble_optimiser
from pellucid.parallel import Division, World, joined
from pellucid.presets import find
from pellucid.runs.build import build_model
from pellucid.runs.plan import plan_run
from pellucid.runs.shard import METHODS, shard_model
from pellucid.saved_runs.folder import RunFolder
from pellucid.training import Stepper, accumulate
from pellucid.training.waiting import WaitMeter
from support.models import BASE, VARIANTS, build
from support.objectives import CASES, in_float32

#: The number of rows: shared alike by 1, 2, 3, 4 and 6 ranks.
ROWS = 12
OPTIMISERS: dict[str, config.Optimiser] = {
    "AdamW": config.AdamW(learning_rate=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1),
    "Adam": config.Adam(learning_rate=3e-3, betas=(0.9, 0.95), eps=1e-8, l2=0.01),
    "SGD": config.SGD(learning_rate=0.03, momentum=0.9, l2=0.01),
}
OPTIMISERS["Muon"] = config.Muon(
    learning_rate=0.01,
    momentum=0.9,
    weight_decay=0.1,
    newton_schulz_steps=5,
    rest=OPTIMISERS["AdamW"],  # type: ignore[arg-type]
)


_STACK = BASE.decoder
assert _STACK is not None
#: Kinds of models that the objectives' own cases do not have.
MODELS: dict[str, config.Transformer] = {
    name: VARIANTS[name] for name in ("weight norm", "sinks", "memory")
} | {"untied": BASE, "tied": VARIANTS["tied and scaled"]}
ENCODER_MODELS = {
    "batch norm": replace(
        BASE,
        encoder=replace(_STACK, norm=config.BatchNorm(eps=1e-5, momentum=0.1)),
        decoder=None,
    )
}
#: What the other kinds of models learn from.
EXPERTS = {"experts": VARIANTS["grouped experts and a shared one"]}
L1 = config.ElasticNet(l1=1e-3, l2=1e-3, parameters=("*attention*weight",))


#: Ways to share a training; a node has two ranks.
LAYOUTS = {
    "none": config.Parallelism(),
    "full": config.Parallelism(shard="full"),
    "node": config.Parallelism(shard="node"),
    "offload": config.Parallelism(shard="full", offload=True),
    "tensor": config.Parallelism(tensor=2),
    "full tensor": config.Parallelism(shard="full", tensor=2),
    "node tensor": config.Parallelism(shard="node", tensor=2),
    "node offload": config.Parallelism(shard="node", offload=True),
    "narrow gather": config.Parallelism(shard="full", gather="bfloat16"),
    "narrow sums": config.Parallelism(reduce="bfloat16"),
    "full narrow sums": config.Parallelism(shard="full", reduce="bfloat16"),
}


def _keep(model: Any) -> None:
    pass


def _freeze_first(model: Any) -> None:
    model.token_embedding.weight.requires_grad_(requires_grad=False)
    for parameter in model.stack.blocks[0].parameters():
        parameter.requires_grad_(requires_grad=False)


def _lora(model: Any) -> None:
    lora = config.LoRA(rank=2, alpha=4.0, dropout=0.1, targets=("query", "value"))
    assemble_trained(model, lora, seed=1)


@dataclass(frozen=True, kw_only=True)
class RankCase:
    """An objective's case, with an optimiser and what else may differ between ranks."""

    case: str = "next token"
    optimiser: str = "AdamW"
    change: Callable[[Any], None] = _keep
    parts: int = ROWS
    grows: bool = False
    dropout: float = 0.1
    model: config.Transformer | None = None
    penalties: tuple[config.ElasticNet, ...] = ()
    recompute: Literal["none", "selective", "full"] = "none"


#: Cases that can be sharded, and those that only whole models can.
RANK_CASES: dict[str, RankCase] = {
    **{name: RankCase(case=name) for name in CASES},
    **{name: RankCase(optimiser=name) for name in ("Adam", "Muon")},
    **{name: RankCase(model=model) for name, model in MODELS.items()},
    **{name: RankCase(case="masked tokens", model=m) for name, m in ENCODER_MODELS.items()},
    "frozen": RankCase(change=_freeze_first),
    "LoRA": RankCase(change=_lora),
    "growing": RankCase(grows=True),
    "one part a rank": RankCase(parts=1, dropout=0.0),
    "recompute all": RankCase(recompute="full"),
    "recompute some": RankCase(recompute="selective"),
}
WHOLE_CASES: dict[str, RankCase] = {
    **{name: RankCase(model=model) for name, model in EXPERTS.items()},
    "SGD": RankCase(optimiser="SGD"),
    "penalty": RankCase(penalties=(L1,)),
    "shared layers": RankCase(model=VARIANTS["shared layers"]),
}


ALL_CASES = RANK_CASES | WHOLE_CASES


class Poisoned:
    """An objective whose loss is not a number on the last rank, from the third update on."""

    def __init__(self, objective: Any, world: World) -> None:
        self.objective = objective
        self.factor = torch.nan if world.rank == world.size - 1 else 1.0
        self.calls = 0
        self.good_calls = 2 * ROWS // world.size

    def __call__(self, model: Any, batch: Any) -> Loss:
        self.calls += 1
        loss: Loss = self.objective(model, batch)
        return replace(
            loss, total=loss.total * (self.factor if self.calls > self.good_calls else 1.0)
        )


def stepper_of(case: RankCase, world: World, wrap: Any = None) -> tuple[Stepper, Batch]:
    """A stepper of the case and its batch."""
    torch.manual_seed(0)
    model: Any = CASES[case.case].model() if case.model is None else build(case.model)
    model = model.float().train()
    case.change(model)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = case.dropout
        if isinstance(module, Block):
            module.recompute = case.recompute
    objective: Any = CASES[case.case].objective()
    for part in vars(objective).values():
        if isinstance(part, nn.Module):
            part.float()
        elif isinstance(getattr(part, "model", None), nn.Module):
            part.model.float()
    batch = in_float32(CASES[case.case].batch())
    copies = ROWS // batch.rows
    batch = replace(_repeat(batch, copies), n_supervised=batch.n_supervised * copies)
    if isinstance(model, Transformer):
        shard_model(model, world, "float32")
    else:
        blocks = [module for module in model.modules() if isinstance(module, Block)]
        methods = [name for name in METHODS if hasattr(model, name)]
        division = Division(groups=blocks, methods=methods, products={}, precision="float32")
        world.shard(model, division)
    optimiser = assemble_optimiser(
        OPTIMISERS[case.optimiser],
        model.named_parameters(),
        penalties=case.penalties,
        orthogonal="float32",
        owners=world,
    )
    settings = replace(find("nano").training, batch_size=ROWS, accumulation=case.parts)
    settings = replace(settings, clip_norm=0.5)
    plan = config.Plan(
        total_steps=40,
        threads=1,
        device="cpu",
        precision="float32",
        compile=False,
        device_name="",
        torch_version="",
        parts=config.count_parts(settings, world.n_data),
        ranks=world.size,
        seeding="by_part",
    )
    objective = objective if wrap is None else wrap(objective, world)
    stepper = Stepper(
        model, objective, optimiser, settings=settings, plan=plan, seed=7, world=world
    )
    return stepper, batch


def losses_of(case: RankCase, world: World, *, updates: int = 40) -> list[list[float]]:
    """The loss and the gradient norm of each update."""
    stepper, batch = stepper_of(case, world)
    numbers: list[list[float]] = []
    for step in range(updates):
        grown = case.grows and step >= updates // 2
        larger = replace(_repeat(batch, 2), n_supervised=batch.n_supervised * 2)
        own_batch = own_part(larger if grown else batch, world)
        update_numbers = stepper.update(own_batch, step=step, factor=1.0)
        numbers.append([float(update_numbers.parts["loss_nats"]), float(update_numbers.grad_norm)])
    return numbers


def gradients_of(case: RankCase, world: World) -> dict[str, list[float]]:
    """The whole gradient of each parameter, as all ranks compute it together."""
    stepper, batch = stepper_of(case, world)
    share = stepper._share(0)
    accumulate(
        stepper._model,
        stepper._objective,
        own_part(batch, world),
        accumulation=stepper._parts,
        device=torch.device("cpu"),
        precision="float32",
        share=share,
    )
    world.sum_gradients(stepper._optimiser.parameters, [])
    parameters = stepper._model.named_parameters()
    return {
        name: world.full(p.grad).flatten().tolist() for name, p in parameters if p.grad is not None
    }


def poisoned(world: World) -> dict[str, Any]:
    """What a rank does when the loss of the last rank is not a number."""
    stepper, whole_batch = stepper_of(RankCase(), world, wrap=Poisoned)
    batch = own_part(whole_batch, world)
    blocked = [float(stepper.update(batch, step=n, factor=1.0).blocked) for n in range(4)]
    finite = all(world.gather(stepper.has_finite_weights()))
    culprits = world.gather(stepper.find_culprit(lambda: batch, step=2))
    return {
        "blocked": world.gather(blocked),
        "finite": finite,
        "culprits": [[culprit.kind, culprit.place] for culprit in culprits],
    }


def slow(world: World) -> list[list[float | None]]:
    """The message about each rank if the last one takes longer before each of three updates."""
    stepper, whole_batch = stepper_of(RankCase(dropout=0.0), world)
    batch = own_part(whole_batch, world)
    stepper.update(batch, step=0, factor=1.0)
    meter = WaitMeter(world)
    with meter.pausing():
        world.largest(int(time.sleep(0.5 * world.rank) is None))  # aside from training
    started = time.perf_counter()
    for step in range(1, 4):
        time.sleep(0.4 * (world.rank == world.size - 1))
        stepper.update(batch, step=step, factor=1.0)
    seconds = time.perf_counter() - started
    table = meter.read(100.0, seconds, 1000 + world.rank)
    return [list(row) for row in world.gather(table)[0]]


#: Runs whose model ranks build share by share.
BUILT: dict[str, config.Run] = {
    "all weights": replace(
        find("nano"), model=replace(find("nano").model, vocab_size=512, context_length=32)
    )
}
BUILT["adapters"] = replace(
    BUILT["all weights"],
    trained=config.LoRA(rank=4, alpha=4.0, dropout=0.0, targets=("query", "down")),
)


def built(name: str, world: World) -> dict[str, Any]:
    """Memory that a rank allocates to build its shares, and whether they equal one process's."""
    run, unused = BUILT[name], RunFolder(Path("unused"))
    plan = plan_run(run, torch.device("cpu"), compiler=None, ranks=1)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as measured:
        model = build_model(run, plan, unused, world)
    held_bytes, peak = 0, 0
    untyped: Any = measured.profiler
    for event in untyped.kineto_results.events():
        if event.name() == "[memory]":
            held_bytes += event.nbytes()
            peak = max(peak, held_bytes)
    whole_state = build_model(run, plan, unused, World()).state_dict()
    gathered = {name: world.full(tensor) for name, tensor in model.state_dict().items()}
    return {
        "peak": peak,
        "whole": sum(tensor.nbytes for tensor in whole_state.values()),
        "largest": max(tensor.nbytes for tensor in whole_state.values()),
        "equal": all(torch.equal(tensor, gathered[name]) for name, tensor in whole_state.items()),
        "trained": sum(p.requires_grad for p in model.parameters()),
    }


def own_part(batch: Any, world: World) -> Any:
    """The rows of a batch that a rank computes."""
    rows = batch.rows // world.n_data
    return batch.part(slice(world.data_rank * rows, (world.data_rank + 1) * rows))


def _repeat(batch: Any, copies: int) -> Any:
    return batch.map_tensors(lambda x: x.repeat(copies, *[1] * (x.ndim - 1)))


def main(file: str, updates: str, names: Sequence[str]) -> None:
    """Carry out the named cases, each after its layout, and write what came of them."""
    torch.set_num_threads(1)
    os.environ.setdefault("LOCAL_WORLD_SIZE", "2")
    results: dict[str, Any] = {}
    for full_name in names:
        layout, _, name = full_name.partition("/")
        settings = replace(LAYOUTS[layout], timeout_seconds=60.0)
        with joined(settings) as world:
            world.start_together()
            if name == "poisoned":
                results[full_name] = poisoned(world)
            elif name == "slow":
                results[full_name] = slow(world)
            elif name.startswith("built "):
                results[full_name] = world.gather(built(name[6:], world))
            elif name.startswith("gradients of "):
                results[full_name] = gradients_of(ALL_CASES[name[13:]], world)
            else:
                results[full_name] = losses_of(ALL_CASES[name], world, updates=int(updates))
            if world.rank == 0:
                Path(file).write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
