/* One new token for each row of a batch: all layers of a decoder in one call.

   Comes in: a program of instructions, made once for a model; the ids of the rows; their keys and
   values so far. Goes out: the logits of the next token, and the new keys and values in their
   place. It knows no model: what an instruction means is all there is.

   Activations are float32 and stand in a row's scratch at offsets that the program names. Weights are
   float32, bfloat16, int8 with a scale for each block of a row, or 4 bits (`int4.h`); they are
   widened in registers.
   Each row of a matrix is read once for all rows of the batch, which may be texts of different
   lengths. A number does not depend on the other rows, nor on how many threads there are: what is
   added to what is the same. The loops are plain: `lanes` and
   `omp simd` say which sums are taken in another order, and the compiler uses the vectors that the
   processor has. */

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "int4.h"
#include "numbers.h"

enum { FLOAT32, BFLOAT16, INT8, INT4 };                 /* what a matrix is kept in */
enum { EMBED, PLACE, NORM, PRODUCT, ADD, KEEP, ATTEND, CAP };   /* instructions */
enum { LAYER_NORM, RMS_NORM };
enum { LINEAR, RELU, RELU_SQUARED, GELU, GELU_TANH, SILU, QUICK_GELU, SIGMOID, TANH };
enum { MOST_THREADS = 64, LEAST_BYTES_AT_A_TIME = 65536, MOST_ROWS_AT_A_TIME = 1024 };
enum { BLOCK = 256 };        /* int8: columns that share a scale; 256 x 127 x 32767 fits an int32 */
enum { LANES = 16 };

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef uint32_t words __attribute__((vector_size(4 * LANES)));

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
    const struct instruction *program;
    int32_t length, rows, width;             /* width of a row's scratch, its end the logits */
    const int64_t *ids;
    const int32_t *positions, *slots;        /* of each row: its tokens so far, its cache */
    float *const *keys, *const *values;      /* of each layer: (slots, heads, context, d) */
    float *scratch, *logits;
    float *own;                              /* each thread's: rows x widest, at least context */
    int32_t n_logits, widest, n_own, n_threads;
    int32_t way;                             /* of products with 4 bits; 0: the best one */
    atomic_int *taken;                       /* of each instruction: how much is given out */
    atomic_int arrived, phase;
};

struct worker { struct call *call; int32_t number; };

/* ---- numbers ---------------------------------------------------------------------------- */

static inline float capped(float x, float cap) {
    return cap * (1 - 2 / (exponential(2 * x / cap) + 1));
}

static void activate(int32_t kind, float *x, int32_t n) {
    switch (kind) {
    case RELU:
        for (int32_t i = 0; i < n; i++) x[i] = x[i] > 0 ? x[i] : 0;
        break;
    case RELU_SQUARED:
        for (int32_t i = 0; i < n; i++) x[i] = relu_squared(x[i]);
        break;
    case GELU:
        for (int32_t i = 0; i < n; i++) x[i] = gelu(x[i]);
        break;
    case GELU_TANH:
        for (int32_t i = 0; i < n; i++) x[i] = gelu_tanh(x[i]);
        break;
    case SILU:
        for (int32_t i = 0; i < n; i++) x[i] = silu(x[i]);
        break;
    case QUICK_GELU:
        for (int32_t i = 0; i < n; i++) x[i] = silu(1.702f * x[i]) / 1.702f;
        break;
    case SIGMOID:
        for (int32_t i = 0; i < n; i++) x[i] = sigmoid(x[i]);
        break;
    case TANH:
        for (int32_t i = 0; i < n; i++) x[i] = capped(x[i], 1);
        break;
    }
}

/* ---- matrices --------------------------------------------------------------------------- */

static inline lanes load(const float *x) { lanes v; memcpy(&v, x, sizeof v); return v; }
static inline words load_words(const void *w) { words v; memcpy(&v, w, sizeof v); return v; }

static inline float sum_of(lanes v) {
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) v[i] += v[i + half];
    return v[0];
}

static float dot_float32(const float *w, const float *x, int32_t n) {
    lanes a = {0}, b = {0};
    int32_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        a += load(w + i) * load(x + i);
        b += load(w + i + LANES) * load(x + i + LANES);
    }
    float sum = sum_of(a + b);
    for (; i < n; i++) sum += w[i] * x[i];
    return sum;
}

/* Two weights are one word; `x` has the even columns first, and then the odd ones. */
static float dot_bfloat16(const uint16_t *w, const float *x, int32_t n) {
    const float *odd = x + (n + 1) / 2;
    lanes a = {0}, b = {0};
    int32_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        words pairs = load_words(w + i);
        a += (lanes)(pairs << 16) * load(x + i / 2);
        b += (lanes)(pairs & 0xffff0000u) * load(odd + i / 2);
    }
    float sum = sum_of(a + b);
    for (; i < n; i++) sum += from_bfloat16(w[i]) * (i % 2 ? odd : x)[i / 2];
    return sum;
}

static inline int32_t dot_of_block(const int8_t *w, const int16_t *x, int32_t n) {
    int32_t sum = 0;
    for (int32_t i = 0; i < n; i++) sum += (int16_t)w[i] * x[i];
    return sum;
}

static float dot_int8(const int8_t *w, const float *scales, const int16_t *x, const float *x_scales,
                      int32_t n) {
    float sum = 0;
    for (int32_t i = 0; i < n; i += BLOCK, scales++, x_scales++) {
        int32_t products = n - i >= BLOCK ? dot_of_block(w + i, x + i, BLOCK)
                                          : dot_of_block(w + i, x + i, n - i);
        sum += (float)products * (*scales * *x_scales);
    }
    return sum;
}

/* What a product reads, as its weights want it: for bfloat16 even columns, then odd ones; for int8
   in 16 bits, with a scale for each block, which is so little an error that the weights' own
   covers it. */
static void as_read(int32_t precision, const float *restrict x, int32_t n,
                    float *restrict made) {
    if (precision == FLOAT32) return;
    if (precision == INT4) { split(x, n, made); return; }
    if (precision == BFLOAT16) {
        for (int32_t i = 0; i < n / 2; i++) made[i] = x[2 * i];
        for (int32_t i = 0; i < n / 2; i++) made[(n + 1) / 2 + i] = x[2 * i + 1];
        if (n % 2) made[n / 2] = x[n - 1];
        return;
    }
    int16_t *short_x = (int16_t *)(made + (n + BLOCK - 1) / BLOCK);
    for (int32_t first = 0; first < n; first += BLOCK) {
        int32_t last = first + BLOCK < n ? first + BLOCK : n;
        float most = 0;
        _Pragma("omp simd reduction(max : most)")
        for (int32_t i = first; i < last; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        float per_step = most > 0 ? 32767 / most : 0;
        for (int32_t i = first; i < last; i++)
            short_x[i] = (int16_t)(int32_t)(x[i] * per_step + (x[i] < 0 ? -0.5f : 0.5f));
        made[first / BLOCK] = most / 32767;
    }
}

static float dot(const struct instruction *one, int64_t row, const float *x) {
    int32_t n = one->n_in, blocks = (n + BLOCK - 1) / BLOCK;
    switch (one->precision) {
    case FLOAT32: return dot_float32((const float *)one->matrix + row * n, x, n);
    case BFLOAT16: return dot_bfloat16((const uint16_t *)one->matrix + row * n, x, n);
    default:
        return dot_int8((const int8_t *)one->matrix + row * n, one->scales + row * blocks,
                        (const int16_t *)(x + blocks), x, n);
    }
}

static inline float *at(const struct call *call, int32_t row, int32_t place) {
    return place < call->width ? call->scratch + (int64_t)row * call->width + place
                               : call->logits + (int64_t)row * call->n_logits + place - call->width;
}

/* W x, for some rows of W; of 4 bits `first` is a multiple of 16, and so many are computed. */
static void dots(const struct call *call, const struct instruction *one, int32_t first, int32_t n,
                 const float *x, float *y) {
    if (one->precision != INT4) {
        for (int32_t i = 0; i < n; i++) y[i] = dot(one, first + i, x);
        return;
    }
    int32_t groups = groups_of(one->n_in);
    for (int32_t i = 0; i < n; i += ROWS) {
        int64_t block = (int64_t)((first + i) / ROWS) * groups;
        sixteen_rows(call->way, (const uint8_t *)one->matrix + block * GROUP_BYTES,
                     (const uint16_t *)one->scales + block * ROWS, split_at(x, one->n_in), groups,
                     y + i);
    }
}

/* act(W x + b) times one place, plus another, for some rows of W. */
static void product(const struct call *call, const struct instruction *one, int32_t first,
                    int32_t last, const float *read) {
    float y[MOST_ROWS_AT_A_TIME + ROWS];
    int32_t n = last - first;
    for (int32_t row = 0; row < call->rows; row++) {
        const float *x = one->precision == FLOAT32 ? at(call, row, one->input)
                                                   : read + (int64_t)row * call->widest;
        dots(call, one, first, n, x, y);
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
            x[i] = scale * from_bfloat16(((const uint16_t *)one->matrix)[id * n + i]);
    else
        for (int64_t i = 0; i < n; i++)
            x[i] = scale * (one->scales[id * ((n + BLOCK - 1) / BLOCK) + i / BLOCK]
                            * ((const int8_t *)one->matrix)[id * n + i]);
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

static void rotate(const struct attention *how, int32_t position, float *x) {
    int32_t half = how->n_rotated / 2, step = how->interleaved ? 1 : half;
    const float *cos = how->cos + (int64_t)position * how->n_rotated;
    const float *sin = how->sin + (int64_t)position * how->n_rotated;
    for (int32_t pair = 0; pair < half; pair++) {
        int32_t i = how->interleaved ? 2 * pair : pair;
        float a = x[i], b = x[i + step];
        x[i] = a * cos[i] - b * sin[i];
        x[i + step] = b * cos[i] + a * sin[i];
    }
}

/* The new key and value of one head of one row, put behind those of the tokens before. */
static void keep(const struct call *call, const struct attention *how, int32_t row, int32_t head) {
    int32_t position = call->positions[row];
    int64_t place = ((int64_t)call->slots[row] * how->n_kv_heads + head) * how->context + position;
    float *key = at(call, row, how->key) + head * how->d_head;
    const float *value = at(call, row, how->value) + head * how->d_value;
    rotate(how, position, key);
    memcpy(call->keys[how->layer] + place * how->d_head, key, 4 * (size_t)how->d_head);
    memcpy(call->values[how->layer] + place * how->d_value, value, 4 * (size_t)how->d_value);
}

/* out = scale times the sum of the vectors, each with its weight. */
static void weigh(const float *weights, float scale, const float *vectors, int32_t n, int32_t d,
                  float *restrict out) {
    int32_t i = 0;
    for (; i + 4 * LANES <= d; i += 4 * LANES) {
        lanes a = {0}, b = {0}, c = {0}, e = {0};
        for (int32_t t = 0; t < n; t++) {
            const float *v = vectors + (int64_t)t * d + i;
            a += weights[t] * load(v);
            b += weights[t] * load(v + LANES);
            c += weights[t] * load(v + 2 * LANES);
            e += weights[t] * load(v + 3 * LANES);
        }
        a *= scale, b *= scale, c *= scale, e *= scale;
        memcpy(out + i, &a, sizeof a), memcpy(out + i + LANES, &b, sizeof b);
        memcpy(out + i + 2 * LANES, &c, sizeof c), memcpy(out + i + 3 * LANES, &e, sizeof e);
    }
    for (; i < d; i++) {
        float sum = 0;
        for (int32_t t = 0; t < n; t++) sum += weights[t] * vectors[(int64_t)t * d + i];
        out[i] = scale * sum;
    }
}

/* softmax(cap(scale q k) + bias) v, of one head of one row. */
static void attend(const struct call *call, const struct instruction *one, int32_t row,
                   int32_t head, float *weights) {
    const struct attention *how = one->attention;
    int32_t d = how->d_head, last = call->positions[row];
    int32_t first = how->window && last >= how->window ? last - how->window + 1 : 0;
    int32_t kv_head = head / (how->n_heads / how->n_kv_heads);
    int64_t kv = (int64_t)call->slots[row] * how->n_kv_heads + kv_head;
    const float *keys = call->keys[how->layer] + kv * how->context * d;
    const float *values = call->values[how->layer] + kv * how->context * how->d_value;
    const float *bias = how->by_distance ? how->by_distance + (int64_t)head * how->context : 0;
    float *q = at(call, row, how->query) + head * d, sum = 0;
    float *out = at(call, row, one->output) + head * how->d_value;
    float most = how->sinks ? how->sinks[head] : -INFINITY;
    rotate(how, last, q);
    for (int32_t t = first; t <= last; t++) {
        float score = dot_float32(keys + (int64_t)t * d, q, d) * how->scale;
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
    weigh(weights + first, 1 / sum, values + (int64_t)first * how->d_value, last + 1 - first,
          how->d_value, out);
}

/* One piece of an instruction: rows of a matrix, or what one row of the batch or one head needs. */
static void piece(const struct call *call, const struct instruction *one, int32_t first,
                  int32_t last, float *own) {
    const struct attention *how = one->attention;
    switch (one->operation) {
    case EMBED: embed(call, one, first); break;
    case PLACE: {
        const float *place = one->gain + (int64_t)one->stride * call->positions[first];
        float *x = at(call, first, one->output);
        for (int32_t i = 0; i < one->n_out; i++) x[i] += place[i];
        break;
    }
    case NORM: norm(call, one, first); break;
    case PRODUCT: product(call, one, first, last, own); break;
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
    case ATTEND: attend(call, one, first / how->n_heads, first % how->n_heads, own); break;
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

/* The next piece of instruction `i`, up to `last`: a thread's share of what is left of `n`, but
   `least` at least and `most` at most. Pieces are taken as threads become free: another program may
   hold one of them up. They begin large, since memory is read fastest in long stretches, and end
   small, so that all threads end together. */
static int32_t taken(struct call *call, int32_t i, int32_t n, int32_t least, int32_t most,
                     int32_t *last) {
    int32_t first = atomic_load(&call->taken[i]), size;
    do {
        if (first >= n) return n;
        size = (n - first) / call->n_threads / ROWS * ROWS;
        size = size < least ? least : size > most ? most : size;
        *last = first + size < n ? first + size : n;
    } while (!atomic_compare_exchange_weak(&call->taken[i], &first, *last));
    return first;
}

static void *work(void *given) {
    struct worker *worker = given;
    struct call *call = worker->call;
    float *own = call->own + (int64_t)worker->number * call->n_own;
    for (int turn = 0; atomic_load(&call->phase) < 0; turn++) rest(turn);
    for (int32_t i = 0; i < call->length; i++) {
        const struct instruction *one = call->program + i;
        static const int32_t bytes[] = {4, 2, 1, 1};
        int32_t n = call->rows, least = 1, most = 1, first, last;
        if (one->operation == PRODUCT) {
            n = one->n_out;
            least = LEAST_BYTES_AT_A_TIME / (one->n_in * bytes[one->precision]) / ROWS * ROWS;
            most = MOST_ROWS_AT_A_TIME;
            least = least < ROWS ? ROWS : least > most ? most : least;
            for (int32_t row = 0; row < call->rows; row++)
                as_read(one->precision, at(call, row, one->input), one->n_in,
                        own + (int64_t)row * call->widest);
        } else if (one->operation == KEEP) {
            n *= one->attention->n_kv_heads;
        } else if (one->operation == ATTEND) {
            n *= one->attention->n_heads;
        }
        while ((first = taken(call, i, n, least, most, &last)) < n)
            piece(call, one, first, last, own);
        if (one->wait) meet(call);
    }
    return 0;
}

/* The logits of the token that comes after each of `ids`, which stand at `positions`. A thread that
   cannot be had is done without. */
void pellucid_decode(struct call *call) {
    pthread_t threads[MOST_THREADS];
    struct worker workers[MOST_THREADS];
    int32_t wanted = call->n_threads > MOST_THREADS ? MOST_THREADS : call->n_threads, had = 1;
    memset(call->taken, 0, sizeof(atomic_int) * (size_t)call->length);
    if (call->way == BEST) call->way = best_way();
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

/* Whether this processor multiplies 4 bits that way. */
int32_t pellucid_has_kernel(int32_t way) { return has_way(way); }
