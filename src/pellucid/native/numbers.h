/* Numbers as they are read and written: float32, or bfloat16 as the upper half of one. And functions
   of one number in a few lines that a compiler turns into vectors, where the library's own e^x is a
   call a number. */

#ifndef PELLUCID_NUMBERS_H
#define PELLUCID_NUMBERS_H

#include <math.h>
#include <stdint.h>

static inline float from_float32(float x) { return x; }
static inline float to_float32(float x) { return x; }

static inline float from_bfloat16(uint16_t x) {
    union { uint32_t bits; float value; } wide = {.bits = (uint32_t)x << 16};
    return wide.value;
}

/* To the nearest, ties to even; what is not a number stays so. */
static inline uint16_t to_bfloat16(float x) {
    union { float value; uint32_t bits; } wide = {.value = x};
    uint16_t rounded = (uint16_t)((wide.bits + 0x7fffu + ((wide.bits >> 16) & 1)) >> 16);
    return x == x ? rounded : 0x7fc0;
}

/* e^x = 2^n e^f for |f| <= log(2) / 2, to about one unit in the last place; x within +-87. */
static inline float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 87.0f ? 87.0f : x;
    float n = rintf(x * 1.44269504f);
    float f = fmaf(n, -0.693359375f, x);
    f = fmaf(n, 2.12194440e-4f, f);
    float p = 1.9875691e-4f;
    p = fmaf(p, f, 1.3981999e-3f);
    p = fmaf(p, f, 8.3334519e-3f);
    p = fmaf(p, f, 4.1665795e-2f);
    p = fmaf(p, f, 1.6666665e-1f);
    p = fmaf(p, f, 5.0000001e-1f);
    p = fmaf(p * f, f, f) + 1.0f;
    union { int32_t bits; float value; } power = {.bits = ((int32_t)n + 127) * (1 << 23)};
    return p * power.value;
}

/* The Gaussian's share below x. Abramowitz and Stegun 1964, 7.1.26: |error| <= 1.5e-7. */
static inline float gaussian_below(float x) {
    float z = fabsf(x) * 0.707106781f, t = 1 / (1 + 0.3275911f * z);
    float tail = 0.5f * exponential(-z * z) * t * (0.254829592f + t * (-0.284496736f
                 + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    return x < 0 ? tail : 1 - tail;
}

/* ---- activations, each with its equation ------------------------------------------------ */

#define TWICE_ROOT 1.5957691216057308f /* 2 sqrt(2 / pi) */
#define CUBIC 0.044715f

static inline float sigmoid(float v) { return 1.0f / (1.0f + exponential(-v)); }

/* max(x, 0)^2 */
static inline float relu_squared(float x) { return x > 0.0f ? x * x : 0.0f * x; }

/* x sigmoid(x) */
static inline float silu(float x) { return x * sigmoid(x); }

/* x times the Gaussian's share below x */
static inline float gelu(float x) { return x * gaussian_below(x); }

/* x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), and sigmoid(v) is (1 + tanh(v / 2)) / 2 */
static inline float gelu_tanh(float x) {
    return x * sigmoid(TWICE_ROOT * x * (1.0f + CUBIC * x * x));
}

#endif
