"""Tools that every conversation has."""
