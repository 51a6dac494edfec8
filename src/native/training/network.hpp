// One run of a gated or ReLU network: forward, loss, backward and update of a batch, in memory of its own.
//
// Signals lie transposed, [units, batch], so that the forward and the backward product both broadcast weights as they
// are stored and no weight is ever transposed. Only a layer's errors are needed in rows, [batch, units], for the
// gradient, whose tiles are used for the update while they are in registers.
#pragma once

#include <cmath>
#include <vector>

#include "exponential.hpp"
#include "simd/list.hpp"
#include "sparse.hpp"
#include "transpose.hpp"

namespace {

template <class V, int R>
class Network {
    using T = typename V::scalar;
    static constexpr int moments = R == plain_descent ? 0 : R == momentum_descent ? 1 : 2;
    const Program& program;
    const Tensors<T>& tensors;
    const int batch;  // padded to whole vectors
    int count = 0;    // examples of the current batch
    Arena<T> arena;
    SparseBatch<T> sparse;
    std::vector<Layer<V>> values, features;
    // Transposed signals of each hidden layer. Networks with gates of their own use `activations` alone.
    List<T*> activations, pre_activations, gates, feature_signals;
    T *inputs = nullptr, *outputs = nullptr, *errors = nullptr, *errors_below = nullptr, *feature_errors = nullptr,
      *feature_errors_below = nullptr, *rows = nullptr;
    std::ptrdiff_t row = 0;
    const int64_t* chosen = nullptr;

    bool gated() const { return program.gates != own_gates; }
    bool learns_features() const { return program.gates == trained_soft; }
    bool is_sparse() const { return program.largest_row > 0; }
    int hidden() const { return program.layers - 1; }
    int feature_width(int layer) const {
        return layer == 0 ? program.widths[0] : program.widths[layer] / program.padding;
    }

    void lay_out() {
        values.clear(), features.clear();
        activations.clear(), pre_activations.clear(), gates.clear(), feature_signals.clear();
        int widest = 0, widest_row = 0;
        for (int layer = 0; layer < program.layers; ++layer) {
            values.emplace_back(program.widths[layer], program.widths[layer + 1], moments, arena);
            widest = std::max(widest, program.widths[layer + 1]);
            widest_row = std::max(widest_row, int(values.back().stride));
        }
        for (int layer = 0; layer < hidden(); ++layer) {
            const std::size_t size = std::size_t(program.widths[layer + 1]) * batch;
            activations.push_back(arena.take(size));
            if (!gated()) continue;
            pre_activations.push_back(arena.take(size));
            features.emplace_back(feature_width(layer), feature_width(layer + 1), learns_features() ? moments : 0,
                                  arena);
            gates.push_back(arena.take(size / program.padding));
            feature_signals.push_back(arena.take(size / program.padding));
        }
        row = widest_row;
        if (!is_sparse()) inputs = arena.take(std::size_t(program.widths[0]) * batch);
        outputs = arena.take(std::size_t(program.widths[program.layers]) * batch);
        for (T** piece : {&errors, &errors_below, &feature_errors, &feature_errors_below})
            *piece = arena.take(std::size_t(widest) * batch);
        rows = arena.take(std::size_t(batch) * row);
    }

    template <class Visit>
    void each_layer(const Visit& visit) {
        std::size_t tensor = 0;
        const std::size_t step = program.biases ? 2 : 1;
        for (auto* layers : {&values, &features})
            for (Layer<V>& layer : *layers) {
                visit(layer, layers == &values || learns_features(), tensor);
                tensor += step;
            }
    }

public:
    Network(const Program& program, const Tensors<T>& tensors)
        : program(program), tensors(tensors), batch((program.batch + V::lanes - 1) / V::lanes * V::lanes),
          sparse(program, tensors.inputs) {
        lay_out();
        arena.reserve();
        lay_out();
    }

    void load(int run) {
        const std::size_t base = std::size_t(run) * tensor_count();
        each_layer([&](Layer<V>& layer, bool learns, std::size_t at) {
            const auto from = [&](T* const* of, std::size_t offset) {
                return offset == 0 || program.biases ? of[base + at + offset] : nullptr;
            };
            layer.load(from(tensors.parameters, 0), from(tensors.parameters, 1));
            if (learns && moments > 0)
                layer.load(layer.first, layer.bias_first, from(tensors.first, 0), from(tensors.first, 1));
            if (learns && moments > 1)
                layer.load(layer.second, layer.bias_second, from(tensors.second, 0), from(tensors.second, 1));
        });
    }

    void save(int run) {
        const std::size_t base = std::size_t(run) * tensor_count();
        each_layer([&](Layer<V>& layer, bool learns, std::size_t at) {
            if (!learns) return;
            const auto to = [&](T* const* of, std::size_t offset) {
                return offset == 0 || program.biases ? of[base + at + offset] : nullptr;
            };
            layer.save(layer.weight, layer.bias, to(tensors.parameters, 0), to(tensors.parameters, 1));
            if (moments > 0) layer.save(layer.first, layer.bias_first, to(tensors.first, 0), to(tensors.first, 1));
            if (moments > 1) layer.save(layer.second, layer.bias_second, to(tensors.second, 0), to(tensors.second, 1));
        });
    }

    std::size_t tensor_count() const { return (values.size() + features.size()) * (program.biases ? 2 : 1); }

    // One step on the examples `examples`; the mean loss before it and how many are right.
    void step(const int64_t* examples, int examples_count, const Update<V>& update, double& loss, int64_t& right) {
        chosen = examples, count = examples_count;
        gather();
        forward();
        loss = output_errors(right);
        backward(update);
    }

private:
    void gather() {
        if (is_sparse()) return sparse.gather(chosen, count);
        const int size = program.widths[0];
        for (int b = 0; b < batch; ++b) {
            const T* const from = b < count ? tensors.inputs + chosen[b] * std::size_t(size) : nullptr;
            for (int k = 0; k < size; ++k) inputs[std::size_t(k) * batch + b] = from ? from[k] : T(0);
        }
    }

    void forward_layer(const Layer<V>& layer, int number, const T* below, T* above) {
        if (number > 0 || !is_sparse()) return layer.forward(below, above, batch);
        sparse_forward(layer, sparse, rows, row);
        transpose<V>(rows, row, batch, layer.out, above, batch);
    }

    void forward() {
        for (int layer = 0; layer < hidden(); ++layer) {
            const T* const below = layer == 0 ? inputs : activations[layer - 1];
            const std::size_t size = std::size_t(program.widths[layer + 1]) * batch;
            T* const z = activations[layer];
            if (!gated()) {
                forward_layer(values[layer], layer, below, z);
                rectify(z, size);
                continue;
            }
            forward_gates(layer);
            T* const q = pre_activations[layer];
            forward_layer(values[layer], layer, below, q);
            const T* const gate = gates[layer];
            const std::size_t part = size / program.padding;
            for (std::size_t copy = 0; copy < size; copy += part)
                for (std::size_t at = 0; at < part; ++at) z[copy + at] = q[copy + at] * gate[at];
        }
        forward_layer(values[hidden()], hidden(), hidden() ? activations[hidden() - 1] : inputs, outputs);
    }

    void forward_gates(int layer) {
        const std::size_t size = std::size_t(feature_width(layer + 1)) * batch;
        T* const signal = feature_signals[layer];
        T* const gate = gates[layer];
        forward_layer(features[layer], layer, layer == 0 ? inputs : feature_signals[layer - 1], signal);
        if (program.gates == frozen_hard) {
            for (std::size_t at = 0; at < size; at += V::lanes)
                V::store(gate + at, where_positive(signal + at, V::all(1)));
        } else {
            const T beta = T(program.beta), height = T(program.height);
            for (std::size_t at = 0; at < size; ++at) gate[at] = height / (T(1) + exponential(-beta * signal[at]));
        }
        rectify(signal, size);
    }

    // In vectors, because a branch that goes either way half of the time costs more than the products. The order of
    // the two operands lets a NaN through.
    static void rectify(T* signal, std::size_t size) {
        for (std::size_t at = 0; at < size; at += V::lanes)
            V::store(signal + at, V::max(V::all(0), V::load(signal + at)));
    }

    // What lies where `signal` is positive, zero elsewhere.
    TB_INLINE V where_positive(const T* signal, const V& what) {
        return V::select_negative(V::sub(V::all(0), V::load(signal)), what, V::all(0));
    }

    // Fills `errors`, the gradient of the mean loss by the outputs, zero beyond the examples.
    double output_errors(int64_t& right) {
        const int classes = program.widths[program.layers];
        const T share = T(1) / T(count);
        double loss = 0;
        right = 0;
        const auto at = [&](int n, int b) { return std::size_t(n) * batch + b; };
        if (program.loss == cross_entropy) {
            T* const largest = rows;
            T* const sums = rows + batch;
            for (int b = 0; b < batch; ++b) largest[b] = outputs[b], sums[b] = 0;
            for (int n = 1; n < classes; ++n)
                for (int b = 0; b < batch; ++b)
                    largest[b] = outputs[at(n, b)] > largest[b] ? outputs[at(n, b)] : largest[b];
            for (int n = 0; n < classes; ++n)
                for (int b = 0; b < batch; ++b) {
                    errors[at(n, b)] = exponential(outputs[at(n, b)] - largest[b]);
                    sums[b] += errors[at(n, b)];
                }
            for (int b = 0; b < count; ++b) {
                const T own = outputs[at(int(program.labels[chosen[b]]), b)];
                loss += double(std::log(sums[b]) + (largest[b] - own));
                sums[b] = share / sums[b];
            }
            for (int b = count; b < batch; ++b) sums[b] = 0;
            for (int n = 0; n < classes; ++n)
                for (int b = 0; b < batch; ++b) errors[at(n, b)] *= sums[b];
            for (int b = 0; b < count; ++b) errors[at(int(program.labels[chosen[b]]), b)] -= share;
        } else {
            for (int n = 0; n < classes; ++n)
                for (int b = 0; b < batch; ++b) {
                    const T miss = b < count ? outputs[at(n, b)] - target(n, b) : T(0);
                    loss += 0.5 * double(miss) * double(miss);
                    errors[at(n, b)] = miss * share;
                }
        }
        for (int b = 0; b < count; ++b) right += is_right(b);
        return loss / count;
    }

    T target(int n, int b) const { return tensors.targets[chosen[b] * std::size_t(program.targets) + n]; }

    bool is_right(int b) const {
        const int classes = program.widths[program.layers];
        const auto sign = [](T x) { return (x > 0) - (x < 0); };
        if (program.targets == 1) return sign(outputs[b]) == sign(target(0, b));
        int best = 0, wanted = program.targets ? 0 : int(program.labels[chosen[b]]);
        for (int n = 1; n < classes; ++n) {
            if (outputs[std::size_t(n) * batch + b] > outputs[std::size_t(best) * batch + b]) best = n;
            if (program.targets && target(n, b) > target(wanted, b)) wanted = n;
        }
        return best == wanted;
    }

    void learn(Layer<V>& layer, int number, const Update<V>& update, const T* below, const T* above) {
        transpose<V>(above, batch, layer.out, batch, rows, row);
        if (program.biases) layer.template learn_bias<R>(update, rows, row, count);
        if (number == 0 && is_sparse()) return sparse_learn<R>(layer, update, sparse, rows, row);
        layer.template learn<R>(update, below, batch, rows, row, count);
    }

    void backward(const Update<V>& update) {
        bool errors_of_features = false;
        for (int layer = hidden(); layer >= 0; --layer) {
            const T* const below = layer == 0 ? inputs : activations[layer - 1];
            if (layer > 0) values[layer].backward(errors, errors_below, batch);
            learn(values[layer], layer, update, below, errors);
            // `errors` belongs to this layer's outputs; for its inputs, hidden layer `layer`, gates come in between
            if (learns_features() && layer < hidden()) {
                const T* const signal = layer == 0 ? inputs : feature_signals[layer - 1];
                if (layer > 0) features[layer].backward(feature_errors, feature_errors_below, batch);
                learn(features[layer], layer, update, signal, feature_errors);
                errors_of_features = true;
            }
            if (layer > 0) through_gates(layer - 1, errors_of_features);
        }
    }

    // From the gradient by the activations of a hidden layer, `errors_below`, to that by its pre-activations, `errors`.
    void through_gates(int layer, bool errors_of_features) {
        const std::size_t size = std::size_t(program.widths[layer + 1]) * batch, part = size / program.padding;
        if (!gated()) {
            const T* const z = activations[layer];
            for (std::size_t at = 0; at < size; at += V::lanes)
                V::store(errors + at, where_positive(z + at, V::load(errors_below + at)));
            return;
        }
        const T* const gate = gates[layer];
        for (std::size_t copy = 0; copy < size; copy += part)
            for (std::size_t at = 0; at < part; ++at) errors[copy + at] = errors_below[copy + at] * gate[at];
        if (!learns_features()) return;
        const T* const q = pre_activations[layer];
        const T* const signal = feature_signals[layer];
        const V beta = V::all(T(program.beta)), inverse_height = V::all(T(1 / program.height));
        for (std::size_t at = 0; at < part; at += V::lanes) {
            V by_gate = V::all(0);
            for (std::size_t copy = 0; copy < size; copy += part)
                by_gate = V::fma(V::load(errors_below + copy + at), V::load(q + copy + at), by_gate);
            const V g = V::load(gate + at);
            const V slope = V::mul(V::mul(beta, g), V::fnma(g, inverse_height, V::all(1)));
            const V of_signal =
                errors_of_features ? where_positive(signal + at, V::load(feature_errors_below + at)) : V::all(0);
            V::store(feature_errors + at, V::fma(by_gate, slope, of_signal));
        }
    }
};

}  // namespace
