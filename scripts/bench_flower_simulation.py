"""Times Flower's simulation of the work that `fedgrove bench engine` hands over; run by it, in Flower's environment.

Reads {"data", "clients", "drawn", "rounds", "epochs", "batch", "rate", "momentum", "decay", "padding", "processes",
"units"} as JSON from stdin, writes {"version", "start", "rounds", "processor"} to stdout: seconds until the first round
ends, of each later one, and of processor time in each later one, of this process and all below it. With ``units`` the
network has one hidden layer of that many units, else it is the paper's. ``data`` is a folder with x.npy (n, c, h, w)
float32, y.npy (n,) int64 and parts.npy: samples of each client, in their order. Without ``data`` clients return what
they get.
"""

import json
import os
import sys
import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn

STARTED = time.perf_counter()


def build(work):
    """The network, as anyone would write it."""
    torch.manual_seed(0)
    if work["units"]:
        pixels = np.load(f"{work['data']}/x.npy", mmap_mode="r")[0].size
        layers = nn.Linear(pixels, work["units"]), nn.ReLU(), nn.Linear(work["units"], 10)
        return nn.Sequential(nn.Flatten(), *layers)
    return paper_cnn(work["padding"])


def paper_cnn(padding, side=28, classes=10):
    left = (side + 2 * padding - 4) // 2
    left = (left + 2 * padding - 4) // 2
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * left * left, 512),
        nn.ReLU(),
        nn.Linear(512, classes),
    )


def opened(folder, partition):
    """A client's samples, of files that are mapped and not read."""
    ends = np.cumsum(np.load(f"{folder}/parts.npy"))
    own = slice(ends[partition - 1] if partition else 0, ends[partition])
    return [torch.from_numpy(np.load(f"{folder}/{name}.npy", mmap_mode="r")[own].copy()) for name in "xy"]


def trained(arrays, work, partition):
    """A client's local epochs of SGD."""
    torch.set_num_threads(1)
    model = build(work)
    model.load_state_dict(arrays.to_torch_state_dict())
    x, y = opened(work["data"], partition)
    settings = {"lr": work["rate"], "momentum": work["momentum"], "weight_decay": work["decay"]}
    optimizer = torch.optim.SGD(model.parameters(), **settings)
    for _ in range(work["epochs"]):
        for chosen in torch.randperm(len(y)).split(work["batch"]):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[chosen]), y[chosen]).backward()
            optimizer.step()
    return ArrayRecord(model.state_dict()), len(y)


def client_app(work):
    app = ClientApp()

    @app.train()
    def train(message, context):
        arrays, samples = message.content["arrays"], 1
        if work["data"]:
            arrays, samples = trained(arrays, work, int(context.node_config["partition-id"]))
        metrics = MetricRecord({"num-examples": samples})
        return Message(content=RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    return app


def server_app(work, times):
    app = ServerApp()

    def note(number, arrays):
        times.append((time.perf_counter(), processor_seconds()))

    def count(replies, weight):
        if len(replies) != work["drawn"]:
            raise AssertionError(f"{len(replies)} of {work['drawn']} clients replied")
        return MetricRecord({"replies": len(replies)})

    @app.main()
    def main(grid, context):
        share = work["drawn"] / work["clients"]
        strategy = FedAvg(share, 0.0, work["drawn"], 0, work["clients"], train_metrics_aggr_fn=count)
        model = build(work) if work["data"] else nn.Linear(10, 10)
        result = strategy.start(grid, ArrayRecord(model.state_dict()), work["rounds"], evaluate_fn=note)
        if len(result.train_metrics_clientapp) != work["rounds"]:
            raise AssertionError("clients failed")

    return app


def processor_seconds():
    """Processor time so far of this process and all below it, with those of them that have ended."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(path.parent.name)
        parents[number] = int(fields[1])
        ticks[number] = sum(map(int, fields[11:15]))  # utime, stime and those of children waited for
    below = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(ticks[number] for number in below) / os.sysconf("SC_CLK_TCK")


def main():
    work = json.load(sys.stdin)
    times = []  # before the first round, and after each
    resources = {"num_cpus": 1, "num_gpus": 0.0}
    backend = {"client_resources": resources, "init_args": {"num_cpus": work["processes"]}}
    run_simulation(server_app(work, times), client_app(work), work["clients"], backend_config=backend)
    if len(times) != work["rounds"] + 1:
        raise AssertionError(f"{len(times) - 1} of {work['rounds']} rounds ended")
    walls, processor = zip(*times[1:], strict=True)
    later = {
        name: [after - before for before, after in pairwise(each)]
        for name, each in (("rounds", walls), ("processor", processor))
    }
    print(json.dumps({"version": version("flwr"), "start": walls[0] - STARTED, **later}))


if __name__ == "__main__":
    main()
