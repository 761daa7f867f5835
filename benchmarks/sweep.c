/* How fast memory is read: each thread adds up its share of a buffer, and does nothing else.

   Comes in: a buffer of 64-bit words, how many, how many threads. Goes out: their sum, so that no
   compiler leaves the reading out. */

#include <pthread.h>
#include <stdint.h>

struct share { const uint64_t *words; int64_t n; uint64_t sum; };

static void *add_up(void *given) {
    struct share *share = given;
    uint64_t sum = 0;
    _Pragma("omp simd reduction(+ : sum)")
    for (int64_t i = 0; i < share->n; i++) sum += share->words[i];
    share->sum = sum;
    return 0;
}

uint64_t sweep(const uint64_t *words, int64_t n, int32_t n_threads) {
    pthread_t threads[64];
    struct share shares[64];
    uint64_t sum = 0;
    if (n_threads > 64) n_threads = 64;
    for (int32_t i = 0; i < n_threads; i++) {
        shares[i] = (struct share){words + n / n_threads * i, n / n_threads, 0};
        if (i && pthread_create(&threads[i], 0, add_up, &shares[i])) return 0;
    }
    add_up(&shares[0]);
    for (int32_t i = 0; i < n_threads; i++) {
        if (i) pthread_join(threads[i], 0);
        sum += shares[i].sum;
    }
    return sum;
}
