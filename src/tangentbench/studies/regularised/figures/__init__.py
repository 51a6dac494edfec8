"""Pictures of the study of L2-regularised features."""
