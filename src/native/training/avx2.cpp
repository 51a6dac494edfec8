#define TANGENTBENCH_AVX2
#include "training_set.hpp"

extern const TrainingSet avx2_training = training_set("avx2");
