// The roofline: how many floating point operations a second one core can do at best.
#pragma once

#include <time.h>

#include "simd.hpp"

namespace {

// A loop of independent fused multiply-adds, for the roofline of the benchmarks.
TB_INLINE double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

template <class V>
double fma_gflops(double seconds) {
    constexpr int chains = 12, repeats = 4096;
    V values[chains];
    for (int k = 0; k < chains; ++k) values[k] = V::all(typename V::scalar(0.5 + k));
    const V factor = V::all(typename V::scalar(0.999)), term = V::all(typename V::scalar(0.001));
    double best = 0;
    for (const double start = now(); now() - start < seconds;) {
        const double before = now();
        for (int repeat = 0; repeat < repeats; ++repeat)
#pragma GCC unroll 12
            for (int k = 0; k < chains; ++k) values[k] = V::fma(values[k], factor, term);
        const double rate = 2e-9 * chains * repeats * V::lanes / (now() - before);
        if (rate > best) best = rate;
    }
    V sum = values[0];
    for (int k = 1; k < chains; ++k) sum = V::add(sum, values[k]);
    typename V::scalar lanewise[V::lanes] __attribute__((aligned(64)));
    V::store(lanewise, sum);
    return lanewise[0] == typename V::scalar(12345) ? 0 : best;
}

}  // namespace
