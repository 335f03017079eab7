"""Compiled loops: numba and numpy only.

Contiguous arrays in, preallocated arrays out, randomness as pre-drawn numbers; nothing is validated here.
Each kernel is compiled on its first call and cached on disk beside this package.
"""
