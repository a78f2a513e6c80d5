"""One model for everybody: local training, and how an update becomes an upload and uploads the next model.

method          the method
terms           its terms: no table of its own, but a model
codec           uploads that are made of one model's tensors
local_training  a client's training in a round
masked          weights or updates as they are, under masks: no mechanism of differential privacy
client_level    clipped updates with noise for the clients as a whole (Geyer et al. 2017), under masks
local           updates with each client's own noise, under masks
signds          a sign and a few dimensions of an update (Jiang et al. 2022), in the open
"""
