"""Work models are read at every start of the pipeline: none may load a library that takes seconds."""

import subprocess
import sys

from tangentbench.paths import Paths, find_root
from tangentbench.suite.catalogue import load_catalogue

HEAVY = ("torch", "jax", "matplotlib", "seaborn", "sklearn")


def test_work_models_load_nothing_heavy():
    studies = sorted({artifact.study for artifact in load_catalogue(Paths(find_root()))})
    assert len(studies) > 5
    imports = "; ".join(f"import tangentbench.studies.{study}.costs" for study in studies)
    script = f"import sys; {imports}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
