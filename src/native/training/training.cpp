// The C interface: a block of training steps of many runs.
#include <cstring>
#include <new>

#include "program.hpp"

#define TANGENTBENCH_API extern "C" __attribute__((visibility("default")))

namespace {

const TrainingSet* const sets[] = {
#if defined(TANGENTBENCH_X86)
    &avx512_training, &avx2_training,
#endif
    &portable_training};

bool supported(const TrainingSet* set) {
#if defined(TANGENTBENCH_X86)
    __builtin_cpu_init();
    if (set == &avx512_training) return __builtin_cpu_supports("avx512f");
    if (set == &avx2_training) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return set == &portable_training;
}

enum Status { done = 0, out_of_memory = 1, unknown_instruction_set = 2 };

template <class Scalar, class Function>
int answer(const Program& program, const char* name, const Tensors<Scalar>& tensors, Function TrainingSet::* function) {
    for (const TrainingSet* set : sets) {
        if (!supported(set) || std::strcmp(name, set->name)) continue;
        try {
            (set->*function)(program, tensors);
        } catch (const std::bad_alloc&) {
            return out_of_memory;
        }
        return done;
    }
    return unknown_instruction_set;
}

}  // namespace

TANGENTBENCH_API int tangentbench_train_float32(const Program* program, const char* instruction_set,
                                                const Tensors<float>* tensors) {
    return answer(*program, instruction_set, *tensors, &TrainingSet::single);
}

TANGENTBENCH_API int tangentbench_train_float64(const Program* program, const char* instruction_set,
                                                const Tensors<double>* tensors) {
    return answer(*program, instruction_set, *tensors, &TrainingSet::precise);
}

// The instruction sets this machine can run, best first: the number-th name, or null.
TANGENTBENCH_API const char* tangentbench_training_set(int number) {
    for (const TrainingSet* set : sets)
        if (supported(set) && number-- == 0) return set->name;
    return nullptr;
}
