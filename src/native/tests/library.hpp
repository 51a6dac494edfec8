// A library of ours, opened the way the package opens it.
#pragma once

#include <dlfcn.h>

#include "check.hpp"

template <class Function>
Function* function_of(const char* library, const char* name) {
    void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void* const function = opened ? dlsym(opened, name) : nullptr;
    if (!function) {
        std::printf("%s: %s\n", library, dlerror());
        std::exit(1);
    }
    return reinterpret_cast<Function*>(function);
}
