"""GGUF files: a model, its tokenizer and its template in one file, for llama.cpp and Ollama."""
