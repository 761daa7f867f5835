# %% [markdown]
# # 1. Your first model
#
# You train a small transformer, look at its loss, and let it write. It takes half a minute on two
# CPU cores and needs no network. The text is English that you already have: the documentation in
# the sources of Python's standard library.

# %%
import pellucid
from pellucid.generation import Sampling
from pellucid.runs import RunFolder, read_events
from pellucid.training import Evaluated

# %% [markdown]
# ## Train
#
# A run is described by a config. `nano` is the default; here are a few settings that make it
# smaller still. `text.tokenizer` cuts text into tokens: 1,024 pieces of words that are frequent in
# this text.

# %%
small = [
    "text.tokenizer.vocab_size=1024",
    "model.context_length=64",
    "model.d_model=64",
    "model.decoder.n_layers=2",
    "model.decoder.attention.n_heads=2",
    "model.decoder.attention.n_kv_heads=2",
    "model.decoder.attention.d_head=32",
    "model.decoder.feed_forward.d_ff=256",
    "training.batch_size=16",
    "training.evaluate_every=100",
    "training.evaluate_tokens=20_000",
    "training.sentence=The function returns",
]
run = pellucid.train(out="runs/first", steps=300, settings=small, show=False)

# %% [markdown]
# `show=False` hides the live panel; leave it out to watch the curve grow. In a terminal the same
# run is
#
# ```sh
# pellucid train --steps 300 --out runs/first --set model.d_model=64   # and so on
# ```
#
# A run shows itself as a card: its curve, what it was trained on, and what to do next.

# %%
run

# %% [markdown]
# ## Read the loss
#
# The loss is what the model pays for each token: -log p of the token that really came, in nats. A
# model that knows nothing pays ln 1024 = 6.9. *Held-out* text is text that the model was not
# trained on, so it measures what was learnt and not what was memorised. Bits per byte divide the
# same number by the length of the text: you can compare them between tokenizers.

# %%
for event in read_events(RunFolder(run.folder).metrics):
    if isinstance(event, Evaluated):
        bits = event.measure("bits_per_byte")
        print(f"update {event.step}: {event.loss_nats:.2f} nats per token, {bits:.2f} bits/byte")

# %% [markdown]
# ## Let it write
#
# The model gives each possible next token a probability. Sampling draws one, appends it, and asks
# again. A low temperature takes likely tokens more often. The seed makes the draw repeatable.

# %%
prompts = ["The function returns", "If the file"]
sampling = Sampling(max_new_tokens=40, temperature=0.7, seed=1)
for prompt, continuation in zip(prompts, pellucid.generate(run, prompts, sampling), strict=True):
    print(prompt + continuation.text)
    print("---")

# %% [markdown]
# Half a minute teaches words, not sense. `pellucid train` without any settings trains for a minute
# and a half and writes better.
#
# ## What is in the folder
#
# Everything about the run is in `runs/first`: config, tokenizer, text, every event, and
# checkpoints. If a run is stopped, by you or by a power cut, `pellucid train --resume runs/first`
# continues it with the same bits.

# %%
for path in sorted(run.folder.glob("[a-z]*")):
    print(path)

# %% [markdown]
# ## Where to go on
#
# - [Your own text](2-your-own-text.ipynb): train on your files.
# - [Open every number](3-open-every-number.ipynb): look into the model that you have just trained.
# - [What a run's folder holds](../run-folder.md), and [all keys of a config](../config.md).
