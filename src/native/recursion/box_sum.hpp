// Box sums of a plane whose rows arrive one after the other: along the row in registers, down the rows through a ring.
#pragma once

#include <cstring>

#include "core.hpp"
#include "simd/simd.hpp"

namespace {

template <class V>
struct Buffers {
    using T = typename V::scalar;
    T *sigma, *theta;            // [1 + height, width, lanes]; the row before the first takes what is not yet finished
    T *sigma_ring, *theta_ring;  // [filter, width, lanes]
    T *sigma_row, *theta_row;    // [width + filter - 1, lanes], zeros at both ends; for filters other than 3

    static std::size_t size(const Network& network) {
        const std::size_t row = std::size_t(network.width) * V::lanes;
        return 2 * ((network.height + 1) * row + network.filter * row + row + (network.filter - 1) * V::lanes) +
               gap * 5;
    }
    Buffers(const Network& network, T* work) {
        const std::size_t row = std::size_t(network.width) * V::lanes;
        sigma = work + row;
        theta = work + (network.height + 2) * row + gap;
        sigma_ring = theta + network.height * row + gap;
        theta_ring = sigma_ring + network.filter * row + gap;
        sigma_row = theta_ring + network.filter * row + gap;
        theta_row = sigma_row + row + (network.filter - 1) * V::lanes + gap;
    }
    // Keeps the buffers apart modulo the page size, where loads would wait for unrelated stores.
    static constexpr std::size_t gap = 5 * 64 / sizeof(T);
};

// Box sum of `filter` x `filter` for the rows one after the other. Two: sigma and theta, else sigma alone.
template <class V, bool Two>
struct BoxSum {
    using T = typename V::scalar;
    const Buffers<V>& to;
    int rows, cols, filter;
    static constexpr int lanes = V::lanes;

    void begin() const {
        const std::size_t bytes = std::size_t(filter) * cols * lanes * sizeof(T);
        std::memset(to.sigma_ring, 0, bytes);
        if (Two) std::memset(to.theta_ring, 0, bytes);
    }

    // points(cols, take) calls take(col, sigma, theta) with the pointwise values of row `row`, column by column.
    template <class Points>
    TB_INLINE void row3(const BoxSum& self, int row, const Points& points) {
        const std::size_t stride = std::size_t(self.cols) * lanes;
        T* const s_old = self.to.sigma_ring + (row & 1) * stride;
        T* const s_mid = self.to.sigma_ring + ((row + 1) & 1) * stride;
        T* const t_old = self.to.theta_ring + (row & 1) * stride;
        T* const t_mid = self.to.theta_ring + ((row + 1) & 1) * stride;
        T* const s_out = self.to.sigma + std::ptrdiff_t(row - 1) * std::ptrdiff_t(stride);
        T* const t_out = self.to.theta + std::ptrdiff_t(row - 1) * std::ptrdiff_t(stride);
        const auto emit = [&](std::ptrdiff_t at, const V& s, const V& t) TB_INLINED {
            V::store(s_out + at, V::add(V::add(V::load(s_old + at), V::load(s_mid + at)), s));
            V::store(s_old + at, s);
            if (Two) {
                V::store(t_out + at, V::add(V::add(V::load(t_old + at), V::load(t_mid + at)), t));
                V::store(t_old + at, t);
            }
        };
        // The sum of a column's left neighbour and itself waits for the right neighbour; the first one has no left.
        V s_last = V::all(0), t_last = V::all(0), s_pair = V::all(0), t_pair = V::all(0);
        points(self.cols, [&](int col, const V& s, const V& t) TB_INLINED {
            if (col > 0) emit(std::ptrdiff_t(col - 1) * lanes, V::add(s_pair, s), Two ? V::add(t_pair, t) : t);
            s_pair = V::add(s_last, s);
            s_last = s;
            if (Two) {
                t_pair = V::add(t_last, t);
                t_last = t;
            }
        });
        emit(std::size_t(self.cols - 1) * lanes, s_pair, t_pair);
    }

    void end3() const {
        const std::size_t stride = std::size_t(cols) * lanes;
        const auto finish = [&](T* plane, const T* ring) {
            T* const out = plane + (rows - 1) * stride;
            for (std::size_t at = 0; at < stride; at += lanes)
                V::store(out + at, V::add(V::load(ring + at), V::load(ring + stride + at)));
        };
        finish(to.sigma, to.sigma_ring);
        if (Two) finish(to.theta, to.theta_ring);
    }

    template <class Points>
    TB_INLINE void row_any(const BoxSum& self, int row, const Points& points) {
        const int half = self.filter / 2;
        const std::size_t stride = std::size_t(self.cols) * lanes;
        const auto prepare = [&](T* line) {
            std::memset(line, 0, sizeof(T) * half * lanes);
            std::memset(line + (half + self.cols) * lanes, 0, sizeof(T) * half * lanes);
        };
        prepare(self.to.sigma_row);
        if (Two) prepare(self.to.theta_row);
        points(self.cols, [&](int col, const V& s, const V& t) TB_INLINED {
            V::store(self.to.sigma_row + (half + col) * lanes, s);
            if (Two) V::store(self.to.theta_row + (half + col) * lanes, t);
        });
        const auto along = [&](const T* line, T* ring) {
            T* const sums = ring + (row % self.filter) * stride;
            for (int col = 0; col < self.cols; ++col) {
                V sum = V::load(line + col * lanes);
                for (int shift = 1; shift < self.filter; ++shift)
                    sum = V::add(sum, V::load(line + (col + shift) * lanes));
                V::store(sums + col * lanes, sum);
            }
        };
        along(self.to.sigma_row, self.to.sigma_ring);
        if (Two) along(self.to.theta_row, self.to.theta_ring);
        if (row >= half) self.collect(row - half);
    }

    void collect(int row) const {
        const std::size_t stride = std::size_t(cols) * lanes;
        const auto down = [&](T* plane, const T* ring) {
            for (std::size_t at = 0; at < stride; at += lanes) {
                V sum = V::load(ring + at);
                for (int line = 1; line < filter; ++line) sum = V::add(sum, V::load(ring + line * stride + at));
                V::store(plane + row * stride + at, sum);
            }
        };
        down(to.sigma, to.sigma_ring);
        if (Two) down(to.theta, to.theta_ring);
    }

    void end_any() const {
        const int half = filter / 2;
        const std::size_t stride = std::size_t(cols) * lanes;
        for (int row = rows; row < rows + half; ++row) {
            std::memset(to.sigma_ring + (row % filter) * stride, 0, stride * sizeof(T));
            if (Two) std::memset(to.theta_ring + (row % filter) * stride, 0, stride * sizeof(T));
            if (row >= half) collect(row - half);
        }
    }

    template <class Points>
    TB_INLINE void row(const BoxSum& self, int at, const Points& points) {
        if (self.filter == 3)
            row3(self, at, points);
        else
            row_any(self, at, points);
    }
    void end() const {
        if (filter == 3)
            end3();
        else
            end_any();
    }
};

}  // namespace
