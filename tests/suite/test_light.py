"""Settings, plans and work models are read at every start of the pipeline: none may load a heavy library."""

import subprocess
import sys

from tangentbench.paths import Paths, find_root
from tangentbench.suite.catalogue import load_catalogue

HEAVY = ("torch", "jax", "matplotlib", "seaborn", "sklearn")


def test_what_lies_beside_a_catalogue_loads_nothing_heavy() -> None:
    studies = sorted({artifact.study for artifact in load_catalogue(Paths(find_root()))})
    assert len(studies) > 5
    folder = find_root() / "src/tangentbench/studies"
    light = [file for study in studies for file in sorted((folder / study).glob("*.py"))]
    assert {"settings.py", "costs.py", "plans.py"} <= {file.name for file in light}
    imports = "; ".join(f"import tangentbench.studies.{file.parent.name}.{file.stem}" for file in light)
    script = f"import sys; {imports}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
