# %% [markdown]
# # 4. My run went wrong
#
# Most mistakes in training code raise no error. You break a plain PyTorch loop in three ways, watch
# its vital signs, and let pellucid name the cause. Nothing in the loop is pellucid's: it watches
# any model.

# %%
import json
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis import Loop, check, diagnose, history_of_log, history_of_watch, prove
from pellucid.vitals import watch

# %% [markdown]
# ## A loop
#
# The task: count up, with a slip now and then. A tiny transformer learns it in a few seconds.

# %%
N_TOKENS = 16


class Small(nn.Module):
    """One block: causal attention, then a feed-forward layer."""

    def __init__(self, causal: bool = True) -> None:
        super().__init__()
        self.causal = causal
        self.embedding = nn.Embedding(N_TOKENS, 32)
        self.positions = nn.Embedding(16, 32)
        self.norm = nn.LayerNorm(32)
        self.qkv = nn.Linear(32, 96)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.head = nn.Linear(32, N_TOKENS)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) + self.positions(torch.arange(ids.shape[1]))
        q, k, v = self.qkv(self.norm(x)).unsqueeze(1).chunk(3, dim=-1)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).squeeze(1)
        return self.head(x + self.down(F.gelu(self.up(x))))


def rows(seed: int) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    start = torch.randint(N_TOKENS, (16, 1), generator=draws)
    slips = torch.rand(16, 9, generator=draws) < 0.1
    return (start + torch.arange(9) + slips.cumsum(1)) % N_TOKENS


def loss_of(model: nn.Module, ids: Tensor) -> Tensor:
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


# %% [markdown]
# ## Mistake one: before the first update
#
# A model without a causal mask reads the answer. Its loss looks wonderful. `check` needs no
# training: it changes one token and looks at which outputs move.

# %%
torch.manual_seed(0)
ids = rows(0)[:, :-1]
for finding in check(Small(causal=False), ids):
    if finding.severity in ("fault", "fatal"):
        print(finding.text())

# %% [markdown]
# ## Mistake two: gradients that are never cleared
#
# `watch` looks at five things, one for each equation of the training: softmax, cross-entropy, KL,
# gradients, variance. It changes no bit of the training.

# %%
torch.manual_seed(0)
model = Small()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
with watch(model, optimizer) as signs:
    for step in range(150):
        loss = loss_of(model, rows(step))
        loss.backward()
        optimizer.step()  # and no optimizer.zero_grad()
        signs.step(loss)
for finding in diagnose(history_of_watch(signs)):
    if finding.severity in ("fault", "fatal"):
        print(finding.text())

# %% [markdown]
# ## Mistake three: a learning rate that is too high
#
# A cause is the likeliest explanation, and not a certainty. `prove` tries the fixes: it builds the
# loop again for several seeds, with and without each fix, and recommends only what helped by more
# than chance.


# %%
def make_loop(seed: int) -> Loop:
    torch.manual_seed(seed)
    model = Small()
    return Loop(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.5),
        batches=(rows(seed + i) for i in range(10_000)),
        loss=loss_of,
        held_out=[rows(-1)],
    )


proof = prove(make_loop, steps=40, candidates=5)
for trial in proof.trials:
    print(f"{trial.fix.change}: {trial.verdict}")
    low, high = trial.difference.interval
    print(f"  held-out loss {trial.difference.mean:+.3f}, 95% interval {low:+.3f} to {high:+.3f}")
print("in your code:", proof.best.fix.code)

# %% [markdown]
# ## A log of someone else
#
# A log alone shows less, but often enough.

# %%
losses = [2.8 - n / 40 for n in range(20)] + [float("nan")] * 6
log = [{"step": 10 * n, "loss": loss, "learning_rate": 0.001} for n, loss in enumerate(losses)]
Path("trainer_state.json").write_text(json.dumps({"log_history": log}), encoding="utf-8")
for finding in diagnose(history_of_log("trainer_state.json")):
    print(finding.text())

# %% [markdown]
# In a terminal, for runs of pellucid and for logs of others:
#
# ```sh
# pellucid check my.toml my-text.txt
# pellucid diagnose runs/my-run --prove
# pellucid diagnose trainer_state.json
# ```
#
# ## Where to go on
#
# - [Compare fairly](5-compare-fairly.ipynb): is a change really better?
# - [Vital signs](../vitals.md), [diagnosis](../diagnosis.md), [proof for any
#   loop](../proof-loops.md).
# - [How often the diagnosis is right](../diagnosis-benchmark.md), with every miss.
