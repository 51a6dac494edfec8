"""Pictures of the neural-path-kernel study."""
