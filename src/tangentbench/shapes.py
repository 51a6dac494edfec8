"""Arrays with their shapes, for the signatures of public functions: `Images` says more than `ndarray`.

The shape stands beside the type as a plain string, so nothing is imported or checked for it at run time; functions
check the shapes of what users hand them themselves.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Images: TypeAlias = Annotated[NDArray[Any], "n height width channels"]
Vectors: TypeAlias = Annotated[NDArray[Any], "n d"]
KernelMatrix: TypeAlias = Annotated[NDArray[Any], "n1 n2"]
"""The kernel of n1 inputs with n2 others, or of n1 inputs with themselves."""
InputsLike: TypeAlias = Annotated[ArrayLike, "n ..."]
SquareLike: TypeAlias = Annotated[ArrayLike, "n n"]
RowsLike: TypeAlias = Annotated[ArrayLike, "t n"]
LabelsLike: TypeAlias = Annotated[ArrayLike, "n | n m"]
"""Class numbers (n,), or real targets (n,) or (n, m)."""
CodedLabels: TypeAlias = Annotated[NDArray[np.float64], "n classes"]
