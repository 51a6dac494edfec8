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
void take_steps(const Program& program, const Tensors<typename V::scalar>& tensors) {
    const int threads = std::max(1, std::min(program.threads, program.runs));
    std::vector<std::unique_ptr<Network<V, R>>> networks;
    for (int thread = 0; thread < threads; ++thread)
        networks.push_back(std::make_unique<Network<V, R>>(program, tensors));
    in_parallel(program.runs, threads, [&](long run, int thread) {
        Network<V, R>& network = *networks[thread];
        network.load(int(run));
        const int64_t* const order = program.order + run * program.count;
        for (int step = 0; step < program.steps; ++step) {
            const int64_t start = int64_t(step) * program.batch;
            const int count = int(std::min<int64_t>(program.batch, program.count - start));
            const Update<V> update(program, program.step_sizes[run], program.steps_before + step + 1);
            const std::size_t place = std::size_t(step) * program.runs + run;
            network.step(order + start, count, update, program.losses[place], program.right[place]);
        }
        network.save(int(run));
    });
}

template <class V>
void train(const Program& program, const Tensors<typename V::scalar>& tensors) {
    if (program.rule == plain_descent)
        take_steps<V, plain_descent>(program, tensors);
    else if (program.rule == momentum_descent)
        take_steps<V, momentum_descent>(program, tensors);
    else
        take_steps<V, adam>(program, tensors);
}

constexpr TrainingSet training_set(const char* name) { return {name, train<Floats>, train<Doubles>}; }

}  // namespace
