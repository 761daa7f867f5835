"""Loops that a monitor could harm: watched or not, each ends at the same bits."""

from __future__ import annotations

import copy
import threading
import warnings
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis import diagnose, history_of_watch
from pellucid.vitals import Watch, watch
from support.foreign import VOCAB, Block, Model, ids_of, loss_of, made
from support.unharmed import STEPS, Loop, Say, all_of, reports, unharmed


class BoomError(Exception):
    """Raised on purpose."""


class Odd(Loop):
    """A loop that may bring its own model and optimiser."""

    #: what raises in somebody else's code, and is switched off
    off: frozenset[str] = frozenset()

    def __init__(self, model: nn.Module | None = None, optimizer: Any = torch.optim.AdamW) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.model = model or self.model
        self.optimizers = [optimizer(self.model.parameters(), lr=1e-2)]

    def train(self, say: Say = lambda loss: None) -> None:
        for step in range(STEPS):
            self.update(step, say)
            if step == STEPS - 2 and isinstance(getattr(say, "__self__", None), Watch):
                findings = diagnose(history_of_watch(say.__self__))
                assert "SEE001" not in {finding.code for finding in findings}


# ---- what a forward pass writes to


class MaxNorm(Odd):
    """An embedding that shortens its vectors in place when they are looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.model.embed = nn.Embedding(VOCAB, 16, max_norm=0.7)
        self.optimizers = [torch.optim.AdamW(self.model.parameters(), lr=3e-2)]

    def loss(self, step: int) -> Tensor:
        ids = ids_of(step) // (1 if step == 0 else 4)  # later batches lack tokens of the first
        return F.cross_entropy(self.model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


class InPlace(Model):
    """Weights are normalised in the forward pass, one of them past autograd."""

    def forward(self, ids: Tensor) -> Tensor:
        with torch.no_grad():
            self.head.weight.div_(self.head.weight.norm(dim=-1, keepdim=True))
        self.head.weight.data *= 1.01
        return super().forward(ids)


class Helper:
    """Somebody's own object, beside their model."""

    def __init__(self) -> None:
        self.count = 0


class Counting(nn.Module):
    """Counts its calls in every kind of thing, and the numbers depend on it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = made()
        self.nested = {"n": [0], "t": torch.zeros(())}
        self.last, self.counts = deque([0], maxlen=3), Counter(a=1)
        self.ordered: OrderedDict[int, int] = OrderedDict()
        self.space, self.helper = SimpleNamespace(count=0), Helper()
        self.mean, self.spread = torch.zeros(VOCAB), torch.ones(VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        self.nested["n"][0] += 1
        self.nested["t"] += 1
        self.last.append(self.last[-1] + 1)
        self.counts["a"] += 1
        self.ordered[len(self.ordered)] = 1
        self.space.count += 1
        self.helper.count += 1
        total = self.nested["n"][0] + self.nested["t"] + self.last[-1] + self.counts["a"]
        total = total + len(self.ordered) + self.space.count + self.helper.count
        made = self.inner(ids) * (1 + total / 10)
        F.batch_norm(made.flatten(0, 1), self.mean, self.spread, training=True)
        return made + self.mean


class Pending(nn.Module):
    """In evaluation mode it changes what graphs of the training have saved."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.factor = nn.Linear(4, 4), torch.ones(4)
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            self.factor *= 2
            self.offset += 1
        return self.linear(x) * self.factor * self.offset


class LateBackward(Odd):
    """A graph from before the update is walked after it."""

    def __init__(self) -> None:
        super().__init__(Pending())

    def update(self, step: int, say: Say) -> None:
        self.model(torch.full((2, 4), step + 1.0)).square().mean().backward()
        other = torch.ones(4, requires_grad=True)
        late = (other * self.model.factor).sum() * (self.model.offset * other).sum()
        self.optimizers[0].step()
        late.backward()
        self.optimizers[0].zero_grad()


class OnlyTraining(Model):
    """Does not bear evaluation mode; another one warns there."""

    def forward(self, ids: Tensor) -> Tensor:
        if not self.training:
            raise BoomError("never in evaluation")
        return super().forward(ids)


class Warning_(Model):  # noqa: N801
    def forward(self, ids: Tensor) -> Tensor:
        if not self.training:
            warnings.warn("in evaluation", UserWarning, stacklevel=1)
        return super().forward(ids)


# ---- what a model is called with, and what it gives


class Called(nn.Module):
    """Takes a batch of any form; `ids` says what to make of it, `out` what to give."""

    def __init__(self, ids: Callable[..., Tensor], out: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.inner, self.ids, self.out = made(), ids, out

    def forward(self, *batch: Any) -> Any:
        return self.out(self.inner(self.ids(*batch)))


@dataclass(slots=True)
class Batch:
    ids: Tensor


@dataclass
class Output:
    logits: Tensor
    loss: Any = "not computed"


class Prickly:
    """An output whose unknown attributes raise."""

    def __init__(self, made: Tensor) -> None:
        self.made = made

    def __getattr__(self, name: str) -> Any:
        raise BoomError(name)


class Drawing(Odd):
    """The model is handed a function that draws the batch, beside what looks like one."""

    def __init__(self) -> None:
        super().__init__(Called(lambda ids, draw: draw(), lambda made: made))
        self.drawn = iter(range(100))

    def loss(self, step: int) -> Tensor:
        return self.model(ids_of(step), lambda: ids_of(next(self.drawn))).square().mean()


class Flowing(Odd):
    def __init__(self) -> None:
        super().__init__(Called(lambda rows: torch.stack([*rows]), lambda made: iter([made])))

    def loss(self, step: int) -> Tensor:
        return next(self.model(row for row in ids_of(step))).square().mean()


class Classed(Odd):
    def __init__(self) -> None:
        super().__init__(Called(lambda batch: batch.ids, Output))

    def loss(self, step: int) -> Tensor:
        return self.model(Batch(ids_of(step))).logits.square().mean()


class Pricked(Odd):
    def __init__(self) -> None:
        super().__init__(Called(lambda ids: ids, Prickly))

    def loss(self, step: int) -> Tensor:
        return self.model(ids_of(step)).made.square().mean()


class Multiplied(nn.Module):
    def __init__(self, kind: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 4, dtype=kind))

    def forward(self, x: Tensor) -> Tensor:
        return torch.sparse.mm(x, self.weight) if x.layout is torch.sparse_coo else x @ self.weight


class SparseBatch(Odd):
    def __init__(self) -> None:
        super().__init__(Multiplied())

    def loss(self, step: int) -> Tensor:
        return self.model((torch.eye(8) * (step + 1)).to_sparse()).square().sum()


class NestedBatch(SparseBatch):
    def loss(self, step: int) -> Tensor:
        rows = [torch.ones(2, 8), torch.ones(3, 8) * step]
        rows = torch.nested.nested_tensor(rows, layout=torch.jagged)
        return sum(row.sum() for row in self.model(rows).unbind())


class EmptyBatches(Odd):
    """The first batch and a later one have no rows, another has no tokens."""

    def loss(self, step: int) -> Tensor:
        shape = {0: (0, 12), 2: (0, 12), 3: (3, 0)}.get(step)
        if shape is None:
            return super().loss(step)
        return self.model(torch.zeros(shape, dtype=torch.long)).sum()


class OneNumber(Odd):
    def __init__(self) -> None:
        super().__init__(nn.Linear(1, 1))

    def loss(self, step: int) -> Tensor:
        return self.model(torch.tensor([float(step)])).sum()


class Transformed(Odd):
    """Gradients of each row by `torch.func`: what hooks hear stands for many tensors."""

    def __init__(self) -> None:
        super().__init__(nn.Sequential(nn.Embedding(VOCAB, 8), nn.Linear(8, 3)))

    def update(self, step: int, say: Say) -> None:
        weights = {name: p.detach() for name, p in self.model.named_parameters()}

        def of_row(weights: dict[str, Tensor], row: Tensor) -> Tensor:
            return torch.func.functional_call(self.model, weights, (row[None],)).square().mean()

        rows = torch.func.vmap(torch.func.grad(of_row), in_dims=(None, 0))(weights, ids_of(step))
        for name, p in self.model.named_parameters():
            p.grad = rows[name].mean(0)
        self.optimizers[0].step()


# ---- parameters and optimisers


class Replaced(Odd):
    """Parts are added, taken out and replaced; others freeze and thaw."""

    def update(self, step: int, say: Say) -> None:
        model, (optimizer,) = self.model, self.optimizers
        if step == 1:
            model.layers.append(Block(16))
            optimizer.add_param_group({"params": list(model.layers[-1].parameters())})
        if step == 2:
            del model.layers[0]
        if step == 3:
            model.head, model.norm = nn.Linear(16, VOCAB), nn.Identity()
            optimizer.add_param_group({"params": list(model.head.parameters())})
        if step == 4:
            model.embed.weight = nn.Parameter(model.embed.weight.detach() * 2)
        model.layers[0].requires_grad_(step not in (1, 4))
        super().update(step, say)


class OtherOptimiser(Odd):
    """Another optimiser, another type of numbers, and states that are loaded."""

    def update(self, step: int, say: Say) -> None:
        if step == 2:
            self.optimizers[0].load_state_dict(self.optimizers[0].state_dict())
            self.model.load_state_dict(copy.deepcopy(self.model.state_dict()))
        if step in (3, 4):
            self.model.to(torch.float64 if step == 3 else torch.float32)
            self.optimizers[0].state.clear()
        if step == 5:
            self.optimizers = [torch.optim.SGD(self.model.parameters(), lr=0.1)]
        super().update(step, say)


class Frozen(Odd):
    """Nothing is trained for a while; the optimiser steps all the same."""

    def update(self, step: int, say: Say) -> None:
        self.model.requires_grad_(step not in (2, 3, 4))
        if step in (2, 3, 4):
            self.optimizers[0].step()
        else:
            super().update(step, say)


class Strange(Odd):
    """Complex weights, empty ones, and some on no device."""

    def __init__(self) -> None:
        super().__init__()
        first = self.model.layers[0]
        first.turn = nn.Parameter(torch.randn(4, 4, dtype=torch.complex64))
        first.empty = nn.Parameter(torch.zeros(3, 0))
        self.model.empty = nn.Parameter(torch.zeros(0))
        self.model.elsewhere = nn.Linear(3, 3, device="meta")
        here = [p for p in self.model.parameters() if not p.is_meta]
        self.optimizers = [torch.optim.AdamW(here, lr=1e-3)]

    def loss(self, step: int) -> Tensor:
        empty = self.model.empty.sum() + self.model.layers[0].empty.sum()
        return super().loss(step) + self.model.layers[0].turn.abs().sum() * 1e-3 + empty


class ComplexBatch(Odd):
    def __init__(self) -> None:
        super().__init__(Multiplied(torch.complex64))

    def loss(self, step: int) -> Tensor:
        return self.model(torch.full((2, 8), step + 1j)).abs().mean()


class SparseGradients(Odd):
    def __init__(self) -> None:
        super().__init__(nn.Sequential(nn.Embedding(VOCAB, 8, sparse=True)), torch.optim.SparseAdam)

    def loss(self, step: int) -> Tensor:
        return self.model(ids_of(step)).square().mean()


class Scripted(Odd):
    """A part of the model is TorchScript, which keeps its mode elsewhere than in Python."""

    off = frozenset({"the look inside", "call.inputs"})  # no hook can be put on such a part

    def __init__(self) -> None:
        super().__init__()
        dropped = nn.Sequential(self.model.layers[1].down, nn.Dropout(0.3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.model.layers[1].down = torch.jit.script(dropped)
        self.optimizers = [torch.optim.AdamW(self.model.parameters(), lr=1e-2)]


class Scaled(Odd):
    """A scaler of float16 that begins far too high, with gradients in parts."""

    def __init__(self) -> None:
        super().__init__(None, lambda several, lr: torch.optim.AdamW(several, lr=lr, fused=True))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=2)

    def update(self, step: int, say: Say) -> None:
        for part in range(2):
            with torch.autocast("cpu", torch.float16):
                loss = self.loss(step + part) / 2
            self.scaler.scale(loss).backward()
            say(loss)
        if step % 2:
            self.scaler.unscale_(self.optimizers[0])
        self.scaler.step(self.optimizers[0])
        self.scaler.update()
        self.optimizers[0].zero_grad()


class InBackward(Odd):
    """Each weight has an optimiser of its own, which steps within the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        weights = list(self.model.parameters())
        self.optimizers = [torch.optim.SGD([weight], lr=0.05) for weight in weights]
        for weight, optimizer in zip(weights, self.optimizers, strict=True):
            weight.register_post_accumulate_grad_hook(self.stepping(optimizer))

    @staticmethod
    def stepping(optimizer: torch.optim.Optimizer) -> Any:
        def hook(weight: Tensor) -> None:
            optimizer.step()
            optimizer.zero_grad()

        return hook

    def update(self, step: int, say: Say) -> None:
        loss = self.loss(step)
        loss.backward()
        say(loss)


class NoRate(Odd):
    """A rate that is no number, an average of the weights that is run too."""

    def __init__(self) -> None:
        super().__init__()
        self.optimizers[0].param_groups[0]["lr"] = float("nan")
        self.average: Any = None

    def update(self, step: int, say: Say) -> None:
        super().update(step, say)
        self.average = self.average or torch.optim.swa_utils.AveragedModel(self.model)
        self.average.update_parameters(self.model)
        with torch.no_grad():
            self.average(ids_of(step))


class Raising(Odd):
    """Hooks of the user's that raise: of the optimiser, of a pass forwards and back."""

    def __init__(self) -> None:
        super().__init__()
        self.done = 0
        self.optimizers[0].register_step_pre_hook(self.raises_at(4))
        self.model.layers[1].register_forward_pre_hook(self.raises_at(2))
        self.model.layers[0].register_full_backward_hook(self.raises_at(3))

    def raises_at(self, step: int) -> Any:
        def hook(*_: Any) -> None:
            if self.done == step:
                raise BoomError("of the user's hook")

        return hook

    def update(self, step: int, say: Say) -> None:
        self.done = step
        try:
            super().update(step, say)
        except BoomError:
            self.optimizers[0].zero_grad()


class LossesOfAKind(Odd):
    off = frozenset({"loss.*"})  # of the last: no float is as large

    def update(self, step: int, say: Say) -> None:
        kinds = [True, torch.tensor(1 + 2j), torch.tensor(5, dtype=torch.int8), 3, None, 10**400]
        super().update(step, lambda loss: say(kinds[step]))


def of_model(make: Callable[[], nn.Module], *off: str) -> type[Odd]:
    def begin(self: Odd) -> None:
        torch.manual_seed(0)
        Odd.__init__(self, make())

    name = getattr(make, "__name__", "model")
    return type(name, (Odd,), {"__init__": begin, "off": frozenset(off)})


SAMPLE: list[type[Odd]] = [MaxNorm, of_model(Counting), LateBackward, Drawing, EmptyBatches]
SAMPLE += [Replaced, Strange, Scaled, Scripted]
REST: list[type[Odd]] = [of_model(InPlace)]
REST += [of_model(OnlyTraining, "the look inside", "call.inputs")]  # both run in evaluation mode
REST += [of_model(Warning_), Flowing, Classed, Pricked, SparseBatch, NestedBatch, OneNumber]
REST += [Transformed, OtherOptimiser, Frozen, ComplexBatch, SparseGradients, InBackward, NoRate]
REST += [Raising, LossesOfAKind]
EVERY = [*SAMPLE, *(pytest.param(kind, marks=pytest.mark.nightly) for kind in REST)]


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_an_odd_loop_ends_as_if_nobody_had_watched(kind: type[Odd]) -> None:
    with reports() as lines:
        w = unharmed(kind)
    assert set(w.guard.off) == set(kind.off), w.guard.off
    assert len(lines) == len(kind.off)


# ---- several watches, threads, compilers


def weights_of(models: list[Model]) -> list[Tensor]:
    return [p.detach().clone() for model in models for p in model.parameters()]


def both(is_watched: bool, train: Callable[[list[Model], list[Any], list[Any]], None]) -> Any:
    models = [made(), made(1)]
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-2) for model in models]
    pairs = list(zip(models, optimizers, strict=True))
    watches = [watch(m, o, max_overhead=None).__enter__() for m, o in pairs if is_watched]
    torch.manual_seed(1)
    train(models, optimizers, watches)
    for w in watches:
        w.close()
        assert w.guard.off == {}
        assert w.updates == STEPS
    return weights_of(models)


def in_turn(models: list[Model], optimizers: list[Any], watches: list[Any]) -> None:
    for step in range(STEPS):
        for model in models:
            loss_of(model, ids_of(step)).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


def in_threads(models: list[Model], optimizers: list[Any], watches: list[Any]) -> None:
    for model in models:
        model.eval()  # without dropout: threads share torch's generator
        model.train = lambda mode=True: None  # type: ignore[method-assign]

    def train(place: int) -> None:
        for step in range(STEPS):
            loss_of(models[place], ids_of(step)).backward()
            optimizers[place].step()
            optimizers[place].zero_grad()

    threads = [threading.Thread(target=train, args=(place,)) for place in range(len(models))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("train", [in_turn, in_threads])
def test_two_models_may_be_watched_at_once(train: Any) -> None:
    filters = list(warnings.filters)
    plain, watched = both(False, train), both(True, train)
    assert all(map(torch.equal, plain, watched))
    assert warnings.filters == filters


COMPILED = ["before", "after", pytest.param("whole", marks=pytest.mark.nightly)]


@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")  # torch's own
@pytest.mark.parametrize("when", COMPILED)
def test_a_compiled_model_is_watched_without_a_break_in_its_graph(when: str) -> None:
    """`fullgraph=True` raises where anything in the model, a hook too, cannot be compiled."""
    ends: list[list[Tensor]] = []
    for is_watched in (False, True):
        torch.compiler.reset()
        model: Any = Pending()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            for part in model.parameters():
                nn.init.normal_(part)
        called = (
            torch.compile(model, backend="eager", fullgraph=True) if when == "before" else model
        )
        if when == "whole":
            model.compile(backend="eager", fullgraph=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with watched_or_not(model, optimizer, is_watched) as w:
            if when == "after":
                called = torch.compile(model, backend="eager", fullgraph=True)
            for step in range(STEPS):
                called(torch.full((3, 4), step + 1.0)).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
        assert w is None or w.guard.off == {}
        ends.append([p.detach().clone() for p in model.parameters()])
    assert all(map(torch.equal, *ends))


def watched_or_not(model: nn.Module, optimizer: Any, is_watched: bool) -> Any:
    from contextlib import nullcontext

    return watch(model, optimizer, max_overhead=None) if is_watched else nullcontext()


class Rows(torch.utils.data.Dataset[Tensor]):
    """Rows that a watched model makes, in a process of its own."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: int) -> Tensor:
        with torch.no_grad():
            return self.model(ids_of(place)).argmax(-1)[0]


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of processes that fork beside threads
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_a_watched_model_goes_to_the_processes_of_a_loader(way: str) -> None:
    loop = Loop()
    with all_of(loop) as w:
        loop.update(0, w.step)
        rows = torch.utils.data.DataLoader(
            Rows(loop.model), batch_size=2, num_workers=1, multiprocessing_context=way
        )
        assert len([*iterate(rows)]) == 2
    assert w.guard.off == {}


def iterate(rows: Any) -> Iterator[Tensor]:
    yield from rows
