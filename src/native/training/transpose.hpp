// Transposing between signals [units, batch] and rows [batch, units], a square of lanes x lanes at a time.
#pragma once

#include <cstring>

#include "simd/simd.hpp"

namespace {

// square[i][j] becomes square[j][i].
template <class V>
TB_INLINE void turn(V (&square)[V::lanes]) {
    typename V::scalar numbers[V::lanes][V::lanes], turned[V::lanes];
    for (int i = 0; i < V::lanes; ++i) std::memcpy(numbers[i], &square[i], sizeof square[i]);
    for (int j = 0; j < V::lanes; ++j) {
        for (int i = 0; i < V::lanes; ++i) turned[i] = numbers[i][j];
        std::memcpy(static_cast<void*>(&square[j]), turned, sizeof turned);
    }
}

#if defined(TANGENTBENCH_AVX512)
// Pairs, then pairs of pairs within each quarter of the registers, then the quarters themselves.
TB_INLINE void turn(Floats (&square)[16]) {
    __m512 a[16], b[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        a[i] = _mm512_unpacklo_ps(square[i].v, square[i + 1].v);
        a[i + 1] = _mm512_unpackhi_ps(square[i].v, square[i + 1].v);
    }
    const auto pairs = [](__m512 x, __m512 y, bool high) TB_INLINED {
        const __m512d p = _mm512_castps_pd(x), q = _mm512_castps_pd(y);
        return _mm512_castpd_ps(high ? _mm512_unpackhi_pd(p, q) : _mm512_unpacklo_pd(p, q));
    };
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        b[i] = pairs(a[i], a[i + 2], false);
        b[i + 1] = pairs(a[i], a[i + 2], true);
        b[i + 2] = pairs(a[i + 1], a[i + 3], false);
        b[i + 3] = pairs(a[i + 1], a[i + 3], true);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        const __m512 low_even = _mm512_shuffle_f32x4(b[i], b[4 + i], 0x88);
        const __m512 low_odd = _mm512_shuffle_f32x4(b[i], b[4 + i], 0xdd);
        const __m512 high_even = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0x88);
        const __m512 high_odd = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0xdd);
        square[i].v = _mm512_shuffle_f32x4(low_even, high_even, 0x88);
        square[4 + i].v = _mm512_shuffle_f32x4(low_odd, high_odd, 0x88);
        square[8 + i].v = _mm512_shuffle_f32x4(low_even, high_even, 0xdd);
        square[12 + i].v = _mm512_shuffle_f32x4(low_odd, high_odd, 0xdd);
    }
}
#elif defined(TANGENTBENCH_AVX2)
TB_INLINE void turn(Floats (&square)[8]) {
    __m256 a[8], b[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps(square[i].v, square[i + 1].v);
        a[i + 1] = _mm256_unpackhi_ps(square[i].v, square[i + 1].v);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        square[i].v = _mm256_permute2f128_ps(b[i], b[4 + i], 0x20);
        square[4 + i].v = _mm256_permute2f128_ps(b[i], b[4 + i], 0x31);
    }
}
#endif

// to[j, i] = from[i, j] for i < height, j < width, zeros for i from there to the next whole vector; both are whole
// numbers of vectors in memory, and nothing is written to rows of `to` from `width` on.
template <class V>
void transpose(const typename V::scalar* from, std::ptrdiff_t from_step, int height, int width, typename V::scalar* to,
               std::ptrdiff_t to_step) {
    for (int i = 0; i < height; i += V::lanes)
        for (int j = 0; j < width; j += V::lanes) {
            V square[V::lanes];
#pragma GCC unroll 16
            for (int k = 0; k < V::lanes; ++k)
                square[k] = i + k < height ? V::load(from + (i + k) * from_step + j) : V::all(0);
            turn(square);
#pragma GCC unroll 16
            for (int k = 0; k < V::lanes; ++k)
                if (j + k < width) V::store(to + (j + k) * to_step + i, square[k]);
        }
}

}  // namespace
