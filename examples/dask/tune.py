"""A study on a Dask cluster: eight trials at a time, on whatever machines the client's scheduler has."""

import math

from dask.distributed import Client

from poolwise import Float, Int, Study


def loss(rate, layers):
    """Stands for a training run."""
    if layers == 4:
        raise MemoryError("four layers are too many")
    return math.log10(rate / 0.01) ** 2 + abs(layers - 3)


if __name__ == "__main__":
    space = {"rate": Float(1e-5, 1, log=True), "layers": Int(1, 4)}
    with Client(n_workers=2, threads_per_worker=4, dashboard_address=":0") as client:
        study = Study(space=space, minimize="loss")
        study.run(loss, trials=16, q=8, executor=client)
    print(sum(study.counts.values()), "trials,", study.counts["pending"], "pending")
    print("best:", study.best.params)
