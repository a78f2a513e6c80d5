"""What a federation's rounds compute, a package each.

training  one model; with privacy mechanisms (spec 04)
procfl    a model a cluster, private similarity, committees (spec 05)
kmeans    federated K-means with exact unlearning (spec 06)
registry  which of them the terms ask for
"""
