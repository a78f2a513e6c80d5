"""Trials of federated K-means (seed 000), on data split over clients."""
