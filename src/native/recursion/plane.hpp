// One plane of spatial offset through all layers.
//
// A convolution never mixes different offsets (i' - i, j' - j), so the covariances of one offset form a picture of
// their own: rows and columns are the positions where both images exist, zeros lie around it. A layer is a pointwise
// map followed by a box sum. Rows stream through both: the pointwise values of a row are summed along the row in
// registers, the row sums wait in a ring, and the finished row of the box sum overwrites the plane one row behind the
// reader. Lanes are different second images.
#pragma once

#include <new>

#include "box_sum.hpp"
#include "overlap.hpp"
#include "relu_dual.hpp"
#include "simd/pipeline.hpp"

namespace {

enum class ThetaIn { none, same_as_sigma, own };

template <class V>
struct Plane {
    using T = typename V::scalar;
    static constexpr int lanes = V::lanes;
    const Network& network;
    Overlap overlap;
    Buffers<V> buffers;
    const T *first_pixels, *first_tables, *pixels, *tables;

    Plane(const Network& network, int di, int dj, T* work, const T* first_pixels, const T* first_tables,
          const T* pixels, const T* tables)
        : network(network), overlap(network, di, dj), buffers(network, work), first_pixels(first_pixels),
          first_tables(first_tables), pixels(pixels), tables(tables) {}

    std::size_t first_at(int row) const {
        return std::size_t(overlap.first_row + row) * network.width + overlap.first_col;
    }
    std::size_t second_at(int row) const {
        return std::size_t(overlap.second_row + row) * network.width + overlap.second_col;
    }
    const T* first_roots(int layer, int row) const {
        return first_tables + 2 * (std::size_t(layer) * network.height * network.width + first_at(row));
    }
    const T* second_roots(int layer, int row) const {
        return tables + 2 * lanes * (std::size_t(layer) * network.height * network.width + second_at(row));
    }

    // Sigma^(0): products of the pixels, summed over channels and patches.
    void input() {
        const BoxSum<V, false> sum{buffers, overlap.rows, overlap.cols, network.filter};
        const std::size_t area = std::size_t(network.height) * network.width;
        sum.begin();
        for (int row = 0; row < overlap.rows; ++row) {
            const T* const first = first_pixels + first_at(row);
            const T* const second = pixels + second_at(row) * lanes;
            BoxSum<V, false>::row(sum, row, [&](int cols, const auto& take) TB_INLINED {
                for (int col = 0; col < cols; ++col) {
                    V s = V::mul(V::all(first[col]), V::load(second + col * lanes));
                    for (int channel = 1; channel < network.channels; ++channel)
                        s = V::fma(V::all(first[channel * area + col]),
                                   V::load(second + (channel * area + col) * lanes), s);
                    take(col, s, s);
                }
            });
        }
        sum.end();
    }

    // take(col, covariance, dual, sine) for the pixels of a row.
    template <bool Signed, class Take>
    TB_INLINE void duals(const Plane& self, int layer, int row, const Take& take) {
        const T* const sigma = self.buffers.sigma + std::size_t(row) * self.overlap.cols * lanes;
        const T* const first = self.first_roots(layer, row);
        const T* const second = self.second_roots(layer, row);
        pipelined(
            self.overlap.cols,
            [=](int col) TB_INLINED {
                const V inverse = V::mul(V::all(first[2 * col]), V::load(second + 2 * col * lanes));
                return one_minus_cosine<Signed>(V::load(sigma + col * lanes), inverse);
            },
            [](const V& u) TB_INLINED { return angle(u); },
            [=, &take](int col, const Angle<V>& angle) TB_INLINED {
                const V roots = V::mul(V::all(first[2 * col + 1]), V::load(second + (2 * col + 1) * lanes));
                const V covariance = V::load(sigma + col * lanes);
                take(col, covariance, relu_dual<Signed>(angle, covariance, roots), angle.sine);
            });
    }

    // Sigma of the next layer, and Theta if it is wanted.
    template <bool Signed, ThetaIn In, bool Out>
    __attribute__((noinline)) void layer_row(const BoxSum<V, Out>& sum, int layer, int row) const {
        const T* const theta = buffers.theta + std::size_t(row) * overlap.cols * lanes;
        BoxSum<V, Out>::row(sum, row, [&](int, const auto& take) TB_INLINED {
            const auto pass = [&](int col, const V& covariance, const Dual<V>& dual, const V&) TB_INLINED {
                const V before = In == ThetaIn::own ? V::load(theta + col * lanes) : covariance;
                take(col, dual.k1, In == ThetaIn::none ? dual.k1 : V::fma(before, dual.k0, dual.k1));
            };
            duals<Signed>(*this, layer, row, pass);
        });
    }

    // The last layer needs no box sum: only the sum over the plane is wanted. Apart goes what hangs on angles
    // so small that rounding may have made them: k0 hangs on the angle itself, k1 only on its square.
    template <bool Signed, ThetaIn In, bool AddK>
    __attribute__((noinline)) void last_layer(int layer, double* sums, double* doubts) const {
        V total = V::all(0), doubtful = V::all(0);
        const V limit = V::all(T(network.doubtful));
        for (int row = 0; row < overlap.rows; ++row) {
            const T* const theta = buffers.theta + std::size_t(row) * overlap.cols * lanes;
            V along = V::all(0);
            const auto sum = [&](int col, const V& covariance, const Dual<V>& dual, const V& sine) TB_INLINED {
                if (AddK) along = V::add(along, dual.k1);
                if (In == ThetaIn::none) return;
                const V before = In == ThetaIn::own ? V::load(theta + col * lanes) : covariance;
                const V tangent = V::mul(before, dual.k0);
                along = V::add(along, tangent);
                doubtful = V::add(doubtful, V::where_below(sine, limit, tangent));
            };
            duals<Signed>(*this, layer, row, sum);
            total = V::add(total, along);
        }
        T lanewise[lanes] __attribute__((aligned(64)));
        V::store(lanewise, total);
        for (int lane = 0; lane < lanes; ++lane) sums[lane] += lanewise[lane];
        V::store(lanewise, doubtful);
        for (int lane = 0; lane < lanes; ++lane) doubts[lane] += lanewise[lane];
    }

    void rescale(int layer, bool theta) {
        if (!rescales_after(network, layer)) return;
        scale_plane<V>(overlap, buffers.sigma, T(network.rescale));
        if (theta) scale_plane<V>(overlap, buffers.theta, T(network.rescale));
    }
};

// Rows in the outer loop, images in the inner one: a row of the group's tables is read once for all of them.
template <bool Signed, ThetaIn In, bool Out, class V>
void layer(Plane<V>* planes, int count, int depth) {
    const Overlap& overlap = planes[0].overlap;
    const int filter = planes[0].network.filter;
    for (int b = 0; b < count; ++b) BoxSum<V, Out>{planes[b].buffers, overlap.rows, overlap.cols, filter}.begin();
    for (int row = 0; row < overlap.rows; ++row)
        for (int b = 0; b < count; ++b)
            planes[b].template layer_row<Signed, In, Out>({planes[b].buffers, overlap.rows, overlap.cols, filter},
                                                          depth, row);
    for (int b = 0; b < count; ++b) {
        BoxSum<V, Out>{planes[b].buffers, overlap.rows, overlap.cols, filter}.end();
        planes[b].rescale(depth, Out);
    }
}

template <ThetaIn In, class V>
void last(Plane<V>& plane, bool add_k, bool is_signed, double* sums, double* doubts) {
    const int depth = plane.network.layers - 1;
    if (is_signed)
        add_k ? plane.template last_layer<true, In, true>(depth, sums, doubts)
              : plane.template last_layer<true, In, false>(depth, sums, doubts);
    else
        add_k ? plane.template last_layer<false, In, true>(depth, sums, doubts)
              : plane.template last_layer<false, In, false>(depth, sums, doubts);
}

constexpr int most_images_at_once = 8;

template <class V>
void through_all_layers(const Network& network, int count, const typename V::scalar* const* first_pixels,
                        const typename V::scalar* const* first_tables, const typename V::scalar* pixels,
                        const typename V::scalar* tables, int di, int dj, typename V::scalar* work, double* sums,
                        double* doubts) {
    alignas(Plane<V>) unsigned char storage[most_images_at_once * sizeof(Plane<V>)];
    Plane<V>* const planes = reinterpret_cast<Plane<V>*>(storage);
    const std::size_t size = (Buffers<V>::size(network) + 15) / 16 * 16;
    for (int b = 0; b < count; ++b) {
        new (planes + b) Plane<V>(network, di, dj, work + b * size, first_pixels[b], first_tables[b], pixels, tables);
        planes[b].input();
    }
    // Theta^(0) is Sigma^(0) or nothing; after an untrained first layer Theta^(1) is Sigma^(1).
    ThetaIn theta = network.tangent && network.train_first ? ThetaIn::same_as_sigma : ThetaIn::none;
    for (int depth = 0; depth + 1 < network.layers; ++depth) {
        const bool first = depth == 0;
        if (theta == ThetaIn::none) {
            first ? layer<true, ThetaIn::none, false>(planes, count, depth)
                  : layer<false, ThetaIn::none, false>(planes, count, depth);
            if (network.tangent) theta = ThetaIn::same_as_sigma;
        } else if (theta == ThetaIn::same_as_sigma) {
            first ? layer<true, ThetaIn::same_as_sigma, true>(planes, count, depth)
                  : layer<false, ThetaIn::same_as_sigma, true>(planes, count, depth);
            theta = ThetaIn::own;
        } else {
            layer<false, ThetaIn::own, true>(planes, count, depth);
        }
    }
    const bool add_k = !network.tangent || network.train_last;
    const bool is_signed = network.layers == 1;
    for (int b = 0; b < count; ++b) {
        double *const into = sums + b * V::lanes, *const doubt = doubts + b * V::lanes;
        if (theta == ThetaIn::none)
            last<ThetaIn::none>(planes[b], add_k, is_signed, into, doubt);
        else if (theta == ThetaIn::same_as_sigma)
            last<ThetaIn::same_as_sigma>(planes[b], add_k, is_signed, into, doubt);
        else
            last<ThetaIn::own>(planes[b], add_k, is_signed, into, doubt);
    }
}

template <class V>
std::size_t work_size(const Network& network) {
    return (Buffers<V>::size(network) + 15) / 16 * 16;
}

}  // namespace
