"""`python -m tangentbench.suite.generate`: bring the generated files up to date and name those that changed."""

from __future__ import annotations

from tangentbench.paths import Paths, find_root
from tangentbench.suite.generate import write_all


def main() -> None:
    paths = Paths(find_root())
    for file in write_all(paths):
        print(f"wrote {file.relative_to(paths.root)}" if file.exists() else f"removed {file.relative_to(paths.root)}")


if __name__ == "__main__":
    main()
