"""Acquisition functions: integrands of a pool's outcomes, their Monte Carlo expectations, and exact values."""
