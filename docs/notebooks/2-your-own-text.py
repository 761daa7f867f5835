# %% [markdown]
# # 2. Your own text
#
# You train on files of your own: a folder of notes, then a table with a column of text. You see
# what pellucid read, what it kept aside, and how good the model is on a text that it never saw.

# %%
import json
import pydoc_data.topics as topics
from pathlib import Path

import pellucid
from pellucid.runs import count_corpus, next_token, score

# %% [markdown]
# ## A folder of texts
#
# We need some text. Python carries its language reference with it; here each of its topics becomes
# a file. Put your own files there instead: plain text, Markdown, code. A file is a document.

# %%
notes = Path("my-notes")
notes.mkdir()
for name, text in topics.topics.items():
    (notes / f"{name}.txt").write_text(text, encoding="utf-8")
print(len(topics.topics), "files")

# %% [markdown]
# ## Train
#
# The config of a run shows what differs from its nearest preset.

# %%
changes = """
base = "nano"

[model]
context_length = 64

[model.decoder]
n_layers = 2

[training]
batch_size = 8
evaluate_every = 100
"""
Path("notes.toml").write_text(changes, encoding="utf-8")
run = pellucid.train([notes], out="runs/notes", steps=200, config_file="notes.toml", show=False)
run.config

# %% [markdown]
# `text.held_out=0.05` keeps a twentieth of the documents aside. Which ones follows from their
# content, so the same text always has the same held-out documents.

# %%
report = count_corpus(run.config.text)
print(f"{report.documents} documents, {report.n_bytes:,} bytes, {report.n_tokens:,} tokens")
print(f"{report.n_bytes / report.n_tokens:.2f} bytes per token")
print(f"documents that repeat another one: {report.tally.duplicates}")

# %% [markdown]
# ## How good is it on another text?
#
# `evaluate` reads any text. Bits per byte is the number to compare: 8 would be no model at all.

# %%
Path("another.txt").write_text(
    "A function is a series of statements which returns some value to a caller. "
    "It can also be passed zero or more arguments which may be used in the execution of the body.",
    encoding="utf-8",
)
evaluation = pellucid.evaluate(run, ["another.txt"])
print(f"{evaluation.loss_nats:.2f} nats per token, {evaluation.bits_per_byte:.2f} bits per byte")

# %% [markdown]
# `score` gives every token its probability, and `next_token` the likeliest tokens after a text.

# %%
for token in score(run, "The value of the expression is").tokens:
    print(f"{token.token!r:>14}  p = {token.probability:.3f}")
print()
for likely in next_token(run, "The value of the expression is", top=5).likeliest:
    print(f"{likely.token!r:>14}  p = {likely.probability:.3f}")

# %% [markdown]
# ## A table
#
# Rows of a table are documents too. Name the column; `.jsonl`, `.csv`, `.parquet` and compressed
# files are read as streams.

# %%
with open("topics.jsonl", "w", encoding="utf-8") as table:
    for name, text in topics.topics.items():
        table.write(json.dumps({"title": name, "body": text}) + "\n")
tables = pellucid.train(
    ["topics.jsonl"], field="body", out="runs/table", steps=20, config_file="notes.toml", show=False
)
tables

# %% [markdown]
# The same in a terminal:
#
# ```sh
# pellucid train my-notes/ --minutes 10
# pellucid train "data/**/*.jsonl.gz" --field text
# pellucid evaluate runs/notes another.txt
# ```
#
# ## Where to go on
#
# - [Open every number](3-open-every-number.ipynb) of this model.
# - [Rows and examples](../examples.md): columns, chats, and rows that cannot be used.
# - [Public texts by name](../datasets.md), and [larger presets with their measured
#   quality](../recipes/quality.md).
