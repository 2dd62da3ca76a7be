"""Climb any function on the unit cube."""
