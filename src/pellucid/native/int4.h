/* Products with a matrix of 4 bits: 16 rows at a time, one row in each lane, so that no sum runs
   across lanes.

   A matrix is kept in blocks of 16 rows and 32 columns, 256 bytes each: four times 64 bytes, of each
   row 4 bytes. The low halves of the 16 bytes of a row are its columns 0 to 15, the high halves 16
   to 31. A weight is (half - 8) times the scale of its row and 32 columns, which is a bfloat16.

   What is multiplied has 16 bits and a scale for 32 columns: 256 high + low, both within -128 ... 127.
   Sums of integers are exact, and each lane adds up its blocks in order by fused multiply-add. So all
   ways give the same bits: AVX-512 VNNI, AVX2, and plain C. */

#ifndef PELLUCID_INT4_H
#define PELLUCID_INT4_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "numbers.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_X86 1
#else
#define HAS_X86 0
#endif

enum { GROUP = 32, ROWS = 16, GROUP_BYTES = ROWS * GROUP / 2 };
enum { BEST, PLAIN, AVX2, AVX512 };     /* ways to compute it */

/* A vector as it is multiplied: of each group a scale, 8 times the sum of its integers, and the
   integers' high and low bytes. */
struct split { const float *scales; const int32_t *eights; const int8_t *high, *low; };

static inline int32_t groups_of(int32_t n) { return (n + GROUP - 1) / GROUP; }

static inline struct split split_at(const float *made, int32_t n) {
    int32_t groups = groups_of(n);
    const int8_t *high = (const int8_t *)(made + 2 * groups);
    return (struct split){made, (const int32_t *)(made + groups), high, high + GROUP * groups};
}

/* Writes the split of x to where `split_at` finds it. */
static void split(const float *restrict x, int32_t n, float *restrict made) {
    int32_t groups = groups_of(n);
    int32_t *eights = (int32_t *)(made + groups);
    int8_t *high = (int8_t *)(made + 2 * groups), *low = high + GROUP * groups;
    for (int32_t g = 0; g < groups; g++) {
        int32_t first = g * GROUP, sum = 0;
        float v[GROUP] = {0}, most = 0;
        memcpy(v, x + first, 4 * (size_t)(n - first < GROUP ? n - first : GROUP));
        _Pragma("omp simd reduction(max : most)")
        for (int32_t i = 0; i < GROUP; i++) most = fabsf(v[i]) > most ? fabsf(v[i]) : most;
        float per_step = most > 0 ? 32512 / most : 0;   /* 127 x 256: `high` fits a byte */
        for (int32_t i = 0; i < GROUP; i++) {
            int32_t whole = (int32_t)(v[i] * per_step + (v[i] < 0 ? -0.5f : 0.5f));
            int32_t upper = (whole + 128) >> 8;
            high[first + i] = (int8_t)upper;
            low[first + i] = (int8_t)(whole - 256 * upper);
            sum += whole;
        }
        made[g] = most / 32512;
        eights[g] = 8 * sum;
    }
}

static void rows_plain(const uint8_t *w, const uint16_t *scales, struct split x, int32_t groups,
                       float *y) {
    float sums[ROWS] = {0};
    for (int32_t g = 0; g < groups; g++, w += GROUP_BYTES, scales += ROWS) {
        int32_t products[ROWS] = {0};
        for (int32_t four = 0; four < 4; four++)
            for (int32_t row = 0; row < ROWS; row++)
                for (int32_t i = 0; i < 4; i++) {
                    int32_t pair = w[64 * four + 4 * row + i], at = GROUP * g + 4 * four + i;
                    products[row] += (pair & 15) * (256 * x.high[at] + x.low[at])
                                     + (pair >> 4) * (256 * x.high[at + 16] + x.low[at + 16]);
                }
        for (int32_t row = 0; row < ROWS; row++)
            sums[row] = fmaf((float)(products[row] - x.eights[g]),
                             from_bfloat16(scales[row]) * x.scales[g], sums[row]);
    }
    memcpy(y, sums, sizeof sums);
}

#if HAS_X86

static inline int32_t four_at(const int8_t *x) { int32_t v; memcpy(&v, x, 4); return v; }

__attribute__((target("avx512f,avx512bw,avx512vnni")))
static void rows_avx512(const uint8_t *w, const uint16_t *scales, struct split x, int32_t groups,
                        float *y) {
    __m512 sums = _mm512_setzero_ps();
    const __m512i half = _mm512_set1_epi8(15);
    for (int32_t g = 0; g < groups; g++, w += GROUP_BYTES, scales += ROWS) {
        __m512i high = _mm512_setzero_si512(), low = high, high2 = high, low2 = high;
        const int8_t *up = x.high + GROUP * g, *down = x.low + GROUP * g;
        for (int32_t four = 0; four < 16; four += 4) {
            __m512i pairs = _mm512_loadu_si512(w + 16 * four);
            __m512i first = _mm512_and_si512(pairs, half);
            __m512i second = _mm512_and_si512(_mm512_srli_epi16(pairs, 4), half);
            high = _mm512_dpbusd_epi32(high, first, _mm512_set1_epi32(four_at(up + four)));
            low = _mm512_dpbusd_epi32(low, first, _mm512_set1_epi32(four_at(down + four)));
            high2 = _mm512_dpbusd_epi32(high2, second, _mm512_set1_epi32(four_at(up + 16 + four)));
            low2 = _mm512_dpbusd_epi32(low2, second, _mm512_set1_epi32(four_at(down + 16 + four)));
        }
        __m512i all = _mm512_slli_epi32(_mm512_add_epi32(high, high2), 8);
        all = _mm512_add_epi32(all, _mm512_add_epi32(low, low2));
        all = _mm512_sub_epi32(all, _mm512_set1_epi32(x.eights[g]));
        __m256i narrow = _mm256_loadu_si256((const __m256i *)scales);
        __m512 by = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16));
        by = _mm512_mul_ps(by, _mm512_set1_ps(x.scales[g]));
        sums = _mm512_fmadd_ps(_mm512_cvtepi32_ps(all), by, sums);
    }
    _mm512_storeu_ps(y, sums);
}

/* Products of two bytes are added in pairs to 16 bits: 4 x 2 x 15 x 128 x 2 fits them. */
__attribute__((target("avx2,fma")))
static void rows_avx2(const uint8_t *w, const uint16_t *scales, struct split x, int32_t groups,
                      float *y) {
    const __m256i half = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    for (int32_t side = 0; side < 2; side++) {      /* 8 rows each */
        __m256 sums = _mm256_setzero_ps();
        const uint8_t *here = w + 32 * side;
        const uint16_t *by_row = scales + 8 * side;
        for (int32_t g = 0; g < groups; g++, here += GROUP_BYTES, by_row += ROWS) {
            __m256i high = _mm256_setzero_si256(), low = high;
            const int8_t *up = x.high + GROUP * g, *down = x.low + GROUP * g;
            for (int32_t four = 0; four < 16; four += 4) {
                __m256i pairs = _mm256_loadu_si256((const __m256i *)(here + 16 * four));
                __m256i first = _mm256_and_si256(pairs, half);
                __m256i second = _mm256_and_si256(_mm256_srli_epi16(pairs, 4), half);
#define TIMES(weights, at) _mm256_maddubs_epi16(weights, _mm256_set1_epi32(four_at(at)))
                high = _mm256_add_epi16(high, TIMES(first, up + four));
                high = _mm256_add_epi16(high, TIMES(second, up + 16 + four));
                low = _mm256_add_epi16(low, TIMES(first, down + four));
                low = _mm256_add_epi16(low, TIMES(second, down + 16 + four));
#undef TIMES
            }
            __m256i all = _mm256_slli_epi32(_mm256_madd_epi16(high, ones), 8);
            all = _mm256_add_epi32(all, _mm256_madd_epi16(low, ones));
            all = _mm256_sub_epi32(all, _mm256_set1_epi32(x.eights[g]));
            __m256i narrow = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)by_row));
            __m256 by = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(narrow, 16)),
                                      _mm256_set1_ps(x.scales[g]));
            sums = _mm256_fmadd_ps(_mm256_cvtepi32_ps(all), by, sums);
        }
        _mm256_storeu_ps(y + 8 * side, sums);
    }
}

#endif

/* Whether this processor can do it that way. */
static int has_way(int32_t way) {
#if HAS_X86
    if (way == AVX512)
        return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw");
    if (way == AVX2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return way == PLAIN;
}

static int32_t best_way(void) {
    static int32_t best = BEST;
    if (best == BEST) best = has_way(AVX512) ? AVX512 : has_way(AVX2) ? AVX2 : PLAIN;
    return best;
}

/* 16 outputs: `w` and `scales` begin at a block of 16 rows. */
static void sixteen_rows(int32_t way, const uint8_t *w, const uint16_t *scales, struct split x,
                         int32_t groups, float *y) {
#if HAS_X86
    if (way == AVX512) { rows_avx512(w, scales, x, groups, y); return; }
    if (way == AVX2) { rows_avx2(w, scales, x, groups, y); return; }
#endif
    (void)way;
    rows_plain(w, scales, x, groups, y);
}

#endif
