"""Calls native targets, inside and outside of `jit`, and chooses solvers by platform."""
