"""Pictures of the conditioning study."""
