"""Assignments of points up to a motion."""
