"""One model for everybody: local training, and how an update becomes an upload and uploads the next model.

local_training  a client's training in a round
evaluation      the first model, and how well a closed one does
masked          weights or updates as they are, under masks: no mechanism of differential privacy
client_level    clipped updates with noise for the clients as a whole (Geyer et al. 2017), under masks
local           updates with each client's own noise, under masks
signds          a sign and a few dimensions of an update (Jiang et al. 2022), in the open
ring            vectors of integers under masks, and their sum (spec 02)
regrouping      smaller sums after a spoilt round
"""
