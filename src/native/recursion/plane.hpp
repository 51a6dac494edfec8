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

    // The sums of a tap over one row after the other, in registers along a row.
    struct Tapped {
        V nngp, tangent, doubtful, limit;

        explicit Tapped(T limit) : nngp(V::all(0)), tangent(V::all(0)), doubtful(V::all(0)), limit(V::all(limit)) {}

        // k0 hangs on the angle itself, k1 only on its square: doubt is about the former.
        TB_INLINE void add(Tapped& row, const V& k1, const V& tangent, const V& sine) {
            row.nngp = V::add(row.nngp, k1);
            row.tangent = V::add(row.tangent, tangent);
            row.doubtful = V::add(row.doubtful, V::where_below(sine, row.limit, tangent));
        }
        void into(double* sums) const {
            const V* const all[tap_sums] = {&nngp, &tangent, &doubtful};
            T lanewise[lanes] __attribute__((aligned(64)));
            for (int sum = 0; sum < tap_sums; ++sum) {
                V::store(lanewise, *all[sum]);
                for (int lane = 0; lane < lanes; ++lane) sums[sum * lanes + lane] += lanewise[lane];
            }
        }
    };

    // Sigma of the next layer, and Theta if it is wanted; on the way, where the layer is tapped, its sums.
    template <bool Signed, ThetaIn In, bool Out, bool Tap>
    __attribute__((noinline)) void layer_row(const BoxSum<V, Out>& sum, int layer, int row, double* sums) const {
        const T* const theta = buffers.theta + std::size_t(row) * overlap.cols * lanes;
        Tapped tapped(limit_of(layer));
        BoxSum<V, Out>::row(sum, row, [&](int, const auto& take) TB_INLINED {
            const auto pass = [&](int col, const V& covariance, const Dual<V>& dual, const V& sine) TB_INLINED {
                const V before = In == ThetaIn::own ? V::load(theta + col * lanes) : covariance;
                if (Tap) Tapped::add(tapped, dual.k1, In == ThetaIn::none ? V::all(0) : V::mul(before, dual.k0), sine);
                take(col, dual.k1, In == ThetaIn::none ? dual.k1 : V::fma(before, dual.k0, dual.k1));
            };
            duals<Signed>(*this, layer, row, pass);
        });
        if (Tap) tapped.into(sums);
    }

    // Behind the last layer comes no box sum: only its tap is wanted, to the last bit what a deeper sweep takes here.
    template <bool Signed, ThetaIn In>
    __attribute__((noinline)) void last_layer(int layer, double* sums) const {
        for (int row = 0; row < overlap.rows; ++row) {
            const T* const theta = buffers.theta + std::size_t(row) * overlap.cols * lanes;
            Tapped tapped(limit_of(layer));
            const auto sum = [&](int col, const V& covariance, const Dual<V>& dual, const V& sine) TB_INLINED {
                const V before = In == ThetaIn::own ? V::load(theta + col * lanes) : covariance;
                Tapped::add(tapped, dual.k1, In == ThetaIn::none ? V::all(0) : V::mul(before, dual.k0), sine);
            };
            duals<Signed>(*this, layer, row, sum);
            tapped.into(sums);
        }
    }

    T limit_of(int layer) const { return network.tap[layer] < 0 ? T(0) : T(network.doubtful[network.tap[layer]]); }
    double* tap_of(int layer, double* sums) const {
        return network.tap[layer] < 0 ? nullptr : sums + std::size_t(network.tap[layer]) * tap_sums * lanes;
    }

    void rescale(int layer, bool theta) {
        if (!rescales_after(network, layer)) return;
        scale_plane<V>(overlap, buffers.sigma, T(network.rescale));
        if (theta) scale_plane<V>(overlap, buffers.theta, T(network.rescale));
    }
};

// Rows in the outer loop, images in the inner one: a row of the group's tables is read once for all of them.
template <bool Signed, ThetaIn In, bool Out, bool Tap, class V>
void rows_of_layer(Plane<V>* planes, int count, int depth, double* sums) {
    const Overlap& overlap = planes[0].overlap;
    const Network& network = planes[0].network;
    const std::size_t of_image = std::size_t(network.taps) * tap_sums * V::lanes;
    for (int b = 0; b < count; ++b)
        BoxSum<V, Out>{planes[b].buffers, overlap.rows, overlap.cols, network.filter}.begin();
    for (int row = 0; row < overlap.rows; ++row)
        for (int b = 0; b < count; ++b)
            planes[b].template layer_row<Signed, In, Out, Tap>(
                {planes[b].buffers, overlap.rows, overlap.cols, network.filter}, depth, row,
                planes[b].tap_of(depth, sums + b * of_image));
    for (int b = 0; b < count; ++b) {
        BoxSum<V, Out>{planes[b].buffers, overlap.rows, overlap.cols, network.filter}.end();
        planes[b].rescale(depth, Out);
    }
}

template <bool Signed, ThetaIn In, bool Out, class V>
void layer(Plane<V>* planes, int count, int depth, double* sums) {
    if (planes[0].network.tap[depth] < 0)
        rows_of_layer<Signed, In, Out, false>(planes, count, depth, sums);
    else
        rows_of_layer<Signed, In, Out, true>(planes, count, depth, sums);
}

constexpr int most_images_at_once = 8;

template <class V>
void through_all_layers(const Network& network, int count, const typename V::scalar* const* first_pixels,
                        const typename V::scalar* const* first_tables, const typename V::scalar* pixels,
                        const typename V::scalar* tables, int di, int dj, typename V::scalar* work, double* sums) {
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
            first ? layer<true, ThetaIn::none, false>(planes, count, depth, sums)
                  : layer<false, ThetaIn::none, false>(planes, count, depth, sums);
            if (network.tangent) theta = ThetaIn::same_as_sigma;
        } else if (theta == ThetaIn::same_as_sigma) {
            first ? layer<true, ThetaIn::same_as_sigma, true>(planes, count, depth, sums)
                  : layer<false, ThetaIn::same_as_sigma, true>(planes, count, depth, sums);
            theta = ThetaIn::own;
        } else {
            layer<false, ThetaIn::own, true>(planes, count, depth, sums);
        }
    }
    const int depth = network.layers - 1;
    for (int b = 0; b < count; ++b) {
        const Plane<V>& plane = planes[b];
        double* const into = plane.tap_of(depth, sums + std::size_t(b) * network.taps * tap_sums * V::lanes);
        if (theta == ThetaIn::none)
            depth == 0 ? plane.template last_layer<true, ThetaIn::none>(depth, into)
                       : plane.template last_layer<false, ThetaIn::none>(depth, into);
        else if (theta == ThetaIn::same_as_sigma)
            depth == 0 ? plane.template last_layer<true, ThetaIn::same_as_sigma>(depth, into)
                       : plane.template last_layer<false, ThetaIn::same_as_sigma>(depth, into);
        else
            plane.template last_layer<false, ThetaIn::own>(depth, into);
    }
}

template <class V>
std::size_t work_size(const Network& network) {
    return (Buffers<V>::size(network) + 15) / 16 * 16;
}

}  // namespace
