"""Kernels of headless runs: start, execution, limits, end."""
