"""Build it yourself: files with gaps, and the checks that compare them with pellucid."""
