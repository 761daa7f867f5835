"""The loss of one example under each objective: what counts, its parts, and its formula."""
