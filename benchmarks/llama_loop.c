/* llama.cpp written with from C, by its own API in a loop: what `llama_decode` takes, and nothing
 * of a binding. Built by benchmarks/llama_cpp.py against an installed libllama or a checkout. */

#include <stdint.h>
#include <stdlib.h>

#include "ggml-backend.h"
#include "llama.h"

struct writer {
  struct llama_model *model;
  struct llama_context *context;
  int32_t vocabulary;
};

static void quiet(enum ggml_log_level level, const char *text, void *data) {
  (void)level;
  (void)text;
  (void)data;
}

/* A model from a GGUF file, its cache and threads; NULL where it cannot be read. A llama.cpp that
 * was built for many processors finds the code for this one in LIBRARY_HOME, its own folder. */
void *writer_open(const char *file, int32_t length, int32_t threads) {
  llama_log_set(quiet, NULL);
  ggml_backend_load_all_from_path(LIBRARY_HOME);
  llama_backend_init();
  struct llama_model *model = llama_model_load_from_file(file, llama_model_default_params());
  if (model == NULL) return NULL;
  struct llama_context_params settings = llama_context_default_params();
  settings.n_ctx = (uint32_t)length;
  settings.n_threads = threads;
  settings.n_threads_batch = threads;
  struct writer *made = malloc(sizeof *made);
  if (made == NULL) return NULL;
  made->model = model;
  made->context = llama_init_from_model(model, settings);
  made->vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  return made->context == NULL ? NULL : made;
}

static llama_token likeliest(const float *logits, int32_t count) {
  llama_token best = 0;
  for (int32_t token = 1; token < count; token++)
    if (logits[token] > logits[best]) best = token;
  return best;
}

/* So many tokens after the prompt, greedily, into `written`; how many were. */
int32_t writer_write(void *opened, const int32_t *prompt, int32_t length, int32_t count,
                     int32_t *written) {
  struct writer *writer = opened;
  llama_memory_clear(llama_get_memory(writer->context), true);
  llama_token token = 0;
  struct llama_batch batch = llama_batch_get_one((llama_token *)prompt, length);
  for (int32_t n = 0; n < count; n++) {
    if (llama_decode(writer->context, batch) != 0) return n;
    token = likeliest(llama_get_logits_ith(writer->context, -1), writer->vocabulary);
    written[n] = token;
    batch = llama_batch_get_one(&token, 1);
  }
  return count;
}
