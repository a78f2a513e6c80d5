"""Methods, the computations of a federation's rounds: one package each, behind ``node.protocol.method.Method``.

training  one model; with privacy mechanisms
procfl    a model a cluster, private similarity, committees
kmeans    federated K-means with exact unlearning
registry  all of them, by their terms
terms     reading a federation's terms, and their method
"""
