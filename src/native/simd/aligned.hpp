// Memory that starts where vectors want it.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>

template <class Scalar>
struct Aligned {
    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };
    std::unique_ptr<Scalar[], Free> memory;

    explicit Aligned(std::size_t count) {
        const std::size_t bytes = (count * sizeof(Scalar) + 63) / 64 * 64 + 64;
        memory.reset(static_cast<Scalar*>(std::aligned_alloc(64, bytes)));
        if (!memory) throw std::bad_alloc();
    }
    Scalar* get() const { return memory.get(); }
};
