"""Methods, the computations of a federation's rounds: one package each, behind ``node.protocol.method.Method``.

training  one model; with privacy mechanisms (spec 04)
procfl    a model a cluster, private similarity, committees (spec 05)
kmeans    federated K-means with exact unlearning (spec 06)
registry  all of them, by their terms
terms     reading a federation's terms, and their method
"""
