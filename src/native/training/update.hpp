// How a gradient changes its weights, as torch's SGD and Keras' Adam do it.
#pragma once

#include <cmath>

#include "program.hpp"
#include "simd/simd.hpp"

namespace {

// The constants of one step of one run.
template <class V>
struct Update {
    using T = typename V::scalar;
    V rate, decay, momentum, beta_1, beta_2, rest_1, rest_2, epsilon;
    bool decays;

    Update(const Program& program, double step_size, int64_t step)
        : decay(V::all(T(program.weight_decay))), momentum(V::all(T(program.momentum))),
          beta_1(V::all(T(program.beta_1))), beta_2(V::all(T(program.beta_2))), rest_1(V::all(T(1 - program.beta_1))),
          rest_2(V::all(T(1 - program.beta_2))), epsilon(V::all(T(program.epsilon))),
          decays(program.weight_decay != 0) {
        double factor = step_size * program.factor;
        if (program.rule == adam)
            factor *=
                std::sqrt(1 - std::pow(program.beta_2, double(step))) / (1 - std::pow(program.beta_1, double(step)));
        rate = V::all(T(factor));
    }

    // One vector of weights with its moments.
    template <int R>
    TB_INLINE void apply(const Update& self, T* weight, T* first, T* second, V gradient) {
        const V old = V::load(weight);
        if (self.decays) gradient = V::fma(self.decay, old, gradient);
        if constexpr (R == plain_descent) {
            V::store(weight, V::fnma(self.rate, gradient, old));
        } else if constexpr (R == momentum_descent) {
            const V moved = V::fma(self.momentum, V::load(first), gradient);
            V::store(first, moved);
            V::store(weight, V::fnma(self.rate, moved, old));
        } else {
            const V mean = V::fma(self.beta_1, V::load(first), V::mul(self.rest_1, gradient));
            const V square = V::fma(self.beta_2, V::load(second), V::mul(self.rest_2, V::mul(gradient, gradient)));
            V::store(first, mean);
            V::store(second, square);
            V::store(weight, V::fnma(self.rate, V::div(mean, V::add(V::sqrt(square), self.epsilon)), old));
        }
    }
};

}  // namespace
