"""Trials of federated K-means, on data split over clients."""
