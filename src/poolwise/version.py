"""The version, read by the build and shown by `poolwise --version`."""

__version__ = "0.1.0"
