"""The names that Numba calls private and this package needs: here alone, so that a release that moves them shows.

Machine code is kept and loaded by the methods of Numba's own cache, which has no public way to name its files; and two
functions of a few instructions are written in LLVM's language, for which Numba has its own helpers.
"""

from numba.core import cgutils
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.cpython.unsafe.numbers import trailing_zeros

__all__ = ["CompileResult", "cgutils", "dumps", "trailing_zeros"]
