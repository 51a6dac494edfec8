#define TANGENTBENCH_AVX512
#include "instruction_set.hpp"

extern const InstructionSet avx512_set = instruction_set("avx512");
