// Blocks of training steps from the built library, against plain loops over examples, units and weights.
#include <algorithm>
#include <cstring>

#include "library.hpp"
#include "training/program.hpp"

namespace {

template <class T>
using Train = int(const Program*, const char*, const Tensors<T>*);

constexpr int examples = 11, classes = 3;
const int widths[] = {6, 8, 8, classes};
constexpr int layers = 3;

// A dense layer [in, out] with its bias, and the moments of both.
struct Dense {
    int in, out;
    std::vector<double> numbers, first, second;  // weights [in, out], then biases [out]

    Dense(int in, int out) : in(in), out(out), numbers(in * out + out), first(numbers.size()), second(numbers.size()) {}
    std::vector<double> forward(const std::vector<double>& below) const {
        std::vector<double> above(numbers.end() - out, numbers.end());
        for (int k = 0; k < in; ++k)
            for (int n = 0; n < out; ++n) above[n] += numbers[k * out + n] * below[k];
        return above;
    }
    std::vector<double> backward(const std::vector<double>& above) const {
        std::vector<double> below(in);
        for (int k = 0; k < in; ++k)
            for (int n = 0; n < out; ++n) below[k] += numbers[k * out + n] * above[n];
        return below;
    }
    void update(const Program& program, double rate, int64_t step, const std::vector<double>& gradients) {
        if (program.rule == adam)
            rate *=
                std::sqrt(1 - std::pow(program.beta_2, double(step))) / (1 - std::pow(program.beta_1, double(step)));
        for (std::size_t at = 0; at < numbers.size(); ++at) {
            const double gradient = gradients[at] + program.weight_decay * numbers[at];
            if (program.rule == plain_descent) numbers[at] -= rate * gradient;
            if (program.rule == momentum_descent) {
                first[at] = program.momentum * first[at] + gradient;
                numbers[at] -= rate * first[at];
            }
            if (program.rule == adam) {
                first[at] = program.beta_1 * first[at] + (1 - program.beta_1) * gradient;
                second[at] = program.beta_2 * second[at] + (1 - program.beta_2) * gradient * gradient;
                numbers[at] -= rate * first[at] / (std::sqrt(second[at]) + program.epsilon);
            }
        }
    }
};

// One run: value layers, and feature layers where the gates are their own network.
struct Net {
    std::vector<Dense> values, features;

    // The mean loss before the step and how many were right.
    std::pair<double, int> step(const Program& program, const std::vector<double>& inputs,
                                const std::vector<double>& targets, const int64_t* chosen, int count, double rate,
                                int64_t number) {
        std::vector<std::vector<double>> gradients;
        for (const Dense& layer : values) gradients.emplace_back(layer.numbers.size());
        double loss = 0;
        int right = 0;
        for (int b = 0; b < count; ++b) {
            const double* const x = inputs.data() + chosen[b] * widths[0];
            std::vector<std::vector<double>> signals{{x, x + widths[0]}}, gates;
            std::vector<double> feature = signals[0];
            for (int layer = 0; layer + 1 < layers; ++layer) {
                auto q = values[layer].forward(signals.back());
                auto z = features.empty() ? q : features[layer].forward(feature);
                gates.emplace_back();
                for (std::size_t n = 0; n < q.size(); ++n) {
                    gates.back().push_back(z[n] > 0);
                    q[n] *= gates.back()[n];
                    z[n] = std::max(0.0, z[n]);
                }
                feature = z;
                signals.push_back(q);
            }
            auto errors = values.back().forward(signals.back());
            const int best = int(std::max_element(errors.begin(), errors.end()) - errors.begin());
            if (program.loss == cross_entropy) {
                const int label = int(program.labels[chosen[b]]);
                double sum = 0;
                for (const double output : errors) sum += std::exp(output);
                loss += std::log(sum) - errors[label];
                for (double& error : errors) error = std::exp(error) / sum;
                errors[label] -= 1;
                right += best == label;
            } else {
                const double* const target = targets.data() + chosen[b] * classes;
                for (int n = 0; n < classes; ++n) {
                    errors[n] -= target[n];
                    loss += 0.5 * errors[n] * errors[n];
                }
                right += best == int(std::max_element(target, target + classes) - target);
            }
            for (int layer = layers - 1; layer >= 0; --layer) {
                const Dense& dense = values[layer];
                for (int n = 0; n < dense.out; ++n) {
                    for (int k = 0; k < dense.in; ++k)
                        gradients[layer][k * dense.out + n] += signals[layer][k] * errors[n] / count;
                    gradients[layer][dense.in * dense.out + n] += errors[n] / count;
                }
                if (layer == 0) break;
                errors = dense.backward(errors);
                for (std::size_t n = 0; n < errors.size(); ++n) errors[n] *= gates[layer - 1][n];
            }
        }
        for (int layer = 0; layer < layers; ++layer)
            values[layer].update(program, rate * program.factor, number, gradients[layer]);
        return {loss / count, right};
    }
};

template <class T>
struct Block {
    static constexpr int runs = 2, batch = 4, steps = 3;
    Program program{};
    std::vector<Net> nets;
    std::vector<std::vector<T>> parameters, first, second;
    std::vector<T> inputs, targets;
    std::vector<T> nonzero;
    std::vector<int64_t> order, labels, row_starts{0}, right = std::vector<int64_t>(runs * steps);
    std::vector<int32_t> columns;
    std::vector<uint8_t> occupied;
    std::vector<double> step_sizes{0.1, 0.05}, losses = std::vector<double>(runs * steps);

    Block(int gates, int loss, int rule, bool sparse, double decay) {
        Numbers source(unsigned(10 * rule + gates));
        program.runs = runs, program.threads = 2, program.layers = layers, program.padding = 1, program.biases = 1;
        program.gates = gates, program.loss = loss, program.rule = rule, program.batch = batch, program.steps = steps;
        program.count = 10, program.beta = 4, program.height = 2, program.momentum = 0.9, program.weight_decay = decay;
        program.beta_1 = 0.8, program.beta_2 = 0.95, program.epsilon = 1e-3, program.factor = 0.5;
        inputs = source.some<T>(examples * widths[0]), targets = source.some<T>(examples * classes);
        occupied.assign(widths[0], 0);
        for (int b = 0; b < examples; ++b) {
            labels.push_back(b % classes);
            for (int k = 0; k < widths[0]; ++k) {
                T& number = inputs[b * widths[0] + k];
                if (sparse && (number < 0 || k == 2)) number = 0;
                if (number == 0) continue;
                nonzero.push_back(number), columns.push_back(k), occupied[k] = 1;
            }
            row_starts.push_back(int64_t(nonzero.size()));
        }
        for (int run = 0; run < runs; ++run) {
            Net net;
            for (int layer = 0; layer < layers; ++layer) net.values.emplace_back(widths[layer], widths[layer + 1]);
            for (int layer = 0; gates != own_gates && layer + 1 < layers; ++layer)
                net.features.emplace_back(widths[layer], widths[layer + 1]);
            for (auto* stack : {&net.values, &net.features})
                for (Dense& dense : *stack) {
                    for (double& number : dense.numbers) number = double(T(source.next()));
                    const auto middle = dense.numbers.end() - dense.out;
                    parameters.emplace_back(dense.numbers.begin(), middle);
                    parameters.emplace_back(middle, dense.numbers.end());
                }
            nets.push_back(net);
            for (int place = 0; place < program.count; ++place) order.push_back((place * (run + 2) + run) % examples);
        }
        for (const auto& tensor : parameters) first.emplace_back(tensor.size()), second.emplace_back(tensor.size());
        program.widths = widths, program.step_sizes = step_sizes.data(), program.order = order.data();
        program.losses = losses.data(), program.right = right.data();
        if (loss == cross_entropy)
            program.labels = labels.data();
        else
            program.targets = classes;
        if (sparse) {
            program.largest_row = widths[0];
            program.row_starts = row_starts.data(), program.columns = columns.data(),
            program.occupied = occupied.data();
        }
    }

    void train(Train<T>* function, const char* set) {
        const auto pointers = [](std::vector<std::vector<T>>& tensors) {
            std::vector<T*> all;
            for (auto& tensor : tensors) all.push_back(tensor.data());
            return all;
        };
        const auto weights = pointers(parameters), moments = pointers(first), squares = pointers(second);
        const Tensors<T> tensors{program.largest_row ? nonzero.data() : inputs.data(),
                                 program.targets ? targets.data() : nullptr, weights.data(), moments.data(),
                                 squares.data()};
        CHECK(function(&program, set, &tensors) == 0);
    }

    void agrees_with_loops(double tolerance) {
        const std::vector<double> x(inputs.begin(), inputs.end()), y(targets.begin(), targets.end());
        for (int run = 0; run < runs; ++run) {
            for (int step = 0; step < steps; ++step) {
                const int start = step * batch, count = std::min(batch, int(program.count) - start);
                const auto [loss, correct] = nets[run].step(program, x, y, order.data() + run * program.count + start,
                                                            count, step_sizes[run], step + 1);
                CHECK_NEAR(losses[step * runs + run], loss, tolerance);
                CHECK(right[step * runs + run] == correct);
            }
            for (int layer = 0; layer < layers; ++layer) {
                const Dense& dense = nets[run].values[layer];
                const std::size_t tensor = run * parameters.size() / runs + 2 * layer;
                for (std::size_t at = 0; at < dense.numbers.size(); ++at) {
                    const std::size_t weights = parameters[tensor].size();
                    const T found = at < weights ? parameters[tensor][at] : parameters[tensor + 1][at - weights];
                    CHECK_NEAR(found, dense.numbers[at], tolerance);
                }
            }
        }
    }
};

template <class T>
void blocks(const char* library, const char* set, const char* name) {
    auto* const train = function_of<Train<T>>(library, name);
    const double tolerance = sizeof(T) == sizeof(float) ? 2e-4 : 1e-11;
    for (const int rule : {plain_descent, momentum_descent, adam})
        for (const int loss : {cross_entropy, squared})
            for (const bool sparse : {false, true})
                for (const double decay : {0.0, 0.02}) {
                    for (const int gates : {own_gates, frozen_hard}) {
                        Block<T> block(gates, loss, rule, sparse, decay);
                        block.train(train, set);
                        block.agrees_with_loops(tolerance);
                    }
                    // Gates that are soft, frozen or trained: every instruction set does as the portable code.
                    for (const int gates : {frozen_soft, trained_soft}) {
                        Block<T> block(gates, loss, rule, sparse, decay), portable(gates, loss, rule, sparse, decay);
                        block.train(train, set);
                        portable.train(train, "portable");
                        for (std::size_t tensor = 0; tensor < block.parameters.size(); ++tensor)
                            for (std::size_t at = 0; at < block.parameters[tensor].size(); ++at)
                                CHECK_NEAR(block.parameters[tensor][at], portable.parameters[tensor][at], tolerance);
                    }
                }
    Block<T> block(own_gates, squared, plain_descent, false, 0);
    const Tensors<T> nothing{};
    CHECK(train(&block.program, "abacus", &nothing) == 2);
}

}  // namespace

void run_tests(const std::vector<const char*>& arguments) {
    blocks<float>(arguments[1], arguments[0], "tangentbench_train_float32");
    blocks<double>(arguments[1], arguments[0], "tangentbench_train_float64");
}
