# %% [markdown]
# # 7. Publish
#
# A trained model leaves pellucid: for `transformers`, for llama.cpp and Ollama, or for a hub. You
# export one, read the result back, and check that it is the same model.

# %%
from pathlib import Path

import pellucid
import torch
from pellucid.runs import export_run

run = pellucid.train(out="runs/publish", steps=40, settings=["training.batch_size=2"], show=False)

# %% [markdown]
# ## For transformers
#
# The folder is what `AutoModelForCausalLM.from_pretrained` expects. pellucid takes the published
# family that computes exactly this architecture, and says what it had to add.

# %%
exported = export_run("runs/publish", "my-model")
print("\n".join(exported.notes))
for path in sorted(exported.folder.iterdir()):
    print(path)

# %% [markdown]
# ## Is it the same model?
#
# pellucid reads published models too. The logits of both agree up to rounding.

# %%
published = pellucid.load("my-model")
ids = torch.tensor([run.tokenizer.encode("The function returns")])
with torch.no_grad():
    difference = (run.model(ids) - published.model(ids)).abs().max()
print(f"largest difference of a logit below 1e-4: {bool(difference < 1e-4)}")

# %% [markdown]
# ## The model card
#
# The card says what the model was trained on, by file name and SHA-256, with the recipe and the
# losses. You fill in the licence.

# %%
card = Path("my-model/README.md").read_text("utf-8")
print(card[: card.index("\n## ")])

# %% [markdown]
# ## For llama.cpp and Ollama
#
# One file with weights, tokenizer and template, in 8 bits here. It needs `pip install
# "pellucid[gguf]"`.

# %%
gguf = export_run("runs/publish", "my-gguf", file_format="gguf", number_type="q8_0")
for path in sorted(gguf.folder.iterdir()):
    print(path)

# %% [markdown]
# In a terminal, and on to a hub. `push` prints the server before it asks it.
#
# ```sh
# pellucid export runs/publish my-model
# pellucid export runs/publish my-gguf --format gguf --type q8_0
# pellucid push my-model me/my-model
# ```
#
# ## Where to go on
#
# - [Many machines](8-many-machines.ipynb): when one is too small.
# - [Export](../export.md), [hubs](../hub.md), [which published families](../huggingface.md).
# - [An API](../serve.md) in the shape of OpenAI's, from `pellucid serve`.
