/* How fast memory is read: each thread adds up its share of a buffer, and does nothing else.

   Comes in: a buffer of 64-bit words, how many, how many threads. Goes out: their sum, so that no
   compiler leaves the reading out. */

#include <pthread.h>
#include <stdint.h>
#include <string.h>

/* Four vectors are added up side by side: with one sum, adding would be the limit, and not memory. */
enum { LANES = 8, SUMS = 4 };

typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));

struct share { const uint64_t *words; int64_t n; uint64_t sum; };

static void *add_up(void *given) {
    struct share *share = given;
    lanes sums[SUMS] = {{0}}, loaded;
    int64_t i = 0;
    for (; i + SUMS * LANES <= share->n; i += SUMS * LANES)
        for (int s = 0; s < SUMS; s++) {
            memcpy(&loaded, share->words + i + s * LANES, sizeof loaded);
            sums[s] += loaded;
        }
    share->sum = 0;
    for (; i < share->n; i++) share->sum += share->words[i];
    for (int s = 0; s < SUMS; s++)
        for (int lane = 0; lane < LANES; lane++) share->sum += sums[s][lane];
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
