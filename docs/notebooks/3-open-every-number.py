# %% [markdown]
# # 3. Open every number
#
# A model is arithmetic. Here you take one sentence through a small model and open its numbers:
# forward, backward, and in an update of the weights. Each number comes with a receipt: a formula
# with its real operands, computed again.

# %%
import pellucid

run = pellucid.train(
    out="runs/open",
    steps=150,
    settings=["model.context_length=64", "training.batch_size=8"],
    show=False,
)

# %% [markdown]
# ## A trace
#
# A trace is one sentence in one model. Each token gets a probability from the tokens before it. Its
# surprisal is -log2 p, in bits.

# %%
trace = pellucid.trace(run, "The function returns a list of")
pieces = trace.pieces("decoder")
for piece, nats in zip(pieces[1:], trace["surprisal"].tolist(), strict=True):
    print(f"{piece!r:>12}  {nats / 0.6931:5.2f} bits")

# %% [markdown]
# ## Numbers have addresses
#
# `L1.H1.scores` are the scores of head 1 in layer 1: a row for each query, a column for each key.
# Layers and heads count from 0.

# %%
print(len(trace.addresses()), "addresses, such as")
for address in ("embedding", "L0.residual", "L1.H1.q", "L1.H1.scores", "L1.H1.weights", "logits"):
    print(f"  {address:<14} {tuple(trace[address].shape)}")
print()
print("how much each token looks at each other token, in head 1 of layer 1:")
for piece, row in zip(pieces, trace["L1.H1.weights"].tolist(), strict=True):
    print(f"{piece[:10]!r:>12} ", " ".join(f"{weight:.2f}" for weight in row))

# %% [markdown]
# The upper half is zero: a causal model sees no later token.
#
# ## A receipt
#
# Why is this score what it is? The receipt has the formula and all operands, and computes it again
# in float64. Each operand has an address of its own, so you can go on: from the score to a query,
# to the weights, to the token's row in the embedding.

# %%
receipt = trace.receipt("L1.H1.scores", 4, 2)
print(receipt.title)
print(receipt.formula, "=", receipt.recomputed)
print("the model has ", receipt.model)
print("agrees:", receipt.agrees)
for operand in receipt.operands[:6]:
    print(f"   {operand.address:<16} {operand.value: .5f}")
print("   ...", len(receipt.operands), "operands")

# %% [markdown]
# Do that for every number of the sentence, backward pass included:

# %%
checks = list(trace.receipts(backward=True))
numbers = sum(check.numbers for check in checks)
agreeing = sum(check.agreeing for check in checks)
print(f"{agreeing:,} of {numbers:,} numbers agree with their operands")

# %% [markdown]
# ## Why this word?
#
# The logit of a word is a sum of what the embedding, every head and every feed-forward layer wrote.
# So the lead over another word is a sum as well.

# %%
attribution = trace.why()
first, second = attribution.rivals.names
print(f"{first!r} leads {second!r}; the share of each part in the difference of their logits:")
for part in sorted(attribution.parts, key=lambda part: -abs(part.share)):
    print(f"  {part.name:<16} {part.share:+.3f}")

# %% [markdown]
# ## Change something
#
# Shares are arithmetic, not proof. The proof is to take a head away and to compute everything after
# it again.

# %%
likeliest = int(trace["probabilities"][-1].argmax())
print(f"before:       p = {trace['probabilities'][-1, likeliest]:.3f}")
for head in (0, 1):
    ablated = trace.with_heads({(1, head): 0.0})
    print(f"without L1.H{head}: p = {ablated['probabilities'][-1, likeliest]:.3f}")

# %% [markdown]
# ## Backward, and an update
#
# The gradient at the logits is p - y: what the model predicted, minus what came. From there it goes
# back through each layer.

# %%
print(f"loss {trace['loss']:.4f}")
for name in ("L4.residual.grad", "L2.residual.grad", "L0.residual.grad"):
    print(f"  {name}: length {trace[name].norm():.4f}")
weight = "decoder.blocks.1.attention.query.weight"
update = trace.receipt(f"{weight}.next", 0, 0)
print(update.title)
print(update.formula, "=", update.recomputed, "| agrees:", update.agrees)

# %% [markdown]
# On the page you follow all this with the mouse, down to one multiplication:
#
# ```sh
# pellucid explain runs/open "The function returns a list of" --serve
# ```
#
# ## Where to go on
#
# - [My run went wrong](4-my-run-went-wrong.ipynb): the same transparency for a training.
# - [The trace](../explain.md) has all addresses; [examples that teach](../examples-that-teach.md)
#   has sentences worth a look.
# - [The derivations](../derivations/README.md) go through the equations line by line.
