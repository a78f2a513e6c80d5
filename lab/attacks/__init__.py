"""Attacks on what a client uploads: bare, masked, and with differential privacy. Pure: arrays in, arrays out.

uploads       what an attacker sees of a client's model, by kind of protection
played_round  a round of masking with all that it makes public, and the secrets, for the controls
measures      PSNR, correlation with its standard error, how far words are from uniform
labels        which labels were trained on, from the last layer's gradient (Zhao et al. 2020)
analytic      the input of a fully connected layer, from its gradients (Geiping et al. 2020, proposition 3.1)
gradient      images that explain an update, by descent (Geiping et al. 2020)
confidence    images that a model is sure about, by descent (Fredrikson et al. 2015)
kedmi         the same through a generator that was taught with the model (Chen et al. 2021)
protocol      what the public records of a round give against its masks
scene         private data, public data and settings of a trial
trials        one module an attack: victims, kinds of upload, figures
pictures      originals above reconstructions, as PNG
report        JSON and Markdown of all trials

Every attack is told what a member of the federation knows: the global model, how clients train, how many samples each
has. All of it is written after the papers.
"""
