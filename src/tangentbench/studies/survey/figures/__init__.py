"""Pictures of the survey of the cost of kernel regression."""
