"""Work of the conditioning study's artifacts."""

from __future__ import annotations

from tangentbench.costs import Work, work


@work("conditioning_table_mu")
@work("conditioning_fig2")
@work("conditioning_fig6")
def closed_forms(**_: object) -> Work:
    """Closed forms and integrals over one Gaussian: a second at any scale, which the job's start outweighs."""
    return Work()
