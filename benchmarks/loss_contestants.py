"""Ways to a linear head's cross-entropy, and the reference that they are compared with.

Comes in: sizes, a kind, a dtype. Goes out: contestants for `benchmarks.worker`. It does not know
whose is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

#: Rows of the matrix whose gradients are compared.
COMPARED = 512
CHUNK = 512
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def inputs(vocab: int, rows: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """States of size 1, a matrix as GPT-2 draws it, targets; bf16 holds all of them exactly."""
    draws = torch.Generator().manual_seed(1)
    states = torch.randn(rows, width, generator=draws)
    matrix = torch.randn(vocab, width, generator=draws) * 0.02
    targets = torch.randint(vocab, (rows,), generator=draws)
    return states.bfloat16(), matrix.bfloat16(), targets


def contestant(*, file: str, kind: str, dtype: str) -> Callable[[int], dict[str, Any]]:
    """Forward and backward of a kind of loss; the first turn is compared with the reference.

    The inputs are read from the reference's file: drawing them would leave memory behind that is
    free, and be counted as held.
    """
    with safe_open(file, framework="pt") as inputs_file:
        targets = inputs_file.get_tensor("targets")
        states, matrix = (
            inputs_file.get_tensor(name).to(getattr(torch, dtype), copy=True).requires_grad_()
            for name in ("inputs.states", "inputs.matrix")
        )
    loss_of, compared = KINDS[kind](), False

    def work(steps: int) -> dict[str, Any]:
        nonlocal compared
        loss = torch.zeros(())
        for _ in range(steps):
            states.grad = matrix.grad = None
            loss = loss_of(states, matrix, targets)
            loss.backward()
        if compared:
            return {}
        compared = True
        assert states.grad is not None
        assert matrix.grad is not None
        with safe_open(file, framework="pt") as inputs_file:
            reference_values = {
                name: inputs_file.get_tensor(name) for name in ("loss", "states", "matrix")
            }
        return errors(reference_values, loss.detach(), states.grad, matrix.grad)

    return work


def errors(
    reference_values: dict[str, Tensor], loss: Tensor, states: Tensor, matrix: Tensor
) -> dict[str, Any]:
    """How far from the reference: the loss in nats, gradients as a share of the known norm."""
    return {
        "loss": float(loss),
        "loss_dtype": str(loss.dtype).removeprefix("torch."),
        "loss_error": abs(float(loss) - float(reference_values["loss"])),
        "states_error": relative_distance(states, reference_values["states"]),
        "matrix_error": relative_distance(matrix[:COMPARED], reference_values["matrix"]),
    }


def relative_distance(tensor: Tensor, reference_value: Tensor) -> float:
    return float((tensor.double() - reference_value).norm() / reference_value.norm())


def naive() -> Loss:
    """The whole matrix of logits, in float32 for the loss."""
    return lambda states, matrix, targets: F.cross_entropy(
        F.linear(states, matrix).float(), targets
    )


def compiled() -> Loss:
    return torch.compile(naive())


def torch_default() -> Loss:
    """Torch's own, in chunks as it chooses them."""
    options = torch.nn.LinearCrossEntropyOptions()
    return lambda states, matrix, targets: F.linear_cross_entropy(
        states, matrix, targets, options=options
    )


def torch_chunks() -> Loss:
    """Torch's own, in chunks of so many rows, gradients summed as accurately as it can."""
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=CHUNK, acc_policy="accurate")
    return lambda states, matrix, targets: F.linear_cross_entropy(
        states, matrix, targets, options=options
    )


def pellucid() -> Loss:
    from pellucid.objectives.linear_cross_entropy import linear_cross_entropy

    return lambda states, matrix, targets: (
        linear_cross_entropy(states, matrix, targets, divisor=float(len(targets))).loss
    )


KINDS: dict[str, Callable[[], Loss]] = {
    "naive": naive,
    "compiled": compiled,
    "torch_default": torch_default,
    "torch_chunks": torch_chunks,
    "pellucid": pellucid,
}


def reference(*, vocab: int, rows: int, width: int, file: str) -> Callable[[int], dict[str, Any]]:
    """Write the inputs, and their loss and gradients in float64, some rows at a time.

    The loss is the mean of log Z - z_y; its gradients are (p - y) W / N and (p - y)^T h / N.
    """
    narrow_states, narrow_matrix, targets = inputs(vocab, rows, width)
    states, matrix = narrow_states.double(), narrow_matrix.double()
    loss = torch.zeros((), dtype=torch.float64)
    by_states, by_matrix = torch.empty_like(states), torch.zeros_like(matrix[:COMPARED])
    for start in range(0, rows, 128):
        part = slice(start, start + 128)
        logits = states[part] @ matrix.T
        loss += F.cross_entropy(logits, targets[part], reduction="sum") / rows
        errors_by_logit = logits.softmax(-1)
        errors_by_logit[torch.arange(len(errors_by_logit)), targets[part]] -= 1
        by_states[part] = errors_by_logit @ matrix / rows
        by_matrix += errors_by_logit[:, :COMPARED].T @ states[part] / rows
    reference_values = {"loss": loss, "states": by_states, "matrix": by_matrix, "targets": targets}
    save_file(
        reference_values | {"inputs.states": narrow_states, "inputs.matrix": narrow_matrix}, file
    )
    return lambda steps: {}
