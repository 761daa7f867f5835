"""The lessons: their words, their pictures, and their exercises computed from a run."""
