"""Research with fedgrove: a distribution of its own, which the product does not know.

experiments    the papers' experiments
attacks        what an attacker reads off uploads
kmeans         trials of federated K-means
bench          figures of speed and cost, compared with rivals
cli            the commands that it adds
made           how stored results were made
masked_round   a round of masking, in memory
tables         Markdown tables
paper_masking  the paper's own masking, for comparisons
"""
