"""Trials of federated K-means (seed 000): data split over clients, and the decoder of appendix K over the integers."""
