// Where two images overlap, and the scale a plane is kept in.
#pragma once

#include "core.hpp"
#include "simd/simd.hpp"

namespace {

// Where the two images overlap at offset (di, dj): second position = first position + offset.
struct Overlap {
    int rows, cols, first_row, first_col, second_row, second_col;

    Overlap(const Network& network, int di, int dj)
        : rows(network.height - (di < 0 ? -di : di)), cols(network.width - (dj < 0 ? -dj : dj)),
          first_row(di < 0 ? -di : 0), first_col(dj < 0 ? -dj : 0), second_row(di > 0 ? di : 0),
          second_col(dj > 0 ? dj : 0) {}
};

template <class V>
void scale_plane(const Overlap& overlap, typename V::scalar* plane, typename V::scalar factor) {
    const std::size_t size = std::size_t(overlap.rows) * overlap.cols * V::lanes;
    for (std::size_t at = 0; at < size; at += V::lanes)
        V::store(plane + at, V::mul(V::load(plane + at), V::all(factor)));
}

TB_INLINE bool rescales_after(const Network& network, int layer) { return (layer + 1) % network.rescale_every == 0; }

}  // namespace
