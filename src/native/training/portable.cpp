#include "training_set.hpp"

extern const TrainingSet portable_training = training_set("portable");
