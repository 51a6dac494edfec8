#include "layered.hpp"

extern const LayeredSet layered_portable = layered_set("portable");
