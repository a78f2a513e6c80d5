"""Research next to the product: nothing that a federation needs imports it.

simulation     the algorithms without chain and store
experiments    the papers' experiments
attacks        what an attacker reads off uploads
kmeans         federated K-means in one process, its baselines
bench          figures of speed and cost, compared with rivals; of the lab, it alone knows chain, store and roles
made           how stored results were made
paper_masking, paper_intersection  the papers' own masking and private intersection, for comparisons
"""
