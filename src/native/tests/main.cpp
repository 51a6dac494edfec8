// program INSTRUCTION_SET [ARGUMENT...]: 0 if every check passed, 1 if one failed, 77 where the processor cannot run
// it. Compiled without the instruction set, so that the question can be asked anywhere.
#include <cstring>

#include "check.hpp"

namespace {

int checks = 0, failures = 0;

bool supported(const char* name) {
#if defined(TANGENTBENCH_X86)
    __builtin_cpu_init();
    if (!std::strcmp(name, "avx512")) return __builtin_cpu_supports("avx512f");
    if (!std::strcmp(name, "avx2")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return !std::strcmp(name, "portable");
}

}  // namespace

void count_check(bool passed, const char* file, int line, const char* what) {
    ++checks;
    if (passed) return;
    if (++failures <= 20) std::printf("%s:%d: %s\n", file, line, what);
}

int main(int count, char** arguments) {
    if (count < 2) {
        std::printf("usage: %s portable|avx2|avx512 [ARGUMENT...]\n", arguments[0]);
        return 2;
    }
    if (!supported(arguments[1])) {
        std::printf("skipped: this processor has no %s\n", arguments[1]);
        return 77;
    }
    run_tests({arguments + 1, arguments + count});
    std::printf("%d checks, %d failures\n", checks, failures);
    return failures || !checks ? 1 : 0;
}
