"""The papers' experiments (specs 03 and 04): each a set of plans, the seeds they run with, and a report.

rounds_to_90         rounds to 90 % at paper-like settings
fedaom_options       what FedAom's options are worth
rounds_to_90_tuned   the same, each method with the best settings of its sweep
sweep                the trials that chose these settings
accuracy_table       five methods, two data sets, four splits
out_of_distribution  local models on classes that their clients have few of
shared_data          FedAom, share and FedAvg
masking              local models before and after masking
partition_picture    how the splits distribute the classes
geyer                client-level privacy with 100, 1,000 and 10,000 clients
signds               SignDS and FedAvg: accuracy, and bytes of an upload

base        what an experiment is
regimes     settings that several share
measures    what is read off a curve
laboratory  runs the plans, each once
paired      methods compared seed by seed, from stored runs
store       finished runs on disk
tables      Markdown tables
report      summary.json, README.md and figures
"""
