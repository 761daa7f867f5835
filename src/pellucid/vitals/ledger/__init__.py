"""The ledger of updates: the weights before a step, its gradients, and the weights after it.

Looks are rare and see much; the ledger sees little of every update. It watches a few numbers of a
few weights, the *witnesses*, and counts events of the loop. Faults of loops show in that: weights
that are put back, gradients that are never cleared, a step that comes too early or twice.
"""
