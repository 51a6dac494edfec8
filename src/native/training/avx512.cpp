#define TANGENTBENCH_AVX512
#include "training_set.hpp"

extern const TrainingSet avx512_training = training_set("avx512");
