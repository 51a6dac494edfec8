// Included once by every instruction set's translation unit, which says under which name it is known.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "network.hpp"
#include "simd/parallel.hpp"

namespace {

// Every run takes all its steps before a thread turns to the next one: its weights stay in the core's own cache.
template <class V, int R>
void take_steps(const Plan& plan, const Tensors<typename V::scalar>& tensors) {
    const int threads = std::max(1, std::min(plan.threads, plan.runs));
    std::vector<std::unique_ptr<Network<V, R>>> networks;
    for (int thread = 0; thread < threads; ++thread) networks.push_back(std::make_unique<Network<V, R>>(plan, tensors));
    in_parallel(plan.runs, threads, [&](long run, int thread) {
        Network<V, R>& network = *networks[thread];
        network.load(int(run));
        const int64_t* const order = plan.order + run * plan.count;
        for (int step = 0; step < plan.steps; ++step) {
            const int64_t start = int64_t(step) * plan.batch;
            const int count = int(std::min<int64_t>(plan.batch, plan.count - start));
            const Update<V> update(plan, plan.step_sizes[run], plan.steps_before + step + 1);
            const std::size_t place = std::size_t(step) * plan.runs + run;
            network.step(order + start, count, update, plan.losses[place], plan.right[place]);
        }
        network.save(int(run));
    });
}

template <class V>
void train(const Plan& plan, const Tensors<typename V::scalar>& tensors) {
    if (plan.rule == plain_descent)
        take_steps<V, plain_descent>(plan, tensors);
    else if (plan.rule == momentum_descent)
        take_steps<V, momentum_descent>(plan, tensors);
    else
        take_steps<V, adam>(plan, tensors);
}

constexpr TrainingSet training_set(const char* name) { return {name, train<Floats>, train<Doubles>}; }

}  // namespace
