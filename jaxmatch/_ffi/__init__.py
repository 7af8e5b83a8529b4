"""Calls of the native targets: under `jit` and outside, and the choice by platform."""
