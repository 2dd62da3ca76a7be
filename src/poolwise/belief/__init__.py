"""What is known about outcomes: Gaussians, kernels, Gaussian processes and their sample paths."""
