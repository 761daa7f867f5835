"""Which share of the weights is frozen, has next to no learning rate, or stands at a bound."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from pellucid.diagnosis.finding import limit
from pellucid.model.lora import LoRALinear
from pellucid.vitals import number_in
from pellucid.vitals.call.first_model import is_drawn
from pellucid.vitals.ledger.bounds import share_at_bound
from pellucid.vitals.taps.recorded_call import is_plain

#: The first numbers of a matrix; such a share of them at its largest magnitude, and so many, are no
#: chance.
_NUMBERS, _BOUND, _TIES = 4096, 0.03, 8
#: Settings in which the groups of one optimiser may differ, and their rates still be compared.
_OF_GROUPS = re.compile("params|lr|decay|name|layer")
#: Adapters have a smaller share of a block's matrices.
_ADAPTER = 0.25


def frozen_share(model: nn.Module, n_trained: int | None = None) -> float:
    """The share of a model's weights that are frozen.

    A teacher or a slow copy beside the model, with names like those of what is trained, is no part
    of it.

    Args:
        model: The model.
        n_trained: How many numbers are trained; by default those that are now.
    """
    copies = _copies(model)
    counted = [p for name, p in model.named_parameters() if name.partition(".")[0] not in copies]
    n_numbers = sum(parameter.numel() for parameter in counted)
    if n_trained is None:
        n_trained = sum(parameter.numel() for parameter in counted if parameter.requires_grad)
    return max(0, n_numbers - n_trained) / max(1, n_numbers)


def _copies(model: nn.Module) -> set[str]:
    """The parts of a model that are frozen, and all of whose weights another part trains.

    An encoder has weights of the names of its decoder's, and others that the decoder lacks.
    """
    trained: dict[str, set[str]] = {}
    names: dict[str, set[str]] = {}
    for name, parameter in model.named_parameters():
        part, _, inner_name = name.partition(".")
        names.setdefault(part, set()).add(inner_name)
        if parameter.requires_grad:
            trained.setdefault(part, set()).add(inner_name)
    return {
        part
        for part, inner_names in names.items()
        if part not in trained and any(inner_names <= other for other in trained.values())
    }


def untrained_share(model: nn.Module) -> float:
    """The share of the blocks' weights that are frozen as they were drawn.

    Gains of norms and biases begin at exactly 1 or 0. One update moves them, and no later one
    brings all of them back. So a frozen block whose vectors all hold one of these numbers has never
    been trained. A block without vectors counts as trained. If all blocks of an encoder are
    frozen and its decoder learns, or the other way round, they do not count: one line freezes a
    whole stack, and names it.
    """
    copies = _copies(model)
    blocks = {n: b for n, b in _blocks(model).items() if n.partition(".")[0] not in copies}
    stacks: dict[str, dict[str, list[nn.Parameter]]] = {}
    for name, block in blocks.items():
        stacks.setdefault(name.rpartition(".")[0], {})[name] = block
    frozen = {name for name, stack in stacks.items() if all(map(_is_frozen, stack.values()))}
    if len(frozen) < len(stacks):
        blocks = {n: b for n, b in blocks.items() if n.rpartition(".")[0] not in frozen}
    n_untrained = sum(_size(block) for block in blocks.values() if _is_as_drawn(block))
    return n_untrained / max(1, sum(map(_size, blocks.values())))


def _blocks(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """The weights of each block, by its name: blocks stand in lists, so theirs have a number."""
    blocks: dict[str, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        parts = name.split(".")
        depth = next((i for i, part in enumerate(parts) if part.isdigit()), None)
        if depth is not None:
            blocks.setdefault(".".join(parts[: depth + 1]), []).append(parameter)
    return blocks


def _matrices_of_blocks(model: nn.Module) -> list[list[nn.Parameter]]:
    """The matrices of each block that has any."""
    matrices = ([p for p in block if p.ndim > 1] for block in _blocks(model).values())
    return [block for block in matrices if block]


def _size(block: list[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in block)


def _is_frozen(block: list[nn.Parameter]) -> bool:
    return not any(parameter.requires_grad for parameter in block)


def _is_as_drawn(block: list[nn.Parameter]) -> bool:
    """Whether no weight of a block is trained, and all its vectors are ones or zeros."""
    if not _is_frozen(block) or not all(map(is_plain, block)):
        return False
    vectors = [parameter.detach() for parameter in block if parameter.ndim == 1]
    return bool(vectors) and all(
        bool((vector == vector[:1]).all() and vector[0] in (0.0, 1.0)) for vector in vectors
    )


def is_table_as_drawn(model: nn.Module) -> bool | None:
    """Whether the largest table of embeddings, if it is frozen, holds independent random numbers.

    None without a frozen one, and of one that is too small.
    """
    # a model within another one, as that of a soft prompt, has it somewhere
    modules = (module for module in model.modules() if isinstance(module, nn.Embedding))
    tables = [module.get_parameter("weight") for module in modules]
    table: nn.Parameter | None = max(tables, key=lambda table: table.numel(), default=None)
    if table is None or table.requires_grad or not is_plain(table) or table.is_meta:
        return None
    return is_drawn(table)


def trains_other_table(model: nn.Module, optimisers: Sequence[Optimizer]) -> bool:
    """Whether optimisers have moved another model's table, with a row for each id of this one.

    Args:
        model: The model.
        optimisers: Those that step.
    """
    own_ids = {id(parameter) for parameter in model.parameters()}
    tables = (m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding))
    n_ids = max(tables, default=0)
    others: list[tuple[Optimizer, nn.Parameter]] = [
        (optimiser, parameter)
        for optimiser in optimisers
        for group in optimiser.param_groups
        for parameter in group["params"]
        if id(parameter) not in own_ids and parameter.ndim > 1
    ]
    return any(
        len(parameter) == n_ids
        and (parameter.grad is not None or bool(optimiser.state.get(parameter)))
        for optimiser, parameter in others
    )


def is_body_frozen(model: nn.Module) -> bool:
    """Whether no matrix of any block is trained: all that learns lies before or behind them.

    Adapters train there.
    """
    blocks = _matrices_of_blocks(model)
    return bool(blocks) and all(map(_is_frozen, blocks))


def has_adapters(model: nn.Module) -> bool:
    """Whether each block has frozen matrices and a small part that learns, as LoRA's.

    Source:
        Hu et al. 2021 (2106.09685); Houlsby et al. 2019 (1902.00751): a few percent of a block
    """
    shares = [
        _size([parameter for parameter in block if parameter.requires_grad]) / _size(block)
        for block in _matrices_of_blocks(model)
    ]
    return bool(shares) and all(0 < share < _ADAPTER for share in shares)


def bounded_share(model: nn.Module) -> float | None:
    """The share of the trained matrices that are cut off at a bound; None without any.

    As in the ledger, a matrix of one magnitude, or of two, has no bound.
    """
    trained = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    matrices = [p.detach() for p in trained if is_plain(p) and not p.is_meta and p.numel()]
    return sum(map(_is_bounded, matrices)) / len(matrices) if matrices else None


def _is_bounded(matrix: torch.Tensor) -> bool:
    """Whether 3% or more of its first numbers have exactly their largest magnitude."""
    numbers = matrix.flatten()[:_NUMBERS]
    columns = torch.arange(len(numbers), device=numbers.device)
    share = float(share_at_bound(numbers[None], columns[None]))
    return share >= max(_TIES / len(numbers), _BOUND)


def slow_share(optimiser: Any) -> float:
    """The share of an optimiser's weights whose rate is next to nothing of its highest."""
    sizes = [
        (number_in(group, "lr") or 0.0, sum(parameter.numel() for parameter in group["params"]))
        for group in optimiser.param_groups
    ]
    least = limit("OPT007", "group") * max((rate for rate, _ in sizes), default=0.0)
    n_slow = sum(size for rate, size in sizes if rate < least)
    return n_slow / max(1, sum(size for _, size in sizes))


def rate_fall(model: nn.Module, groups: Sequence[dict[str, Any]]) -> float | None:
    """The rate of the first block, over that of the head, or of the last block without a head.

    Tables of embeddings do not count. None if groups differ in more than rates and decay: a rate of
    Muon is none of Adam's.

    Args:
        model: The model.
        groups: Of its optimiser.
    """
    kinds = {
        str([(key, group[key]) for key in sorted(group) if not _OF_GROUPS.search(key)])
        for group in groups
    }
    if len(kinds) != 1:
        return None
    rates = {
        id(parameter): number_in(group, "initial_lr") or number_in(group, "lr") or 0.0
        for group in groups
        for parameter in group["params"]
    }
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    blocks = [{id(parameter) for parameter in block} for block in _matrices_of_blocks(model)]
    matrices = [id(p) for p in model.parameters() if p.ndim > 1 and id(p) not in tables]
    if not blocks:
        return None
    end = max((i for i, matrix in enumerate(matrices) if matrix in blocks[-1]), default=-1)
    first, last = (
        [rate for matrix in part if (rate := rates.get(matrix, 0.0))]
        for part in (blocks[0], matrices[end + 1 :] or blocks[-1])
    )
    # of an adapter's two matrices, one may have many times the rate of the other
    return min(first) / max(last) if first and last else None


def adapter_scale(model: nn.Module) -> float | None:
    """The largest factor of what the model's adapters add, alpha / rank; None without adapters."""
    scales: list[float] = []
    for module in model.modules():
        if isinstance(module, LoRALinear):
            scales.append(module.scale)
        elif hasattr(module, "lora_A"):  # of peft: a scale for each adapter, by its name
            of_adapters: Any = getattr(module, "scaling", None)
            scales += of_adapters.values() if isinstance(of_adapters, dict) else ()
    return max(scales, default=None)
