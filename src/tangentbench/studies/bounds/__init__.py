"""The nearly-linear study: a bound known before training beside what training does (thesis ch. 6, app. D)."""
