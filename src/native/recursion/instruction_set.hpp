// Included once by every instruction set's translation unit, which says under which name it is known.
#pragma once

#include "core.hpp"
#include "plane.hpp"
#include "simd/peak.hpp"
#include "variances.hpp"

namespace {

template <class V>
constexpr Core<typename V::scalar> core_of() {
    return {V::lanes, work_size<V>, variance_tables<V>, through_all_layers<V>};
}

constexpr InstructionSet instruction_set(const char* name) {
    return {name, core_of<Floats>(), core_of<Doubles>(), fma_gflops<Floats>};
}

}  // namespace
