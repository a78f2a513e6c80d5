"""Federated learning without chain and store: many clients on the cores at hand, the nodes' own training code.

record       what a run leaves: its scenario, a line a round, the digest of its model; no times
data         the training samples split among clients; on disk once, mapped into every worker
draws        who takes part in which round, and how many rounds a privacy budget affords
uploads      what a client hands in: its model, a clipped update, one with its own noise, a few votes
mechanisms   what becomes of the sum: noise, the next model, what was released
work         what a worker does: train a few clients and add them up, evaluate a part of the test set
network_work how it trains and tests shipped networks
task_work    how it trains and tests a user's own task, in sandboxes
executors    in this process, a pool of processes, a dask cluster
checkpoint   after each round, atomic; what a strategy keeps for a client stands on disk
workers      hands tasks to an executor and adds up what they give, with tests of models behind the training
loop         the loop over the rounds: draw, train, keep, test
run          a round of one model
subjects     what is trained: a network on a data set, or a task
task_folder  a user's own task and its data, opened
clustered    clustered training, attacks on it, and its rivals
kinds        the simulations of methods, by their names
figures      accuracy with its band over the seeds, the partition, accuracy out of distribution

The same scenario gives the same bytes, whatever the executor and the number of workers: each client's round has
randomness of its own, and models are added as in a federation, as integers modulo 2³², where order does not matter. The
noise of privacy mechanisms follows from the scenario, too: it shows what they cost, and protects nobody.
"""
