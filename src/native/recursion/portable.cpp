#include "instruction_set.hpp"

extern const InstructionSet portable_set = instruction_set("portable");
