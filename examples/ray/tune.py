"""A study on a Ray cluster: eight trials at a time, each with what it needs of the cluster."""

import math

import ray

from poolwise import Float, Int, Study
from poolwise.adapters.ray import RayExecutor


def loss(rate, layers):
    """Stands for a training run."""
    if layers == 4:
        raise MemoryError("four layers are too many")
    return math.log10(rate / 0.01) ** 2 + abs(layers - 3)


if __name__ == "__main__":
    ray.init(include_dashboard=False)  # before the first pool: it forks, which JAX does not survive
    study = Study(space={"rate": Float(1e-5, 1, log=True), "layers": Int(1, 4)}, minimize="loss")
    study.run(loss, trials=16, q=8, executor=RayExecutor(num_cpus=0.25, num_gpus=0))
    print(sum(study.counts.values()), "trials,", study.counts["pending"], "pending")
    print("best:", study.best.params)
