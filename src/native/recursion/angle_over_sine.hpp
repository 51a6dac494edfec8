// Written by fit_angle_over_sine.py.
#pragma once

namespace {

template <class Scalar>
struct AngleOverSine;

template <>
struct AngleOverSine<float> {
    static constexpr int degree = 8;  // error of k0: at most 4.8e-8
    static constexpr float coefficients[] = {
        1.0f,
        3.333281459e-1f,
        1.33506678e-1f,
        5.519441518e-2f,
        3.573887852e-2f,
        -1.791038197e-2f,
        5.209564003e-2f,
        -3.733191766e-2f,
        1.617471927e-2f,
    };
    // A u below this is the rounding of u = 0.
    static constexpr float snap = 0x1p-21f;
    // A variance below this counts as zero.
    static constexpr float smallest = 1e-30f;
};

template <>
struct AngleOverSine<double> {
    static constexpr int degree = 18;  // error of k0: at most 7.0e-16
    static constexpr double coefficients[] = {
        1.0,
        3.3333333333289125035e-1,
        1.3333333339313726037e-1,
        5.7142854174105782552e-2,
        2.5396901787619471259e-2,
        1.1542823753902480368e-2,
        5.3401843882636466353e-3,
        2.3993616316629471017e-3,
        1.6199269159117593694e-3,
        -1.1690773522428585507e-3,
        5.2345973776215470457e-3,
        -1.0758736838634525249e-2,
        1.8183028064934017677e-2,
        -2.2772603644979671004e-2,
        2.1364433568597957663e-2,
        -1.4443131442679475954e-2,
        6.7059881742025430095e-3,
        -1.9161162850425131417e-3,
        2.5922579562278520999e-4,
    };
    // A u below this is the rounding of u = 0.
    static constexpr double snap = 0x1p-50;
    // A variance below this counts as zero.
    static constexpr double smallest = 1e-250;
};

}  // namespace
