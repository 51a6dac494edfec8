// The pieces of the kernel's recursion against plain loops, in vectors of one instruction set.
#include "check.hpp"
#include "recursion/box_sum.hpp"
#include "recursion/relu_dual.hpp"
#include "simd/aligned.hpp"
#include "simd/pipeline.hpp"

namespace {

template <class T>
constexpr double tolerance = sizeof(T) == sizeof(float) ? 4e-6 : 1e-13;

template <class V>
V vector_of(const std::vector<typename V::scalar>& numbers) {
    typename V::scalar lanewise[V::lanes] __attribute__((aligned(64)));
    for (int lane = 0; lane < V::lanes; ++lane) lanewise[lane] = numbers[lane];
    return V::load(lanewise);
}

template <class V>
std::vector<typename V::scalar> numbers_of(const V& vector) {
    typename V::scalar lanewise[V::lanes] __attribute__((aligned(64)));
    V::store(lanewise, vector);
    return {lanewise, lanewise + V::lanes};
}

template <class V, class Expected>
void each_lane(const V& vector, const Expected& expected) {
    const auto numbers = numbers_of(vector);
    for (int lane = 0; lane < V::lanes; ++lane)
        CHECK_NEAR(numbers[lane], expected(lane), tolerance<typename V::scalar>);
}

template <class V>
void operations() {
    using T = typename V::scalar;
    Numbers source(1);
    for (int round = 0; round < 4; ++round) {
        const auto a = source.some<T>(V::lanes), b = source.some<T>(V::lanes), c = source.some<T>(V::lanes);
        const V x = vector_of<V>(a), y = vector_of<V>(b), z = vector_of<V>(c);
        each_lane(V::all(T(0.25)), [&](int) { return 0.25; });
        each_lane(V::add(x, y), [&](int i) { return a[i] + b[i]; });
        each_lane(V::sub(x, y), [&](int i) { return a[i] - b[i]; });
        each_lane(V::mul(x, y), [&](int i) { return a[i] * b[i]; });
        each_lane(V::div(x, V::add(V::abs(y), V::all(1))), [&](int i) { return a[i] / (std::fabs(b[i]) + 1); });
        each_lane(V::fma(x, y, z), [&](int i) { return a[i] * b[i] + c[i]; });
        each_lane(V::fms(x, y, z), [&](int i) { return a[i] * b[i] - c[i]; });
        each_lane(V::fnma(x, y, z), [&](int i) { return c[i] - a[i] * b[i]; });
        each_lane(V::sqrt(V::abs(x)), [&](int i) { return std::sqrt(std::fabs(a[i])); });
        each_lane(V::abs(x), [&](int i) { return std::fabs(a[i]); });
        each_lane(V::max(x, y), [&](int i) { return std::fmax(a[i], b[i]); });
        each_lane(V::where_below(x, y, z), [&](int i) { return a[i] < b[i] ? c[i] : T(0); });
        each_lane(V::keep_above(x, y), [&](int i) { return a[i] > b[i] ? a[i] : T(0); });
        each_lane(V::select_negative(x, y, z), [&](int i) { return a[i] < 0 ? b[i] : c[i]; });
    }
}

// 2 E[relu'(a) relu'(b)] = 1 - theta / pi and 2 E[relu(a) relu(b)], theta the angle between a and b.
template <class V, bool Signed>
void duals() {
    using T = typename V::scalar;
    const double pi = std::acos(-1.0);
    Numbers source(2);
    for (double cosine = Signed ? -0.99 : 0; cosine < 0.995; cosine += 0.03) {
        std::vector<T> covariance(V::lanes), inverse(V::lanes), roots(V::lanes);
        for (int lane = 0; lane < V::lanes; ++lane) {
            const double root = (1.5 + source.next()) * (1.5 + source.next());
            covariance[lane] = T(cosine * root), inverse[lane] = T(1 / root), roots[lane] = T(root);
        }
        const V s = vector_of<V>(covariance);
        const Angle<V> found = angle(one_minus_cosine<Signed>(s, vector_of<V>(inverse)));
        const Dual<V> dual = relu_dual<Signed>(found, s, vector_of<V>(roots));
        const double theta = std::acos(cosine);
        each_lane(dual.k0, [&](int) { return 1 - theta / pi; });
        each_lane(dual.k1,
                  [&](int i) { return double(roots[i]) * (std::sin(theta) + (pi - theta) * std::cos(theta)) / pi; });
    }
    // Equal images: rounding of the cosine must not open an angle.
    const V one = V::all(1), almost = V::all(T(1) - T(AngleOverSine<T>::snap) / 2);
    for (const V& s : {one, almost}) {
        const Dual<V> dual = relu_dual<Signed>(angle(one_minus_cosine<Signed>(s, one)), s, one);
        for (const T k0 : numbers_of(dual.k0)) CHECK(k0 == 1);
    }
}

template <class V, bool Two>
void box_sum(int height, int width, int rows, int cols, int filter) {
    using T = typename V::scalar;
    Network network{};
    network.height = height, network.width = width, network.filter = filter;
    const Aligned<T> work(Buffers<V>::size(network));
    const Buffers<V> buffers(network, work.get());
    const auto sigma = Numbers(3).some<T>(std::size_t(rows) * cols * V::lanes);
    const auto theta = Numbers(4).some<T>(std::size_t(rows) * cols * V::lanes);
    const auto vector_at = [&](const std::vector<T>& from, int row, int col) {
        const T* const start = from.data() + (std::size_t(row) * cols + col) * V::lanes;
        return vector_of<V>({start, start + V::lanes});
    };
    const BoxSum<V, Two> sum{buffers, rows, cols, filter};
    sum.begin();
    for (int row = 0; row < rows; ++row)
        BoxSum<V, Two>::row(sum, row, [&](int count, const auto& take) TB_INLINED {
            for (int col = 0; col < count; ++col) take(col, vector_at(sigma, row, col), vector_at(theta, row, col));
        });
    sum.end();
    const auto agrees = [&](const T* found, const std::vector<T>& from) {
        for (int row = 0; row < rows; ++row)
            for (int col = 0; col < cols; ++col)
                for (int lane = 0; lane < V::lanes; ++lane) {
                    double expected = 0;
                    for (int i = row - filter / 2; i <= row + filter / 2; ++i)
                        for (int j = col - filter / 2; j <= col + filter / 2; ++j)
                            if (i >= 0 && j >= 0 && i < rows && j < cols)
                                expected += from[(std::size_t(i) * cols + j) * V::lanes + lane];
                    CHECK_NEAR(found[(std::size_t(row) * cols + col) * V::lanes + lane], expected, tolerance<T>);
                }
    };
    agrees(buffers.sigma, sigma);
    if (Two) agrees(buffers.theta, theta);
}

template <class V>
void box_sums() {
    for (const int filter : {1, 3, 5, 7})
        for (const auto& [rows, cols] : {std::pair{1, 1}, {1, 5}, {4, 1}, {2, 2}, {5, 6}, {8, 3}}) {
            box_sum<V, false>(8, 6, rows, cols, filter);
            box_sum<V, true>(8, 6, rows, cols, filter);
            box_sum<V, true>(rows, cols, rows, cols, filter);
        }
}

void pipelines() {
    for (int cols = 1; cols < 7; ++cols) {
        std::vector<int> seen;
        pipelined(
            cols, [](int col) { return 10 * col; }, [](int started) { return started + 1; },
            [&](int col, int halfway) {
                CHECK(halfway == 10 * col + 1);
                seen.push_back(col);
            });
        CHECK(int(seen.size()) == cols);
        for (int col = 0; col < cols; ++col) CHECK(seen[col] == col);
    }
}

template <class V>
void all() {
    operations<V>();
    duals<V, true>();
    duals<V, false>();
    box_sums<V>();
}

}  // namespace

void run_tests(const std::vector<const char*>&) {
    pipelines();
    all<Floats>();
    all<Doubles>();
}
