"""What is fixed before a training, and should be alike on all ranks: code, versions, settings."""

from __future__ import annotations

import gc
import platform
import re
import sys
import types
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import nn
from torch.optim import Optimizer

from pellucid.typed import named_modules
from pellucid.version import __version__
from pellucid.vitals.step_signs import number_in

#: Libraries whose versions change results.
_LIBRARIES = ("numpy", "transformers", "accelerate", "peft", "trl", "lightning")
#: Attributes of modules that may rightly differ from rank to rank.
_OWN_ATTRIBUTE = re.compile("rank|device|seed|path|dir|name|id$|cache|world|group|training")
_SAMPLERS = "torch.utils.data.distributed"
_SCALARS = (bool, int, float, str, type(None))

Setting = Mapping[str, Mapping[str, str]]


def setting_of(model: nn.Module, optimisers: Sequence[Optimizer], loop: Any) -> Setting:
    """Values by name, of three kinds: versions, code of the model's parts and the loop, settings.

    Args:
        model: the model.
        optimisers: those that step.
        loop: the frame of the function that trains; None if it is unknown.
    """
    versions = {"Python": platform.python_version(), "torch": torch.__version__}
    versions |= {"pellucid": __version__}
    for name in _LIBRARIES:
        if (library := sys.modules.get(name)) is not None:
            versions[name] = str(getattr(library, "__version__", ""))
    code = {name: str(_module_checksum(module)) for name, module in named_modules(model).items()}
    code |= {
        f"{name} (shape, type)": f"{tuple(p.shape)}, {p.dtype}"
        for name, p in model.named_parameters()
    }
    if loop is not None:
        code["the training loop"] = str(_code_checksum(loop.f_code))
    return {"versions": versions, "code": code, "options": dict(_options(optimisers))}


def _options(optimisers: Sequence[Optimizer]) -> Iterable[tuple[str, str]]:
    for i, optimiser in enumerate(optimisers):
        kind = type(optimiser).__name__
        yield f"optimiser {i}", kind
        for n, group in enumerate(optimiser.param_groups):
            yield f"{kind}, group {n}, parameters", str(len(cast("list[Any]", group["params"])))
            for key, value in group.items():
                if key in ("lr", "params"):
                    continue  # rates are compared in every row
                number = number_in(group, key)
                plain = value if isinstance(value, _SCALARS) else str(value)
                is_pair = isinstance(value, tuple | list)
                if number is not None or is_pair or isinstance(value, _SCALARS):
                    yield f"{kind}, group {n}, {key}", str(plain if number is None else number)


def _module_checksum(module: nn.Module) -> int:
    """A number for a module's class, the code of its forward pass, and its plain settings."""
    kind = type(module)
    attributes = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, _SCALARS) and not name.startswith("_")
        if not _OWN_ATTRIBUTE.search(name)
    }
    forward: Any = getattr(kind.forward, "__code__", None)
    code = 0 if forward is None else _code_checksum(forward)
    return zlib.crc32(f"{kind.__qualname__} {sorted(attributes.items())} {code}".encode())


def _code_checksum(code: types.CodeType) -> int:
    """A number for what a function does; it does not depend on the order of sets."""
    constants = [
        _code_checksum(value) if isinstance(value, types.CodeType) else _constant_text(value)
        for value in code.co_consts
    ]
    return zlib.crc32(f"{constants} {code.co_names}".encode(), zlib.crc32(code.co_code))


def _constant_text(value: Any) -> str:
    if isinstance(value, frozenset):
        return repr(sorted(map(repr, cast("frozenset[Any]", value))))
    return repr(value)


def repeated_order(examples: int) -> tuple[int, int] | None:
    """How many rows a rank has read, and how many an epoch has, if every epoch has one order.

    A `DistributedSampler` shuffles each epoch alike, unless the loop calls its `set_epoch`.

    Args:
        examples: rows that this rank has read.
    """
    kind: Any = getattr(sys.modules.get(_SAMPLERS), "DistributedSampler", None)
    of_kind: list[Any] = [] if kind is None else [x for x in gc.get_objects() if type(x) is kind]
    samplers = [sampler for sampler in of_kind if sampler.shuffle and sampler.num_replicas > 1]
    largest = max(samplers, key=lambda sampler: sampler.num_samples, default=None)
    if largest is None or largest.epoch or examples < 1.2 * largest.num_samples:
        return None
    return examples, largest.num_samples
