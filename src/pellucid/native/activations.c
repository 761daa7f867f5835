/* Activations and their gradients, each in one pass: those of which torch makes several, or slow ones.

   Comes in: numbers, float32 or bfloat16, and which of them. Goes out: as many. It does not know what
   they mean. What each is stands in numbers.h. */

#include "numbers.h"

static inline float relu_squared_slope(float x) { return x > 0.0f ? 2.0f * x : 0.0f * x; }

static inline float gelu_tanh_slope(float x) {
    float share = sigmoid(TWICE_ROOT * x * (1.0f + CUBIC * x * x));
    return share + x * share * (1.0f - share) * TWICE_ROOT * (1.0f + 3.0f * CUBIC * x * x);
}

typedef float float32;
typedef uint16_t bfloat16;

/* Of which `by_y` is looked at on the way back alone. */
typedef struct {
    const void *x, *by_y;
    void *made;
} Numbers;

#define ACTIVATION(name, kind)                                                                     \
    void pellucid_##name##_##kind##_forward(const Numbers *of, int64_t first, int64_t last) {      \
        const kind *x = of->x;                                                                     \
        kind *y = of->made;                                                                        \
        _Pragma("omp simd") for (int64_t i = first; i < last; i++)                                 \
            y[i] = to_##kind(name(from_##kind(x[i])));                                             \
    }                                                                                              \
    void pellucid_##name##_##kind##_backward(const Numbers *of, int64_t first, int64_t last) {     \
        const kind *x = of->x, *by_y = of->by_y;                                                   \
        kind *by_x = of->made;                                                                     \
        _Pragma("omp simd") for (int64_t i = first; i < last; i++)                                 \
            by_x[i] = to_##kind(from_##kind(by_y[i]) * name##_slope(from_##kind(x[i])));           \
    }

ACTIVATION(relu_squared, float32)
ACTIVATION(relu_squared, bfloat16)
ACTIVATION(gelu_tanh, float32)
ACTIVATION(gelu_tanh, bfloat16)
