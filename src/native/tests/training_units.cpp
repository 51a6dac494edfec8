// The pieces of a training step against plain loops, in vectors of one instruction set.
#include <algorithm>
#include <limits>

#include "check.hpp"
#include "simd/aligned.hpp"
#include "training/exponential.hpp"
#include "training/sparse.hpp"
#include "training/transpose.hpp"

namespace {

template <class T>
constexpr double tolerance = sizeof(T) == sizeof(float) ? 4e-6 : 1e-13;

template <class T>
Aligned<T> aligned_copy(const std::vector<T>& numbers) {
    Aligned<T> copy(numbers.size());
    std::copy(numbers.begin(), numbers.end(), copy.get());
    return copy;
}

template <class T>
void exponentials() {
    const double end = sizeof(T) == sizeof(float) ? 86 : 707;
    for (double x = -end; x <= end; x += end / 1009) {
        const double expected = std::exp(double(T(x)));
        CHECK_NEAR(exponential(T(x)) / expected, 1, tolerance<T>);
    }
    CHECK(exponential(T(0)) == 1);
    CHECK(exponential(-std::numeric_limits<T>::infinity()) < T(1e-37));
    CHECK(exponential(std::numeric_limits<T>::infinity()) > T(1e37));
    CHECK(std::isnan(exponential(std::numeric_limits<T>::quiet_NaN())));
}

template <class V>
void products() {
    using T = typename V::scalar;
    for (int rows = 1; rows < 11; ++rows)
        for (int columns = 1; columns < 5; ++columns)
            for (const int depth : {0, 1, 3, 8})
                for (const bool by_rows : {false, true}) {
                    const auto by = Numbers(1).some<T>(std::size_t(rows) * std::max(depth, 1));
                    const int step = columns * V::lanes;
                    const auto in = aligned_copy(Numbers(2).some<T>(std::size_t(std::max(depth, 1)) * step));
                    const Coefficients<T> coefficients{by.data(), by_rows ? depth : 1, by_rows ? 1 : rows};
                    std::vector<int> finished(std::size_t(rows) * columns);
                    product<V>(rows, columns, depth, coefficients, in.get(), step,
                               [&](int row, int column, const V& sum) {
                                   T found[V::lanes] __attribute__((aligned(64)));
                                   V::store(found, sum);
                                   ++finished[row * columns + column];
                                   for (int lane = 0; lane < V::lanes; ++lane) {
                                       double expected = 0;
                                       for (int k = 0; k < depth; ++k)
                                           expected += double(by[by_rows ? row * depth + k : k * rows + row]) *
                                                       in.get()[k * step + column * V::lanes + lane];
                                       CHECK_NEAR(found[lane], expected, tolerance<T>);
                                   }
                               });
                    for (const int times : finished) CHECK(times == 1);
                }
}

template <class V>
void transposes() {
    using T = typename V::scalar;
    const int lanes = V::lanes;
    for (int height = 1; height <= 2 * lanes + 1; ++height)
        for (const int width : {1, lanes - 1, lanes, lanes + 3}) {
            const int from_step = (width + lanes - 1) / lanes * lanes, to_step = (height + lanes - 1) / lanes * lanes;
            const auto from = aligned_copy(Numbers(3).some<T>(std::size_t(height) * from_step));
            const auto to = aligned_copy(std::vector<T>(std::size_t(width) * to_step, T(7)));
            transpose<V>(from.get(), from_step, height, width, to.get(), to_step);
            for (int j = 0; j < width; ++j)
                for (int i = 0; i < to_step; ++i)
                    CHECK(to.get()[j * to_step + i] == (i < height ? from.get()[i * from_step + j] : T(0)));
        }
}

Program some_program(int rule, double decay) {
    Program program{};
    program.rule = rule;
    program.factor = 0.5;
    program.momentum = 0.9;
    program.weight_decay = decay;
    program.beta_1 = 0.8, program.beta_2 = 0.95, program.epsilon = 1e-3;
    return program;
}

// One weight, one step, as the papers write them.
void naive_update(const Program& program, double rate, int step, double gradient, double& weight, double& first,
                  double& second) {
    rate *= program.factor;
    gradient += program.weight_decay * weight;
    if (program.rule == plain_descent) {
        weight -= rate * gradient;
    } else if (program.rule == momentum_descent) {
        first = program.momentum * first + gradient;
        weight -= rate * first;
    } else {
        first = program.beta_1 * first + (1 - program.beta_1) * gradient;
        second = program.beta_2 * second + (1 - program.beta_2) * gradient * gradient;
        rate *= std::sqrt(1 - std::pow(program.beta_2, step)) / (1 - std::pow(program.beta_1, step));
        weight -= rate * first / (std::sqrt(second) + program.epsilon);
    }
}

template <class V, int R>
void updates(double decay) {
    using T = typename V::scalar;
    const Program program = some_program(R, decay);
    const auto start = Numbers(4).some<T>(V::lanes);
    const auto weight = aligned_copy(start), first = aligned_copy(std::vector<T>(V::lanes)),
               second = aligned_copy(std::vector<T>(V::lanes));
    std::vector<double> weights(start.begin(), start.end()), means(V::lanes), squares(V::lanes);
    Numbers source(5);
    for (int step = 1; step < 6; ++step) {
        const auto numbers = source.some<T>(V::lanes);
        const auto gradient = aligned_copy(numbers);
        const Update<V> update(program, 0.1, step);
        Update<V>::template apply<R>(update, weight.get(), first.get(), second.get(), V::load(gradient.get()));
        for (int lane = 0; lane < V::lanes; ++lane) {
            naive_update(program, 0.1, step, numbers[lane], weights[lane], means[lane], squares[lane]);
            CHECK_NEAR(weight.get()[lane], weights[lane], tolerance<T>);
        }
    }
}

// A layer on inputs with zeros, dense and sparse.
template <class V, int R>
void sparse_layer(int in, int out, double decay) {
    using T = typename V::scalar;
    constexpr int moments = R == plain_descent ? 0 : R == momentum_descent ? 1 : 2;
    const int examples = 6, count = 4, batch = (count + V::lanes - 1) / V::lanes * V::lanes;
    const int64_t chosen[] = {5, 0, 3, 3};
    std::vector<T> dense(std::size_t(examples) * in), numbers;
    std::vector<int64_t> starts{0};
    std::vector<int32_t> columns;
    std::vector<uint8_t> occupied(in, 0);
    Numbers source(6);
    for (int b = 0; b < examples; ++b) {
        for (int k = 0; k < in; ++k) {
            const double number = source.next();
            if (number < 0.2 || k == in - 1) continue;
            dense[b * in + k] = T(number);
            numbers.push_back(T(number)), columns.push_back(k), occupied[k] = 1;
        }
        starts.push_back(int64_t(numbers.size()));
    }
    Program program = some_program(R, decay);
    const int widths[] = {in, out};
    program.widths = widths, program.batch = count, program.largest_row = in;
    program.row_starts = starts.data(), program.columns = columns.data(), program.occupied = occupied.data();
    SparseBatch<T> sparse(program, numbers.data());
    sparse.gather(chosen, count);

    Arena<T> arenas[2];
    const auto layer_in = [&](Arena<T>& arena) {
        Layer<V>(in, out, moments, arena);
        arena.reserve();
        return Layer<V>(in, out, moments, arena);
    };
    Layer<V> one = layer_in(arenas[0]), other = layer_in(arenas[1]);
    const auto weight = Numbers(7).some<T>(std::size_t(in) * out), bias = Numbers(8).some<T>(out);
    one.load(weight.data(), bias.data()), other.load(weight.data(), bias.data());

    const auto rows = aligned_copy(std::vector<T>(std::size_t(batch) * one.stride));
    sparse_forward(one, sparse, rows.get(), one.stride);
    const auto below = aligned_copy(std::vector<T>(std::size_t(in) * batch));
    const auto above = aligned_copy(std::vector<T>(std::size_t(out) * batch));
    for (int b = 0; b < count; ++b)
        for (int k = 0; k < in; ++k) below.get()[k * batch + b] = dense[chosen[b] * in + k];
    other.forward(below.get(), above.get(), batch);
    for (int b = 0; b < count; ++b)
        for (int n = 0; n < out; ++n) {
            double expected = bias[n];
            for (int k = 0; k < in; ++k) expected += double(weight[k * out + n]) * dense[chosen[b] * in + k];
            CHECK_NEAR(rows.get()[b * one.stride + n], expected, tolerance<T>);
            CHECK_NEAR(above.get()[n * batch + b], expected, tolerance<T>);
        }

    // Padding of the errors is zero, as the transposed signals leave it.
    std::vector<T> error_rows(std::size_t(batch) * one.stride);
    for (int b = 0; b < count; ++b)
        for (int n = 0; n < out; ++n) error_rows[b * one.stride + n] = T(source.next());
    const auto errors = aligned_copy(error_rows);
    const Update<V> update(program, 0.1, 1);
    sparse_learn<R>(one, update, sparse, errors.get(), one.stride);
    other.template learn<R>(update, below.get(), batch, errors.get(), other.stride, count);
    for (int k = 0; k < in; ++k)
        for (int n = 0; n < out; ++n) {
            double expected = weight[k * out + n], gradient = 0, first = 0, second = 0;
            for (int b = 0; b < count; ++b)
                gradient += double(dense[chosen[b] * in + k]) * error_rows[b * one.stride + n];
            naive_update(program, 0.1, 1, gradient, expected, first, second);
            CHECK_NEAR(one.weight[k * one.stride + n], expected, tolerance<T>);
            CHECK_NEAR(other.weight[k * other.stride + n], expected, tolerance<T>);
        }
}

template <class V, int R>
void rule() {
    for (const double decay : {0.0, 0.01}) {
        updates<V, R>(decay);
        sparse_layer<V, R>(9, 5, decay);
        sparse_layer<V, R>(4, 3 * V::lanes + 1, decay);
    }
}

template <class V>
void all() {
    exponentials<typename V::scalar>();
    products<V>();
    transposes<V>();
    rule<V, plain_descent>();
    rule<V, momentum_descent>();
    rule<V, adam>();
}

}  // namespace

void run_tests(const std::vector<const char*>&) {
    all<Floats>();
    all<Doubles>();
}
