"""The suite around the studies: catalogue, workflow, provenance, prices."""
