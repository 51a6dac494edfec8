"""The report: provenance, the state of the claims, the papers' numbers beside ours, and the gallery page."""
