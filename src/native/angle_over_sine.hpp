// Written by fit_angle_over_sine.py.
#pragma once

namespace {

template <class Scalar>
struct AngleOverSine;

template <>
struct AngleOverSine<float> {
    static constexpr int degree = 7;  // error of k0: 1.2e-7
    static constexpr float coefficients[] = {
        3.183084646e-1f,
        1.061690413e-1f,
        4.156311538e-2f,
        2.338206505e-2f,
        -7.849632561e-3f,
        3.040890675e-2f,
        -2.207886982e-2f,
        1.009678913e-2f,
    };
    static constexpr float snap = 0x1p-21f;  // u below this is the rounding of u = 0
    static constexpr float smallest = 1e-30f;  // a variance below this counts as zero
};

template <>
struct AngleOverSine<double> {
    static constexpr int degree = 17;  // error of k0: 1.8e-15
    static constexpr double coefficients[] = {
        3.1830988618374350941e-1,
        1.0610329540517592271e-1,
        4.244131745131326596e-2,
        1.8189158514281385908e-2,
        8.0836632919858397455e-3,
        3.6791098668229045953e-3,
        1.6606777087393957133e-3,
        9.8661501092373200442e-4,
        -4.1832485764675824176e-4,
        2.5671608148651271032e-3,
        -5.3655156728632642722e-3,
        9.4328749305642795202e-3,
        -1.2161958159211692318e-2,
        1.1724588501182888085e-2,
        -8.1165350200499898872e-3,
        3.8517095526285981088e-3,
        -1.1225847889295477189e-3,
        1.5486126647258722462e-4,
    };
    static constexpr double snap = 0x1p-50;  // u below this is the rounding of u = 0
    static constexpr double smallest = 1e-250;  // a variance below this counts as zero
};

}  // namespace
