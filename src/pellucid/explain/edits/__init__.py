"""Changes of one number or vector of a sentence, after which the rest of the model runs as ever."""
