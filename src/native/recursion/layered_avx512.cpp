#define TANGENTBENCH_AVX512
#include "layered.hpp"

extern const LayeredSet layered_avx512 = layered_set("avx512");
