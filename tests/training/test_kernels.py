"""Which kernels a run is computed by: chosen by its shape, kept in its plan, kept by resume."""

from __future__ import annotations

import json
import shutil
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import pellucid
from pellucid import config, runs
from pellucid.batches import TokenBatch
from pellucid.checkpoints import load_model_tensors
from pellucid.counting import choose_kernel, with_vocabulary
from pellucid.errors import RunError
from pellucid.model import MultiHeadAttention, assemble
from pellucid.objectives import NextToken
from pellucid.optim import assemble_optimiser
from pellucid.presets import find
from pellucid.runs.memory_budget import estimate_training
from pellucid.saved_runs.folder import RunFolder
from pellucid.training.kernels import attend_by, compile_blocks, compiler_problem, kernel_of
from pellucid.training.step import update
from pellucid.typed import multiplies_bfloat16
from support.models import VARIANTS, build
from support.tiny import TINY, train_tiny, write_text

#: A checkout may have the package's name too, so that its tests are in a folder of that name.
PACKAGE = Path(pellucid.__file__).parent


@pytest.mark.parametrize(
    ("precision", "rows", "length", "kernel"),
    [
        ("bfloat16", 8, 256, "products"),
        ("float32", 8, 256, "fused"),
        ("bfloat16", 10_000, 256, "fused"),
        ("bfloat16", 1, 1024, "fused"),
    ],
)
def test_attention_is_chosen_by_precision_length_and_the_room_its_weights_take(
    precision, rows: int, length: int, kernel: str
) -> None:
    nano = replace(find("nano").model, vocab_size=16, context_length=length)
    model = assemble(nano, seed=0)
    assert choose_kernel(nano, precision, sequences=rows) == kernel
    attend_by(model, "products")
    layers = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    assert len(layers) == nano.decoder.n_layers
    assert not any(layer.fused for layer in layers)
    assert not any(layer.scoring().fused for layer in layers)
    assert kernel_of(model) == "products"


@pytest.mark.parametrize("variant", ["rotary", "grouped experts and a shared one"])
def test_each_block_is_compiled_and_of_one_with_experts_its_attention(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[torch.nn.Module] = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module: compiled.append(module))
    model = build(VARIANTS[variant])
    assert model.decoder is not None
    blocks = list(model.decoder.blocks)
    compile_blocks(model)
    assert compiled == (blocks if variant == "rotary" else [block.attention for block in blocks])


def test_a_compiler_is_tried_on_a_computation_and_its_problem_is_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    results: list[float] = []
    working = lambda probe: lambda x: results.append(probe(x).item())  # noqa: E731
    monkeypatch.setattr(torch, "compile", working)
    assert compiler_problem(torch.device("cpu")) is None
    assert results == [16.0]

    def missing(probe: object) -> None:
        raise RuntimeError("no compiler\nand a long story")

    monkeypatch.setattr(torch, "compile", missing)
    with caplog.at_level("INFO"):
        assert compiler_problem(torch.device("cpu")) == "RuntimeError: no compiler"
    assert "and a long story" in caplog.text


def test_a_run_says_how_it_is_computed_and_resumes_so_bit_for_bit(
    native: None, tmp_path: Path
) -> None:
    settings = ["training.precision=bfloat16"]
    straight, stopped = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "stopped")
    train_tiny(straight.path, steps=8, settings=settings)
    plan = json.loads(straight.plan.read_text())
    assert (plan["attention"], plan["native"]) == ("products", True)
    shutil.copytree(straight.path, stopped.path)
    stopped.shelf.rewind(stopped.shelf.path(4))
    shutil.rmtree(stopped.shelf.path(8))
    runs.resume(stopped.path, show=False)
    for name in ("model", "optimiser"):
        file = f"checkpoints/step-8/{name}.safetensors"
        assert (straight.path / file).read_bytes() == (stopped.path / file).read_bytes()


def test_where_no_compiler_is_a_run_that_had_one_is_refused_unless_drift_is_allowed(
    native: None, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    shutil.copytree(trained, folder.path)
    monkeypatch.setenv("PELLUCID_NATIVE", "off")
    with pytest.raises(RunError, match=r"plan\.native: the run has True, here is False"):
        runs.resume(folder.path, show=False)
    runs.resume(folder.path, show=False, allow_drift=True)


def test_a_run_of_an_earlier_version_goes_on_as_it_began(
    native: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PELLUCID_NATIVE", "off")
        train_tiny(tmp_path / "whole", steps=8)
    before = RunFolder(tmp_path / "before")
    shutil.copytree(tmp_path / "whole", before.path)
    plan = json.loads(before.plan.read_text())
    del plan["attention"], plan["native"]
    before.plan.write_text(json.dumps(plan))
    assert config.decode(config.Plan, plan, "plan").attention == "fused"
    before.shelf.rewind(before.shelf.path(4))
    shutil.rmtree(before.shelf.path(8))
    runs.resume(before.path, show=False)
    file = "checkpoints/step-8/model.safetensors"
    assert (tmp_path / "whole" / file).read_bytes() == (before.path / file).read_bytes()


def test_the_fast_path_learns_as_the_plain_one_does(native: None, tmp_path: Path) -> None:
    """200 updates: bf16, products of matrices and C, against float32 in torch alone."""
    from pellucid import native as compiled
    from pellucid.batches import TokenBatch
    from pellucid.objectives import NextToken
    from pellucid.optim import assemble_optimiser
    from pellucid.training.step import update

    text = torch.tensor(list((Path(config.__file__).parent / "codec.py").read_bytes()))

    def losses(precision, kernel, with_c: bool) -> torch.Tensor:
        shape = replace(find("gpt2").model, vocab_size=256, context_length=32, d_model=32)
        shape = replace(
            shape,
            decoder=replace(
                shape.decoder,
                n_layers=2,
                dropout=0.0,
                attention=replace(
                    shape.decoder.attention, n_heads=2, n_kv_heads=2, d_head=16, dropout=0.0
                ),
                feed_forward=replace(shape.decoder.feed_forward, d_ff=128),
            ),
        )
        model = assemble(shape, seed=1).train()
        attend_by(model, kernel)
        rates = replace(find("gpt2").optimiser, learning_rate=3e-3)
        optimiser = assemble_optimiser(rates, model.named_parameters())
        blocked, losses = torch.zeros(()), []
        draw = torch.Generator().manual_seed(2)
        with compiled.allowed(with_c):
            for _ in range(200):
                starts = torch.randint(len(text) - 33, (8, 1), generator=draw)
                rows = text[starts + torch.arange(33)]
                batch = TokenBatch(ids=rows[:, :-1], targets=rows[:, 1:], n_supervised=256)
                numbers = update(
                    model,
                    NextToken(),
                    optimiser,
                    batch,
                    factor=1.0,
                    clip_norm=1.0,
                    blocked=blocked,
                    accumulation=1,
                    device=torch.device("cpu"),
                    precision=precision,
                )
                losses.append(numbers.parts["loss_nats"])
        return torch.stack(losses)

    plain = losses("float32", "fused", with_c=False)
    fast = losses("bfloat16", "products", with_c=True)
    bf16 = losses("bfloat16", "fused", with_c=False)
    assert plain[-20:].mean() < plain[:20].mean() - 1
    # what bf16 alone comes to, and no more, on the whole and at the end
    assert (fast - plain).abs().mean() < 2 * (bf16 - plain).abs().mean() + 0.005
    assert abs(fast[-20:].mean() - plain[-20:].mean()) < 0.03


def test_a_config_that_recomputes_trains_to_the_same_bits_in_less_memory(tmp_path: Path) -> None:
    file = write_text(tmp_path)
    ends: list[dict[str, torch.Tensor]] = []
    for recompute in ("none", "selective", "full"):
        settings = [*TINY, f"training.recompute={recompute}"]
        folder = tmp_path / recompute
        run = pellucid.train([file], out=folder, steps=2, settings=settings, show=False)
        ends.append(load_model_tensors(RunFolder(folder).shelf.latest()))
        assert run.config.training.recompute == recompute
    for other in ends[1:]:
        assert all(torch.equal(ends[0][name], tensor) for name, tensor in other.items())
    nano = with_vocabulary(find("nano"))
    peaks = [
        estimate_training(replace(nano, training=replace(nano.training, recompute=choice))).n_bytes
        for choice in ("none", "selective", "full")
    ]
    assert peaks[0] > peaks[1] > peaks[2]


class Float32Products(TorchDispatchMode):
    """Counts the products of matrices, and the float32 products by the calling file."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.files = 0, set[str]()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.overloadpacket.__name__ in ("mm", "bmm", "addmm", "baddbmm"):
            self.count += 1
            if any(x.dtype == torch.float32 for x in args if isinstance(x, torch.Tensor)):
                files = [Path(frame.filename) for frame in traceback.extract_stack()]
                self.files.add([file for file in files if PACKAGE in file.parents][-1].name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("preset", ["nano", "nano-experts", "nano-encoder"])
def test_an_update_in_bfloat16_has_no_product_in_float32_but_a_routers(preset: str) -> None:
    config = with_vocabulary(find(preset))
    model = assemble(config.model, seed=1)
    ids = torch.randint(0, 100, (2, 16))
    batch = TokenBatch(ids=ids, targets=ids, n_supervised=ids.numel())
    with Float32Products() as products:
        update(
            model,
            NextToken(),
            assemble_optimiser(config.optimiser, model.named_parameters()),
            batch,
            factor=1.0,
            clip_norm=1.0,
            blocked=torch.zeros(()),
            accumulation=1,
            device=torch.device("cpu"),
            precision="bfloat16",
        )
    assert products.count > 50
    # forward in the layer of experts, and backward
    expected = {"layer.py", "typed.py"} if preset == "nano-experts" else set()
    # Newton-Schulz rounds to what the processor multiplies, whatever the model's precision
    is_fast = multiplies_bfloat16(torch.device("cpu"))
    assert products.files == (expected if is_fast else expected | {"muon.py"})
