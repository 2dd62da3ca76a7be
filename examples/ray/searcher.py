"""Ray Tune with pools of four: a `PoolSearcher` as its search algorithm."""

import math
import tempfile

import ray
from ray import tune

from poolwise.adapters.ray_tune import PoolSearcher


def train(config):
    """Stands for a training run."""
    tune.report({"loss": math.log10(config["rate"] / 0.01) ** 2 + abs(config["layers"] - 3)})


if __name__ == "__main__":
    ray.init(include_dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            tune.with_resources(train, {"cpu": 0.25}),
            param_space={"rate": tune.loguniform(1e-5, 1), "layers": tune.randint(1, 5)},
            tune_config=tune.TuneConfig(
                search_alg=PoolSearcher(q=4), num_samples=8, metric="loss", mode="min", reuse_actors=True
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        results = tuner.fit()
    print(len(results), "trials, best:", results.get_best_result().config)
