// exp(x) without a call, so that loops over it become vectors. NaN stays NaN.
#pragma once

#include <cstdint>
#include <cstring>

#include "simd/simd.hpp"

namespace {

// x = n ln 2 + r with |r| <= ln(2) / 2: adding `magic` rounds x / ln 2 to the whole number n and leaves n in the low
// bits; 2^n is put together from them, and the rest is a Taylor sum.
template <class T, class Bits>
TB_INLINE T power_of_two(T rounded, int bias, int mantissa) {
    Bits bits;
    std::memcpy(&bits, &rounded, sizeof bits);
    bits = (bits + Bits(bias)) << mantissa;
    T power;
    std::memcpy(&power, &bits, sizeof power);
    return power;
}

TB_INLINE float exponential(float x) {
    constexpr float magic = 12582912.0f;
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const float rounded = x * 1.44269504088896341f + magic, n = rounded - magic;
    const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float sum = 1.0f / 5040;
    sum = sum * r + 1.0f / 720;
    sum = sum * r + 1.0f / 120;
    sum = sum * r + 1.0f / 24;
    sum = sum * r + 1.0f / 6;
    sum = sum * r + 0.5f;
    sum = sum * r + 1.0f;
    sum = sum * r + 1.0f;
    return sum * power_of_two<float, uint32_t>(rounded, 127, 23);
}

TB_INLINE double exponential(double x) {
    constexpr double magic = 6755399441055744.0;
    x = x < -708.0 ? -708.0 : x;
    x = x > 709.0 ? 709.0 : x;
    const double rounded = x * 1.4426950408889634074 + magic, n = rounded - magic;
    const double r = (x - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6;
    constexpr double inverse_factorials[] = {
        1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
        1.0 / 720,        1.0 / 120,       1.0 / 24,       1.0 / 6,       0.5,          1.0,         1.0};
    double sum = inverse_factorials[0];
#pragma GCC unroll 16
    for (int term = 1; term < 14; ++term) sum = sum * r + inverse_factorials[term];
    return sum * power_of_two<double, uint64_t>(rounded, 1023, 52);
}

}  // namespace
