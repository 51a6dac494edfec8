// The variances Sigma^(h)(x, x) at equal positions, and their roots: once per image and layer.
#pragma once

#include "box_sum.hpp"
#include "overlap.hpp"
#include "relu_dual.hpp"

namespace {

// Variances go the same way as the covariances, in the same order of additions: for identical images both agree to
// the last bit.
template <class V>
void variance_tables(const Network& network, const typename V::scalar* pixels, typename V::scalar* tables,
                     typename V::scalar* work) {
    using T = typename V::scalar;
    constexpr int lanes = V::lanes;
    const Overlap whole(network, 0, 0);
    const Buffers<V> buffers(network, work);
    const BoxSum<V, false> sum{buffers, network.height, network.width, network.filter};
    const std::size_t row_size = std::size_t(network.width) * lanes, area = row_size * network.height;
    for (int layer = 0; layer < network.layers; ++layer) {
        sum.begin();
        for (int row = 0; row < network.height; ++row) {
            const T* const from = layer == 0 ? pixels + row * row_size : buffers.sigma + row * row_size;
            BoxSum<V, false>::row(sum, row, [&](int cols, const auto& take) TB_INLINED {
                for (int col = 0; col < cols; ++col) {
                    V s = V::load(from + col * lanes);
                    if (layer == 0) {
                        s = V::mul(s, s);
                        for (int channel = 1; channel < network.channels; ++channel) {
                            const V x = V::load(from + channel * area + col * lanes);
                            s = V::fma(x, x, s);
                        }
                    }
                    take(col, s, s);
                }
            });
        }
        sum.end();
        if (layer > 0 && rescales_after(network, layer - 1)) scale_plane<V>(whole, buffers.sigma, T(network.rescale));
        T* const into = tables + 2 * area * layer;
        const V smallest = V::all(AngleOverSine<T>::smallest);
        for (std::size_t at = 0; at < area; at += lanes) {
            // A variance of (almost) zero gets roots of zero: lambda = 0 and no contribution, never 0/0.
            const V variance = V::keep_above(V::load(buffers.sigma + at), smallest);
            const V root = V::sqrt(variance);
            const V inverse = V::div(root, V::max(variance, smallest));
            V::store(into + 2 * at, inverse);
            V::store(into + 2 * at + lanes, root);
        }
    }
}

}  // namespace
