/* Between a matrix of 8 or 4 bits, as `decode.c` reads it, and its rows one behind the other: in
   float32, or in bfloat16 for products of many vectors. Widening to float32 is exact; bfloat16 is
   rounded to the nearest. Narrowing to 4 bits fits the scale of each 32 columns. */

#include <stdint.h>

#include "int4.h"
#include "numbers.h"

enum { BLOCK = 256 };       /* int8: columns that share a scale */

struct matrix {
    void *values, *scales;
    void *wide;
    int64_t rows, columns;
    int32_t four_bits, half;         /* half: `wide` is in bfloat16 */
    const float *shares;             /* narrowing: what is tried */
    int32_t n_shares;
};

static inline void put(const struct matrix *m, int64_t row, int64_t first, const float *x,
                       int32_t n) {
    if (m->half) {
        uint16_t *out = (uint16_t *)m->wide + row * m->columns + first;
        for (int32_t i = 0; i < n; i++) out[i] = to_bfloat16(x[i]);
    } else {
        memcpy((float *)m->wide + row * m->columns + first, x, 4 * (size_t)n);
    }
}

static void row_of_int8(const struct matrix *m, int64_t row) {
    const int8_t *q = (const int8_t *)m->values + row * m->columns;
    const float *scales = (const float *)m->scales + row * ((m->columns + BLOCK - 1) / BLOCK);
    for (int64_t first = 0; first < m->columns; first += BLOCK, scales++) {
        float x[BLOCK];
        int32_t n = m->columns - first < BLOCK ? (int32_t)(m->columns - first) : BLOCK;
        for (int32_t i = 0; i < n; i++) x[i] = q[first + i] * *scales;
        put(m, row, first, x, n);
    }
}

static void row_of_int4(const struct matrix *m, int64_t row) {
    int32_t groups = groups_of((int32_t)m->columns), lane = row % ROWS;
    int64_t block = row / ROWS * groups;
    const uint8_t *w = (const uint8_t *)m->values + block * GROUP_BYTES + 4 * lane;
    const uint16_t *scales = (const uint16_t *)m->scales + block * ROWS + lane;
    for (int32_t g = 0; g < groups; g++, w += GROUP_BYTES, scales += ROWS) {
        float x[GROUP], scale = from_bfloat16(*scales);
        uint8_t pairs[GROUP / 2];
        for (int32_t four = 0; four < 4; four++) memcpy(pairs + 4 * four, w + 64 * four, 4);
        for (int32_t i = 0; i < GROUP / 2; i++) x[i] = ((pairs[i] & 15) - 8) * scale;
        for (int32_t i = 0; i < GROUP / 2; i++) x[i + 16] = ((pairs[i] >> 4) - 8) * scale;
        int32_t left = (int32_t)m->columns - g * GROUP;
        put(m, row, (int64_t)g * GROUP, x, left < GROUP ? left : GROUP);
    }
}

/* Rows `first` to `last`. */
void pellucid_widen(const struct matrix *m, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++)
        if (m->four_bits) row_of_int4(m, row);
        else row_of_int8(m, row);
}

/* q of 32 numbers at a scale; returns the sum of the squared errors. */
static float fit(const float *w, float scale, float *q) {
    float per_step = scale == 0 ? 0 : 1 / scale, error = 0;
    for (int32_t i = 0; i < GROUP; i++) {
        float n = rintf(w[i] * per_step);
        n = n < -8 ? -8 : n;
        q[i] = n > 7 ? 7 : n;
    }
    _Pragma("omp simd reduction(+ : error)")
    for (int32_t i = 0; i < GROUP; i++) error += (q[i] * scale - w[i]) * (q[i] * scale - w[i]);
    return error;
}

static float as_bfloat16(float x) { return from_bfloat16(to_bfloat16(x)); }

/* The q of 32 numbers that err least, and their scale. */
static float best_fit(const struct matrix *m, const float *w, float *best) {
    float most = 0, q[GROUP];
    for (int32_t i = 0; i < GROUP; i++) most = fabsf(w[i]) > fabsf(most) ? w[i] : most;
    float scale = as_bfloat16(most / -8), error = fit(w, scale, best);
    for (int32_t i = 0; i <= m->n_shares; i++) {
        float other = 0;
        if (i < m->n_shares) {
            other = most / (-8 * m->shares[i]);
        } else {                          /* least squares for the q that are best so far */
            float both = 0, squares = 0;
            for (int32_t j = 0; j < GROUP; j++) both += w[j] * best[j], squares += best[j] * best[j];
            other = both / (squares < 1 ? 1 : squares);
        }
        other = as_bfloat16(other);
        float other_error = fit(w, other, q);
        if (other_error < error) {
            scale = other, error = other_error;
            memcpy(best, q, sizeof q);
        }
    }
    return scale;
}

/* Blocks of 16 rows, `first` to `last`, from float32 to 4 bits; rows past the end are zeros. */
void pellucid_to_int4(const struct matrix *m, int64_t first, int64_t last) {
    int32_t groups = groups_of((int32_t)m->columns);
    for (int64_t block = first * groups; block < last * groups; block++)
        for (int32_t lane = 0; lane < ROWS; lane++) {
            int64_t row = block / groups * ROWS + lane, column = block % groups * GROUP;
            int64_t left = row < m->rows ? m->columns - column : 0;
            float w[GROUP] = {0}, q[GROUP];
            if (left > 0)
                memcpy(w, (const float *)m->wide + row * m->columns + column,
                       4 * (size_t)(left < GROUP ? left : GROUP));
            ((uint16_t *)m->scales)[block * ROWS + lane] = to_bfloat16(best_fit(m, w, q));
            uint8_t *out = (uint8_t *)m->values + block * GROUP_BYTES + 4 * lane;
            for (int32_t i = 0; i < GROUP / 2; i++)
                out[64 * (i / 4) + i % 4] = (uint8_t)(((int32_t)q[i] + 8)
                                                      | ((int32_t)q[i + 16] + 8) << 4);
        }
}
