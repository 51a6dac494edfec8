"""neural-tangents 0.6.5 on a current jax.

neural-tangents was written against names that jax moved or dropped from 0.6 on, and it imports an `experimental`
module that needs tensorflow for nothing used here. Importing this module puts the names back where neural-tangents
looks for them, gives it an empty `experimental`, and imports it: use `from ... import nt, stax` and nothing else.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import jax
import jax._src.core as core_source
import jax._src.interpreters.ad as ad_source
import jax.core
import jax.extend
import jax.interpreters.ad
from jax._src import linear_util as linear_util_source
from jax._src import source_info_util
from jax._src import util as util_source

CORE_NAMES = (
    "Jaxpr",
    "JaxprEqn",
    "Literal",
    "ShapedArray",
    "Var",
    "AbstractValue",
    "Primitive",
    "get_aval",
    "ClosedJaxpr",
)
PLACEHOLDERS = ("Value", "DShapedArray")
AD_NAMES = (
    "UndefinedPrimal",
    "Zero",
    "add_jaxvals_p",
    "zeros_like_p",
    "primitive_jvps",
    "is_undefined_primal",
    "get_primitive_transpose",
    "linearize",
    "add_tangents",
    "reducing_transposes",
)


def put_back(module: types.ModuleType, name: str, value: Any) -> None:
    """Set a name that is missing; jax's modules answer for removed names with an error from __getattr__."""
    if name not in vars(module) and value is not None:
        setattr(module, name, value)


def restore_names() -> None:
    for name in CORE_NAMES:
        put_back(jax.core, name, getattr(core_source, name, None))
    for name in PLACEHOLDERS:
        put_back(jax.core, name, getattr(core_source, name, type(name, (), {})))
    put_back(jax.core, "eval_context", jax.ensure_compile_time_eval)
    util = sys.modules.setdefault("jax.util", types.ModuleType("jax.util"))
    put_back(jax, "util", util)
    put_back(util, "safe_map", util_source.safe_map)
    put_back(util, "safe_zip", util_source.safe_zip)
    put_back(jax.extend, "linear_util", linear_util_source)
    sys.modules.setdefault("jax.extend.linear_util", linear_util_source)
    for name in AD_NAMES:
        value = getattr(ad_source, name, None) or getattr(core_source, name, None)
        put_back(jax.interpreters.ad, name, value if value is not None else {} if name.endswith("s") else object())
    put_back(jax.interpreters.ad, "source_info_util", source_info_util)
    put_back(jax.interpreters.ad, "config", types.SimpleNamespace(jax_enable_checks=False))


restore_names()
sys.modules.setdefault("neural_tangents.experimental", types.ModuleType("neural_tangents.experimental"))

import neural_tangents as nt  # noqa: E402 - only importable once the names are back
from neural_tangents import stax  # noqa: E402

__all__ = ["nt", "stax"]
