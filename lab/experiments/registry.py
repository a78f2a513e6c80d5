"""All experiments by name."""

from fedgrove_lab.experiments import (
    accuracy_table,
    comparison,
    comparison_trials,
    fedaom_options,
    geyer,
    masking,
    out_of_distribution,
    partition_picture,
    personalised,
    poisoning,
    rounds_to_90,
    rounds_to_90_tuned,
    shared_data,
    signds,
    sweep,
)
from fedgrove_lab.experiments.base import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *(rounds_to_90.EXPERIMENT, fedaom_options.EXPERIMENT, sweep.EXPERIMENT, rounds_to_90_tuned.EXPERIMENT),
        *(accuracy_table.EXPERIMENT, *comparison_trials.EXPERIMENTS, *comparison.EXPERIMENTS),
        *(out_of_distribution.EXPERIMENT, shared_data.EXPERIMENT, masking.EXPERIMENT, partition_picture.EXPERIMENT),
        *(geyer.EXPERIMENT, signds.EXPERIMENT, personalised.EXPERIMENT, poisoning.EXPERIMENT),
    )
}
