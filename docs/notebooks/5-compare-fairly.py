# %% [markdown]
# # 5. Compare fairly
#
# Is a change better, or was it luck? Two runs of one config with different seeds differ too. So you
# train each variant with the same seeds on the same data, and look at the differences of the pairs.
# It needs `pip install "pellucid[lab]"`.

# %%
from pathlib import Path

import pellucid

# %% [markdown]
# ## A text and two variants
#
# The text is sums, written out. A variant is a TOML file with only what differs from a preset. Here
# they differ in one thing: one layer or two.

# %%
sums = [f"{a} plus {b} is {a + b}." for a in range(60) for b in range(60)]
Path("sums.txt").write_text("\n\n".join(sums), encoding="utf-8")

variant = """
base = "nano"

[text]
tokenizer = {{kind = "Bytes"}}

[model]
context_length = 32
d_model = 32

[model.decoder]
n_layers = {n_layers}
attention = {{n_heads = 1, n_kv_heads = 1, d_head = 32}}
feed_forward = {{d_ff = 64}}

[training]
batch_size = 16
evaluate_tokens = 20_000
"""
for name, n_layers in (("one", 1), ("two", 2)):
    Path(f"{name}.toml").write_text(variant.format(n_layers=n_layers), encoding="utf-8")

# %% [markdown]
# ## One run each says little
#
# Look at one seed first.

# %%
single = pellucid.compare("one.toml", "two.toml", "sums.txt", seeds=1, steps=100, out="runs/sums")
print(single.pairs[0].verdict)

# %% [markdown]
# ## Five pairs
#
# Nothing is trained twice: the runs of seed 0 are taken as they are.

# %%
five = pellucid.compare("one.toml", "two.toml", "sums.txt", seeds=5, steps=100, out="runs/sums")
for result in five.variants:
    low, high = result.interval
    print(f"{result.name}: {result.mean:.4f} bits/byte, 95% interval {low:.4f} to {high:.4f}")
pair = five.pairs[0]
low, high = pair.difference.interval
print(f"two minus one: {pair.difference.mean:+.4f}, {low:+.4f} to {high:+.4f}, p = {pair.p:.4f}")
print(pair.verdict)

# %% [markdown]
# - The **interval** is Student's. It is wide for few seeds, and honest.
# - Two intervals may overlap although the pairs agree: both variants of a pair met the same data in
#   the same order, so what was luck cancels in the difference.
# - The **verdict** follows from the interval. If zero lies in it, the verdict names the largest
#   difference that these seeds leave possible, and how many seeds would show the one you measured.
#
# ## A test of the test
#
# A method that finds differences has to find none where there is none. Here is a variant against
# itself, under another name, with a setting that changes nothing for such a short run.

# %%
Path("same.toml").write_text(
    variant.format(n_layers=1) + "checkpoint_every = 50\n", encoding="utf-8"
)
null_test = pellucid.compare(
    "one.toml", "same.toml", "sums.txt", seeds=3, steps=100, out="runs/same"
)
print(null_test.pairs[0].verdict)

# %% [markdown]
# Every variant and seed is an ordinary run in `runs/sums`. The command writes the same as one HTML
# page, CSV and JSON; `--tune` gives every variant the same number of trials, so that the baseline
# is not the one that nobody tuned.
#
# ```sh
# pellucid compare one.toml two.toml sums.txt --seeds 5 --steps 100
# pellucid compare one.toml two.toml sums.txt --tune learning_rate --trials 10
# ```
#
# ## Where to go on
#
# - [Tune and talk](6-tune-and-talk.ipynb): from a text model to one that answers.
# - [All of compare](../compare.md): tuning, sweeps, laws of size, and how often it is wrong.
# - [Experiments](../experiments.md): claims of the textbook, measured this way on your machine.
