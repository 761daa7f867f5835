/* Cross-entropy over a large vocabulary: logits become errors where they stand.

   Comes in: rows of logits, float32 or bfloat16, and which of them. Goes out: in the logits' place
   the gradient of the loss by them, and beside it each row's loss, log Z and hit; without memory for
   one row more, losses that are not numbers. Sums are float32. Rows whose target is `ignored` become
   zeros. It does not know where the logits came from.

       loss = [ -sum_i y_i log p_i + z_loss (log Z)^2 ] / divisor,   y = (1 - s) onehot + s / V
       error = [ p (1 + 2 z_loss log Z) - y ] / divisor
*/

#include <stdlib.h>
#include <string.h>

#include "numbers.h"

typedef struct {
    int64_t vocab, ignored;
    float smoothing, z_loss, divisor;
    int32_t learning; /* 0: losses alone, and the logits stay */
} Settings;

typedef struct {
    void *logits;
    const float *bias;
    const int64_t *targets;
    float *losses, *log_z, *hits, *extra;
    Settings how;
} Rows;

#define ROWS(name, kind, read, write)                                                              \
    void name(const Rows *of, int64_t first, int64_t last) {                                       \
        const Settings *how = &of->how;                                                            \
        const int64_t vocab = how->vocab;                                                          \
        const float *bias = of->bias;                                                              \
        float *losses = of->losses, *log_z = of->log_z, *hits = of->hits, *extra = of->extra;      \
        float *restrict powers = malloc((size_t)vocab * sizeof(float));                            \
        for (int64_t row = first; row < last; row++) {                                             \
            if (!powers) {                                                                         \
                losses[row] = NAN;                                                                 \
                continue;                                                                          \
            }                                                                                      \
            kind *at = (kind *)of->logits + row * vocab;                                           \
            const int64_t target = of->targets[row];                                               \
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
        free(powers);                                                                              \
    }

ROWS(pellucid_errors_float32, float, from_float32, to_float32)
ROWS(pellucid_errors_bfloat16, uint16_t, from_bfloat16, to_bfloat16)
