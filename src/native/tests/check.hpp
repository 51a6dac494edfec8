// Just enough to test with: checks that count, numbers that repeat, and what a test file has to offer.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// Run by main once the processor is known to have the instruction set. arguments: its name, then the test's own.
void run_tests(const std::vector<const char*>& arguments);

void count_check(bool passed, const char* file, int line, const char* what);

#define CHECK(condition) count_check(condition, __FILE__, __LINE__, #condition)

// |value - expected| <= tolerance max(1, |expected|), and NaN is never near.
#define CHECK_NEAR(value, expected, tolerance)                                                                \
    do {                                                                                                      \
        const double value_ = double(value), expected_ = double(expected);                                    \
        char text_[160];                                                                                      \
        std::snprintf(text_, sizeof text_, #value " is %.17g, not %.17g", value_, expected_);                 \
        const bool near_ = std::fabs(value_ - expected_) <= (tolerance) * std::fmax(1, std::fabs(expected_)); \
        count_check(near_, __FILE__, __LINE__, text_);                                                        \
    } while (false)

// The same numbers in [-1, 1) in every run.
class Numbers {
    unsigned long long state;

public:
    explicit Numbers(unsigned seed) : state(seed * 2654435761ull + 1) {}
    double next() {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        return double(state >> 11) / double(1ull << 52) - 1;
    }
    template <class T>
    std::vector<T> some(std::size_t count) {
        std::vector<T> numbers(count);
        for (T& number : numbers) number = T(next());
        return numbers;
    }
};
