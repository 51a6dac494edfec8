#define TANGENTBENCH_AVX2
#include "instruction_set.hpp"

extern const InstructionSet avx2_set = instruction_set("avx2");
