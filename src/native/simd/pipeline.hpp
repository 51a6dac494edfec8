// A loop over columns in three steps, run for three columns at a time.
//
// One pixel is a chain of some sixty cycles of dependent instructions, longer than a processor looks ahead; the steps
// of neighbouring columns are independent and fill its pipes.
#pragma once

#include "simd.hpp"

namespace {

// finish(col, middle(start(col))) for every column, in order.
template <class Start, class Middle, class Finish>
TB_INLINE void pipelined(int cols, const Start& start, const Middle& middle, const Finish& finish) {
    auto halfway = middle(start(0));
    if (cols > 1) {
        auto started = start(1);
        for (int col = 0; col < cols - 2; ++col) {
            finish(col, halfway);
            halfway = middle(started);
            started = start(col + 2);
        }
        finish(cols - 2, halfway);
        halfway = middle(started);
    }
    finish(cols - 1, halfway);
}

}  // namespace
