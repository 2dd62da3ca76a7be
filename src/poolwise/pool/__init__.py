"""From a belief and an integrand to a pool: starts, greedy picks, joint ascent, and the proposal they lead to."""
