"""What an artifact costs before it runs: an amount of work, priced by measured unit costs.

A work model is a light function of the artifact's settings (no torch here), one module a study:

    @work("npk_fig6")
    def memorisation(*, samples, widths, depths, runs, steps, **_):
        flops = ...
        return Work({"dense_gflop": flops / 1e9}, memory_gib=..., disk_gib=...)

Unit costs are core-seconds a unit, measured by benchmarks/unit_costs.py into config/unit_costs.yaml.
"""

from tangentbench.costs.model import Estimate, Work, estimate, work

__all__ = ["Estimate", "Work", "estimate", "work"]
