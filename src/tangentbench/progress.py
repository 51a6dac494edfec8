"""Progress bars: tqdm's where it is installed, silence elsewhere; the kernels need numpy and scipy alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm
else:
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:

        class tqdm:
            """The few methods of tqdm's bar that are used here, showing nothing."""

            def __init__(self, iterable: Any = None, **_: Any) -> None:
                self.iterable = iterable

            def __iter__(self) -> Any:
                return iter(self.iterable)

            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def update(self, n: float = 1) -> None:
                pass

            def set_postfix(self, *_: Any, **__: Any) -> None:
                pass

            def close(self) -> None:
                pass


__all__ = ["tqdm"]
