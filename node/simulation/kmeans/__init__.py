"""Federated K-means in one process, and what it is compared with.

federation  training, removals, losses
losses      the seed's induced loss and the loss that a user sees
baselines   K-FED and DC-K-means
"""
