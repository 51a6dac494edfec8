"""Pictures of the nearly-linear study."""
