"""Runners for notebooks with nobody there."""
