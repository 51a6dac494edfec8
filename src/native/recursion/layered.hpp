// Covariances through a list of layers with average pooling in between.
//
// Between two poolings nothing mixes spatial offsets (plane.hpp), so the planes of a stage run through its layers one
// by one. Pooling does mix them: with windows of p x p, the pooled covariance of offset D sums those of offsets
// p D - (p - 1), ..., p D + (p - 1) in each direction. A plane that leaves a stage is therefore added into the one or
// two pooled planes a direction that it belongs to. Planes come in the order of their row offset, so a row of pooled
// planes is complete, and goes through the next stage, as soon as row offset p D + (p - 1) has passed; only two rows of
// pooled planes are ever held, 2 h w^2 numbers instead of h^2 w^2.
//
// Lanes are different pairs of images: a small symmetric matrix wastes none of them.
#pragma once

#include <cstring>
#include <type_traits>

#include "box_sum.hpp"
#include "layered_core.hpp"
#include "overlap.hpp"
#include "relu_dual.hpp"
#include "simd/pipeline.hpp"

namespace {

// What a sweep over a plane reads: products of pixels, the plane as it is, or the plane through a ReLU.
enum class Read { pixels, plain, relu, relu_signed };
// Theta is zero before the first convolution, equal to Sigma after it, and a plane of its own from there on.
enum class Theta { none, same, own };

// Two rows of pooled planes in front of a stage, one for even and one for odd row offsets.
template <class V>
struct Ring {
    using T = typename V::scalar;
    T *sigma, *theta;  // [2, slot]
    int height, width, radius_rows, radius_cols;

    static std::size_t slot_size(int height, int width) { return std::size_t(height) * width * width * V::lanes; }
    std::size_t slot(int di) const { return (di & 1) * slot_size(height, width); }
    // Where the plane of column offset dj begins, in positions: those before it have `height` rows too.
    std::size_t before(int dj) const {
        const std::size_t planes = dj + width - 1;
        if (dj <= 0) return height * planes * (planes + 1) / 2;
        const std::size_t left = width - dj;
        return height * (std::size_t(width) * width - left * (left + 1) / 2);
    }
};

template <class V>
struct Traversal {
    using T = typename V::scalar;
    static constexpr int lanes = V::lanes;
    const LayeredNetwork& network;
    const T *first_pixels, *first_table, *second_pixels, *second_table;
    T* recorded;  // table to fill, or null; then first and second images are the same
    int last;     // stage at which to stop
    T* plane_work;
    // Of the plane's columns in the pooled plane of row 0: position (or -1), row length.
    std::ptrdiff_t *target, *stride;
    Ring<V> ring[most_stages];  // ring[s] feeds stage s
    double* sums;

    static std::size_t rounded(std::size_t count) { return (count + 63) / 64 * 64; }
    static Network stage_shape(const LayeredNetwork& network, const Stage& stage) {
        Network shape{};
        shape.channels = network.channels;
        shape.height = stage.height;
        shape.width = stage.width;
        shape.filter = stage.filter;
        return shape;
    }
    static std::size_t columns_size(const LayeredNetwork& network) {
        return rounded(2 * sizeof(std::ptrdiff_t) / sizeof(T) * network.stage[0].width);
    }
    static std::size_t plane_size(const LayeredNetwork& network) {
        std::size_t largest = 0;
        for (int s = 0; s < network.stages; ++s) {
            const std::size_t size = Buffers<V>::size(stage_shape(network, network.stage[s]));
            if (size > largest) largest = size;
        }
        return rounded(largest);
    }
    static std::size_t work_size(const LayeredNetwork& network) {
        std::size_t total = plane_size(network) + columns_size(network);
        for (int s = 1; s < network.stages; ++s)
            total += 4 * rounded(Ring<V>::slot_size(network.stage[s].height, network.stage[s].width));
        return total;
    }

    Traversal(const LayeredNetwork& network, const T* first_pixels, const T* first_table, const T* second_pixels,
              const T* second_table, T* recorded, int last, bool all_offsets, T* work, double* sums)
        : network(network), first_pixels(first_pixels), first_table(first_table), second_pixels(second_pixels),
          second_table(second_table), recorded(recorded), last(last), plane_work(work), sums(sums) {
        work += plane_size(network);
        target = reinterpret_cast<std::ptrdiff_t*>(work);
        stride = target + network.stage[0].width;
        work += columns_size(network);
        int rows = 0, cols = 0;
        for (int s = last; s >= 0; --s) {
            const Stage& stage = network.stage[s];
            if (s == last) {
                rows = all_offsets ? stage.height - 1 : 0;
                cols = all_offsets ? stage.width - 1 : 0;
            } else {
                rows = stage.pool * rows + stage.pool - 1;
                cols = stage.pool * cols + stage.pool - 1;
            }
            const std::size_t size = s == 0 ? 0 : 2 * rounded(Ring<V>::slot_size(stage.height, stage.width));
            ring[s] = {work, work + size, stage.height, stage.width, rows, cols};
            work += 2 * size;
            std::memset(ring[s].sigma, 0, 2 * size * sizeof(T));
        }
    }

    void run() {
        for (int di = -ring[0].radius_rows; di <= ring[0].radius_rows; ++di) row_of_planes(0, di);
    }

    void row_of_planes(int s, int di) {
        const Stage& stage = network.stage[s];
        for (int dj = -ring[s].radius_cols; dj <= ring[s].radius_cols; ++dj) plane(s, di, dj);
        if (s == last || (di - (stage.pool - 1)) % stage.pool != 0) return;
        const int finished = (di - (stage.pool - 1)) / stage.pool;
        const Ring<V>& next = ring[s + 1];
        if (finished < -next.radius_rows || finished > next.radius_rows) return;
        row_of_planes(s + 1, finished);
        const std::size_t bytes = Ring<V>::slot_size(next.height, next.width) * sizeof(T);
        std::memset(next.sigma + next.slot(finished), 0, bytes);
        std::memset(next.theta + next.slot(finished), 0, bytes);
    }

    struct Plane {
        int s, di, dj;
        const Stage& stage;
        Network shape;
        Overlap overlap;
        Buffers<V> buffers;
        const T *sigma, *theta;  // what is read: the ring at first, the buffers later
        std::size_t table;       // scalars of a table before the next ReLU's

        Plane(const Traversal& all, int s, int di, int dj)
            : s(s), di(di), dj(dj), stage(all.network.stage[s]), shape(stage_shape(all.network, stage)),
              overlap(shape, di, dj), buffers(shape, all.plane_work), sigma(nullptr), theta(nullptr),
              table(stage.first_table) {
            if (s == 0) return;
            const Ring<V>& ring = all.ring[s];
            const std::size_t at = ring.slot(di) + ring.before(dj) * lanes;
            sigma = ring.sigma + at;
            theta = ring.theta + at;
        }
        std::size_t first_at(int row) const {
            return std::size_t(overlap.first_row + row) * stage.width + overlap.first_col;
        }
        std::size_t second_at(int row) const {
            return std::size_t(overlap.second_row + row) * stage.width + overlap.second_col;
        }
    };

    void plane(int s, int di, int dj) {
        Plane plane(*this, s, di, dj);
        if (s < last) place_columns(plane);
        // Every plane of a stage has seen the same layers, so its history is that of the layers before.
        Theta theta = Theta::none;
        bool positive = false;
        for (int step = 0; step < plane.stage.first_step; ++step) advance(network.step[step], theta, positive);
        Read read = s == 0 ? Read::pixels : Read::plain;
        for (int number = 0; number < plane.stage.steps; ++number) {
            const LayerStep& step = network.step[plane.stage.first_step + number];
            if (step.kind == relu_step) {
                read = positive ? Read::relu : Read::relu_signed;
                if (recorded && s == last) {
                    record(plane);
                    plane.table += table_size(plane.stage);
                    read = Read::plain;
                }
            } else {
                convolution(plane, step, read, theta);
                if (read == Read::relu || read == Read::relu_signed) plane.table += table_size(plane.stage);
                plane.sigma = plane.buffers.sigma;
                plane.theta = plane.buffers.theta;
                read = Read::plain;
            }
            advance(step, theta, positive, step.kind == relu_step);
        }
        finish(plane, read, theta);
    }

    static std::size_t table_size(const Stage& stage) { return 2 * std::size_t(stage.height) * stage.width; }

    // Theta's state after a layer. A ReLU that is still to be read keeps the state in front of it (`waiting`).
    void advance(const LayerStep& step, Theta& theta, bool& positive, bool waiting = false) const {
        if (step.kind == relu_step) {
            positive = true;
            if (!waiting && theta == Theta::same) theta = Theta::own;
        } else if (network.tangent) {
            theta = theta == Theta::none ? Theta::same : Theta::own;
        }
    }

    // take(col, Sigma, Theta) for the positions of a row; Theta stands for nothing where it is none, for Sigma in front
    // of the ReLU where it is the same.
    template <Read How, Theta In, class Take>
    TB_INLINE void values(const Traversal& self, const Plane& plane, int row, const Take& take) {
        const int cols = plane.overlap.cols;
        if constexpr (How == Read::pixels) {
            const std::size_t area = std::size_t(plane.stage.height) * plane.stage.width;
            const T* const first = self.first_pixels + plane.first_at(row) * lanes;
            const T* const second = self.second_pixels + plane.second_at(row) * lanes;
            for (int col = 0; col < cols; ++col) {
                V s = V::mul(V::load(first + col * lanes), V::load(second + col * lanes));
                for (int channel = 1; channel < self.network.channels; ++channel) {
                    const std::size_t at = (channel * area + col) * lanes;
                    s = V::fma(V::load(first + at), V::load(second + at), s);
                }
                take(col, s, s);
            }
            return;
        }
        const T* const sigma = plane.sigma + std::size_t(row) * cols * lanes;
        const T* const theta = plane.theta + std::size_t(row) * cols * lanes;
        if constexpr (How == Read::plain) {
            for (int col = 0; col < cols; ++col) {
                const V s = V::load(sigma + col * lanes);
                take(col, s, In == Theta::own ? V::load(theta + col * lanes) : s);
            }
        } else if constexpr (How != Read::pixels) {
            constexpr bool is_signed = How == Read::relu_signed;
            const T* const first = self.first_table + (plane.table + 2 * plane.first_at(row)) * lanes;
            const T* const second = self.second_table + (plane.table + 2 * plane.second_at(row)) * lanes;
            pipelined(
                cols,
                [=](int col) TB_INLINED {
                    const V inverse = V::mul(V::load(first + 2 * col * lanes), V::load(second + 2 * col * lanes));
                    return one_minus_cosine<is_signed>(V::load(sigma + col * lanes), inverse);
                },
                [](const V& u) TB_INLINED { return angle(u); },
                [=, &take](int col, const Angle<V>& angle) TB_INLINED {
                    const V roots =
                        V::mul(V::load(first + (2 * col + 1) * lanes), V::load(second + (2 * col + 1) * lanes));
                    const V covariance = V::load(sigma + col * lanes);
                    const Dual<V> dual = relu_dual<is_signed>(angle, covariance, roots);
                    const V before = In == Theta::own ? V::load(theta + col * lanes) : covariance;
                    take(col, dual.k1, In == Theta::none ? dual.k1 : V::mul(before, dual.k0));
                });
        }
    }

    // Calls body with the reading and Theta's state as types.
    template <class Body>
    static void with_types(Read read, Theta theta, const Body& body) {
        const auto chosen = [&](auto how) {
            if (theta == Theta::none) body(how, std::integral_constant<Theta, Theta::none>{});
            if (theta == Theta::same) body(how, std::integral_constant<Theta, Theta::same>{});
            if (theta == Theta::own) body(how, std::integral_constant<Theta, Theta::own>{});
        };
        if (read == Read::pixels)
            body(std::integral_constant<Read, Read::pixels>{}, std::integral_constant<Theta, Theta::none>{});
        if (read == Read::plain) chosen(std::integral_constant<Read, Read::plain>{});
        if (read == Read::relu) chosen(std::integral_constant<Read, Read::relu>{});
        if (read == Read::relu_signed) chosen(std::integral_constant<Read, Read::relu_signed>{});
    }

    // Sigma' = A(Sigma), Theta' = A(Theta + Sigma), A the sum over the filter.
    void convolution(Plane& plane, const LayerStep& step, Read read, Theta theta) {
        with_types(read, theta,
                   [&](auto how, auto in) { sum_over_filter<decltype(how)::value, decltype(in)::value>(plane, step); });
    }

    template <Read How, Theta In>
    void sum_over_filter(Plane& plane, const LayerStep& step) {
        constexpr bool two = In != Theta::none;
        const BoxSum<V, two> sum{plane.buffers, plane.overlap.rows, plane.overlap.cols, step.size};
        const V scale = V::all(std::ldexp(T(1), step.exponent));
        sum.begin();
        for (int row = 0; row < plane.overlap.rows; ++row) filtered_row<How, In>(plane, sum, scale, row);
        sum.end();
    }

    template <Read How, Theta In>
    __attribute__((noinline)) void filtered_row(const Plane& plane, const BoxSum<V, In != Theta::none>& sum,
                                                const V& scale, int row) const {
        constexpr bool two = In != Theta::none;
        BoxSum<V, two>::row(sum, row, [&](int, const auto& take) TB_INLINED {
            values<How, In>(*this, plane, row, [&](int col, const V& s, const V& t) TB_INLINED {
                const V scaled = V::mul(s, scale);
                take(col, scaled, two ? V::fma(t, scale, scaled) : scaled);
            });
        });
    }

    void finish(Plane& plane, Read read, Theta theta) {
        if (plane.s == last) {
            if (recorded) return;
            with_types(read, theta,
                       [&](auto how, auto in) { total<decltype(how)::value, decltype(in)::value>(plane); });
        } else {
            with_types(read, theta, [&](auto how, auto in) { pool<decltype(how)::value, decltype(in)::value>(plane); });
        }
    }

    // Theta has become a plane of its own where it was one before or came through a ReLU.
    template <Read How, Theta In>
    static constexpr bool own_theta = In == Theta::own || (In == Theta::same && How != Read::plain);

    template <Read How, Theta In>
    void total(const Plane& plane) {
        V sigma = V::all(0), theta = V::all(0);
        for (int row = 0; row < plane.overlap.rows; ++row) {
            V s_along = V::all(0), t_along = V::all(0);
            values<How, In>(*this, plane, row, [&](int, const V& s, const V& t) TB_INLINED {
                s_along = V::add(s_along, s);
                if (In != Theta::none) t_along = V::add(t_along, t);
            });
            sigma = V::add(sigma, s_along);
            theta = V::add(theta, t_along);
        }
        T lanewise[lanes] __attribute__((aligned(64)));
        V::store(lanewise, sigma);
        for (int lane = 0; lane < lanes; ++lane) sums[lane] += lanewise[lane];
        V::store(lanewise, theta);
        for (int lane = 0; lane < lanes; ++lane) sums[lanes + lane] += lanewise[lane];
    }

    // For every column of the plane, its place in the pooled planes of the next stage.
    void place_columns(const Plane& plane) {
        const Ring<V>& next = ring[plane.s + 1];
        const int pool = plane.stage.pool;
        for (int col = 0; col < plane.overlap.cols; ++col) {
            const int first = (plane.overlap.first_col + col) / pool, second = (plane.overlap.second_col + col) / pool;
            const int dj = second - first;
            const bool wanted =
                first < next.width && second < next.width && dj >= -next.radius_cols && dj <= next.radius_cols;
            target[col] = wanted ? std::ptrdiff_t(next.before(dj)) + (dj < 0 ? second : first) : -1;
            stride[col] = next.width - (dj < 0 ? -dj : dj);
        }
    }

    template <Read How, Theta In>
    void pool(const Plane& plane) {
        const Ring<V>& next = ring[plane.s + 1];
        const V scale = V::all(std::ldexp(T(1), plane.stage.pool_exponent));
        for (int row = 0; row < plane.overlap.rows; ++row) {
            const int first = (plane.overlap.first_row + row) / plane.stage.pool;
            const int second = (plane.overlap.second_row + row) / plane.stage.pool;
            const int di = second - first;
            if (first >= next.height || second >= next.height || di < -next.radius_rows || di > next.radius_rows)
                continue;
            pooled_row<How, In>(plane, scale, row, di < 0 ? second : first, next.slot(di));
        }
    }

    template <Read How, Theta In>
    __attribute__((noinline)) void pooled_row(const Plane& plane, const V& scale, int row, int pooled_row,
                                              std::size_t slot) const {
        const Ring<V>& next = ring[plane.s + 1];
        T* const sigma = next.sigma + slot;
        T* const theta = next.theta + slot;
        values<How, In>(*this, plane, row, [&](int col, const V& s, const V& t) TB_INLINED {
            if (target[col] < 0) return;
            const std::ptrdiff_t at = (target[col] + pooled_row * stride[col]) * lanes;
            V::store(sigma + at, V::fma(s, scale, V::load(sigma + at)));
            if (own_theta<How, In>) V::store(theta + at, V::fma(t, scale, V::load(theta + at)));
        });
    }

    // The roots of the variances in front of a ReLU. A variance of (almost) zero gets roots of zero: lambda = 0 and no
    // contribution, never 0/0.
    void record(const Plane& plane) const {
        const std::size_t area = std::size_t(plane.stage.height) * plane.stage.width * lanes;
        T* const into = recorded + plane.table * lanes;
        const V smallest = V::all(AngleOverSine<T>::smallest);
        for (std::size_t at = 0; at < area; at += lanes) {
            const V variance = V::keep_above(V::load(plane.sigma + at), smallest);
            const V root = V::sqrt(variance);
            V::store(into + 2 * at, V::div(root, V::max(variance, smallest)));
            V::store(into + 2 * at + lanes, root);
        }
    }
};

template <class V>
std::size_t layered_work_size(const LayeredNetwork& network) {
    return Traversal<V>::work_size(network);
}

// Stage by stage: the variances of a stage need planes near offset zero of the stages before, which need theirs.
template <class V>
void layered_tables(const LayeredNetwork& network, const typename V::scalar* pixels, typename V::scalar* table,
                    typename V::scalar* work) {
    LayeredNetwork sigma_only = network;
    sigma_only.tangent = false;
    for (int s = 0; s < network.stages; ++s)
        Traversal<V>(sigma_only, pixels, table, pixels, table, table, s, false, work, nullptr).run();
}

template <class V>
void layered_pairs(const LayeredNetwork& network, const typename V::scalar* first_pixels,
                   const typename V::scalar* first_table, const typename V::scalar* second_pixels,
                   const typename V::scalar* second_table, typename V::scalar* work, double* sums) {
    Traversal<V>(network, first_pixels, first_table, second_pixels, second_table, nullptr, network.stages - 1,
                 network.global, work, sums)
        .run();
}

template <class V>
constexpr LayeredCore<typename V::scalar> layered_core_of() {
    return {V::lanes, layered_work_size<V>, layered_tables<V>, layered_pairs<V>};
}

constexpr LayeredSet layered_set(const char* name) {
    return {name, layered_core_of<Floats>(), layered_core_of<Doubles>()};
}

}  // namespace
