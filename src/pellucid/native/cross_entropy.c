/* Cross-entropy over a large vocabulary: logits become errors where they stand.

   Comes in: rows of logits, float32 or bfloat16, and room for one row's e^(logit - largest). Goes
   out: in the logits' place the gradient of the loss by them, and beside it each row's loss, log Z
   and hit. Sums are float32. Rows whose target is `ignored` become zeros. It does not know where the
   logits came from.

       loss = [ -sum_i y_i log p_i + z_loss (log Z)^2 ] / divisor,   y = (1 - s) onehot + s / V
       error = [ p (1 + 2 z_loss log Z) - y ] / divisor
*/

#include <string.h>

#include "numbers.h"

typedef struct {
    int64_t vocab, ignored;
    float smoothing, z_loss, divisor;
    int32_t learning; /* 0: losses alone, and the logits stay */
} Settings;

#define ROWS(name, kind, read, write)                                                              \
    void name(kind *logits, const float *bias, const int64_t *targets, int64_t n_rows,             \
              const Settings *how, float *restrict powers, float *losses, float *log_z,            \
              float *hits, float *extra) {                                                         \
        const int64_t vocab = how->vocab;                                                          \
        for (int64_t row = 0; row < n_rows; row++) {                                               \
            kind *at = logits + row * vocab;                                                       \
            const int64_t target = targets[row];                                                   \
            const int seen = target != how->ignored;                                               \
            float top = -INFINITY, total = 0.0f, sum = 0.0f;                                       \
            if (bias) {                                                                            \
                _Pragma("omp simd") for (int64_t i = 0; i < vocab; i++)                            \
                    at[i] = write(read(at[i]) + bias[i]);                                          \
            }                                                                                      \
            _Pragma("omp simd reduction(max : top) reduction(+ : sum)")                            \
            for (int64_t i = 0; i < vocab; i++) {                                                  \
                float value = read(at[i]);                                                         \
                top = value > top ? value : top;                                                   \
                sum += value;                                                                      \
            }                                                                                      \
            _Pragma("omp simd reduction(+ : total)")                                               \
            for (int64_t i = 0; i < vocab; i++) {                                                  \
                powers[i] = exponential(read(at[i]) - top);                                        \
                total += powers[i];                                                                \
            }                                                                                      \
            const float z = top + logf(total);                                                     \
            const float score = read(at[seen ? target : 0]);                                       \
            log_z[row] = z;                                                                        \
            losses[row] = seen ? z - score : 0.0f;                                                 \
            hits[row] = seen && score >= top;                                                      \
            extra[row] = seen ? how->smoothing * (score - sum / (float)vocab)                      \
                                    + how->z_loss * z * z : 0.0f;                                  \
            if (!how->learning) continue;                                                          \
            if (!seen) {                                                                           \
                memset(at, 0, (size_t)vocab * sizeof(kind));                                       \
                continue;                                                                          \
            }                                                                                      \
            const float share = (1.0f + 2.0f * how->z_loss * z) / total / how->divisor;            \
            const float even = how->smoothing / (float)vocab / how->divisor;                       \
            const float hit = powers[target] * share - even                                        \
                              - (1.0f - how->smoothing) / how->divisor;                            \
            _Pragma("omp simd") for (int64_t i = 0; i < vocab; i++)                                \
                at[i] = write(powers[i] * share - even);                                           \
            at[target] = write(hit);                                                               \
        }                                                                                          \
    }

ROWS(pellucid_errors_float32, float, from_float32, to_float32)
ROWS(pellucid_errors_bfloat16, uint16_t, from_bfloat16, to_bfloat16)
