"""The paper on one command: each figure, table and claim of Wilson et al. (2017), arXiv:1712.00424, in our numbers."""
