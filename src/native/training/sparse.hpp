// The first layer on inputs that are mostly zeros: only the others are multiplied.
#pragma once

#include "layer.hpp"
#include "simd/list.hpp"

namespace {

// The nonzero numbers of one batch, by example and by input.
template <class T>
struct SparseBatch {
    struct Entry {
        int example;
        T number;
    };
    const Program& program;
    const T* numbers;
    const int64_t* chosen = nullptr;
    int count = 0;
    List<int> starts;  // [inputs + 1]
    List<Entry> by_input;

    SparseBatch(const Program& program, const T* numbers)
        : program(program), numbers(numbers), starts(program.widths[0] + 2),
          by_input(std::size_t(program.batch) * program.largest_row) {}

    void gather(const int64_t* examples, int examples_count) {
        chosen = examples, count = examples_count;
        for (int& start : starts) start = 0;
        // starts[k + 2] counts input k, so that after the sums starts[k + 1] is its first place, and at the end its
        // last
        for (int b = 0; b < count; ++b)
            for (int64_t at = program.row_starts[chosen[b]]; at < program.row_starts[chosen[b] + 1]; ++at)
                ++starts[program.columns[at] + 2];
        for (std::size_t k = 2; k < starts.size(); ++k) starts[k] += starts[k - 1];
        for (int b = 0; b < count; ++b)
            for (int64_t at = program.row_starts[chosen[b]]; at < program.row_starts[chosen[b] + 1]; ++at)
                by_input[starts[program.columns[at] + 1]++] = {b, numbers[at]};
    }
};

// body(first vector, number of vectors as a constant) until all `vectors` are done.
template <class Body>
TB_INLINE void in_panels(int vectors, const Body& body) {
    int at = 0;
    for (; vectors - at >= 8; at += 8) body(at, std::integral_constant<int, 8>());
    for (; vectors - at >= 4; at += 4) body(at, std::integral_constant<int, 4>());
    for (; vectors - at >= 2; at += 2) body(at, std::integral_constant<int, 2>());
    for (; vectors - at >= 1; at += 1) body(at, std::integral_constant<int, 1>());
}

// rows[b, n] = bias[n] + sum_k weight[k, n] x[b, k]; rows of `row` numbers.
template <class V>
void sparse_forward(const Layer<V>& layer, const SparseBatch<typename V::scalar>& batch, typename V::scalar* rows,
                    std::ptrdiff_t row) {
    const Program& program = batch.program;
    in_panels(layer.padded / V::lanes, [&](int panel, auto width) TB_INLINED {
        constexpr int P = decltype(width)::value;
        for (int b = 0; b < batch.count; ++b) {
            V sums[P];
#pragma GCC unroll 8
            for (int p = 0; p < P; ++p) sums[p] = V::load(layer.bias + (panel + p) * V::lanes);
            const int64_t end = program.row_starts[batch.chosen[b] + 1];
            for (int64_t at = program.row_starts[batch.chosen[b]]; at < end; ++at) {
                const auto* const weights = layer.weight + program.columns[at] * layer.stride + panel * V::lanes;
                const V x = V::all(batch.numbers[at]);
#pragma GCC unroll 8
                for (int p = 0; p < P; ++p) sums[p] = V::fma(x, V::load(weights + p * V::lanes), sums[p]);
            }
#pragma GCC unroll 8
            for (int p = 0; p < P; ++p) V::store(rows + b * row + (panel + p) * V::lanes, sums[p]);
        }
    });
}

// As Layer::learn. Weights of an input that has never been anything but zero stay what they are.
template <int R, class V>
void sparse_learn(Layer<V>& layer, const Update<V>& update, const SparseBatch<typename V::scalar>& batch,
                  const typename V::scalar* errors, std::ptrdiff_t row) {
    const bool only_seen = R == plain_descent && !update.decays;
    in_panels(layer.padded / V::lanes, [&](int panel, auto width) TB_INLINED {
        constexpr int P = decltype(width)::value;
        for (int k = 0; k < layer.in; ++k) {
            const int start = batch.starts[k], end = batch.starts[k + 1];
            if (only_seen ? start == end : !update.decays && !batch.program.occupied[k]) continue;
            V sums[P];
#pragma GCC unroll 8
            for (int p = 0; p < P; ++p) sums[p] = V::all(0);
            for (int at = start; at < end; ++at) {
                const auto& entry = batch.by_input[at];
                const auto* const error = errors + entry.example * row + panel * V::lanes;
                const V x = V::all(entry.number);
#pragma GCC unroll 8
                for (int p = 0; p < P; ++p) sums[p] = V::fma(x, V::load(error + p * V::lanes), sums[p]);
            }
#pragma GCC unroll 8
            for (int p = 0; p < P; ++p)
                Layer<V>::template update_at<R>(layer, update, k * layer.stride + (panel + p) * V::lanes, sums[p]);
        }
    });
}

}  // namespace
