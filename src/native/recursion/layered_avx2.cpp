#define TANGENTBENCH_AVX2
#include "layered.hpp"

extern const LayeredSet layered_avx2 = layered_set("avx2");
