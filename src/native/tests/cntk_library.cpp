// Kernels of small images from the built library, against covariances of all pairs of positions kept in one array.
#include <algorithm>

#include "library.hpp"
#include "recursion/layered_core.hpp"

namespace {

constexpr int pool_step = 2;

// The requests of recursion/cntk.cpp and recursion/layered.cpp.
struct Request {
    int channels, height, width, filter, pooled, tangent, train_first, symmetric, threads, taps;
    const int* tap_layers;
    const double* tap_sines;
};
struct LayeredRequest {
    int channels, height, width, tangent, global, steps, threads;
};
template <class T>
using Cntk = int(const Request*, const char*, const T*, int, const T*, int, double*, double*, double*);
template <class T>
using Layered = int(const LayeredRequest*, const LayerStep*, const char*, const T*, int, const T*, int, const int*,
                    long, double*);

// Numbers for all pairs of positions of two images.
struct Pairs {
    int height, width;
    std::vector<double> numbers;

    Pairs(int height, int width) : height(height), width(width), numbers(std::size_t(area()) * area()) {}
    int area() const { return height * width; }
    double& at(int p, int q) { return numbers[std::size_t(p) * area() + q]; }
    double at(int p, int q) const { return numbers[std::size_t(p) * area() + q]; }

    // visit(di, dj, p') for every position p' = p + (di, dj) inside the image and at most `reach` away.
    template <class Visit>
    void around(int p, int reach, const Visit& visit) const {
        for (int di = -reach; di <= reach; ++di)
            for (int dj = -reach; dj <= reach; ++dj) {
                const int i = p / width + di, j = p % width + dj;
                if (i >= 0 && j >= 0 && i < height && j < width) visit(di, dj, i * width + j);
            }
    }
    Pairs filtered(int filter) const {
        Pairs sums(height, width);
        for (int p = 0; p < area(); ++p)
            for (int q = 0; q < area(); ++q)
                around(p, filter / 2, [&](int di, int dj, int near_p) {
                    const int i = q / width + di, j = q % width + dj;
                    if (i >= 0 && j >= 0 && i < height && j < width) sums.at(p, q) += at(near_p, i * width + j);
                });
        return sums;
    }
    Pairs pooled(int side) const {
        Pairs sums(height / side, width / side);
        const auto place = [&](int p) {
            const int i = p / width / side, j = p % width / side;
            return i < sums.height && j < sums.width ? i * sums.width + j : -1;
        };
        for (int p = 0; p < area(); ++p)
            for (int q = 0; q < area(); ++q)
                if (place(p) >= 0 && place(q) >= 0) sums.at(place(p), place(q)) += at(p, q);
        return sums;
    }
    double sum(bool all) const {
        double total = 0;
        for (int p = 0; p < area(); ++p)
            for (int q = 0; q < area(); ++q)
                if (all || p == q) total += at(p, q);
        return total;
    }
};

template <class T>
Pairs products(const T* first, const T* second, int channels, int height, int width) {
    Pairs pairs(height, width);
    for (int p = 0; p < pairs.area(); ++p)
        for (int q = 0; q < pairs.area(); ++q)
            for (int channel = 0; channel < channels; ++channel)
                pairs.at(p, q) += double(first[channel * pairs.area() + p]) * second[channel * pairs.area() + q];
    return pairs;
}

// Sigma of two images and of each with itself, and Theta of the two.
struct State {
    Pairs sigma, own_first, own_second, theta;

    template <class T>
    State(const T* first, const T* second, int channels, int height, int width)
        : sigma(products(first, second, channels, height, width)),
          own_first(products(first, first, channels, height, width)),
          own_second(products(second, second, channels, height, width)), theta(height, width) {}

    void each_sigma(Pairs (Pairs::*map)(int) const, int argument) {
        for (Pairs* pairs : {&sigma, &own_first, &own_second}) *pairs = (pairs->*map)(argument);
    }
    // The dual activations k1 and k0 of the covariances `pairs`; variances on the diagonals of left and right.
    static void duals(const Pairs& pairs, const Pairs& left, const Pairs& right, Pairs& k1, Pairs& k0) {
        const double pi = std::acos(-1.0);
        for (int p = 0; p < pairs.area(); ++p)
            for (int q = 0; q < pairs.area(); ++q) {
                const double root = std::sqrt(left.at(p, p) * right.at(q, q));
                const double cosine = std::max(-1.0, std::min(1.0, pairs.at(p, q) / root)), theta = std::acos(cosine);
                k1.at(p, q) = root * (std::sin(theta) + (pi - theta) * cosine) / pi;
                k0.at(p, q) = 1 - theta / pi;
            }
    }
    void relu() {
        State before = *this;
        Pairs k0(sigma.height, sigma.width);
        duals(before.own_first, before.own_first, before.own_first, own_first, k0);
        duals(before.own_second, before.own_second, before.own_second, own_second, k0);
        duals(before.sigma, before.own_first, before.own_second, sigma, k0);
        for (std::size_t at = 0; at < theta.numbers.size(); ++at) theta.numbers[at] *= k0.numbers[at];
    }
    void add_sigma() {
        for (std::size_t at = 0; at < theta.numbers.size(); ++at) theta.numbers[at] += sigma.numbers[at];
    }
    void scale(double factor) {
        for (Pairs* pairs : {&sigma, &own_first, &own_second, &theta})
            for (double& number : pairs->numbers) number *= factor;
    }
};

// Sigma and Theta behind the last ReLU of `layers` convolutions, gathered as asked.
struct Kernels {
    double nngp, tangent;
};

template <class T>
Kernels naive_cntk(const Request& request, int layers, const T* first, const T* second) {
    State state(first, second, request.channels, request.height, request.width);
    const double share = 1.0 / (request.filter * request.filter);
    state.each_sigma(&Pairs::filtered, request.filter);
    state.scale(share);
    if (request.train_first) state.add_sigma();
    for (int layer = 0; layer < layers; ++layer) {
        state.relu();
        if (layer + 1 == layers) break;
        state.add_sigma();
        state.each_sigma(&Pairs::filtered, request.filter);
        state.theta = state.theta.filtered(request.filter);
        state.scale(share);
    }
    const double area = double(request.height) * request.width, mean = request.pooled ? 1 / (area * area) : 1;
    return {mean * state.sigma.sum(request.pooled != 0),
            request.tangent ? mean * state.theta.sum(request.pooled != 0) : 0};
}

// In float32 the angle of two patches that are almost parallel is known to some 1e-4.
template <class T>
void cntk_entries(const char* library, const char* set, const char* name) {
    auto* const cntk = function_of<Cntk<T>>(library, name);
    const double tolerance = sizeof(T) == sizeof(float) ? 3e-4 : 1e-11;
    const std::vector<std::vector<int>> depths = {{1}, {2}, {4}, {1, 2, 4}};
    for (const int filter : {1, 3, 5})
        for (const auto& taps : depths)
            for (int variant = 0; variant < 8; ++variant) {
                const std::vector<double> sines(taps.size(), 0.0);
                const bool symmetric = variant % 3 == 0;
                const Request request{2,
                                      4,
                                      3,
                                      filter,
                                      variant & 1,
                                      (variant & 2) != 0,
                                      (variant & 4) != 0,
                                      symmetric,
                                      2,
                                      int(taps.size()),
                                      taps.data(),
                                      sines.data()};
                const int size = 2 * 4 * 3, first_count = 5, second_count = symmetric ? 5 : 18;
                const auto first = Numbers(1).some<T>(size * first_count), other = Numbers(2).some<T>(size * 18);
                const auto& second = symmetric ? first : other;
                const int entries = first_count * second_count;
                std::vector<double> nngp(taps.size() * entries, -1), tangent(nngp), doubt(nngp);
                CHECK(cntk(&request, set, first.data(), first_count, second.data(), second_count, nngp.data(),
                           tangent.data(), doubt.data()) == 0);
                for (std::size_t tap = 0; tap < taps.size(); ++tap)
                    for (int i = 0; i < first_count; ++i)
                        for (int j = 0; j < second_count; ++j) {
                            // an image's angles with itself are exact in the library and acos(1 - rounding) here
                            if (symmetric && i == j) continue;
                            const Kernels naive =
                                naive_cntk(request, taps[tap], first.data() + i * size, second.data() + j * size);
                            const std::size_t at = tap * entries + i * second_count + j;
                            CHECK_NEAR(nngp[at], naive.nngp, tolerance);
                            CHECK_NEAR(tangent[at], naive.tangent, tolerance);
                        }
            }
    const int layer = 1;
    const double sine = 0;
    const Request request{1, 1, 1, 3, 0, 1, 1, 0, 1, 1, &layer, &sine};
    const T pixel = 1;
    double nngp = 0, tangent = 0, doubt = 0;
    CHECK(cntk(&request, "abacus", &pixel, 1, &pixel, 1, &nngp, &tangent, &doubt) == 2);
}

template <class T>
void layered_entries(const char* library, const char* set, const char* name) {
    auto* const layered = function_of<Layered<T>>(library, name);
    const double tolerance = sizeof(T) == sizeof(float) ? 3e-4 : 1e-11;
    const std::vector<std::vector<LayerStep>> networks = {
        {{convolution_step, 3, -3}, {relu_step, 0, 0}},
        {{convolution_step, 3, -3}, {relu_step, 0, 0}, {convolution_step, 1, 0}, {convolution_step, 5, -4}},
        {{convolution_step, 3, -3},
         {relu_step, 0, 0},
         {pool_step, 2, -2},
         {convolution_step, 3, -3},
         {relu_step, 0, 0}},
        {{pool_step, 2, -4},
         {convolution_step, 3, -3},
         {relu_step, 0, 0},
         {pool_step, 2, -2},
         {convolution_step, 3, 0},
         {relu_step, 0, 0}},
    };
    for (const auto& steps : networks)
        for (int variant = 0; variant < 4; ++variant) {
            const int channels = 2, height = 5, width = 4, size = channels * height * width, count = 21;
            const LayeredRequest request{channels, height, width, variant & 1, variant >> 1, int(steps.size()), 2};
            const auto first = Numbers(3).some<T>(size * 3), second = Numbers(4).some<T>(size * 7);
            std::vector<int> pairs;
            for (int pair = 0; pair < count; ++pair) pairs.push_back(pair % 3), pairs.push_back(pair / 3);
            std::vector<double> out(2 * count, -1);
            CHECK(layered(&request, steps.data(), set, first.data(), 3, second.data(), 7, pairs.data(), count,
                          out.data()) == 0);
            for (int pair = 0; pair < count; ++pair) {
                State state(first.data() + pairs[2 * pair] * size, second.data() + pairs[2 * pair + 1] * size, channels,
                            height, width);
                for (const LayerStep& step : steps) {
                    if (step.kind == relu_step) {
                        state.relu();
                        continue;
                    }
                    const auto map = step.kind == pool_step ? &Pairs::pooled : &Pairs::filtered;
                    if (step.kind == convolution_step) state.add_sigma();
                    state.each_sigma(map, step.size);
                    state.theta = (state.theta.*map)(step.size);
                    state.scale(std::ldexp(1.0, step.exponent));
                }
                CHECK_NEAR(out[2 * pair], state.sigma.sum(request.global != 0), tolerance);
                if (request.tangent) CHECK_NEAR(out[2 * pair + 1], state.theta.sum(request.global != 0), tolerance);
            }
        }
}

}  // namespace

void run_tests(const std::vector<const char*>& arguments) {
    const char *const set = arguments[0], *const library = arguments[1];
    cntk_entries<float>(library, set, "tangentbench_cntk_float32");
    cntk_entries<double>(library, set, "tangentbench_cntk_float64");
    layered_entries<float>(library, set, "tangentbench_layered_float32");
    layered_entries<double>(library, set, "tangentbench_layered_float64");
}
