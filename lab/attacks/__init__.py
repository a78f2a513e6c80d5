"""Attacks on what a client uploads: bare, masked, and with differential privacy. Pure: arrays in, arrays out.

uploads       what an attacker sees of a client's model, by kind of protection
played_round  a round of masking with all that it makes public, and the secrets, for the controls
measures      PSNR, correlation with its standard error, how far words are from uniform
gradient      labels, inputs and images that explain an update (Geiping et al. 2020; Zhao et al. 2020)
kedmi         images of classes through a generator that was taught with the model (Chen et al. 2021)
protocol      what the public records of a round give against its masks
scene         private data, public data and settings of a trial
trials        one module an attack: victims, kinds of upload, figures
report        JSON, pictures and Markdown of all trials

Every attack is told what a member of the federation knows: the global model, how clients train, how many samples each
has. All of it is written after the papers.
"""
