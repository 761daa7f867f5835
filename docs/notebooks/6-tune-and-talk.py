# %% [markdown]
# # 6. Tune and talk
#
# A model that continues text does not answer. You pretrain a small one, tune it on questions with
# answers, once in full and once with LoRA, and talk to it. So small a model learns one narrow
# thing: the order of the letters of the alphabet.

# %%
import json
import random
from pathlib import Path

import pellucid
from pellucid.generation import Sampling
from pellucid.inference import Conversation
from pellucid.runs import RunFolder, read_events
from pellucid.training import Evaluated

# %% [markdown]
# ## Texts, then questions
#
# The texts only hold the alphabet. The rows have a `prompt` and an `answer`: pellucid knows these
# names of columns, and [others](../examples.md#columns).

# %%
letters = "abcdefghijklmnopqrstuvwxyz"
draw = random.Random(0)
lines = [
    " ".join(letters[start : start + length])
    for start, length in ((draw.randrange(20), draw.randrange(2, 7)) for _ in range(3000))
]
Path("alphabet.txt").write_text("\n\n".join(lines), encoding="utf-8")

questions = [
    {"prompt": f"{wording} {letters[i]}?", "answer": f"{letters[i + 1]}."}
    for i in range(25)
    for wording in ("What comes after", "Which letter follows", "Next letter after", "After")
]
with open("questions.jsonl", "w", encoding="utf-8") as table:
    for row in questions:
        table.write(json.dumps(row) + "\n")

# %% [markdown]
# ## Stage one: the next token

# %%
small = [
    "text.tokenizer=Bytes",
    "model.context_length=128",
    "model.d_model=64",
    "model.decoder.n_layers=2",
    "model.decoder.dropout=0.0",
    "model.decoder.attention.n_heads=2",
    "model.decoder.attention.n_kv_heads=2",
    "model.decoder.attention.d_head=32",
    "model.decoder.feed_forward.d_ff=256",
    "training.batch_size=8",
]
base = pellucid.train(["alphabet.txt"], out="runs/base", steps=100, settings=small, show=False)
question = "What comes after k?"
likeliest = Sampling(temperature=0.0, max_new_tokens=12)
for prompt in ("c d e", question):
    print(repr(prompt), "->", repr(pellucid.generate(base, prompt, likeliest)[0].text))

# %% [markdown]
# It continues the alphabet. It does not answer.
#
# ## Stage two: supervised fine-tuning
#
# The model reads prompts and learns answers: only the tokens of an answer are in the loss. A
# template marks who speaks.

# %%
learning = ["training.batch_size=8", "optimiser.learning_rate=5e-3"]
tuned = pellucid.train(
    ["questions.jsonl"],
    objective="sft",
    start="runs/base",
    out="runs/tuned",
    steps=150,
    settings=[*learning, "training.evaluate_every=50"],
    show=False,
)
for event in read_events(RunFolder(tuned.folder).metrics):
    if isinstance(event, Evaluated):
        accuracy = event.measure("accuracy")
        print(f"update {event.step:3d}: {event.loss_nats:.3f} nats, {accuracy:.0%} of tokens right")

# %% [markdown]
# ## Talk
#
# A `Conversation` keeps the turns and stops at the tokens that end an answer.

# %%
talk = Conversation(tuned, likeliest)
for text in (question, "Which letter follows q?", "After c?"):
    print(f"{text:<26}", "".join(talk.send(text)))
    talk.reset()

# %% [markdown]
# ## The same with LoRA
#
# LoRA freezes all weights and trains two thin matrices beside each linear layer. It needs more
# updates here, because the template of a chat is all new to the base.

# %%
adapted = pellucid.train(
    ["questions.jsonl"],
    objective="sft",
    start="runs/base",
    lora=16,
    out="runs/adapted",
    steps=250,
    settings=learning,
    show=False,
)
trained = sum(p.numel() for p in adapted.model.parameters() if p.requires_grad)
total = sum(p.numel() for p in adapted.model.parameters())
print(f"{trained:,} of {total:,} numbers were trained")
talk = Conversation(adapted, likeliest)
print(question, "".join(talk.send(question)))

# %% [markdown]
# In a terminal:
#
# ```sh
# pellucid train questions.jsonl --objective sft --from runs/base --lora 16 --out runs/adapted
# pellucid chat runs/adapted
# ```
#
# ## Where to go on
#
# - [Publish](7-publish.ipynb) the model.
# - [The whole life of one model](../recipes/whole-life.md): tuning, preferences and rewards,
#   measured.
# - [Chat](../chat.md), [rows and templates](../examples.md).
