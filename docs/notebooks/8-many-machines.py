# %% [markdown]
# # 8. Many machines
#
# The same training on several processes, which are called ranks. Here are two on one machine; on a
# cluster the commands are the same. You check that two ranks train what one trains, and plan a
# training on machines that you do not have.

# %%
import os
import subprocess
import sys
from pathlib import Path

from pellucid.planning import find_kind, propose
from pellucid.presets import find
from pellucid.runs import RunFolder, read_events
from pellucid.training import Logged

sums = [f"{a} plus {b} is {a + b}." for a in range(60) for b in range(60)]
Path("sums.txt").write_text("\n\n".join(sums), encoding="utf-8")
print(sums[61])

# %% [markdown]
# ## One process, then two
#
# torchrun starts the ranks. Rank 0 prepares the data, writes and prints; the others compute their
# share of each batch. `training.accumulation=2` cuts a batch into two parts, on one rank too, so
# that dropout draws the same numbers.

# %%
tiny = """
base = "nano"

[text]
tokenizer = {kind = "Bytes"}

[model]
context_length = 32
d_model = 32

[model.decoder]
n_layers = 2
attention = {n_heads = 1, n_kv_heads = 1, d_head = 32}
feed_forward = {d_ff = 64}

[training]
batch_size = 16
accumulation = 2
precision = "float32"
device = "cpu"
log_every = 10

[optimiser]
kind = "AdamW"
learning_rate = 3e-3
betas = [0.9, 0.95]
eps = 1e-8
weight_decay = 0.1
"""
Path("tiny.toml").write_text(tiny, encoding="utf-8")


def train(folder: str, *launcher: str, setting: str = "seed=1337") -> None:
    words = ["train", "sums.txt", "--config", "tiny.toml", "--steps", "40", "--out", folder]
    subprocess.run(
        [sys.executable, *launcher, "-m", "pellucid", *words, "--set", setting],
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    )


train("runs/one")
torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
train("runs/two", *torchrun)

# %% [markdown]
# ## The same curve
#
# The loss of every report, from both runs:


# %%
def losses(run: str) -> list[float]:
    events = read_events(RunFolder(Path(run)).metrics)
    return [event.loss for event in events if isinstance(event, Logged)]


for i, (loss_of_one, loss_of_two) in enumerate(
    zip(losses("runs/one"), losses("runs/two"), strict=True), start=1
):
    print(f"update {10 * i}: {loss_of_one:.5f} and {loss_of_two:.5f}")

# %% [markdown]
# Both folders look alike, and every other command works on them.
#
# ## Weights that one machine does not hold
#
# With `parallel.shard=full` each rank keeps a share of weights, gradients and the optimiser's
# memory. The losses stay.

# %%
train("runs/shared", *torchrun, setting="parallel.shard=full")
difference = max(
    abs(loss - shared_loss)
    for loss, shared_loss in zip(losses("runs/one"), losses("runs/shared"), strict=True)
)
print(f"largest difference of a loss below 1e-3: {difference < 1e-3}")

# %% [markdown]
# In a terminal, on one machine with eight GPUs:
#
# ```sh
# torchrun --nproc-per-node 8 -m pellucid train my-text.txt --set parallel.shard=full
# ```
#
# If a rank is lost, all end within half a minute with exit code 5, and the message names the last
# checkpoint.
#
# ## Plan before you rent
#
# `propose` predicts memory, speed and price of a training on machines that you do not have. It
# builds nothing. Here is GPT-2 on H100 cards, the cheapest layouts first.

# %%
for plan in propose(find("gpt2"), find_kind("h100"))[:3]:
    layout = plan.setting.layout
    print(
        f"{layout.devices} devices: {plan.memory_per_device / 2**30:.1f} GiB each, "
        f"{plan.tokens_per_second:,.0f} tokens a second, "
        f"{plan.dollars_per_billion_tokens:.2f} dollars for a billion tokens"
    )

# %% [markdown]
# ## Where to go on
#
# - [From one process to many](../many-machines.md): what stays the same, what is refused, and how
#   nothing is lost.
# - [Plan](../plan.md): every formula and assumption, and how far predictions were off.
# - [Budgets of one machine](../budget.md).
