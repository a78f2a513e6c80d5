"""What a federation's members, coordinator and auditors run.

Lower rooms know nothing of higher ones:

base        what everything may use: tensors, files, strict tables
masking     BBTSA: sums under cancelling noise                                  pure
privacy     differential privacy: mechanisms, accounting                        pure
learning    data, models, training, strategies                                  pure
protocol    terms, rounds, blobs, the one check that a closed round is right
methods     what a federation's rounds compute: training, procfl, kmeans
audit       the verifier, archives, certificates
roles       client, coordinator, standby, the service around them
status      what people are told
explorer    the pages
devnet      federations on this machine: demo, testnet, Kubo nodes for practice
lab         research next to the product: simulation, experiments, attacks
cli         the ``fedgrove`` command
"""
