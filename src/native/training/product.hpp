// Small matrix products whose every tile stays in registers until it is finished.
#pragma once

#include "simd/simd.hpp"

namespace {

#if defined(TANGENTBENCH_AVX512)
constexpr int tile_rows = 8, tile_columns = 2;
#elif defined(TANGENTBENCH_AVX2)
constexpr int tile_rows = 6, tile_columns = 2;
#else
constexpr int tile_rows = 4, tile_columns = 1;
#endif

// A matrix of coefficients that is read one number at a time, in any layout.
template <class T>
struct Coefficients {
    const T* numbers;
    std::ptrdiff_t row_step, depth_step;
};

template <class V, int M, int C, class Finish>
TB_INLINE void tile(const Coefficients<typename V::scalar>& by, const typename V::scalar* in, std::ptrdiff_t in_step,
                    int depth, const Finish& finish) {
    V sums[M][C];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) sums[m][c] = V::all(0);
    const typename V::scalar* numbers = by.numbers;
    for (int k = 0; k < depth; ++k, numbers += by.depth_step, in += in_step) {
        V x[C];
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) x[c] = V::load(in + c * V::lanes);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) {
            const V factor = V::all(numbers[m * by.row_step]);
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) sums[m][c] = V::fma(factor, x[c], sums[m][c]);
        }
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) finish(m, c, sums[m][c]);
}

template <class V, int M, int C, class Finish>
TB_INLINE void tile_of(int rows, const Coefficients<typename V::scalar>& by, const typename V::scalar* in,
                       std::ptrdiff_t in_step, int depth, const Finish& finish) {
    if constexpr (M > 0) {
        if (rows >= M) return tile<V, M, C>(by, in, in_step, depth, finish);
        tile_of<V, M - 1, C>(rows, by, in, in_step, depth, finish);
    }
}

// finish(row, column, sum) with sum = sum_k by[row, k] in[k, column], for every row and every column of vectors.
// in: [depth, in_step], its rows aligned.
template <class V, class Finish>
void product(int rows, int columns, int depth, const Coefficients<typename V::scalar>& by, const typename V::scalar* in,
             std::ptrdiff_t in_step, const Finish& finish) {
    int column = 0;
    const auto stripe = [&](auto width) TB_INLINED {
        constexpr int C = decltype(width)::value;
        for (int row = 0; row < rows; row += tile_rows)
            tile_of<V, tile_rows, C>(rows - row, {by.numbers + row * by.row_step, by.row_step, by.depth_step},
                                     in + column * V::lanes, in_step, depth,
                                     [&](int m, int c, const V& sum) TB_INLINED { finish(row + m, column + c, sum); });
        column += C;
    };
    while (columns - column >= tile_columns) stripe(std::integral_constant<int, tile_columns>());
    while (column < columns) stripe(std::integral_constant<int, 1>());
}

}  // namespace
