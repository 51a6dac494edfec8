// The two arc-cosine kernels of ReLU from one square root and one short polynomial.
//
// With lambda = cos(theta), u = 1 - lambda and s = sin(theta) = sqrt(u (2 - u)), equations (17) and (18) times
// c_sigma = 2 read
//     k0 = 1 - theta / pi                            = 1 - s/pi F(u)
//     k1 = (lambda (pi - theta) + sin(theta)) / pi   = lambda - s/pi (lambda F(u) - 1)
// where F(u) = theta / sin(theta) is smooth on [0, 1]; its next singularity is u = 2. F(0) = 1 holds exactly, so that
// near lambda = 1, where deep kernels of similar images live, no error of F adds up from layer to layer; and an entry
// with lambda = 1 itself passes through a layer without any rounding.
#pragma once

#include "angle_over_sine.hpp"
#include "simd/simd.hpp"

namespace {

// Pairs of terms first, then the pairs in powers of u^2: half the latency of Horner's rule.
template <class V>
TB_INLINE V angle_over_sine(const V& u, const V& square) {
    using Fit = AngleOverSine<typename V::scalar>;
    const auto pair = [&](int power) TB_INLINED {
        return V::fma(V::all(Fit::coefficients[power + 1]), u, V::all(Fit::coefficients[power]));
    };
    V value = Fit::degree % 2 ? pair(Fit::degree - 1) : V::all(Fit::coefficients[Fit::degree]);
#pragma GCC unroll 16
    for (int power = Fit::degree % 2 ? Fit::degree - 3 : Fit::degree - 2; power >= 0; power -= 2)
        value = V::fma(value, square, pair(power));
    return value;
}

// Three steps, each a short chain of dependent instructions, so that a loop can run them for three pixels at a time.
// Signed: only the first layer sees negative covariances, all later ones are sums of E[relu relu] >= 0.
template <bool Signed, class V>
TB_INLINE V one_minus_cosine(const V& covariance, const V& inverse) {
    const V u = V::fnma(Signed ? V::abs(covariance) : covariance, inverse, V::all(1));
    // Rounding must not turn lambda = 1 into a small u > 0, whose root would be large: identical images stay exact.
    return V::keep_above(u, V::all(AngleOverSine<typename V::scalar>::snap));
}

template <class V>
struct Angle {
    V sine;    // divided by pi
    V factor;  // F(u)
};

template <class V>
TB_INLINE Angle<V> angle(const V& u) {
    const V square = V::mul(u, u);
    const V sine = V::sqrt(V::sub(V::add(u, u), square));
    return {V::mul(sine, V::all(typename V::scalar(0.31830988618379067154))), angle_over_sine(u, square)};
}

template <class V>
struct Dual {
    V k0;  // 2 E[relu'(a) relu'(b)]
    V k1;  // 2 E[relu(a) relu(b)], in the scale of the covariance
};

// roots: sqrt(v1) sqrt(v2). What is not wanted is not computed, the compiler drops it.
template <bool Signed, class V>
TB_INLINE Dual<V> relu_dual(const Angle<V>& angle, const V& covariance, const V& roots) {
    Dual<V> dual;
    dual.k0 = V::fnma(angle.sine, angle.factor, V::all(1));
    if (Signed) dual.k0 = V::select_negative(covariance, V::mul(angle.sine, angle.factor), dual.k0);
    const V bend = V::fms(Signed ? V::abs(covariance) : covariance, angle.factor, roots);
    dual.k1 = V::fnma(angle.sine, bend, Signed ? V::max(covariance, V::all(0)) : covariance);
    return dual;
}

}  // namespace
