"""Clustered federated learning without chain and store: ProCFL, IFCA, one model for all.

settings    ProCFL and its rivals
all_pairs   all clients in one process, by the messages of private comparisons
similarity  before the first round: everybody's overlaps, by private comparisons or by the formula, and the clusters
attackers   who poisons the training, and what they send
work        what a worker does for it: compare clients, test models label by label, judge them
crew        asks workers for it
procfl      rounds of ProCFL: the course of a federation, with workers in place of members
robust      rivals that look at single models: Krum, median, trimmed mean
run         a round of models of groups, and how they are tested
"""
