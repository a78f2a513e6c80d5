"""Research beside the product: nothing that a federation needs imports it.

simulation     the algorithms without chain and store
experiments    the papers' experiments
attacks        what an attacker reads off uploads
kmeans         federated K-means in one process, its baselines
paper_masking  the paper's own masking, for comparisons
"""
