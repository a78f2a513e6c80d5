"""All experiments by name."""

from fedgrove_lab.experiments import (
    accuracy_table,
    curves,
    geyer,
    masking,
    out_of_distribution,
    partition_picture,
    personalised,
    poisoning,
    signds,
    trials,
)
from fedgrove_lab.experiments.base import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *(curves.ROUNDS_TO_90, curves.FEDAOM_OPTIONS, *trials.EXPERIMENTS, accuracy_table.EXPERIMENT),
        *(out_of_distribution.EXPERIMENT, curves.SHARED_DATA, masking.EXPERIMENT, partition_picture.EXPERIMENT),
        *(geyer.EXPERIMENT, signds.EXPERIMENT, personalised.EXPERIMENT, poisoning.EXPERIMENT),
    )
}
