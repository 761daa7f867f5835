"""Watching never harms a training: whatever raises, the loop ends as if nobody had watched."""

from __future__ import annotations

import copy
import io
import pickle
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from pellucid.diagnosis import diagnose, history_of_watch
from pellucid.errors import ConfigError
from pellucid.vitals import Probe, VerdictTracker, Watch, rules_of, watch
from pellucid.vitals.async_metrics import AsyncMetrics
from support.foreign import VOCAB, Model, ids_of, made
from support.nightly import sampled
from support.unharmed import STEPS, Loop, Say, all_of, reports, unharmed


class BoomError(Exception):
    """Raised on purpose."""


def boom(*_: Any, **__: Any) -> Any:
    raise BoomError("on purpose")


def asks(w: Watch) -> None:
    """All that a loop may ask of a watch while it runs."""
    w.flush()
    w.report()
    w.state_dict()
    assert w.missing is not None
    diagnose(history_of_watch(w))


class Asking(Loop):
    """After the last update but one, the watch is asked for all it knows."""

    watch: Watch | None = None

    def train(self, say: Say = lambda loss: None) -> None:
        for step in range(STEPS):
            self.update(step, say)
            if step == STEPS - 2 and isinstance(getattr(say, "__self__", None), Watch):
                asks(say.__self__)


class NaN(Asking):
    def loss(self, step: int) -> Tensor:
        return super().loss(step) * (float("nan") if step in (2, 3) else 1.0)


class Infinite(Asking):
    def update(self, step: int, say: Say) -> None:
        super().update(step, lambda loss: say([float("inf"), float("-inf"), 1e308][step % 3]))


class Adafactor(Asking):
    def __init__(self) -> None:
        super().__init__()
        self.optimizers = [torch.optim.Adafactor(self.model.parameters(), lr=1e-2)]


class LBFGS(Asking):
    def __init__(self) -> None:
        super().__init__()
        self.optimizers = [torch.optim.LBFGS(self.model.parameters(), lr=0.1, max_iter=3)]

    def update(self, step: int, say: Say) -> None:
        def closure() -> Tensor:
            self.optimizers[0].zero_grad()
            loss = self.loss(step)
            loss.backward()
            return loss

        say(self.optimizers[0].step(closure))


class Several(Asking):
    def __init__(self) -> None:
        super().__init__()
        embed, rest = self.model.embed.parameters(), self.model.layers.parameters()
        self.optimizers = [torch.optim.SGD(embed, lr=0.1), torch.optim.RMSprop(rest, lr=1e-3)]


class NoRate(torch.optim.Optimizer):
    """Somebody's own: no learning rate, an eps of two, three betas."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": None, "eps": (1e-30, 1e-3), "betas": (0.9, 0.9, 0.9)})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(p.grad.sign(), alpha=1e-3)


class Foreign(Asking):
    def __init__(self) -> None:
        super().__init__()
        self.optimizers = [NoRate(self.model.parameters())]


class Sparse(Asking):
    def __init__(self) -> None:
        super().__init__()
        self.model.embed = nn.Embedding(VOCAB, 16, sparse=True)
        rest = [p for n, p in self.model.named_parameters() if not n.startswith("embed")]
        self.optimizers = [
            torch.optim.SparseAdam(self.model.embed.parameters()),
            torch.optim.AdamW(rest, lr=1e-3),
        ]


class Grown(Asking):
    """A group that comes later, a rate that becomes a tensor, a layer that is replaced."""

    def __init__(self) -> None:
        super().__init__()
        inside = self.model.layers.parameters()
        self.optimizers = [torch.optim.AdamW(inside, lr=torch.tensor(1e-3), foreach=False)]

    def update(self, step: int, say: Say) -> None:
        if step == 2:
            self.optimizers[0].add_param_group({"params": list(self.model.head.parameters())})
        if step == 3:
            self.model.layers[1] = copy.deepcopy(self.model.layers[0])
            self.model.embed.requires_grad_(False)
            self.optimizers[0].param_groups[0]["params"] += self.model.layers[1].parameters()
        super().update(step, say)


class Bare(nn.Module):
    """Masks in a dict, outputs in a dict, tied weights, a weight that nothing goes through."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Model()
        self.inner.head.weight = nn.Parameter(self.inner.head.weight.detach().clone())
        self.tied = self.inner.layers[0]
        self.unused = nn.Parameter(torch.ones(3))
        self.seen: list[Tensor] = []

    def forward(self, ids: Tensor, masks: dict[str, Tensor], cache: Any = None) -> dict[str, Any]:
        self.seen.append(ids)  # somebody's way to remember
        assert masks["full"].shape[0] == ids.shape[0]
        if cache is not None:
            cache.rows.append(ids)
            torch.cat(cache.rows, dim=1)
        return {"logits": self.inner(ids) * masks.pop("full")[..., None]}


class Masks(Asking):
    def __init__(self) -> None:
        super().__init__()
        self.model = Bare()
        self.optimizers = [torch.optim.AdamW(self.model.parameters(), lr=1e-3)]

    def made(self, ids: Tensor, *more: Any) -> Tensor:
        full = torch.ones(ids.shape)
        return self.model(ids, {"full": full, "none": None}, *more)["logits"]

    def loss(self, step: int) -> Tensor:
        ids = torch.cat((ids_of(step), ids_of(step + 50)))  # more rows than are kept
        return F.cross_entropy(self.made(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


class Cache:
    """Of keys and values, as a model that writes has one."""

    def __init__(self) -> None:
        self.rows: list[Tensor] = []


class Writing(Masks):
    """The model writes between updates, in training mode and with its cache."""

    def update(self, step: int, say: Say) -> None:
        cache = Cache()
        with torch.no_grad():
            for place in range(3):
                self.made(ids_of(place)[:, : place + 1], cache)
        self.optimizers[0].zero_grad()
        self.made(ids_of(step), cache).logsumexp(-1).mean().backward()
        super().update(step, say)


class OneToken(Asking):
    def loss(self, step: int) -> Tensor:
        return self.model(ids_of(step)[:1, :1]).logsumexp(-1).mean()


class Unlabelled(Asking):
    """Labels that ask for nothing, and a probe that is told other signs for nothing."""

    def __init__(self) -> None:
        super().__init__()
        labels = torch.full((4, 12), -1)
        self.options = {"probe": Probe(lambda: self.model(ids_of(0)[:, :-1]), labels)}

    def loss(self, step: int) -> Tensor:
        logits = self.model(ids_of(step)[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), torch.full((48,), -100))


class Half(Asking):
    def __init__(self) -> None:
        super().__init__()
        self.model.bfloat16()


class Autocast(Asking):
    """Within one autocast, so that its cache of weights lives from update to update."""

    def train(self, say: Say = lambda loss: None) -> None:
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16):
                for step in range(2):
                    for part in ids_of(step).chunk(2):
                        loss = self.model(part).float().logsumexp(-1).mean()
                        loss.backward()
                    say(loss)
                    self.optimizers[0].step()
                    self.loss(step).backward()  # of weights from before the step


class Checkpointed(Asking):
    def loss(self, step: int) -> Tensor:
        ids = ids_of(step)
        logits = checkpoint(self.model, ids[:, :-1], use_reentrant=False)
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


class Twins(Asking):
    """Called twice for an update, evaluated in between with other shapes."""

    def loss(self, step: int) -> Tensor:
        self.model.eval()
        with torch.no_grad():
            self.model(ids_of(step)[:2, :5])
        self.model.train()
        return (self.model(ids_of(step)[:, :-1]) - self.model(ids_of(step)[:, 1:])).square().mean()


class Embedded(Asking):
    """Called with floats, and not with ids; another time without anything to be learnt from."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8, bias=False), nn.Dropout(0.1))
        self.optimizers = [torch.optim.SGD(self.model.parameters(), lr=0.1)]

    def loss(self, step: int) -> Tensor:
        return self.model(torch.full((2, 3, 8), step / 7)).square().mean()


class Losses(Asking):
    """Losses of every kind, a few of them none at all."""

    def update(self, step: int, say: Say) -> None:
        kinds = [0.5, torch.tensor(3), torch.ones(2), "a loss", torch.ones(0), {"loss": 1.0}]
        super().update(step, lambda loss: say(kinds[step % len(kinds)]))


class Tripping(Asking):
    """A forward pass that raises half way, and a hook of the user's that raises; both go on."""

    def __init__(self) -> None:
        super().__init__()
        self.caught = 0
        self.count = 0
        self.model.norm.register_forward_hook(self.hook)

    def hook(self, module: nn.Module, given: Any, out: Tensor) -> None:
        self.count += module.training
        if self.count % 3 == 1:
            raise BoomError("of the user's hook")

    def update(self, step: int, say: Say) -> None:
        try:
            super().update(step, say)
        except BoomError:
            self.caught += 1


LOOPS = [NaN, Infinite, Adafactor, LBFGS, Several, Foreign, Sparse, Grown, Masks, Writing, OneToken]
LOOPS += [Unlabelled, Half, Autocast, Checkpointed, Twins, Embedded, Losses, Tripping]


@pytest.mark.parametrize("kind", sampled(LOOPS, 2), ids=lambda kind: kind.__name__)
def test_a_watched_loop_ends_as_an_unwatched_one(kind: type[Loop]) -> None:
    with reports() as lines:
        w = unharmed(kind)
    assert len(lines) == len(w.guard.off)
    mine = {"Losses": {"loss.*", "loss"}}.get(kind.__name__, set())
    assert set(w.guard.off) <= mine, w.guard.off


@pytest.mark.parametrize("part", ["log=", "listener", "reference", "probe", "earlier readings"])
def test_what_the_user_hands_over_may_raise(part: str) -> None:
    def begin(loop: Loop) -> Watch:
        options: dict[str, Any] = {"log": boom} if part == "log=" else {}
        if part == "reference":
            reference = copy.deepcopy(loop.model)
            reference.head.forward = boom
            options["reference"] = reference
        if part == "probe":
            options["probe"] = Probe(boom, None)
        w = watch(loop.model, loop.optimizers, max_overhead=None, **options)
        if part == "listener":
            w.listeners.append(boom)
        if part == "earlier readings":
            w.load_state_dict({"updates": 3, "judge": {"losses": "none"}})
        return w

    with reports() as lines:
        w = unharmed(Loop, begin)
    assert len(w.guard.off) == len(lines) == 1
    assert part != "probe" or "attention.max_logit" not in {sign.id for sign in w.signs}
    assert any(sign.id == "gradient.norm" for sign in w.signs)
    assert "Your training continues unchanged" in lines[0]
    assert ".py:" in lines[0]
    assert "switched off" in w.report()


def measured() -> list[str]:
    """Every number that a tape is handed, of a loop that has them all."""
    ids: set[str] = set()
    put = AsyncMetrics.record

    def noting(self: AsyncMetrics, id: str, *rest: Any) -> None:
        ids.add(id)
        put(self, id, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AsyncMetrics, "record", noting)
        unharmed(Loop, of_everything)
    return sorted(ids)


def of_everything(loop: Loop) -> Watch:
    ids = ids_of(0)
    probe = Probe(lambda: loop.model(ids[:, :-1]), ids[:, 1:])
    return watch(loop.model, loop.optimizers, max_overhead=None, probe=probe, clip_norm=1.0)


@pytest.mark.parametrize("each", [5, pytest.param(1, marks=pytest.mark.nightly)])
def test_every_measurement_may_raise_and_is_switched_off_alone(each: int) -> None:
    ids, real = measured(), AsyncMetrics._add_column
    assert len(ids) > 20
    for id in ids[::each]:

        def put(self: AsyncMetrics, this: str, values: Any, places: Any, id: str = id) -> None:
            real(self, this, boom if this == id else values, places)

        with pytest.MonkeyPatch.context() as patch, reports() as lines:
            patch.setattr(AsyncMetrics, "_add_column", put)
            w = unharmed(Loop, of_everything)
        assert set(w.guard.off) == {id}
        assert len(lines) == 1
        assert f"no longer watches {id}: BoomError: on purpose" in lines[0]


@pytest.mark.parametrize("id", sampled(rules_of(), 5))
def test_every_sign_may_raise_while_it_is_judged(id: str) -> None:
    real = VerdictTracker._words

    def words(self: VerdictTracker, this: str, *rest: Any) -> None:
        return boom() if this == id else real(self, this, *rest)

    def begin(loop: Loop) -> Watch:
        w = all_of(loop)
        # every sign there is, also those that this loop does not show
        w.listeners.append(lambda step, signs: w.judge._judge(id, step, 0.0))
        return w

    with pytest.MonkeyPatch.context() as patch, reports() as lines:
        patch.setattr(VerdictTracker, "_words", words)
        w = unharmed(Loop, begin)
    assert set(w.guard.off) == {id}
    assert len(lines) == 1
    assert id not in {sign.id for sign in w.signs}


INSIDE = [
    "pellucid.vitals.inside_look.study",
    "pellucid.vitals.inside_look.part_ids",
    "pellucid.vitals.loop_watch.LookSchedule.begin",
    "pellucid.vitals.loop_watch.FirstBatch.attach",
    "pellucid.vitals.ledger.ledger.Ledger.attach",
    "pellucid.vitals.ledger.ledger.Ledger.end",
    "pellucid.vitals.ledger.page.Page.statistics",
    "pellucid.vitals.ledger.marks.Marks.add",
    "pellucid.vitals.logs.to_scalars",
    "pellucid.vitals.watch_report.WatchReport._list_missing",
    "pellucid.vitals.probe.reading_mode",
    "pellucid.vitals.probe.ProbeRunner.measure",
    "pellucid.vitals.probe.ProbeRunner.predict",
    "pellucid.vitals.taps.attention._intercepting",
    "pellucid.vitals.taps.attention.fused_call",
    "pellucid.vitals.taps.stream._StreamMeasurements.block",
    "pellucid.vitals.taps.stream.mean_cosine",
    "pellucid.vitals.taps.stream._wide",
    "pellucid.vitals.predictions._by_place",
    "pellucid.vitals.update_sizes.sample",
    "pellucid.vitals.update_sizes.Updates.measure",
    "pellucid.vitals.taps.first_batch.FirstBatch._keep_call",
    "pellucid.vitals.taps.first_batch.FirstBatch._on_output",
    "pellucid.vitals.part_losses.Losses.add",
    "pellucid.vitals.part_losses.Losses.end_update",
    "pellucid.vitals.ledger.events.Events._count",
    "pellucid.vitals.ledger.writes.Writes.begin",
    "pellucid.vitals.async_metrics.AsyncMetrics._send",
    "pellucid.vitals.async_metrics.AsyncMetrics.read",
    "pellucid.vitals.verdicts.VerdictTracker.read",
    "pellucid.vitals.verdicts.summarise",
    "pellucid.vitals.rules.Rule.word",
    "pellucid.vitals.record.Series.add",
]


@pytest.mark.parametrize("name", sampled(INSIDE))
def test_whatever_raises_inside_the_loop_goes_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name, boom)
    with reports() as lines:
        w = unharmed(Loop)
    monkeypatch.undo()
    assert len(lines) == len(w.guard.off)
    if not name.endswith(("missing", "to_scalars")):  # nobody asked, and nobody logs
        assert lines


def test_a_traceback_is_written_to_a_file_with_the_versions(tmp_path: Any) -> None:
    model = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with reports() as lines, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path))
        with watch(model, optimizer, log=boom, max_overhead=None) as w:
            for step in range(3):
                model(ids_of(step)).sum().backward()
                optimizer.step()
    (file,) = tmp_path.iterdir()
    assert str(file) in lines[0]
    text = file.read_text("utf-8")
    assert "in boom" in text
    assert f"torch {torch.__version__}" in text
    assert list(w.guard.off) == ["log="]


def test_a_log_that_cannot_be_written_to_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.training.guard.tempfile.mkstemp", boom)
    monkeypatch.setattr("pellucid.training.guard._log.warning", boom)
    w = unharmed(Loop, lambda loop: watch(loop.model, loop.optimizers, log="/dev/full"))
    assert list(w.guard.off) == ["log="]
    assert "No space" in w.guard.off["log="]


@contextmanager
def watched(model: nn.Module) -> Iterator[tuple[Watch, torch.optim.Optimizer]]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with watch(model, optimizer, max_overhead=None) as w:
        model(ids_of(0)).logsumexp(-1).mean().backward()
        optimizer.step()
        yield w, optimizer


def own_hook(*_: Any) -> None:
    """The user's own, which is a part of the model."""


@pytest.mark.parametrize("way", ["torch.save", "pickle", "deepcopy", "copy", "compiled"])
def test_a_watched_model_is_saved_and_copied_without_its_hooks(way: str) -> None:
    model: nn.Module = made()
    model.register_forward_hook(own_hook)
    if way == "compiled":
        model = torch.compile(model, backend="eager")  # type: ignore[assignment]
    keys = list(model.state_dict())
    with watched(model):
        assert list(model.state_dict()) == keys
        if way == "torch.save":
            file = io.BytesIO()
            torch.save(model, file)
            assert b"pellucid" not in file.getvalue()
            file.seek(0)
            other = torch.load(file, weights_only=False)
        elif way == "pickle":
            other = pickle.loads(pickle.dumps(model))
        else:
            other = copy.copy(model) if way == "copy" else copy.deepcopy(model)
    assert type(other) is type(model)
    assert not other._forward_pre_hooks
    assert not other._forward_pre_hooks_with_kwargs
    assert list(other._forward_hooks.values()) == ([] if way == "compiled" else [own_hook])
    assert "__getstate__" not in vars(other)
    assert "__getstate__" not in vars(model)


@pytest.mark.parametrize(
    "place", ["pellucid.vitals.probe.ProbeRunner._predicted", "_measure_call", "by_rows"]
)
def test_an_interrupt_within_a_look_goes_through_and_leaves_nothing(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    path = {
        "_measure_call": "taps.attention._CallInterceptor._measure_call",
        "by_rows": "attention.by_rows",
    }
    monkeypatch.setattr(f"pellucid.vitals.{path[place]}" if place in path else place, interrupted)
    model = made()
    modes = [module.training for module in model.modules()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(ids_of(0)).sum().backward()
    before = torch.get_rng_state()
    with watch(model, optimizer, max_overhead=None):
        model(ids_of(0)).sum()
        before = torch.get_rng_state()
        with pytest.raises(KeyboardInterrupt):
            optimizer.step()
    assert torch.equal(before, torch.get_rng_state())
    assert [module.training for module in model.modules()] == modes
    assert torch.is_grad_enabled()
    assert torch.is_autocast_cache_enabled()
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert not optimizer._optimizer_step_pre_hooks
    assert torch.overrides._len_torch_function_stack() == 0


def test_what_a_signal_handler_raises_goes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def handler(number: int, frame: Any) -> None:
        raise BoomError("stop now")

    before = signal.signal(signal.SIGUSR2, handler)
    try:
        model = made()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def log(values: dict[str, float], step: int) -> None:
            signal.raise_signal(signal.SIGUSR2)

        with watch(model, optimizer, log=log):
            model(ids_of(0)).sum().backward()
            optimizer.step()
            with pytest.raises(BoomError, match="stop now"):
                optimizer.step()
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_errors_of_the_models_own_pass_go_through() -> None:
    model = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(IndexError), watch(model, optimizer):
        model(ids_of(0) + VOCAB)
    assert not model._forward_hooks


def test_watches_may_be_nested_closed_twice_entered_again_and_left_open() -> None:
    def both(loop: Loop) -> Watch:
        outer = all_of(loop).__enter__()
        inner = all_of(loop)
        inner.listeners.append(lambda step, signs: outer.close())  # first, and again and again
        return inner

    unharmed(Loop, both)
    model = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    w = watch(model, optimizer, max_overhead=None)
    for _ in range(2):
        with w, w:
            model(ids_of(0)).sum().backward()
            optimizer.step()
    assert w.updates == 2
    assert not model._forward_hooks
    watch(model, optimizer).__enter__()  # and never closed


class Threaded(Loop):
    def train(self, say: Say = lambda loss: None) -> None:
        thread = threading.Thread(target=super().train, args=(say,))
        thread.start()
        while thread.is_alive():
            if isinstance(getattr(say, "__self__", None), Watch):
                asks(say.__self__)
            thread.join(0.01)


def test_a_watch_may_be_asked_from_another_thread() -> None:
    unharmed(Threaded)


class Stored(Asking):
    """A model that keeps what it saw, draws from generators of its own, and makes new buffers."""

    def __init__(self) -> None:
        super().__init__()
        inner = self.model
        inner.draws = torch.Generator().manual_seed(3)
        inner.register_buffer("last", torch.zeros(()))

        def hook(module: nn.Module, given: Any, out: Tensor) -> Tensor:
            import random

            module.last = out.mean().detach()
            module.kept = getattr(module, "kept", 0) + 1
            return out * (1 + torch.rand((), generator=module.draws) + random.random())

        inner.register_forward_hook(hook)


def test_what_a_forward_pass_leaves_in_a_module_is_put_back() -> None:
    unharmed(Stored)


@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")  # torch's own
def test_a_compiled_step_of_an_optimiser_may_be_watched() -> None:
    class Compiled(Loop):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
            self.optimizers = [torch.optim.SGD(self.model.parameters(), lr=0.1)]
            self.step = torch.compile(lambda: self.optimizers[0].step(), backend="eager")

        def loss(self, step: int) -> Tensor:
            return self.model(torch.full((2, 3, 8), step / 7)).square().mean()

        def update(self, step: int, say: Say) -> None:
            loss = self.loss(step)
            loss.backward()
            say(loss)
            self.step()
            self.optimizers[0].zero_grad()

    w = unharmed(Compiled)
    assert w.guard.off == {}


def test_lazy_parameters_are_studied_once_they_are_there() -> None:
    class Lazy(Loop):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.Sequential(nn.Linear(8, 8), nn.LazyLinear(4))
            self.optimizers = [torch.optim.SGD(self.model.parameters(), lr=0.1)]

        def loss(self, step: int) -> Tensor:
            return self.model(torch.full((2, 3, 8), step / 7)).square().mean()

    w = unharmed(Lazy)
    assert w.guard.off == {}


def test_options_that_cannot_be_used_are_refused_before_training() -> None:
    model = made()
    with pytest.raises(ConfigError, match="no parameter of the model is trained"):
        watch(made().requires_grad_(False))
    for options in ({"max_overhead": 2.0}, {"max_overhead": "much"}, {"log": 3}):
        with pytest.raises(ConfigError):
            watch(model, **options)
