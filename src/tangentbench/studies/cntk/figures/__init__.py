"""Pictures of the CNTK study."""
