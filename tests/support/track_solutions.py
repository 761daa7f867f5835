"""What a reader may write into the gaps of the track, in the order of the gaps of each file."""

from __future__ import annotations

import re
from pathlib import Path

from pellucid.course.build.track import STEPS, template

SOLUTIONS: dict[str, tuple[str, ...]] = {
    "tokenizer.py": (
        "return Counter(zip(ids, ids[1:])).most_common(1)[0][0]",
        """
        result, place = [], 0
        while place < len(ids):
            is_pair = tuple(ids[place : place + 2]) == pair
            result.append(new_id if is_pair else ids[place])
            place += 2 if is_pair else 1
        return result
        """,
    ),
    "embedding.py": ("return weight[ids]",),
    "positions.py": (
        """
        pairs = torch.arange(d_head // 2, device=places.device)
        return places[:, None] * base ** (-2.0 * pairs / d_head)
        """,
        """
        turn = angles(places, x.shape[-1], base)
        first, second = x.chunk(2, dim=-1)
        cos, sin = turn.cos(), turn.sin()
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        """,
    ),
    "attention.py": (
        """
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        n_queries, n_keys = scores.shape[-2:]
        seen = torch.ones(n_queries, n_keys, dtype=torch.bool).tril(n_keys - n_queries)
        return torch.softmax(scores.masked_fill(~seen, -math.inf), dim=-1) @ v
        """,
    ),
    "norm.py": (
        """
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return centred / torch.sqrt(variance + eps) * gain
        """,
    ),
    "feed_forward.py": (
        "return x * (1 + torch.erf(x / math.sqrt(2))) / 2",
        "return gelu(x @ up.mT) @ down.mT",
    ),
    "block.py": (
        """
        x = x + attend(attention_norm(x))
        return x + feed(feed_forward_norm(x))
        """,
    ),
    "loss.py": (
        """
        largest = logits.amax(-1, keepdim=True)
        log_z = largest[:, 0] + (logits - largest).exp().sum(-1).log()
        return (log_z - logits.gather(-1, targets[:, None])[:, 0]).mean()
        """,
    ),
    "backward.py": (
        """
        error = torch.softmax(states @ weight.mT, dim=-1)
        error[torch.arange(len(targets)), targets] -= 1
        error = error / len(targets)
        return error @ weight, error.mT @ states
        """,
    ),
    "adamw.py": (
        """
        m = beta1 * m + (1 - beta1) * grad
        v = beta2 * v + (1 - beta2) * grad**2
        direction = (m / (1 - beta1**step)) / (torch.sqrt(v / (1 - beta2**step)) + eps)
        return w - learning_rate * (weight_decay * w + direction), m, v
        """,
    ),
    "schedule.py": (
        """
        if step < warm_up:
            return step / warm_up
        share = min(1.0, (step - warm_up) / (total - warm_up))
        return final + (1 - final) * (1 + math.cos(math.pi * share)) / 2
        """,
    ),
    "sampling.py": (
        """
        if top_k is not None:
            least = torch.topk(logits, top_k).values[-1]
            logits = logits.masked_fill(logits < least, float("-inf"))
        return torch.softmax(logits / temperature, dim=-1)
        """,
    ),
    "lora.py": (
        "return x @ weight.mT + alpha / down.shape[0] * (x @ down.mT @ up.mT)",
        "return weight + alpha / down.shape[0] * up @ down",
    ),
    "dpo.py": (
        """
        log_p = torch.log_softmax(logits, dim=-1).gather(-1, targets[:, None])[:, 0]
        return log_p[is_answer].sum()
        """,
        """
        margin = (chosen - reference_chosen) - (rejected - reference_rejected)
        return -torch.nn.functional.logsigmoid(beta * margin)
        """,
    ),
    "train.py": (
        "return cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())",
        """
        loss = next_token_loss(model, ids)
        losses.append(float(loss))
        grads = torch.autograd.grad(loss, weights)
        for place, (w, grad) in enumerate(zip(weights, grads)):
            m, v = moments[place]
            with torch.no_grad():
                new_w, m, v = adamw_step(
                    w, grad, m, v, step=step + 1, learning_rate=learning_rate * factor
                )
                w.copy_(new_w)
            moments[place] = (m, v)
        """,
    ),
    "parts.py": (),
}


def solve(folder: Path) -> None:
    """Write the files of the track with every gap filled."""
    folder.mkdir(parents=True, exist_ok=True)
    for step in STEPS:
        (folder / step.file).write_text(filled(step.file), encoding="utf-8")


def filled(file: str) -> str:
    """A file with its gaps filled; fails if there are more gaps than solutions, or fewer."""
    solutions = iter(SOLUTIONS[file])

    def fill(gap: re.Match[str]) -> str:
        lines = next(solutions).strip("\n").splitlines()
        margin = len(lines[0]) - len(lines[0].lstrip())
        return "\n".join(gap[1] + line[margin:] for line in lines).rstrip()

    text = re.sub(r"^( +)raise NotImplementedError\(.*\)$", fill, template(file), flags=re.M)
    assert next(solutions, None) is None, f"{file} has fewer gaps"
    return text
