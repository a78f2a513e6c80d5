"""Local training and everything it needs; arrays in, arrays out.

settings      what a federation agrees on about model, training and partition (no torch)
samples       labelled images as arrays (no torch)
datasets      digits, MNIST, Fashion-MNIST, CIFAR-10 and the user's own data; the only part that reads files
publishers    where the public datasets are, their checksums, downloads
idx, cifar    strict parsers of the two file formats
partition     Dirichlet, shard and IID splits over clients
shared        the shared set d_share and its bytes
models        the modules of the shipped networks
augment       random crop, flip and erasing
attribution   layer-wise integrated gradients (FedAom eq. 6, 8-10)
fisher        squared gradients of single samples (FedCurv)
tasks         what is learned: a class that members write, or a shipped network or table; the model as strategies see it
strategies    one file per method
server_steps  momentum and Adam on the mean of a round's uploads (no torch)
server_side   what is published after a round: the model, and what the server keeps (no torch)
devices       where torch computes
reproducible  one thread, deterministic kernels, seeded generators
training      one client's round on any task, and evaluation
networks      the same for the shipped networks, in this process

Nothing here knows the chain, the store, sockets or the clock. torch is imported only by the modules that train.
"""
