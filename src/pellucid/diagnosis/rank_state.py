"""A model on many ranks as `check` takes it: each rank's own, whole, and compared with the others.

Probes run a model as often as they need, and not as often on each rank. So they get a module that
speaks to no other process.
"""

from __future__ import annotations

import copy
from types import MethodType
from typing import Any, cast

import torch
from torch import nn

from pellucid.diagnosis.finding import Finding, describe
from pellucid.errors import ConfigError
from pellucid.parallel.collect import Collect, collect, is_share, read_different_rows, whole_tensor
from pellucid.vitals.model_parts import unwrap
from pellucid.vitals.ranks.comparison import compare_norms, differences
from pellucid.vitals.ranks.measures import checksums, norms
from pellucid.vitals.ranks.setting import setting_of
from pellucid.vitals.taps.outputs import tensors_in

#: How long a rank waits for the others: for a comparison, and for weights that it needs.
_SECONDS, _GATHER_SECONDS = 10.0, 60.0


def own_model(model: nn.Module, optimizer: Any) -> tuple[nn.Module, Any]:
    """The model and its optimiser without wrappers; sharded weights are gathered on each rank.

    Args:
        model: the model of a training on one rank or several.
        optimizer: its optimiser, or None.

    Raises:
        ConfigError: the ranks share products, or not all ranks of sharded weights call this.
    """
    model = unwrap(model)
    others, copies = collect("check of copies"), dict[int, Any]()
    if any(map(is_share, model.parameters())):
        if not read_different_rows(model):
            raise ConfigError(
                "check: the ranks share the products of this model, so no rank can run it alone: "
                "check the model before it is divided"
            )
        if others is not None and others.meet("gather", None, seconds=_GATHER_SECONDS) is None:
            raise ConfigError(
                "check: the weights are sharded, and not all ranks called check within "
                f"{_GATHER_SECONDS:.0f} s: call it on every rank"
            )
    elif others is None:
        return model, optimizer
    # a copy: DistributedDataParallel would lose its hooks on parameters that a probe moves
    with torch.no_grad():
        plain = _plain_module(model, copies)
        return plain, None if optimizer is None else _plain_optimiser(optimizer, copies)


def compare_ranks(model: nn.Module, optimizer: Any, ids: object) -> list[Finding]:
    """The findings that only several ranks have: other weights, code or settings, equal rows.

    Args:
        model: the model.
        optimizer: its optimiser, or None.
        ids: the batch of this rank, or None.
    """
    others = collect("check")
    if others is None:
        return []
    weights = {
        name: p.detach() for name, p in unwrap(model).named_parameters() if p.is_floating_point()
    }
    plain = {name: p for name, p in weights.items() if not is_share(p)}
    batch = next((t for t in tensors_in(ids) if t.ndim), None)
    optimisers = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else []
    state = {
        "setting": setting_of(unwrap(model), optimisers, None),
        "weights": {name: float(norm) for name, norm in norms(plain).items()},
        "rows": None if batch is None else [float(x) for x in checksums(batch)],
    }
    replies = others.meet("state", state, seconds=_SECONDS)
    return [] if replies is None else _findings(others, model, replies)


def _findings(others: Collect, model: nn.Module, replies: list[Any]) -> list[Finding]:
    findings: list[Finding] = []
    values = differences({rank: reply["setting"] for rank, reply in enumerate(replies)})
    for kind, key in (
        ("versions", "RNK008/versions"),
        ("code", "RNK008/code"),
        ("options", "RNK009"),
    ):
        of_kind = [difference for difference in values if difference.kind == kind]
        if of_kind:
            _, name, rank, value, first = of_kind[0]
            n = len(of_kind)
            findings.append(describe(key, name=name, rank=rank, value=value, first=first, n=n))
    names = [*replies[0]["weights"]]
    if all([*reply["weights"]] == names for reply in replies):
        drifts = compare_norms([[*map(float, reply["weights"].values())] for reply in replies])
        if drifts:
            place = ", ".join(names[group] for group in [*drifts][:3])
            findings.append(describe("RNK002/check", value=max(drifts.values()), place=place))
    rows = [reply["rows"] for reply in replies]
    if rows[0] is not None and rows.count(rows[0]) == others.size and read_different_rows(model):
        findings.append(describe("RNK003/check", ranks=others.size))
    return findings


def _plain_module(module: nn.Module, copies: dict[int, Any]) -> Any:
    """A module with whole weights of its own, and without the hooks of FSDP."""
    if id(module) in copies:
        return copies[id(module)]
    kind = type(module)
    is_sharded = kind.__bases__[0].__name__ == "FSDPModule"
    plain: Any = object.__new__(cast("Any", kind.__bases__[1] if is_sharded else kind))
    copies[id(module)] = plain
    state: dict[str, Any] = vars(module)
    plain_state = cast("dict[str, Any]", vars(plain))
    for name, value in state.items():
        if isinstance(value, MethodType) and value.__self__ is module:
            continue  # FSDP gathers weights around it
        if name.endswith(("_hooks", "_hooks_with_kwargs")) and isinstance(value, dict):
            hooks = cast("dict[int, Any]", value)
            value = type(hooks)((key, hook) for key, hook in hooks.items() if not _is_fsdp(hook))
        plain_state[name] = value
    plain_state["_parameters"] = {
        name: None if p is None else _plain_parameter(p, copies)
        for name, p in state["_parameters"].items()
    }
    plain_state["_buffers"] = {
        name: None if buffer is None else whole_tensor(buffer).clone()
        for name, buffer in state["_buffers"].items()
    }
    plain_state["_modules"] = {
        name: None if child is None else _plain_module(child, copies)
        for name, child in state["_modules"].items()
    }
    return plain


def _is_fsdp(hook: Any) -> bool:
    return type(getattr(hook, "__self__", None)).__name__ == "FSDPState"


def _plain_parameter(parameter: nn.Parameter, copies: dict[int, Any]) -> nn.Parameter:
    if id(parameter) not in copies:
        numbers = whole_tensor(parameter.detach()).clone()
        copies[id(parameter)] = nn.Parameter(numbers, requires_grad=parameter.requires_grad)
    return copies[id(parameter)]


def _plain_optimiser(optimizer: Any, copies: dict[int, Any]) -> Any:
    """The optimiser for the copies of the parameters; it has taken no step."""
    plain = copy.copy(optimizer)
    plain.param_groups = [
        {**group, "params": [copies.get(id(p), p) for p in group["params"]]}
        for group in optimizer.param_groups
    ]
    plain.state = type(optimizer.state)(dict)
    return plain
