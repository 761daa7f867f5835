/* One new token for each row of a batch: all layers of a decoder in one call.

   Comes in: a tape of instructions, made once for a model; the ids of the rows; their keys and
   values so far. Goes out: the logits of the next token, and the new keys and values in their
   place. It knows no model: what an instruction means is all there is.

   Activations are float32 and stand in a row's scratch at offsets that the tape names. Weights are
   float32, bfloat16 or int8 with a scale per row, and are widened in registers. Each row of a
   matrix is read once for all rows of the batch. A number does not depend on how many threads
   there are: what is added to what is the same. The loops are plain; `omp simd` says which sums
   may be taken in another order, so that the compiler can use what vectors the processor has. */

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

enum { FLOAT32, BFLOAT16, INT8 };                       /* what a matrix is kept in */
enum { EMBED, PLACE, NORM, PRODUCT, ADD, KEEP, ATTEND, CAP };   /* instructions */
enum { LAYER_NORM, RMS_NORM };
enum { LINEAR, RELU, RELU_SQUARED, GELU, GELU_TANH, SILU };
enum { MOST_THREADS = 64, BYTES_AT_A_TIME = 32768, MOST_ROWS_AT_A_TIME = 1024 };

struct attention {
    int32_t layer, n_heads, n_kv_heads, d_head, d_value;
    int32_t query, key, value;   /* where they stand */
    int32_t window;              /* 0: all keys are seen */
    int32_t context;             /* rows of a cache's buffer */
    int32_t n_rotated, interleaved;
    float scale, soft_cap;       /* 0: no cap */
    const float *cos, *sin;      /* (context, n_rotated) */
    const float *by_distance;    /* (n_heads, context): added to scores; or null */
    const float *sinks;          /* (n_heads); or null */
};

struct instruction {
    int32_t operation, kind;     /* kind: of norm, of activation */
    int32_t precision;           /* of the matrix */
    int32_t input, output;       /* where in a row's scratch */
    int32_t times, plus;         /* PRODUCT: multiplied by, added to what stands there; -1: not */
    int32_t n_in, n_out;         /* NORM: features of a vector, how many vectors */
    int32_t stride;              /* NORM: of the gain, from one vector to the next */
    int32_t wait;                /* what follows needs all of it */
    float number, factor;        /* eps, cap or scale; what `plus` is multiplied by */
    const void *matrix;
    const float *scales, *gain, *bias;
    const struct attention *attention;
};

struct call {
    const struct instruction *tape;
    int32_t length, rows, position, width;   /* width of a row's scratch, its end the logits */
    const int64_t *ids;
    float *const *keys, *const *values;      /* of each layer: (rows, heads, context, d) */
    float *scratch, *logits, *scores;        /* scores: (threads, context) */
    int32_t n_logits, context, n_threads;
    atomic_int *taken;                       /* of each instruction: how much is given out */
    atomic_int arrived, phase;
};

struct worker { struct call *call; int32_t number; };

/* ---- numbers ---------------------------------------------------------------------------- */

static inline float from_bits(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline float wide_float32(float w) { return w; }
static inline float wide_bfloat16(uint16_t w) { return from_bits((uint32_t)w << 16); }
static inline float wide_int8(int8_t w) { return (float)w; }

/* e^x = 2^n e^r, |r| <= ln 2 / 2, by Taylor's series; relative error about 1e-7. Adding 1.5 2^23
   rounds, and leaves n in the last bits. */
static inline float exponential(float x) {
    x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    float shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    uint32_t bits;
    memcpy(&bits, &shifted, 4);
    float y = 1.0f + r * (1.0f + r * (1 / 2.0f + r * (1 / 6.0f + r * (1 / 24.0f
              + r * (1 / 120.0f + r * (1 / 720.0f + r * (1 / 5040.0f)))))));
    return y * from_bits((bits << 23) + 0x3f800000u);
}

/* Abramowitz and Stegun 1964, 7.1.26: |error| <= 1.5e-7. */
static inline float gaussian_below(float x) {
    float z = fabsf(x) * 0.707106781f, t = 1 / (1 + 0.3275911f * z);
    float tail = 0.5f * exponential(-z * z) * t * (0.254829592f + t * (-0.284496736f
                 + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    return x < 0 ? tail : 1 - tail;
}

static inline float capped(float x, float cap) {
    return cap * (1 - 2 / (exponential(2 * x / cap) + 1));
}

static void activate(int32_t kind, float *x, int32_t n) {
    switch (kind) {
    case RELU:
        for (int32_t i = 0; i < n; i++) x[i] = x[i] > 0 ? x[i] : 0;
        break;
    case RELU_SQUARED:
        for (int32_t i = 0; i < n; i++) x[i] = x[i] > 0 ? x[i] * x[i] : 0;
        break;
    case GELU:
        for (int32_t i = 0; i < n; i++) x[i] *= gaussian_below(x[i]);
        break;
    case GELU_TANH:  /* (1 + tanh u) / 2 = 1 / (1 + e^-2u) */
        for (int32_t i = 0; i < n; i++)
            x[i] /= 1 + exponential(-1.59576912f * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
        break;
    case SILU:
        for (int32_t i = 0; i < n; i++) x[i] /= 1 + exponential(-x[i]);
        break;
    }
}

/* ---- matrices --------------------------------------------------------------------------- */

/* y = four rows of W, times x; the last rows, fewer than four, are repeated. */
#define FOUR_DOTS(KIND, TYPE)                                                                      \
    static void dots_##KIND(const void *matrix, int64_t first, int64_t last, int64_t n,            \
                            const float *restrict x, float *restrict y) {                          \
        const TYPE *w = (const TYPE *)matrix + first * n;                                          \
        const TYPE *w1 = w + n * (first + 1 < last), *w2 = w + 2 * n * (first + 2 < last);         \
        const TYPE *w3 = w + 3 * n * (first + 3 < last);                                           \
        float a = 0, b = 0, c = 0, d = 0;                                                          \
        _Pragma("omp simd reduction(+ : a, b, c, d)")                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            a += wide_##KIND(w[i]) * x[i];                                                         \
            b += wide_##KIND(w1[i]) * x[i];                                                        \
            c += wide_##KIND(w2[i]) * x[i];                                                        \
            d += wide_##KIND(w3[i]) * x[i];                                                        \
        }                                                                                          \
        y[0] = a, y[1] = b, y[2] = c, y[3] = d;                                                    \
    }
FOUR_DOTS(float32, float)
FOUR_DOTS(bfloat16, uint16_t)
FOUR_DOTS(int8, int8_t)

static inline float *at(const struct call *call, int32_t row, int32_t place) {
    return place < call->width ? call->scratch + (int64_t)row * call->width + place
                               : call->logits + (int64_t)row * call->n_logits + place - call->width;
}

/* act(W x + b) times one place, plus another, for some rows of W. */
static void product(const struct call *call, const struct instruction *one, int32_t first,
                    int32_t last) {
    float y[MOST_ROWS_AT_A_TIME + 3];
    int32_t n = last - first;
    for (int32_t row = 0; row < call->rows; row++) {
        const float *x = at(call, row, one->input);
        for (int32_t r = first; r < last; r += 4)
            switch (one->precision) {
            case FLOAT32: dots_float32(one->matrix, r, last, one->n_in, x, y + r - first); break;
            case BFLOAT16: dots_bfloat16(one->matrix, r, last, one->n_in, x, y + r - first); break;
            case INT8: dots_int8(one->matrix, r, last, one->n_in, x, y + r - first); break;
            }
        if (one->scales)
            for (int32_t i = 0; i < n; i++) y[i] *= one->scales[first + i];
        if (one->bias)
            for (int32_t i = 0; i < n; i++) y[i] += one->bias[first + i];
        activate(one->kind, y, n);
        if (one->times >= 0) {
            const float *by = at(call, row, one->times) + first;
            for (int32_t i = 0; i < n; i++) y[i] *= by[i];
        }
        if (one->plus >= 0) {
            const float *by = at(call, row, one->plus) + first;
            for (int32_t i = 0; i < n; i++) y[i] += one->factor * by[i];
        }
        memcpy(at(call, row, one->output) + first, y, 4 * (size_t)n);
    }
}

/* ---- the rest --------------------------------------------------------------------------- */

static void embed(const struct call *call, const struct instruction *one, int32_t row) {
    int64_t n = one->n_out, id = call->ids[row];
    float *x = at(call, row, one->output), scale = one->number;
    if (one->precision == FLOAT32)
        for (int64_t i = 0; i < n; i++) x[i] = scale * ((const float *)one->matrix)[id * n + i];
    else if (one->precision == BFLOAT16)
        for (int64_t i = 0; i < n; i++)
            x[i] = scale * wide_bfloat16(((const uint16_t *)one->matrix)[id * n + i]);
    else
        for (int64_t i = 0; i < n; i++)
            x[i] = scale * (one->scales[id] * wide_int8(((const int8_t *)one->matrix)[id * n + i]));
}

static void norm(const struct call *call, const struct instruction *one, int32_t row) {
    int32_t n = one->n_in;
    for (int32_t vector = 0; vector < one->n_out; vector++) {
        const float *x = at(call, row, one->input) + vector * n;
        const float *gain = one->gain + vector * one->stride;
        const float *bias = one->bias ? one->bias + vector * one->stride : 0;
        float *y = at(call, row, one->output) + vector * n, mean = 0, squares = 0;
        if (one->kind == LAYER_NORM) {
            _Pragma("omp simd reduction(+ : mean)")
            for (int32_t i = 0; i < n; i++) mean += x[i];
            mean /= n;
        }
        _Pragma("omp simd reduction(+ : squares)")
        for (int32_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
        float scale = 1 / sqrtf(squares / n + one->number);
        for (int32_t i = 0; i < n; i++) {
            float normed = (x[i] - mean) * scale * gain[i];
            y[i] = bias ? normed + bias[i] : normed;
        }
    }
}

static void rotate(const struct call *call, const struct attention *how, float *x) {
    int32_t half = how->n_rotated / 2, step = how->interleaved ? 1 : half;
    const float *cos = how->cos + (int64_t)call->position * how->n_rotated;
    const float *sin = how->sin + (int64_t)call->position * how->n_rotated;
    for (int32_t pair = 0; pair < half; pair++) {
        int32_t i = how->interleaved ? 2 * pair : pair;
        float a = x[i], b = x[i + step];
        x[i] = a * cos[i] - b * sin[i];
        x[i + step] = b * cos[i] + a * sin[i];
    }
}

/* The new key and value of one head of one row, put behind those of the tokens before. */
static void keep(const struct call *call, const struct attention *how, int32_t row, int32_t head) {
    int64_t place = ((int64_t)row * how->n_kv_heads + head) * how->context + call->position;
    float *key = at(call, row, how->key) + head * how->d_head;
    const float *value = at(call, row, how->value) + head * how->d_value;
    rotate(call, how, key);
    memcpy(call->keys[how->layer] + place * how->d_head, key, 4 * (size_t)how->d_head);
    memcpy(call->values[how->layer] + place * how->d_value, value, 4 * (size_t)how->d_value);
}

/* softmax(cap(scale q k) + bias) v, of one head of one row. */
static void attend(const struct call *call, const struct instruction *one, int32_t row,
                   int32_t head, float *weights) {
    const struct attention *how = one->attention;
    int32_t d = how->d_head, last = call->position;
    int32_t first = how->window && last >= how->window ? last - how->window + 1 : 0;
    int64_t kv = (int64_t)row * how->n_kv_heads + head / (how->n_heads / how->n_kv_heads);
    const float *keys = call->keys[how->layer] + kv * how->context * d;
    const float *values = call->values[how->layer] + kv * how->context * how->d_value;
    const float *bias = how->by_distance ? how->by_distance + (int64_t)head * how->context : 0;
    float *q = at(call, row, how->query) + head * d, sum = 0;
    float *out = at(call, row, one->output) + head * how->d_value;
    float most = how->sinks ? how->sinks[head] : -INFINITY;
    rotate(call, how, q);
    for (int32_t t = first; t <= last; t++) {
        const float *k = keys + (int64_t)t * d;
        float score = 0;
        _Pragma("omp simd reduction(+ : score)")
        for (int32_t i = 0; i < d; i++) score += q[i] * k[i];
        score *= how->scale;
        if (how->soft_cap > 0) score = capped(score, how->soft_cap);
        if (bias) score += bias[last - t];
        weights[t] = score;
        most = score > most ? score : most;
    }
    _Pragma("omp simd reduction(+ : sum)")
    for (int32_t t = first; t <= last; t++) {
        weights[t] = exponential(weights[t] - most);
        sum += weights[t];
    }
    if (how->sinks) sum += exponential(how->sinks[head] - most);
    memset(out, 0, 4 * (size_t)how->d_value);
    for (int32_t t = first; t <= last; t++) {
        const float *v = values + (int64_t)t * how->d_value;
        float weight = weights[t] / sum;
        for (int32_t i = 0; i < how->d_value; i++) out[i] += weight * v[i];
    }
}

/* One piece of an instruction: rows of a matrix, or what one row of the batch or one head needs. */
static void piece(const struct call *call, const struct instruction *one, int32_t first,
                  int32_t last, float *weights) {
    const struct attention *how = one->attention;
    switch (one->operation) {
    case EMBED: embed(call, one, first); break;
    case PLACE: {
        const float *place = one->gain + (int64_t)one->stride * call->position;
        float *x = at(call, first, one->output);
        for (int32_t i = 0; i < one->n_out; i++) x[i] += place[i];
        break;
    }
    case NORM: norm(call, one, first); break;
    case PRODUCT: product(call, one, first, last); break;
    case ADD: {
        float *y = at(call, first, one->output);
        for (int32_t i = 0; i < one->n_out; i++) y[i] *= one->factor;
        if (one->input >= 0) {
            const float *x = at(call, first, one->input);
            for (int32_t i = 0; i < one->n_out; i++) y[i] += x[i];
        }
        break;
    }
    case KEEP: keep(call, how, first / how->n_kv_heads, first % how->n_kv_heads); break;
    case ATTEND: attend(call, one, first / how->n_heads, first % how->n_heads, weights); break;
    case CAP: {
        float *x = at(call, first, one->output);
        for (int32_t i = 0; i < one->n_out; i++) x[i] = capped(x[i], one->number);
        break;
    }
    }
}

/* ---- threads ---------------------------------------------------------------------------- */

/* Waits are short, unless there are more threads than free processors. */
static inline void rest(int turn) { if (turn > 4096) sched_yield(); }

static void meet(struct call *call) {
    if (call->n_threads == 1) return;
    int phase = atomic_load(&call->phase);
    if (atomic_fetch_add(&call->arrived, 1) == call->n_threads - 1) {
        atomic_store(&call->arrived, 0);
        atomic_store(&call->phase, phase + 1);
        return;
    }
    for (int turn = 0; atomic_load(&call->phase) == phase; turn++) rest(turn);
}

static void *work(void *given) {
    struct worker *worker = given;
    struct call *call = worker->call;
    float *weights = call->scores + (int64_t)worker->number * call->context;
    for (int turn = 0; atomic_load(&call->phase) < 0; turn++) rest(turn);
    for (int32_t i = 0; i < call->length; i++) {
        const struct instruction *one = call->tape + i;
        static const int32_t bytes[] = {4, 2, 1};
        int32_t n = call->rows, size = 1, first;
        if (one->operation == PRODUCT) {
            n = one->n_out;
            size = BYTES_AT_A_TIME / (one->n_in * bytes[one->precision]) / 4 * 4;
            size = size < 4 ? 4 : size > MOST_ROWS_AT_A_TIME ? MOST_ROWS_AT_A_TIME : size;
        } else if (one->operation == KEEP) {
            n *= one->attention->n_kv_heads;
        } else if (one->operation == ATTEND) {
            n *= one->attention->n_heads;
        }
        /* pieces are taken as threads become free: another program may hold one of them up */
        while ((first = atomic_fetch_add(&call->taken[i], size)) < n)
            piece(call, one, first, first + size < n ? first + size : n, weights);
        if (one->wait) meet(call);
    }
    return 0;
}

/* The logits of the token that comes after `ids`, which stand at `position`. A thread that cannot be
   had is done without. */
void pellucid_decode(struct call *call) {
    pthread_t threads[MOST_THREADS];
    struct worker workers[MOST_THREADS];
    int32_t wanted = call->n_threads > MOST_THREADS ? MOST_THREADS : call->n_threads, had = 1;
    memset(call->taken, 0, sizeof(atomic_int) * (size_t)call->length);
    atomic_store(&call->arrived, 0);
    atomic_store(&call->phase, -1);
    workers[0] = (struct worker){call, 0};
    while (had < wanted) {
        workers[had] = (struct worker){call, had};
        if (pthread_create(&threads[had], 0, work, &workers[had])) break;
        had++;
    }
    call->n_threads = had;
    atomic_store(&call->phase, 0);   /* all begin */
    work(&workers[0]);
    while (--had > 0) pthread_join(threads[had], 0);
}
