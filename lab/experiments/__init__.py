"""The papers' experiments: each a set of plans, the seeds they run with, and a report.

curves               methods by their accuracy curves: rounds to 90 %, shared data, FedAom's options
trials               trials that choose each method's settings, and the methods at their best
accuracy_table       five methods, two data sets, four splits
out_of_distribution  local models on classes that their clients have few of
masking              local models before and after masking
partition_picture    how the splits distribute the classes
geyer                client-level privacy with 100, 1,000 and 10,000 clients
signds               SignDS and FedAvg: accuracy, and bytes of an upload
personalised         clustered training and its rivals
poisoning            who is found that poisons it

base        what an experiment is
regimes     settings that several share
measures    what is read off a curve
laboratory  runs the plans, each once
paired      methods compared seed by seed, from stored runs
store       finished runs on disk
report      summary.json, README.md and figures
"""
